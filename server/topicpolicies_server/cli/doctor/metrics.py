"""Checks by the metrics port of a server: how near its limits it is, whether repairs are made, other faults, and its clock."""

from __future__ import annotations

import http.client
import math
import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from .checks import Check, Finding, failed, in_thread, ok, skipped, warning, why
from .clocks import judged_clock

_SECONDS = 6.0
_FULL = 0.8
"""The share of a limit from which the use is a warning."""
_MOST_BYTES = 8 << 20
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?")
_OPTION = re.compile(r'(?:^|,)option="(\w+)"')
OPEN_FILES = "ulimit -n"
"""The name of the limit of open file descriptors, which is no option."""
_BOUNDED = {
    "namespaces": "max_loaded_namespaces",
    "documents": "max_loaded_keys",
    "document_bytes": "max_loaded_document_bytes",
    "watches": "max_watches",
    "calls_in_progress": "max_concurrent_calls",
    "process_open_fds": OPEN_FILES,
}
"""Metrics of what is in use, each with the name of its limit."""


_DISK = "Check the disk of that file; the server's log says what is wrong."
_TROUBLES = (
    ("history_failing", 0, "the history can't be written", _DISK),
    ("history_waiting_seconds", 60, "entries have waited for the history for {value:,.0f} s", _DISK),
    ("checkpoint_failures_total", 0, "{value:,.0f} checkpoints could not be written", _DISK),
    ("call_record_lost_total", 0, "{value:,.0f} calls are missing in the record of calls", _DISK),
    ("files_unusable", 0, "{value:.0f} files of certificates, keys or permissions can't be used", "The server's log names the files."),
    ("issuers_unanswered", 0, "{value:.0f} issuers of tokens return no keys", "Check the issuers, and the network to them."),
    ("log_unreachable_seconds", 0, "the change log has not answered for {value:,.0f} s", "Check the brokers, and the network to them."),
    ("unread_seconds", 300, "a client has read nothing for {value:,.0f} s", "The server's log names it."),
    ("over_capacity", 0, "more is in memory than the limits allow", "Raise max_loaded_keys or max_loaded_document_bytes."),
)
"""Metrics, each with the greatest value that is no fault, the message beyond it, and the remedy."""


class Page(NamedTuple):
    """An answer over HTTP."""

    status: int
    text: str
    date: str | None
    """The header Date."""


class Numbers(NamedTuple):
    """The values of a page of metrics."""

    values: Mapping[str, float]
    """The values by the metric's name without ``topicpolicies_``; of one with labels the sum over all labels."""
    limits: Mapping[str, float]
    """The limits that the page has, by the option's name or ``OPEN_FILES``."""

    @property
    def used(self) -> Mapping[str, float]:
        """How much is in use, by the name of the limit."""
        return {bound: self.values[name] for name, bound in _BOUNDED.items() if name in self.values}


def numbers(text: str) -> Numbers:
    """Parses a page in the text format of Prometheus. Lines of another form are ignored."""
    values: dict[str, float] = {}
    limits: dict[str, float] = {}
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line)
        try:
            value = float(found[3]) if found is not None else float("nan")
        except ValueError:
            continue
        if found is None or math.isnan(value):
            continue
        name = found[1].removeprefix("topicpolicies_")
        if name == "limit" and (option := _OPTION.search(found[2] or "")):
            limits[option[1]] = value
        values[name] = values.get(name, 0.0) + value
    if "process_max_fds" in values:
        limits[OPEN_FILES] = values["process_max_fds"]
    return Numbers(values, limits)


def judged_limits(used: Mapping[str, float], limits: Mapping[str, float]) -> Finding:
    """Judges how near a server is to its limits. Both arguments are by the name of the limit: an option, or ``OPEN_FILES``."""
    shares = {name: used[name] / limits[name] for name in limits if name in used and limits[name] > 0}
    if not shares:
        return skipped("the metrics have no use of a limit, or no limits: --config FILE gives the server's options")
    told = ", ".join(f"{name}: {used[name]:,.0f} of {limits[name]:,.0f}" for name in shares)
    full = [name for name, share in shares.items() if share >= 1]
    near = [name for name, share in shares.items() if share >= _FULL]
    if full:
        return failed(told, f"Raise {', '.join(full)} if there is memory for it, or spread the namespaces over several servers.")
    if near:
        return warning(told, f"Raise {', '.join(near)} before it is reached, or spread the namespaces over several servers.")
    return ok(told)


def judged_troubles(values: Mapping[str, float]) -> Finding:
    """Judges which metrics show a fault; ``values``: by the metric's name without ``topicpolicies_``."""
    found = [
        (words.format(value=values[name]), remedy) for name, most, words, remedy in _TROUBLES if name in values and values[name] > most
    ]
    if found:
        return warning("; ".join(words for words, _ in found), " ".join(dict.fromkeys(remedy for _, remedy in found)))
    known = sum(name in values for name, *_ in _TROUBLES)
    return ok() if known else skipped("the metrics do not show it")


def fetched(address: str, path: str) -> Page:
    """Requests a page of the metrics port.

    Raises:
        OSError: there is no answer, or it is no HTTP.
    """
    connection = http.client.HTTPConnection(address, timeout=_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return Page(answer.status, answer.read(_MOST_BYTES).decode(errors="replace"), answer.getheader("Date"))
    except http.client.HTTPException as error:
        raise OSError(f"not HTTP: {type(error).__name__}") from error
    finally:
        connection.close()


def metrics(address: str, limits: Mapping[str, float]) -> list[Check]:
    """Returns the checks by the metrics port of a server.

    Args:
        address: the address of that port; "": it is not known.
        limits: the limits in the server's options, by name; empty: the options are not known. Limits on the metrics page take precedence.
    """

    async def shown() -> Finding:
        if not address:
            return skipped("the address of the metrics is not known: say --metrics HOST:PORT")
        try:
            page = await in_thread(fetched, address, "/metrics")
        except OSError as error:
            return failed(f"{address}: {why(error)}")
        if page.status != http.client.OK or "topicpolicies_" not in page.text:
            return failed(f"{address} answers {page.status}, without metrics of this server")
        return ok(address)

    async def use() -> Finding:
        found = numbers((await in_thread(fetched, address, "/metrics")).text)
        known = {**limits, **found.limits}
        return judged_limits(found.used, {name: known[name] for name in _BOUNDED.values() if name in known})

    async def troubles() -> Finding:
        return judged_troubles(numbers((await in_thread(fetched, address, "/metrics")).text).values)

    async def repairs() -> Finding:
        values = numbers((await in_thread(fetched, address, "/metrics")).text).values
        if values.get("repairs_paused"):
            return warning("repairs are paused", "Send the server SIGUSR2, or start it without --pause-repairs.")
        if "repairs_due" not in values:
            return skipped("the metrics do not show repairs")
        return ok(f"{values['repairs_due']:.0f} documents wait for a repair")

    return [
        Check(
            name="limits.metrics",
            holds="metrics are shown",
            why="Without metrics a limit is noticed only when it is reached.",
            run=shown,
            remedy="Name the address with --metrics HOST:PORT, and start the server with --metrics-listen.",
        ),
        Check(
            name="limits.use",
            holds="what is in use is well below the limits",
            why="At its limit a server refuses further requests.",
            run=use,
            remedy="Raise the limit, or spread the namespaces over several servers.",
            needs=("limits.metrics",),
        ),
        Check(
            name="limits.repairs",
            holds="repairs are made",
            why="Without repairs brokers keep showing a stale document.",
            run=repairs,
            remedy="Send the server SIGUSR2.",
            needs=("limits.metrics",),
        ),
        Check(
            name="limits.troubles",
            holds="the metrics show no fault",
            why="Something may fail or be late although calls succeed.",
            run=troubles,
            remedy="Check the server's log.",
            needs=("limits.metrics",),
        ),
    ]


def clock(address: str) -> list[Check]:
    """Returns the check of the server's clock by its metrics port; none if the ``address`` of that is not known ("")."""

    async def run() -> Finding:
        asked = time.time()
        try:
            page = await in_thread(fetched, address, "/livez")
        except OSError:
            return skipped("its metrics port does not answer")
        return judged_clock(page.date, asked, time.time())

    if not address:
        return []
    check = Check(
        name="server.clock",
        holds="the server's clock agrees with yours",
        why="The server checks tokens and certificates by its clock, and the times of changes come from it.",
        run=run,
        remedy="Synchronize both clocks with NTP (chronyc tracking, timedatectl).",
        needs=("address.connect",),
    )
    return [check]
