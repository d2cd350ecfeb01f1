"""The change logs: the embedded one, or Pulsar's own, and how Pulsar is reached."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from .address import meant_as_url
from .files import misplaced, unreadable
from .option import ReadBy, option

_PULSAR_SCHEMES = ("pulsar", "pulsar+ssl")
_ADMIN_SCHEMES = ("http", "https")
RECALLED_ENTRIES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedLogConfig:
    """The embedded durable log, which needs no broker. Without a path it is in a temporary file, and ends with the process."""

    path: Path | None = option(
        name="data",
        default_text="policies.db in your data folder, unless ``pulsar`` is given",
        example='"policies.db"',
        metavar="FILE.db",
    )
    """The embedded log, without a broker: one SQLite file, created if missing."""
    cluster_file: Path | None = option(None, example='"cluster.toml"', metavar="FILE.toml")
    """A file with what is known about the cluster; goes with ``data``."""

    def problems(self, data_folder: Path | None = None) -> list[str]:
        """Returns what is wrong with the files, a sentence each. ``data_folder``: ``ServerConfig.data_folder``."""
        return misplaced("embedded log", self.path, data_folder) + unreadable("cluster", self.cluster_file)


class Writer(enum.Enum):
    """Who may write Pulsar's change logs."""

    SHARED = "shared"
    """Brokers and any number of sidecars write."""
    EXCLUSIVE = "exclusive"
    """One sidecar at a time writes each log (PIP-68), and no broker does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2Config:
    """Tokens for Pulsar by OAuth 2.0 with client credentials, as in ``AuthenticationOauth2`` of Pulsar's clients."""

    issuer: str = option(name="pulsar_oauth2_issuer", example='"https://issuer.example"', metavar="https://HOST", url=True)
    """The issuer from which tokens for Pulsar are requested (OAuth 2.0, client credentials), in place of ``pulsar_token_file``."""
    credentials_file: Path | None = option(
        name="pulsar_oauth2_credentials", example='"/run/secrets/credentials.json"', metavar="FILE.json", secret=True
    )
    """The sidecar's credentials at the issuer: JSON with ``client_id`` and ``client_secret``, as for Pulsar's own clients."""
    audience: str = option("", name="pulsar_oauth2_audience", example='"urn:pulsar:cluster"')
    """The audience of the tokens: the issuer's name for Pulsar."""
    scope: str = option("", name="pulsar_oauth2_scope", example='"api://pulsar/.default"')
    """The scope that is requested from the issuer."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = unreadable("OAuth 2.0 credentials", self.credentials_file)
        if self.credentials_file is None:
            found.append("Tokens for Pulsar are requested with credentials: give --pulsar-oauth2-credentials FILE.json.")
        try:
            parts = urlsplit(self.issuer)
            valid = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.username is None and not parts.query
        except ValueError:
            valid = False
        if not valid:
            found.append("The issuer of tokens for Pulsar (--pulsar-oauth2-issuer) is not valid: write https://host.")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarLogConfig:
    """Pulsar's own change logs, ``__change_events`` of each namespace, and how Pulsar is reached."""

    service_url: str = option(name="pulsar", example='"pulsar://broker:6650"', metavar="pulsar://HOST:PORT", url=True)
    """Pulsar's own log, in place of the embedded one: the brokers' service URL. Several hosts are separated by commas."""
    admin_url: str = option(example='"http://broker:8080"', metavar="http://HOST:PORT", url=True)
    """A broker's admin API; goes with ``pulsar``."""
    token_file: Path | None = option(None, name="pulsar_token_file", example='"/run/secrets/token"', secret=True)
    """A file with the token for Pulsar; it is read again for each connection."""
    tls_trust_certs_file: Path | None = option(
        None, name="pulsar_tls_trust_certs", default_text="those of the system", example='"/etc/pulsar/ca.pem"'
    )
    """The authorities of Pulsar's certificates, PEM."""
    tls_certificate_file: Path | None = option(None, name="pulsar_tls_certificate", example='"/etc/pulsar/sidecar.pem"')
    """The sidecar's own certificate, PEM, for brokers that request one. Without a token it authenticates the sidecar."""
    tls_key_file: Path | None = option(None, name="pulsar_tls_key", example='"/etc/pulsar/sidecar-key.pem"', secret=True)
    """The private key of ``pulsar_tls_certificate``, PEM."""
    tls_validate_hostname: bool = option(True, name="pulsar_tls_validate_hostname")
    """Whether a broker's certificate must be for the hostname by which the broker was reached."""
    oauth2: OAuth2Config | None = None
    writer: Writer = option(Writer.SHARED, read_by=ReadBy.SERVE)
    """Who writes Pulsar's log: all sidecars and brokers, or one sidecar at a time."""
    recalled_entries: int = option(RECALLED_ENTRIES, least=0, most=1_000_000)
    """The newest entries of each partition of Pulsar's log that are read as they were before compaction."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = _bad_url("The Pulsar service URL (--pulsar)", self.service_url, _PULSAR_SCHEMES)
        found += _bad_url("The admin URL (--admin-url)", self.admin_url, _ADMIN_SCHEMES)
        found += unreadable("token", self.token_file)
        found += unreadable("Pulsar trust certificate", self.tls_trust_certs_file)
        found += unreadable("Pulsar client certificate", self.tls_certificate_file)
        found += unreadable("Pulsar client key", self.tls_key_file)
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            found.append("--pulsar-tls-certificate and --pulsar-tls-key belong together.")
        if self.oauth2 is not None:
            found += self.oauth2.problems()
            if self.token_file is not None:
                found.append(
                    "A token for Pulsar comes from a file or an issuer, not both: --pulsar-token-file contradicts --pulsar-oauth2-issuer."
                )
        return found


LogConfig: TypeAlias = EmbeddedLogConfig | PulsarLogConfig


def _bad_url(what: str, url: str, schemes: tuple[str, ...]) -> list[str]:
    wanted = f"write {schemes[0]}://host:port or {schemes[1]}://host:port."
    if not url:
        return [f"{what} is missing: {wanted}"]
    scheme, _, hosts = url.partition("://")
    try:
        parts = [urlsplit(f"//{host}") for host in hosts.rstrip("/").split(",")]
        valid = all(each.hostname and each.port is not None and not each.path and each.username is None for each in parts)
    except ValueError:
        valid = False
    return [] if valid and scheme in schemes else [f'{what} "{meant_as_url(url)}" is not valid: {wanted}']
