"""The options of the data source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from topicpolicies_server.logs.pulsar.credentials import TlsOptions, TokenSource, token_from_file

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MODES = ("all", "compacted")
_STARTS = ("earliest", "latest")
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
    """The options of a query are wrong; the message names all that is wrong with them."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a query asks for. Times are microseconds since 1970, as Spark has them."""

    service_url: str
    admin_url: str
    address: str
    """A sidecar's ``host:port``: its history is read instead of the brokers' logs."""
    ca_file: str
    """The authorities that the sidecar's certificate is checked against, PEM; empty: no TLS."""
    tls_trust_certs_file: str
    """The authorities that brokers' certificates are checked against, PEM; empty: those that the system trusts."""
    token_file: str
    """The token to show to brokers is read from it each time; empty: none is shown."""
    tenants: frozenset[str]
    """Whose namespaces are read; empty: those of all tenants, unless namespaces are named."""
    namespaces: frozenset[str]
    """``tenant/namespace``; empty: all of the tenants'."""
    topics: frozenset[str]
    """Full names; empty: all."""
    compacted: bool
    """Only what compaction would leave: the newest event of each key. Otherwise every event that is still there."""
    from_latest: bool
    """Whether a new stream begins with what comes from now on."""
    since: int | None
    until: int | None
    """Events published from ``since`` on and before ``until``."""
    most_rows: int | None
    """The most rows of one batch of a stream."""
    fail_on_data_loss: bool
    """Whether a query fails where a log is gone before it was read as far as was planned; else it goes on without."""
    push_filters: bool
    """Whether a batch query's filters are taken into the source.

    Off by default: Spark 4.3 keeps what one query pushed for later queries of the same DataFrame that push nothing, which then miss
    rows. So ``load()`` anew for each query. ``namespaces``, ``topics``, ``since`` and ``until`` do the same without that risk.
    """

    def token_source(self) -> TokenSource | None:
        """Gives the token to show to brokers; None: none is shown."""
        return token_from_file(Path(self.token_file)) if self.token_file else None

    def tls(self) -> TlsOptions:
        """How brokers' certificates are checked."""
        return TlsOptions(trust_certs=Path(self.tls_trust_certs_file) if self.tls_trust_certs_file else None)

    def published(self, at: int) -> bool:
        """Whether an event of some time is asked for."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def includes(self, namespace: str) -> bool:
        """Whether a namespace is asked for."""
        if self.namespaces and namespace not in self.namespaces:
            return False
        return not self.tenants or namespace.partition("/")[0] in self.tenants


def read_options(given: Mapping[str, str]) -> Options:
    """Reads options as Spark hands them over; their names are told apart without case.

    Raises:
        OptionError: naming everything that is wrong.
    """
    values = {name.lower(): value for name, value in given.items()}
    problems = [f"{name} is not an option" for name in sorted(values.keys() - _KNOWN)]
    address = values.get("address", "")
    if address:
        problems += ["namespaces is needed, or adminUrl to list them"] * (not values.get("namespaces") and not values.get("adminurl"))
    else:
        problems += [f"{name} is needed" for name in ("serviceUrl", "adminUrl") if not values.get(name.lower())]
    mode, start = values.get("mode", "all"), values.get("startingoffsets", "earliest")
    if mode not in _MODES:
        problems.append(f"mode must be one of {', '.join(_MODES)}, not {mode}")
    if start not in _STARTS:
        problems.append(f"startingOffsets must be one of {', '.join(_STARTS)}, not {start}")
    namespaces = _names(values.get("namespaces", ""))
    problems += [f'"{name}" is not a namespace: write tenant/namespace' for name in sorted(namespaces) if name.count("/") != 1]
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
        topics=_names(values.get("topics", "")),
        compacted=mode == "compacted",
        from_latest=start == "latest",
        since=times["since"],
        until=times["until"],
        most_rows=int(rows) if rows is not None else None,
        fail_on_data_loss=flags["failOnDataLoss"] == "true",
        push_filters=flags["pushFilters"] == "true",
    )


def time_of(text: str) -> int:
    """Microseconds since 1970 of an ISO time; one without a zone is UTC.

    Raises:
        ValueError: it is no such time.
    """
    return microseconds(datetime.fromisoformat(text))


def microseconds(time: datetime) -> int:
    """Microseconds since 1970; a time without a zone is UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _names(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
