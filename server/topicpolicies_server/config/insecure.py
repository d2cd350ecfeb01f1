"""Finds choices that make a server or a guard less safe than it could be. They are allowed; each is logged once, at the start."""

from __future__ import annotations

import stat
from pathlib import Path

from .address import is_private
from .logs import LogConfig, PulsarLogConfig
from .option import values_in
from .server import GuardConfig, ServerConfig


def insecure(config: ServerConfig | GuardConfig) -> list[str]:
    """Returns a sentence for each such choice, and for each secret file that every user of the machine has access to."""
    found = _of_server(config) if isinstance(config, ServerConfig) else []
    if config.metrics_listen is not None and not config.metrics_listen.loopback:
        found.append(f"metrics_listen: everyone who can reach {config.metrics_listen} can read the metrics, without TLS.")
    return found + _towards_brokers(config.log) + _exposed(config)


def _of_server(config: ServerConfig) -> list[str]:
    found = []
    if not config.listen.loopback:
        if config.tls is None:
            found.append(f"insecure_listen: calls on {config.listen} are not encrypted, secrets and tokens of callers included.")
        if not config.authentication.enabled and (config.tls is None or config.tls.client_ca_file is None):
            found.append(
                f"insecure_listen: everyone who can reach {config.listen} may change every policy, because callers are not authenticated."
            )
    if config.peer_token_file is not None and config.tls is None:
        found.append("peer_token_file: the token is sent, without TLS, to the address that a change log names as its leader's.")
    if config.authorization.allow_authenticated:
        found.append("allow_authenticated: every authenticated caller may do everything.")
    if config.telemetry is not None and not is_private(config.telemetry.endpoint):
        found.append(f"otlp_endpoint: what is sent to {config.telemetry.endpoint} is not encrypted, with names of topics.")
    if config.show_secrets:
        found.append("show_secrets: every caller who may read sees the object storages' credentials in offload policies.")
    return found


def _towards_brokers(log: LogConfig) -> list[str]:
    if not isinstance(log, PulsarLogConfig):
        return []
    found = []
    token = "the token for Pulsar, and " if log.token_file is not None or log.oauth2 is not None else ""
    for option, url, plain in (("pulsar", log.service_url, "pulsar"), ("admin_url", log.admin_url, "http")):
        scheme, _, hosts = url.partition("://")
        if scheme == plain and not all(is_private(f"http://{host}") for host in hosts.rstrip("/").split(",")):
            said = f"{token}policies with the credentials of object storages in them"
            found.append(f"{option}: the connection to {url} is not encrypted, so others can read and change {said}.")
    if log.oauth2 is not None and not is_private(log.oauth2.issuer):
        found.append("pulsar_oauth2_issuer: the credentials for tokens are sent to it without TLS, so others can read them.")
    if not log.tls_validate_hostname:
        found.append("pulsar_tls_validate_hostname: every owner of a certificate of a trusted authority can pass for a broker.")
    return found


def _exposed(config: ServerConfig | GuardConfig) -> list[str]:
    """Returns a sentence for each file of secrets that users who are not of its group may read or write."""
    found: list[str] = []
    for option, path in values_in(config):
        mode = _mode(path) if option.secret and isinstance(path, Path) else 0
        if mode & stat.S_IROTH:
            found.append(f'{option.name}: every user of this machine may read "{path}", and impersonate others with it.')
        if mode & stat.S_IWOTH:
            found.append(f'{option.name}: every user of this machine may write "{path}".')
    return found


def _mode(path: Path) -> int:
    """Returns the mode of a file; 0: it is not there, or in a directory that keeps other users out."""
    try:
        reached = all(each.stat().st_mode & stat.S_IXOTH for each in path.resolve().parents)
        return path.stat().st_mode if reached else 0
    except (OSError, RuntimeError, ValueError):
        return 0  # the check of the option that names it reports what is wrong
