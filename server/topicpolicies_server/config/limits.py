"""Every limit of a server, each with its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .option import ReadBy, option


def _bounded(default: float, least: float, most: float, *, serving: bool = False) -> Any:
    """Returns an option with bounds, both included; ``serving``: only a server has this limit, and a guard without a server has not."""
    return option(default, least=least, most=most, read_by=ReadBy.SERVE if serving else ReadBy.BOTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every limit of a server. The names include the units."""

    max_message_bytes: int = _bounded(4 << 20, 64 << 10, 64 << 20, serving=True)
    """The largest request that is accepted."""
    max_concurrent_calls: int = _bounded(20_000, 16, 1_000_000, serving=True)
    """Calls in progress, watches included; beyond them RESOURCE_EXHAUSTED."""
    max_watches: int = _bounded(10_000, 1, 1_000_000, serving=True)
    """Open watches; beyond them RESOURCE_EXHAUSTED."""
    max_selectors_per_watch: int = _bounded(10_000, 1, 1_000_000, serving=True)
    """Topics and namespaces that one watch may name."""
    max_in_flight_per_key: int = _bounded(64, 1, 4_096, serving=True)
    """Updates of one policy key that are computed on each other before the first one has its place in the log; up to 10,000 others wait."""
    max_calls_per_principal: int = _bounded(0, 0, 1_000_000, serving=True)
    """Calls in progress of one principal, watches included; beyond them RESOURCE_EXHAUSTED (``LIMIT_REACHED``). 0: no limit. If callers
    are not authenticated, this limit and the next two apply to each address from which calls come."""
    max_watches_per_principal: int = _bounded(0, 0, 1_000_000, serving=True)
    """Watches that one principal has open; beyond them as above. 0: no limit."""
    max_changes_per_second_per_principal: float = _bounded(0.0, 0.0, 1_000_000.0, serving=True)
    """Changes that one principal may make in a second; each change of a batch counts. Beyond them single changes wait for their turn, one
    after the other, for up to a second; those that would wait longer are refused as above. A batch is made as a
    whole, and the next changes wait until all of its changes are paid for. 0: no limit."""
    retention_seconds: float = _bounded(600.0, 1.0, 604_800.0, serving=True)
    """How long the embedded log keeps events that newer events of their keys supersede, so that interrupted watches miss no change."""
    max_retained_bytes: int = _bounded(256 << 20, 1 << 20, 1 << 36, serving=True)
    """Bytes of such events of one namespace, roughly; of more than 50,000 such events none is kept. The newest event of each key always
    is."""
    max_loaded_namespaces: int = _bounded(10_000, 1, 1_000_000)
    """Namespaces in memory. For another one, the namespace that has been idle longest is dropped; if all are in use: RESOURCE_EXHAUSTED."""
    max_loaded_document_bytes: int = _bounded(8 << 30, 64 << 10, 1 << 44)
    """Bytes that keys and documents take in memory, in all namespaces together, by estimate: 800 for each policy key, absent documents
    included, and three for each byte of a serialized document. Beyond them idle namespaces are dropped; if that is not enough, loads and
    updates that would make a key are refused with RESOURCE_EXHAUSTED. What other writers add to loaded namespaces is kept all the same;
    the server's log and the metric ``topicpolicies_over_capacity`` report it."""
    max_every_backlog_changes: int = _bounded(10_000, 16, 10_000_000, serving=True)
    """Changes of a namespace that are kept for its watches. A watch in mode EVERY that falls further behind goes on from the history, or is
    reset."""
    max_repairs_per_second: float = _bounded(500.0, 0.1, 100_000.0)
    """Repairs that the server publishes in a second, in all namespaces together; the others wait."""
    update_timeout_seconds: float = _bounded(10.0, 0.1, 600.0, serving=True)
    """How long an update waits for its position in the log, unless its caller's deadline is sooner."""
    load_timeout_seconds: float = _bounded(120.0, 1.0, 3_600.0)
    """How long loading a namespace may make no progress before it counts as failed and is tried again."""
    join_patience_seconds: float = _bounded(1.0, 0.0, 120.0)
    """How long a namespace that has been read waits, before it answers and repairs, for sidecars that have seen more of its latest changes
    than the log still has. It does not wait if the log still has every change of the last half minute."""
    load_retry_seconds: float = _bounded(30.0, 0.1, 600.0)
    """The longest pause before loading a namespace is tried again; the first pause is a hundredth of it."""
    namespace_idle_seconds: float = _bounded(600.0, 1.0, 604_800.0)
    """How long a namespace without watches and requests stays in memory."""
    bookmark_interval_seconds: float = _bounded(10.0, 1.0, 3_600.0, serving=True)
    """The time between two bookmarks of a watch that does not request another."""
    log_patience_seconds: float = _bounded(3.0, 0.1, 600.0)
    """How long the change log may be out of reach before the server is not ready, and what needs the log is refused (``UNREACHABLE``)
    instead of waiting for it."""
    drain_seconds: float = _bounded(10.0, 0.0, 600.0, serving=True)
    """How long calls in progress may take to end when the server stops."""
