"""What a server is told before it starts: where it listens, where its log is, and every limit, each with its bounds.

All of it is checked when it is made, so that a configuration that exists is a valid one; everything that is wrong is said at once.
The defaults are safe: loopback only, and a server that others can reach must be given TLS or be told that it is to do without.
"""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

DEFAULT_PORT = 6680
"""Where a server listens unless it is told otherwise; none of Pulsar's own ports."""
DEFAULT_LISTEN = f"127.0.0.1:{DEFAULT_PORT}"
_UNIX = "unix:"
_PULSAR_SCHEMES = ("pulsar", "pulsar+ssl")
_ADMIN_SCHEMES = ("http", "https")
_NAMESPACE_PATTERN = re.compile(r"[-=:.\w*]+/[-=:.\w*]+", re.ASCII)


class ConfigError(ValueError):
    """A configuration is wrong.

    Attributes:
        problems: everything that is wrong, a sentence each.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    """A host name or IP address, without brackets; empty for a Unix socket."""
    port: int
    """0 lets the system choose."""
    path: str = ""
    """Of a Unix socket."""

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def unspecified(self) -> bool:
        """Whether it stands for every address of this machine, which tells nobody where that is."""
        try:
            return not self.path and ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.path:
            return f"{_UNIX}{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Reads ``host:port``, ``[IPv6 address]:port`` or ``unix:/path``.

    Raises:
        ConfigError: it is none of these.
    """
    if text.startswith(_UNIX) and len(text) > len(_UNIX):
        return Address("", 0, text.removeprefix(_UNIX))
    host, separator, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    valid = separator and host.strip("[]") and (bracketed or ":" not in host) and port.isascii() and port.isdigit()
    if not valid or int(port) > 65_535 or any(character.isspace() or character == "/" for character in host):
        raise ConfigError((f'"{text}" is not an address to listen on: write host:port, [IPv6 address]:port or unix:/path.',))
    return Address(host[1:-1] if bracketed else host, int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """TLS of the server itself. All files are PEM."""

    certificate_file: Path
    """The server's certificate and the chain above it."""
    key_file: Path
    """The certificate's private key."""
    client_ca_file: Path | None = None
    """If given, only clients with a certificate of this authority are let in (mutual TLS)."""

    def problems(self) -> list[str]:
        """What is wrong with it."""
        named = [("certificate", self.certificate_file), ("key", self.key_file), ("client authority", self.client_ca_file)]
        return [problem for what, path in named if path is not None for problem in _unreadable(f"TLS {what}", path)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedLogConfig:
    """The embedded durable log: no broker is needed."""

    path: Path | None
    """The SQLite file; it is created if need be. None keeps the log in memory: it ends with the process."""
    cluster_file: Path | None = None
    """What is known of the cluster (``cluster/file``); None: nothing, and only rules that need nothing are judged."""

    def problems(self) -> list[str]:
        """What is wrong with it."""
        return self._path_problems() + (_unreadable("cluster", self.cluster_file) if self.cluster_file is not None else [])

    def _path_problems(self) -> list[str]:
        if self.path is None:
            return []
        if self.path.is_dir():
            return [f'The embedded log "{self.path}" is a directory: name a file in it.']
        if not self.path.absolute().parent.is_dir():
            return [f'The directory of the embedded log "{self.path}" does not exist: create it first.']
        return []


class Writer(enum.Enum):
    """Who may write Pulsar's change logs."""

    SHARED = "shared"
    """Everybody: brokers, and any number of sidecars."""
    EXCLUSIVE = "exclusive"
    """Of each, one sidecar at a time (PIP-68), and no broker."""


RECALLED_ENTRIES = 5_000
MOST_RECALLED_ENTRIES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarLogConfig:
    """Pulsar's own change logs: ``__change_events`` of each namespace."""

    service_url: str
    """``pulsar://host:port`` or ``pulsar+ssl://host:port``; several hosts are separated by commas."""
    admin_url: str
    """``http://host:port`` or ``https://host:port`` of a broker's admin API."""
    token_file: Path | None = None
    """A file with the token to authenticate with at both; it is read again whenever a connection is made."""
    tls_trust_certs_file: Path | None = None
    """The authorities (PEM) that the broker's certificates are checked against; None: those of the system."""
    writer: Writer = Writer.SHARED
    """Who may write it."""
    recalled_entries: int = RECALLED_ENTRIES
    """Entries of each partition that are read as they were when a log is opened, although they are compacted: the newest ones, as long as
    the brokers have not trimmed them. 0: none."""

    def problems(self) -> list[str]:
        """What is wrong with it."""
        found = _bad_url("The Pulsar service URL", self.service_url, _PULSAR_SCHEMES)
        found += _bad_url("The admin URL", self.admin_url, _ADMIN_SCHEMES)
        if self.token_file is not None:
            found += _unreadable("token", self.token_file)
        if self.tls_trust_certs_file is not None:
            found += _unreadable("Pulsar trust certificate", self.tls_trust_certs_file)
        if not 0 <= self.recalled_entries <= MOST_RECALLED_ENTRIES:
            found.append(f"The recalled entries are 0 to {MOST_RECALLED_ENTRIES:,}, not {self.recalled_entries}: they are held in memory.")
        return found


LogConfig: TypeAlias = EmbeddedLogConfig | PulsarLogConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryConfig:
    """The server's own record of every event that it reads."""

    path: Path
    """The SQLite file; it is created if need be. It belongs to one server."""
    max_age_seconds: float = 366 * 86_400.0
    """What is older is dropped."""
    max_bytes: int = 1 << 30
    """Bytes of the file in use; beyond them what was recorded first is dropped."""

    def problems(self) -> list[str]:
        """What is wrong with it."""
        found = []
        if self.path.is_dir():
            found.append(f'The history "{self.path}" is a directory: name a file in it.')
        elif not self.path.absolute().parent.is_dir():
            found.append(f'The directory of the history "{self.path}" does not exist: create it first.')
        if not 60 <= self.max_age_seconds <= 100 * 366 * 86_400:
            found.append(f"The history must keep entries for a minute at least, a hundred years at most, not {self.max_age_seconds:g} s.")
        if not 1 << 20 <= self.max_bytes <= 1 << 44:
            found.append(f"The history must be allowed 1 MiB at least and 16 TiB at most, not {self.max_bytes} bytes.")
        return found


def history_beside(log: Path) -> Path:
    """Where a history is kept unless it is said: beside the embedded log's file."""
    return log.with_name(f"{log.stem}.history{log.suffix}")


def _bounded(default: float, least: float, most: float) -> Any:
    """A field with its bounds, both included. The type is the field's own."""
    return field(default=default, metadata={"least": least, "most": most})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every limit of a server. The names carry the units; ``bounds`` tells what each may be."""

    max_message_bytes: int = _bounded(4 << 20, 64 << 10, 64 << 20)
    """Largest request that is accepted."""
    max_concurrent_calls: int = _bounded(10_000, 16, 1_000_000)
    """Calls in progress, watches included; beyond them RESOURCE_EXHAUSTED."""
    max_watches: int = _bounded(5_000, 1, 1_000_000)
    """Open watches; beyond them RESOURCE_EXHAUSTED."""
    max_selectors_per_watch: int = _bounded(10_000, 1, 1_000_000)
    """Topics and namespaces that one watch may name."""
    max_in_flight_per_stream: int = _bounded(256, 1, 65_536)
    """Unanswered requests of one UpdatePolicies stream; no more are read until some are answered."""
    max_in_flight_per_key: int = _bounded(64, 1, 4_096)
    """Updates of one policy key that are computed on each other before the first has its place in the log; the others wait in line."""
    max_waiting_per_key: int = _bounded(10_000, 1, 1_000_000)
    """Updates of one policy key that wait in line; beyond them RESOURCE_EXHAUSTED."""
    max_loaded_namespaces: int = _bounded(10_000, 1, 1_000_000)
    """Namespaces in memory; beyond them RESOURCE_EXHAUSTED."""
    max_concurrent_loads: int = _bounded(8, 1, 256)
    """Namespaces that are read at the same time; the others wait."""
    max_every_backlog_changes: int = _bounded(10_000, 16, 10_000_000)
    """Changes that a watch in mode EVERY may fall behind before it is ended."""
    max_repairs_per_second: float = _bounded(500.0, 0.1, 100_000.0)
    """Repairs that the server publishes in a second, in all namespaces together; the others wait their turn."""
    update_timeout_seconds: float = _bounded(10.0, 0.1, 600.0)
    """How long an update waits for its place in the log, unless its caller's deadline is sooner."""
    load_timeout_seconds: float = _bounded(120.0, 1.0, 3_600.0)
    """How long the reading of a namespace may take before it counts as failed and is tried again."""
    join_patience_seconds: float = _bounded(1.0, 0.0, 120.0)
    """How long a namespace that was read waits, before it answers and repairs, for those who have seen more of its latest changes than the
    log still tells. It does not wait if the log tells all of the last half minute."""
    load_retry_seconds: float = _bounded(30.0, 0.1, 600.0)
    """The longest pause between two tries; the first is a hundredth of it."""
    namespace_idle_seconds: float = _bounded(600.0, 1.0, 604_800.0)
    """After this long without watches and requests a namespace is dropped from memory."""
    bookmark_interval_seconds: float = _bounded(10.0, 1.0, 3_600.0)
    """Time between two bookmarks of a watch that does not ask for another."""
    guard_refresh_seconds: float = _bounded(1.0, 0.1, 3_600.0)
    """How often a guard looks for new namespaces, as far as ``max_guard_questions_per_second`` allows."""
    max_guard_questions_per_second: float = _bounded(20.0, 0.1, 10_000.0)
    """Questions of a guard to the brokers' admin API about which namespaces there are, in all tenants together."""
    keepalive_seconds: float = _bounded(30.0, 5.0, 3_600.0)
    """After this long without traffic a connection is probed."""
    drain_seconds: float = _bounded(10.0, 0.0, 600.0)
    """How long calls in progress may take to end when the server stops."""

    def problems(self) -> list[str]:
        """What is wrong with them."""
        found = []
        for name, (least, most) in bounds().items():
            value = getattr(self, name)
            whole = Limits.__annotations__[name] == "int"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                found.append(f"{name} must be {'a whole number' if whole else 'a number'}, not {value!r}.")
            elif not least <= value <= most:  # also refuses NaN
                found.append(f"{name} must be from {least:,} to {most:,}, not {value!r}.")
        return found


def bounds() -> dict[str, tuple[float, float]]:
    """The least and the most of every limit, both included, by its name."""
    return {each.name: (each.metadata["least"], each.metadata["most"]) for each in dataclasses.fields(Limits)}


class LogLevel(enum.Enum):
    """How much the server tells about itself."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Everything that a server is told.

    Raises:
        ConfigError: something is wrong with it; the error says all of it.
    """

    log: LogConfig
    listen: Address = field(default=parse_address(DEFAULT_LISTEN))
    tls: TlsConfig | None = None
    insecure_listen: bool = False
    """Lets a server without TLS listen where other machines can reach it."""
    advertise: str = ""
    """Where clients reach this server, for other servers to tell them: ``host:port``; empty: where it listens."""
    limits: Limits = field(default=Limits())
    history: HistoryConfig | None = None
    """None: nothing is recorded."""
    show_secrets: bool = False
    """Whether answers have the secrets of object storages in offload policies; else ``topicpolicies.secrets.REDACTED`` stands for them."""
    log_level: LogLevel = LogLevel.INFO
    missing_topics: bool = False
    """Whether policies of topics that do not exist are taken, for topics that are still to come; else updates of them are NOT_FOUND."""
    read_only: bool = False
    """Nothing is written to any log: updates are refused, repairs are only counted and told of."""
    pause_repairs: bool = False
    """Repairs wait from the beginning, until the server is told to go on with them."""
    guard: tuple[str, ...] = ()
    """Patterns of namespaces that are kept loaded, and so repaired although nobody asks for them (``guard/``)."""
    metrics_listen: Address | None = None
    """Where metrics are shown, over HTTP; None: nowhere."""

    def __post_init__(self) -> None:
        problems = self.log.problems() + self.limits.problems() + _guard_problems(self.guard) + _metrics_problems(self.metrics_listen)
        if self.guard and isinstance(self.log, EmbeddedLogConfig):
            problems.append("Only namespaces of a Pulsar cluster can be guarded: nobody else writes the embedded log.")
        elif self.guard and isinstance(self.log, PulsarLogConfig) and self.log.writer is Writer.EXCLUSIVE:
            problems.append("Namespaces are guarded beside brokers that write them: --guard goes with --writer shared.")
        if self.tls is not None:
            problems += self.tls.problems()
        problems += self._advertise_problems()
        if self.history is not None:
            problems += self.history.problems()
        if not (self.listen.loopback or self.tls is not None or self.insecure_listen):
            problems.append(
                f"{self.listen} can be reached from other machines, and whoever reaches it may change every policy:"
                " give the server TLS, or say --insecure-listen if something in front of it protects it."
            )
        if problems:
            raise ConfigError(tuple(problems))

    def _advertise_problems(self) -> list[str]:
        if self.advertise:
            try:
                address = parse_address(self.advertise)
            except ConfigError as error:
                return list(error.problems)
            if address.path or address.port:
                return []
            return [f'"{self.advertise}" is no address for clients: name the port.']
        exclusive = isinstance(self.log, PulsarLogConfig) and self.log.writer is Writer.EXCLUSIVE
        if exclusive and self.listen.unspecified:
            return [f"Nobody can be told to go to {self.listen}: say --advertise HOST:PORT, where clients reach this server."]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConfig:
    """Everything that a guard without a server is told.

    Raises:
        ConfigError: something is wrong with it; the error says all of it.
    """

    log: PulsarLogConfig
    patterns: tuple[str, ...]
    """``tenant/namespace``, where ``*`` stands for any characters but the slash."""
    report_only: bool = False
    """Nothing is healed, only told of."""
    pause_repairs: bool = False
    """As with a server."""
    limits: Limits = field(default=Limits())
    log_level: LogLevel = LogLevel.INFO
    metrics_listen: Address | None = None
    """As with a server."""

    def __post_init__(self) -> None:
        problems = self.log.problems() + self.limits.problems() + _guard_problems(self.patterns) + _metrics_problems(self.metrics_listen)
        if not self.patterns:
            problems.append("Say which namespaces are to be guarded: tenant/namespace, with * for any characters.")
        if problems:
            raise ConfigError(tuple(problems))


def _guard_problems(patterns: tuple[str, ...]) -> list[str]:
    wrong = [text for text in patterns if not _NAMESPACE_PATTERN.fullmatch(text)]
    return [f'"{text}" is not a pattern of namespaces: write tenant/namespace, with * for any characters.' for text in wrong]


def _metrics_problems(address: Address | None) -> list[str]:
    return ["Metrics are shown over TCP only: write host:port."] if address is not None and address.path else []


def _unreadable(what: str, path: Path) -> list[str]:
    try:
        with path.open("rb"):
            return []
    except OSError as error:
        return [f'The {what} file "{path}" can\'t be read: {error.strerror or error}.']


def _bad_url(what: str, url: str, schemes: tuple[str, ...]) -> list[str]:
    wanted = f"write {schemes[0]}://host:port or {schemes[1]}://host:port."
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in schemes:
        return [f'{what} "{url}" is not valid: {wanted}']
    for host in rest.rstrip("/").split(","):
        try:
            parts = urlsplit(f"//{host}")
            if parts.hostname and parts.port is not None and not parts.path and parts.username is None:
                continue
        except ValueError:
            pass
        return [f'{what} "{url}" is not valid: {wanted}']
    return []
