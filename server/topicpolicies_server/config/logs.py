"""Where the change logs are."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from topicpolicies.secrets import REDACTED

from .files import misplaced, unreadable
from .oauth2 import OAuth2Config

_PULSAR_SCHEMES = ("pulsar", "pulsar+ssl")
_ADMIN_SCHEMES = ("http", "https")
_CREDENTIALS = re.compile(r"(?<=//).*(?=@)")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedLogConfig:
    """The embedded durable log: no broker is needed."""

    path: Path | None
    """The SQLite file; it is created if need be. None keeps the log in memory: it ends with the process."""
    cluster_file: Path | None = None
    """What is known of the cluster (``cluster/file``); None: nothing, and only rules that need nothing are judged."""
    make_folder: bool = False
    """Whether the file's directory is made before the server starts: the user's data folder, which nobody has named."""

    def problems(self) -> list[str]:
        """What is wrong with it."""
        found = [] if self.path is None else misplaced("embedded log", self.path, make_folder=self.make_folder)
        return found + (unreadable("cluster", self.cluster_file) if self.cluster_file is not None else [])


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
    tls_certificate_file: Path | None = None
    """The sidecar's own certificate (PEM), where brokers ask for one."""
    tls_key_file: Path | None = None
    """Its private key."""
    tls_validate_hostname: bool = True
    """Whether a broker's certificate must be for the name that it was reached by."""
    oauth2: OAuth2Config | None = None
    """Where tokens come from, in place of a file; None: from nowhere."""
    writer: Writer = Writer.SHARED
    """Who may write it."""
    recalled_entries: int = RECALLED_ENTRIES
    """Entries of each partition that are read as they were when a log is opened, although they are compacted: the newest ones, as long as
    the brokers have not trimmed them. 0: none."""

    def problems(self) -> list[str]:
        """What is wrong with it."""
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
            found.append(f"The recalled entries are 0 to {MOST_RECALLED_ENTRIES:,}, not {self.recalled_entries}: they are held in memory.")
        return found


LogConfig: TypeAlias = EmbeddedLogConfig | PulsarLogConfig


def without_credentials(url: str) -> str:
    """A URL without what stands before ``@`` in it: a name and a password, which are shown to nobody."""
    return _CREDENTIALS.sub(REDACTED, url)


def _bad_url(what: str, url: str, schemes: tuple[str, ...]) -> list[str]:
    wanted = f"write {schemes[0]}://host:port or {schemes[1]}://host:port."
    if not url:
        return [f"{what} is missing: {wanted}"]
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in schemes:
        return [f'{what} "{without_credentials(url)}" is not valid: {wanted}']
    for host in rest.rstrip("/").split(","):
        try:
            parts = urlsplit(f"//{host}")
            if parts.hostname and parts.port is not None and not parts.path and parts.username is None:
                continue
        except ValueError:
            pass
        return [f'{what} "{without_credentials(url)}" is not valid: {wanted}']
    return []
