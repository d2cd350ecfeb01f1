"""The change logs: the embedded one, or Pulsar's own, and how Pulsar is reached."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from .files import misplaced, unreadable
from .oauth2 import OAuth2Config
from .urls import meant_as_url

_PULSAR_SCHEMES = ("pulsar", "pulsar+ssl")
_ADMIN_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedLogConfig:
    """The embedded durable log, which needs no broker."""

    path: Path | None
    """The SQLite file, which is created if there is none. None: the log is in a temporary file, and ends with the process."""
    cluster_file: Path | None = None
    """The file of facts about the cluster (``cluster/file``); None: no facts, and only rules that need none are checked."""
    create_parent: bool = False
    """Whether the file's directory is made before the server starts: it is the user's data folder, because no path was set."""

    def problems(self) -> list[str]:
        """Returns what is wrong with the files, a sentence each."""
        found = [] if self.path is None else misplaced("embedded log", self.path, create_parent=self.create_parent)
        return found + (unreadable("cluster", self.cluster_file) if self.cluster_file is not None else [])


class Writer(enum.Enum):
    """Who may write Pulsar's change logs."""

    SHARED = "shared"
    """Brokers and any number of sidecars write."""
    EXCLUSIVE = "exclusive"
    """One sidecar at a time writes each log (PIP-68), and no broker does."""


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
    """The file of the token for both URLs; it is read again whenever a connection is made."""
    tls_trust_certs_file: Path | None = None
    """The authorities (PEM) that the broker's certificates are checked against; None: those of the system."""
    tls_certificate_file: Path | None = None
    """The sidecar's own certificate (PEM), where brokers ask for one."""
    tls_key_file: Path | None = None
    """The private key (PEM) of that certificate."""
    tls_validate_hostname: bool = True
    """Whether a broker's certificate must be for the name by which the broker was reached."""
    oauth2: OAuth2Config | None = None
    """The issuer of tokens, in place of ``token_file``; None: there is none."""
    writer: Writer = Writer.SHARED
    """Who may write the logs."""
    recalled_entries: int = RECALLED_ENTRIES
    """How many of the newest entries of each partition are read as they were before compaction when a log is opened, as far as the brokers
    have not trimmed them. 0: none."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = _bad_url("The Pulsar service URL (--pulsar)", self.service_url, _PULSAR_SCHEMES)
        found += _bad_url("The admin URL (--admin-url)", self.admin_url, _ADMIN_SCHEMES)
        if self.token_file is not None:
            found += unreadable("token", self.token_file)
        if self.tls_trust_certs_file is not None:
            found += unreadable("Pulsar trust certificate", self.tls_trust_certs_file)
        for what, path in (("certificate", self.tls_certificate_file), ("key", self.tls_key_file)):
            found += unreadable(f"Pulsar client {what}", path) if path is not None else []
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            found.append("--pulsar-tls-certificate and --pulsar-tls-key belong together.")
        if self.oauth2 is not None:
            found += self.oauth2.problems()
            if self.token_file is not None:
                found.append(
                    "A token for Pulsar comes from a file or an issuer, not both: --pulsar-token-file contradicts --pulsar-oauth2-issuer."
                )
        if not 0 <= self.recalled_entries <= MOST_RECALLED_ENTRIES:
            found.append(
                f"The recalled entries must be from 0 to {MOST_RECALLED_ENTRIES:,}, not {self.recalled_entries}: reading them takes time."
            )
        return found


LogConfig: TypeAlias = EmbeddedLogConfig | PulsarLogConfig


def _bad_url(what: str, url: str, schemes: tuple[str, ...]) -> list[str]:
    wanted = f"write {schemes[0]}://host:port or {schemes[1]}://host:port."
    if not url:
        return [f"{what} is missing: {wanted}"]
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in schemes:
        return [f'{what} "{meant_as_url(url)}" is not valid: {wanted}']
    for host in rest.rstrip("/").split(","):
        try:
            parts = urlsplit(f"//{host}")
            if parts.hostname and parts.port is not None and not parts.path and parts.username is None:
                continue
        except ValueError:
            pass
        return [f'{what} "{meant_as_url(url)}" is not valid: {wanted}']
    return []
