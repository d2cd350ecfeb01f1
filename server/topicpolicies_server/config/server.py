"""The configuration of a server, and of a guard without a server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from .. import files
from .address import DEFAULT_LISTEN, Address, ConfigError, is_pattern, parse_address
from .callers import PROVIDERS, AuthenticationConfig, AuthorizationConfig
from .limits import Limits
from .logs import LogConfig, PulsarLogConfig
from .option import option, section, url_of, values_in

_LOG, _NETWORK, _CALLERS, _AUTHORIZATION, _HISTORY, _CHECKPOINTS, _REPAIRS, _DECLARED, _LOGGING, _TRACES, _LIMITS = HEADINGS = (
    "Change log",
    "Network",
    "Callers",
    "Who may do what",
    "History",
    "Checkpoints",
    "Repairs",
    "Declared policies",
    "Logging and secrets",
    "Traces for a collector",
    "Limits",
)
"""The headings that options are shown under, in this order."""
LogFormat: TypeAlias = Literal["text", "json"]
"""The format of the lines that the server logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """TLS of the server itself."""

    certificate_file: Path = option(name="tls_certificate", example='"server.pem"')
    """The server's certificate, PEM. With it the server uses TLS."""
    key_file: Path = option(name="tls_key", example='"key.pem"', secret=True)
    """The certificate's private key, PEM."""
    client_ca_file: Path | None = option(None, name="tls_client_ca", example='"clients.pem"')
    """Admit only clients with a certificate of this authority, PEM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryConfig:
    """The server's own record of every event that it reads."""

    path: Path = option(
        name="history", default_text="beside ``data``; none with ``pulsar``", example='"history.db"', metavar="FILE.db", readable=False
    )
    """The server's record of all changes: one SQLite file, created if missing."""
    days: int = option(366, name="history_days", least=1, most=36_600)
    """How many days entries are kept; older ones are deleted."""
    megabytes: int = option(1024, name="history_megabytes", least=1, most=1 << 24)
    """The greatest size of the file in MiB; beyond it the oldest entries are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLogConfig:
    """The access log."""

    which: Literal["changes", "all", "off"] = option("changes", name="access_log")
    """Which calls are recorded, one line each: caller, method, topic, outcome, duration, request id."""
    path: Path | None = option(
        None, name="access_log_file", default_text="standard error", example='"calls.log"', metavar="FILE|-", readable=False
    )
    """The file in which calls are recorded; - is standard error. After the file is moved away, a new one is created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """What is sent to a collector by OTLP over HTTP."""

    endpoint: str = option(name="otlp_endpoint", default_text="nowhere", example='"http://localhost:4318"', **url_of("http", "https"))
    """A collector that accepts OTLP over HTTP, to which spans of calls are sent."""
    trace_ratio: float = option(0.01, name="otlp_trace_ratio", least=0, most=1, metavar="RATIO")
    """The share of the calls without a trace of their caller that begin one. Other calls are traced if their caller's span is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """What a server and a guard without a server both have."""

    guard: tuple[str, ...] = option(
        (),
        section=_REPAIRS,
        example='["acme/*"]',
        metavar="NAMESPACE",
        check=is_pattern,
        wanted="tenant/namespace, with * for any characters",
    )
    """Namespaces that are kept loaded and repaired, even if no client uses them; * stands for any characters."""
    pause_repairs: bool = option(False, section=_REPAIRS)
    """Begin with repairs paused. SIGUSR2 resumes them, SIGUSR1 pauses them again."""
    log_level: Literal["debug", "info", "warning", "error"] = option("info", section=_LOGGING)
    """The least severe level that is logged on standard error."""
    log_format: LogFormat = option("text", section=_LOGGING)
    """The format of the lines of the log on standard error."""
    metrics_listen: Address | None = option(
        None,
        section=_NETWORK,
        default_text="nowhere",
        example='"127.0.0.1:9464"',
        url=True,
        check=lambda given: not given.path,
        wanted="host:port, for metrics are served over TCP only",
    )
    """Where to serve metrics (Prometheus) and probes, over HTTP without TLS: /metrics, /livez, /readyz."""
    limits: Limits = section(_LIMITS, Limits())


def _file_problems(config: Any) -> list[str]:
    """Returns which files of a configuration can't be read, and which are written by two parts of the process, a sentence each."""
    found, written = [], dict[str, str]()
    for each, path in values_in(config):
        if not isinstance(path, Path):
            continue
        try:
            if each.readable:
                files.read(path, 0)
            elif (first := written.setdefault(os.path.realpath(path), each.flag)) != each.flag:
                found.append(f'{first} and {each.flag} are both "{path}": give each a file of its own.')
        except (OSError, ValueError) as error:
            found.append(f'{each.flag}: "{path}" can\'t be read: {getattr(error, "strerror", None) or error}.')
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig(ProcessConfig):
    """The configuration of a server.

    Raises:
        ConfigError: the configuration is wrong; the error has all problems.
    """

    log: LogConfig = section(_LOG)
    data_folder: Path | None = None
    """The user's data folder, which is made before the server starts; None: the log's path was set, or there is none."""
    listen: Address = option(parse_address(DEFAULT_LISTEN), section=_NETWORK, url=True)
    """Where to listen; port 0 lets the system choose."""
    tls: TlsConfig | None = section(_NETWORK, None)
    insecure_listen: bool = option(False, section=_NETWORK)
    """Let other machines connect without TLS."""
    advertise: Address | None = option(
        None,
        section=_NETWORK,
        default_text="the address of ``listen``",
        example='"sidecar-1:6680"',
        url=True,
        check=lambda given: given.path or (given.port and not given.unspecified),
        wanted="an address that others reach: a host and its port",
    )
    """The address at which other sidecars of an exclusive log reach this one, to forward changes."""
    peer_token_file: Path | None = option(
        None,
        section=_NETWORK,
        default_text="none: the leader knows this sidecar by ``tls_certificate``",
        example='"/run/secrets/peer-token"',
        secret=True,
    )
    """A file with the token for the leader of an exclusive log, to which changes are forwarded; ``proxy_roles`` has its role."""
    peer_trust_certs_file: Path | None = option(
        None,
        name="peer_trust_certs",
        section=_NETWORK,
        default_text="those of ``tls_client_ca``, else the system's",
        example='"sidecars.pem"',
    )
    """The authorities of the certificates of other sidecars, PEM, for changes that are forwarded."""
    reflection: bool = option(True, section=_NETWORK)
    """Let clients request the definitions of the services (gRPC server reflection)."""
    authentication: AuthenticationConfig = section(_CALLERS, AuthenticationConfig())
    authentication_providers: tuple[str, ...] = option(
        (),
        section=_CALLERS,
        default_text="none: callers are not authenticated",
        example=f'["{PROVIDERS[0]}"]',
        metavar="|".join(PROVIDERS),
        check=PROVIDERS.__contains__,
        wanted=" or ".join(PROVIDERS),
    )
    """How callers are authenticated: token (Pulsar's own), oidc (tokens of OpenID Connect), certificate (of TLS); several at once."""
    authorization: AuthorizationConfig = section(_AUTHORIZATION, AuthorizationConfig())
    history: HistoryConfig | None = section(_HISTORY, None)
    no_history: bool = option(False, section=_HISTORY)
    """Keep no history."""
    checkpoints: Path | None = option(
        None,
        section=_CHECKPOINTS,
        default_text="beside ``data``; none with ``pulsar``",
        example='"checkpoints"',
        metavar="FOLDER",
        readable=False,
    )
    """Saved views, from which a start continues instead of reading the whole logs: a directory, created if missing, with a file for each
    namespace. It is a cache."""
    no_checkpoints: bool = option(False, section=_CHECKPOINTS)
    """Keep no checkpoints: each start reads the logs from their beginning."""
    access_log: AccessLogConfig = section(_LOGGING, AccessLogConfig(which="off"))
    telemetry: TelemetryConfig | None = section(_TRACES, None)
    missing_topics: bool = option(False, name="allow_missing_topics", section=_LOG)
    """Accept policies of topics that do not exist yet."""
    read_only: bool = option(False, section=_REPAIRS)
    """Write nothing: refuse updates, and only report repairs."""
    declared: Path | None = option(None, section=_DECLARED, example='"policies.yaml"', metavar="FILE|FOLDER", readable=False)
    """Declared policies, as ``apply`` takes them: report documents that are not as declared."""
    enforce: bool = option(False, section=_DECLARED)
    """Make documents as they are declared again, unless another owner declared them otherwise."""
    show_secrets: bool = option(False, section=_LOGGING)
    """Show the object storages' credentials in offload policies to every caller who may read."""

    def __post_init__(self) -> None:
        mutual = self.tls is not None and self.tls.client_ca_file is not None
        problems = _file_problems(self) + self._log_problems() + self._listen_problems()
        problems += self.authentication.problems(mutual=mutual)
        problems += self.authorization.problems(self.log, authenticated=self.authentication.enabled, show_secrets=self.show_secrets)
        if self.declared is not None and not self.declared.exists():
            problems.append(f'--declared: "{self.declared}" does not exist.')
        if self.enforce and (self.declared is None or self.read_only):
            problems.append("--enforce goes with --declared FILE, and not with --read-only.")
        if problems:
            raise ConfigError(tuple(problems))

    @property
    def exclusive(self) -> bool:
        """Whether one server at a time writes each log, to which the others forward changes."""
        return isinstance(self.log, PulsarLogConfig) and self.log.writer == "exclusive"

    def _log_problems(self) -> list[str]:
        found = self.log.problems() if isinstance(self.log, PulsarLogConfig) else []
        if self.guard and not isinstance(self.log, PulsarLogConfig):
            found.append("--guard goes with --pulsar: the embedded log has no other writers whose changes need repairs.")
        if self.guard and self.exclusive:
            found.append("--guard goes with --writer shared: with an exclusive writer brokers write nothing that needs repairs.")
        if self.exclusive and not self.read_only and self.listen.unspecified and self.advertise is None:
            found.append(f"Changes can't be forwarded to {self.listen}: give --advertise HOST:PORT, the address of this server for others.")
        if not self.exclusive and (self.peer_token_file is not None or self.peer_trust_certs_file is not None):
            found.append("--peer-token-file and --peer-trust-certs go with --writer exclusive: otherwise no changes are forwarded.")
        return found

    def _listen_problems(self) -> list[str]:
        if self.metrics_listen == self.listen and self.listen.port:
            return [f"Calls and metrics are both configured for {self.listen}: give each an address of its own."]
        if self.listen.loopback or self.insecure_listen:
            return []
        reached = f"{self.listen} can be reached from other machines, and"
        if self.tls is None:
            needed = "the server TLS, or give --insecure-listen if something in front of it protects it."
            return [f"{reached} every caller may change every policy: give {needed}"]
        if self.tls.client_ca_file is None and not self.authentication.enabled:
            needed = (
                "--authentication-providers, or --tls-client-ca to admit only clients with a certificate, or --insecure-listen if something"
                " in front of it authenticates them."
            )
            return [f"{reached} callers are not authenticated, so every caller may change every policy: give {needed}"]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConfig(ProcessConfig):
    """The configuration of a guard without a server; a wrong one is a ConfigError, as that of a server."""

    log: PulsarLogConfig = section(_LOG)
    report_only: bool = option(False, section=_REPAIRS)
    """Write nothing: report what the guard command would repair."""

    def __post_init__(self) -> None:
        problems = _file_problems(self) + self.log.problems()
        if not self.guard:
            problems.append("Name the namespaces to guard: tenant/namespace, with * for any characters.")
        if problems:
            raise ConfigError(tuple(problems))
