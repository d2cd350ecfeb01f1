"""The options of the data source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from topicpolicies.names import topic_name
from topicpolicies_server.logs.pulsar.credentials import TlsOptions, TokenSource, token_from_file

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MODES = ("all", "compacted")
_STARTS = ("earliest", "latest")
NOTHING = "/"
"""Stands for a choice of no namespace or of no topic, because no choice at all selects everything: nothing has this name."""
_KNOWN = {"serviceurl", "adminurl", "tokenfile", "tenants", "namespaces", "topics", "mode", "startingoffsets", "since", "until"} | {
    "maxrowspertrigger",
    "pushfilters",
    "address",
    "cafile",
    "path",
    "tlstrustcertsfile",
    "failondataloss",
}


class OptionError(ValueError):
    """The options of a query are wrong; the message names everything that is wrong with them."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a query. Times are microseconds since 1970, as Spark has them. docs/spark.md documents the options by name."""

    service_url: str
    admin_url: str
    address: str
    """The ``host:port`` of a sidecar, whose history is read; empty: the brokers' logs are read."""
    ca_file: str
    """A PEM file with the certificate authorities for the sidecar's certificate; empty: no TLS."""
    tls_trust_certs_file: str
    """A PEM file with the certificate authorities for the brokers' certificates; empty: the system's."""
    token_file: str
    """A file with the bearer token for the brokers, which is read each time; empty: no token is sent."""
    tenants: frozenset[str]
    """The tenants whose namespaces are read; empty: all."""
    namespaces: frozenset[str]
    """The namespaces to read, ``tenant/namespace``; empty: all of the tenants."""
    topics: frozenset[str]
    """The full names of the topics whose events are read; empty: all."""
    compacted: bool
    """Whether only the newest event of each key is read, as compaction would leave it; otherwise every event that still exists."""
    from_latest: bool
    """Whether a new stream begins at the present end of each log, instead of the beginning."""
    since: int | None
    until: int | None
    """Only events that were published at ``since`` or later, and before ``until``, are read; None: no limit."""
    most_rows: int | None
    """The most rows in one batch of a stream; None: no limit."""
    fail_on_data_loss: bool
    """Whether a query fails if a log is gone before it was read as far as planned; otherwise the query goes on without that log."""
    push_filters: bool
    """Whether the source applies a batch query's filters.

    Off by default: Spark 4.3 keeps the filters of one query for later queries of the same DataFrame that push none, which then miss rows.
    So ``load()`` again for each query. ``namespaces``, ``topics``, ``since`` and ``until`` do the same without that risk.
    """

    def token_source(self) -> TokenSource | None:
        """Returns the source of the token for the brokers; None: no token is sent."""
        return token_from_file(Path(self.token_file)) if self.token_file else None

    def tls(self) -> TlsOptions:
        """Returns how the brokers' certificates are checked."""
        return TlsOptions(trust_certs=Path(self.tls_trust_certs_file) if self.tls_trust_certs_file else None)

    def published(self, at: int) -> bool:
        """Returns whether the options select events that were published at this time."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def includes(self, namespace: str) -> bool:
        """Returns whether the options select a namespace. What can't be the name of a namespace, they do not select."""
        if not _is_namespace(namespace):
            return False
        if self.namespaces and namespace not in self.namespaces:
            return False
        return not self.tenants or namespace.partition("/")[0] in self.tenants


def read_options(given: Mapping[str, str]) -> Options:
    """Reads the options that Spark passes; their names are case-insensitive.

    Raises:
        OptionError: options are wrong; the message names everything that is wrong.
    """
    values = {name.lower(): value for name, value in given.items()}
    problems = [f"{name} is not an option" for name in sorted(values.keys() - _KNOWN)]
    address, namespaces = values.get("address", ""), _names(values.get("namespaces", ""))
    if address:
        problems += ["namespaces is needed, or adminUrl to list them"] * (not namespaces and not values.get("adminurl"))
    else:
        problems += [f"{name} is needed" for name in ("serviceUrl", "adminUrl") if not values.get(name.lower())]
    mode, start = values.get("mode", "all"), values.get("startingoffsets", "earliest")
    if mode not in _MODES:
        problems.append(f"mode must be one of {', '.join(_MODES)}, not {mode}")
    if start not in _STARTS:
        problems.append(f"startingOffsets must be one of {', '.join(_STARTS)}, not {start}")
    problems += [f'"{name}" is not a namespace: write tenant/namespace' for name in sorted(namespaces) if not _is_namespace(name)]
    times: dict[str, int | None] = {}
    for name in ("since", "until"):
        try:
            times[name] = time_of(values[name]) if name in values else None
        except ValueError:
            problems.append(f"{name} must be a time such as 2030-01-31T12:00:00Z, not {values[name]}")
    rows = values.get("maxrowspertrigger")
    if rows is not None and not (rows.isascii() and rows.isdigit() and int(rows) > 0):
        problems.append(f"maxRowsPerTrigger must be a positive number, not {rows}")
    flags = {name: values.get(name.lower(), default).lower() for name, default in (("pushFilters", "false"), ("failOnDataLoss", "true"))}
    problems += [f"{name} must be true or false, not {flag}" for name, flag in flags.items() if flag not in ("true", "false")]
    if problems:
        raise OptionError("; ".join(problems))
    return Options(
        service_url=values.get("serviceurl", ""),
        admin_url=values.get("adminurl", "").rstrip("/"),
        address=address,
        ca_file=values.get("cafile", ""),
        tls_trust_certs_file=values.get("tlstrustcertsfile", ""),
        token_file=values.get("tokenfile", ""),
        tenants=_names(values.get("tenants", "")),
        namespaces=namespaces,
        topics=frozenset(map(topic_name, _names(values.get("topics", "")))),
        compacted=mode == "compacted",
        from_latest=start == "latest",
        since=times["since"],
        until=times["until"],
        most_rows=int(rows) if rows is not None else None,
        fail_on_data_loss=flags["failOnDataLoss"] == "true",
        push_filters=flags["pushFilters"] == "true",
    )


def time_of(text: str) -> int:
    """Returns an ISO time in microseconds since 1970; a time without a zone is UTC.

    Raises:
        ValueError: the text is not an ISO time.
    """
    return microseconds(datetime.fromisoformat(text))


def microseconds(time: datetime) -> int:
    """Returns a time in microseconds since 1970; a time without a zone is UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _is_namespace(name: str) -> bool:
    tenant, slash, local = name.partition("/")
    return bool(tenant and slash and local) and "/" not in local


def _names(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
