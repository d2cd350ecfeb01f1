"""The configuration of a server, and of a guard without a server."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from pathlib import Path

from .address import DEFAULT_LISTEN, Address, parse_address
from .authentication import AuthenticationConfig
from .authorization import AuthorizationConfig
from .call_record import CallRecordConfig, Recorded
from .checkpoints import CheckpointsConfig
from .errors import ConfigError
from .files import shared, unreadable
from .history import HistoryConfig
from .limits import Limits
from .logs import EmbeddedLogConfig, LogConfig, PulsarLogConfig, Writer
from .telemetry import TelemetryConfig

_NAMESPACE_PATTERN = re.compile(r"[-=:.\w*]+/[-=:.\w*]+", re.ASCII)


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
        """Returns what is wrong with the files, a sentence each."""
        named = [("certificate", self.certificate_file), ("key", self.key_file), ("client authority", self.client_ca_file)]
        return [problem for what, path in named if path is not None for problem in unreadable(f"TLS {what}", path)]


class LogLevel(enum.Enum):
    """The least severe level that the server logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.Enum):
    """The format of the lines that the server logs."""

    TEXT = "text"
    LOGFMT = "logfmt"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The configuration of a server.

    Raises:
        ConfigError: the configuration is wrong; the error has all problems.
    """

    log: LogConfig
    listen: Address = field(default=parse_address(DEFAULT_LISTEN))
    tls: TlsConfig | None = None
    insecure_listen: bool = False
    """Lets a server without TLS, or without authentication, listen where other machines can reach it."""
    authentication: AuthenticationConfig = field(default=AuthenticationConfig())
    """How callers are authenticated; by default not at all."""
    advertise: str = ""
    """The address at which other servers reach this one, to forward changes: ``host:port``; empty: where it listens."""
    peer_token_file: Path | None = None
    """The file of the token with which changes are forwarded to other servers; None: there is none."""
    peer_trust_certs_file: Path | None = None
    """The authorities (PEM) of the certificates of other servers; None: those of clients' certificates, else the system's."""
    limits: Limits = field(default=Limits())
    history: HistoryConfig | None = None
    """The record of events; None: no history is kept."""
    checkpoints: CheckpointsConfig | None = None
    """The saved views; None: each start reads the logs from their beginning."""
    authorization: AuthorizationConfig = field(default=AuthorizationConfig())
    """Who decides what callers may do."""
    show_secrets: bool = False
    """Whether answers without authorization have the secrets of object storages in offload policies; else they have
    ``topicpolicies.secrets.REDACTED`` instead. With authorization, permissions decide."""
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.TEXT
    call_record: CallRecordConfig = field(default=CallRecordConfig(which=Recorded.OFF))
    missing_topics: bool = False
    """Whether updates of topics that do not exist yet are accepted; else they fail with NOT_FOUND."""
    read_only: bool = False
    """Whether nothing is written to any log: updates are refused, and repairs are only counted and reported."""
    pause_repairs: bool = False
    """Whether repairs are paused at the start, until a signal resumes them."""
    guard: tuple[str, ...] = ()
    """Patterns of namespaces that are kept loaded, and so are repaired although no client uses them (``guard/``)."""
    metrics_listen: Address | None = None
    """Where metrics and probes are served, over HTTP; None: nowhere."""
    telemetry: TelemetryConfig | None = None
    """Where spans and metrics are sent; None: nowhere."""
    reflection: bool = True
    """Whether clients can request the definitions of the services (gRPC server reflection)."""

    def __post_init__(self) -> None:
        problems = self.log.problems() + self.limits.problems() + _guard_problems(self.guard) + _metrics_problems(self.metrics_listen)
        if self.guard and isinstance(self.log, EmbeddedLogConfig):
            problems.append("--guard goes with --pulsar: the embedded log has no other writers whose changes need repairs.")
        elif self.guard and isinstance(self.log, PulsarLogConfig) and self.log.writer is Writer.EXCLUSIVE:
            problems.append("--guard goes with --writer shared: with an exclusive writer brokers write nothing that needs repairs.")
        if self.metrics_listen == self.listen and self.listen.port:
            problems.append(f"Calls and metrics are both configured for {self.listen}: give each an address of its own.")
        if self.tls is not None:
            problems += self.tls.problems()
        problems += self._advertise_problems() + self._peer_problems()
        if self.history is not None:
            problems += self.history.problems()
        problems += self.authentication.problems(mutual=self.tls is not None and self.tls.client_ca_file is not None)
        problems += self._listen_problems()
        problems += self.authorization.problems(self.log, authenticated=self.authentication.enabled, show_secrets=self.show_secrets)
        problems += self.checkpoints.problems() if self.checkpoints is not None else []
        problems += self.call_record.problems() + self._files_problems()
        problems += self.telemetry.problems() if self.telemetry is not None else []
        if problems:
            raise ConfigError(tuple(problems))

    @property
    def authenticated(self) -> bool:
        """Whether callers have to show who they are."""
        return self.authentication.enabled

    @property
    def exclusive(self) -> bool:
        """Whether one server at a time writes each log, to which the others forward changes."""
        return isinstance(self.log, PulsarLogConfig) and self.log.writer is Writer.EXCLUSIVE

    def folders_to_create(self) -> list[Path]:
        """Returns the directories to make before the server starts, unless they exist: the user's data folder, where no path was set."""
        places = [self.log] if isinstance(self.log, EmbeddedLogConfig) else []
        files = [each for each in (*places, self.history, self.checkpoints) if each is not None and each.create_parent]
        return list(dict.fromkeys(each.path.parent for each in files if each.path is not None))

    def _listen_problems(self) -> list[str]:
        """Returns the problem of listening where other machines can connect without TLS or authentication, unless that is allowed."""
        if self.listen.loopback or self.insecure_listen:
            return []
        reached = f"{self.listen} can be reached from other machines"
        if self.tls is None:
            problem = (
                f"{reached}, and every caller may change every policy:"
                " give the server TLS, or give --insecure-listen if something in front of it protects it."
            )
            return [problem]
        if self.tls.client_ca_file is None and not self.authentication.enabled:
            problem = (
                f"{reached}, and callers are not authenticated, so every caller may change every policy: give"
                " --authentication-providers, or --tls-client-ca to admit only clients with a certificate, or --insecure-listen if"
                " something in front of it authenticates them."
            )
            return [problem]
        return []

    def _files_problems(self) -> list[str]:
        files = {
            "change log": self.log.path if isinstance(self.log, EmbeddedLogConfig) else None,
            "history": self.history.path if self.history is not None else None,
            "checkpoints": self.checkpoints.path if self.checkpoints is not None else None,
            "record of calls": self.call_record.path,
        }
        return shared(files)

    def _advertise_problems(self) -> list[str]:
        if self.advertise:
            try:
                address = parse_address(self.advertise)
            except ConfigError as error:
                return list(error.problems)
            if address.unspecified:
                return [f'"{self.advertise}" is not an address for others: name a host that they reach.']
            if address.path or address.port:
                return []
            return [f'"{self.advertise}" is not an address for others: name the port.']
        if self.exclusive and not self.read_only and self.listen.unspecified:
            return [f"Changes can't be forwarded to {self.listen}: give --advertise HOST:PORT, the address of this server for others."]
        return []

    def _peer_problems(self) -> list[str]:
        found = []
        for flag, what, path in (
            ("--peer-token-file", "token", self.peer_token_file),
            ("--peer-trust-certs", "trust certificate", self.peer_trust_certs_file),
        ):
            if path is not None:
                found += unreadable(f"peer {what}", path)
                found += [] if self.exclusive else [f"{flag} goes with --writer exclusive: otherwise no changes are forwarded."]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConfig:
    """The configuration of a guard without a server.

    Raises:
        ConfigError: the configuration is wrong; the error has all problems.
    """

    log: PulsarLogConfig
    patterns: tuple[str, ...]
    """``tenant/namespace``, where ``*`` stands for any characters but the slash."""
    report_only: bool = False
    """Whether repairs are only reported, and nothing is written."""
    pause_repairs: bool = False
    """Whether repairs are paused at the start, until a signal resumes them."""
    limits: Limits = field(default=Limits())
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.TEXT
    metrics_listen: Address | None = None
    """Where metrics and probes are served, over HTTP; None: nowhere."""

    def __post_init__(self) -> None:
        problems = self.log.problems() + self.limits.problems() + _guard_problems(self.patterns) + _metrics_problems(self.metrics_listen)
        if not self.patterns:
            problems.append("Name the namespaces to guard: tenant/namespace, with * for any characters.")
        if problems:
            raise ConfigError(tuple(problems))


def _guard_problems(patterns: tuple[str, ...]) -> list[str]:
    wrong = [text for text in patterns if not _NAMESPACE_PATTERN.fullmatch(text)]
    return [f'"{text}" is not a pattern of namespaces: write tenant/namespace, with * for any characters.' for text in wrong]


def _metrics_problems(address: Address | None) -> list[str]:
    return ["Metrics are served over TCP only: write host:port."] if address is not None and address.path else []
