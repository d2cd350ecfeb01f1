"""Metrics of a server that are not about its namespaces: its caches, its files of keys and certificates, lost records, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client.metrics_core import Metric

from ..config import Limits
from .families import counter, gauge, gauges

if TYPE_CHECKING:
    from ..access.issuers import KeysKnown
    from ..reloading import Reloader

CacheSizes: TypeAlias = Callable[[], Mapping[str, tuple[int, int]]]
"""Returns how many items each cache has, and how many at most, by the name of the cache."""
LIMITS = ("max_concurrent_calls", "max_watches", "max_loaded_namespaces", "max_loaded_keys", "max_loaded_document_bytes")
"""The options whose values are shown: each bounds the value of another metric."""


@dataclass(kw_only=True, slots=True)
class ServerSources:
    """The sources of these metrics; any thread may read them. None: the server has no such thing."""

    reloader: Reloader
    limits: Limits
    caches: Sequence[CacheSizes] = ()
    issuers: Callable[[], KeysKnown | None] = lambda: None
    unrecorded: Callable[[], int] | None = None
    """Returns how many lines are missing in the record of calls."""
    spans_lost: Callable[[], int] | None = None
    """Returns of how many calls and changes the spans were not sent."""
    certificate_ends: Callable[[], float | None] = lambda: None
    """Returns when the server's certificate expires, in seconds since 1970."""

    def families(self) -> Iterator[Metric]:
        """Yields the metrics."""
        caches = {name: each for sizes_of in self.caches for name, each in sizes_of().items()}
        sizes = {name: float(size) for name, (size, _) in caches.items()}
        most = {name: float(bound) for name, (_, bound) in caches.items()}
        yield gauges("remembered", "Sizes of caches, by what they hold.", "what", sizes)
        yield gauges("remembered_most", "The maximum size of each cache; beyond it the oldest entry is dropped.", "what", most)
        limits = {name: float(getattr(self.limits, name)) for name in LIMITS}
        yield gauges("limit", "Limits of the server, by the option.", "option", limits)
        if (keys := self.issuers()) is not None:
            yield gauge("issuer_keys_age_seconds", "How long ago the oldest keys of an issuer of tokens arrived.", keys.oldest_seconds)
            yield gauge("issuers_unanswered", "Issuers of tokens that returned no keys to the latest request.", keys.unanswered)
        unusable = "Files of certificates, keys or permissions that can't be used as they are now; their former content stays in force."
        yield gauge("files_unusable", unusable, len(self.reloader.problems))
        yield counter("reread_failures", "How often the server's log reported such a file.", self.reloader.failures)
        if self.unrecorded is not None:
            yield counter("call_record_lost", "Calls and changes that are missing in the record of calls.", self.unrecorded())
        if self.spans_lost is not None:
            yield counter("spans_lost", "Calls and changes whose spans were not sent to the collector.", self.spans_lost())
        if (ends := self.certificate_ends()) is not None:
            yield gauge("certificate_end_seconds", "When the server's TLS certificate in force ends, in seconds since 1970.", ends)
