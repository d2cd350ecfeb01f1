"""The change logs: the embedded one, or Pulsar's own, and how Pulsar is reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from .option import ReadBy, option, url_of

RECALLED_ENTRIES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedLogConfig:
    """The embedded durable log, which needs no broker. Without a path it is in a temporary file, and ends with the process."""

    path: Path | None = option(
        name="data",
        default_text="policies.db in your data folder, unless ``pulsar`` is given",
        example='"policies.db"',
        metavar="FILE.db",
        readable=False,
    )
    """The embedded log, without a broker: one SQLite file, created if missing."""
    cluster_file: Path | None = option(None, example='"cluster.toml"', metavar="FILE.toml")
    """A file with what is known about the cluster; goes with ``data``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2Config:
    """Tokens for Pulsar by OAuth 2.0 with client credentials, as in ``AuthenticationOauth2`` of Pulsar's clients."""

    issuer: str = option(name="pulsar_oauth2_issuer", example='"https://issuer.example"', **url_of("https", "http"))
    """The issuer from which tokens for Pulsar are requested (OAuth 2.0, client credentials), in place of ``pulsar_token_file``."""
    credentials_file: Path = option(
        name="pulsar_oauth2_credentials", example='"/run/secrets/credentials.json"', metavar="FILE.json", secret=True
    )
    """The sidecar's credentials at the issuer: JSON with ``client_id`` and ``client_secret``, as for Pulsar's own clients."""
    audience: str = option("", name="pulsar_oauth2_audience", example='"urn:pulsar:cluster"')
    """The audience of the tokens: the issuer's name for Pulsar."""
    scope: str = option("", name="pulsar_oauth2_scope", example='"api://pulsar/.default"')
    """The scope that is requested from the issuer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarLogConfig:
    """Pulsar's own change logs, ``__change_events`` of each namespace, and how Pulsar is reached."""

    service_url: str = option(name="pulsar", example='"pulsar://broker:6650"', **url_of("pulsar", "pulsar+ssl", hosts=True))
    """Pulsar's own log, in place of the embedded one: the brokers' service URL. Several hosts are separated by commas."""
    admin_url: str = option(example='"http://broker:8080"', **url_of("http", "https", hosts=True))
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
    writer: Literal["shared", "exclusive"] = option("shared", read_by=ReadBy.SERVE)
    """Who writes Pulsar's log: all sidecars and brokers, or one sidecar at a time."""
    recalled_entries: int = option(RECALLED_ENTRIES, least=0, most=1_000_000)
    """The newest entries of each partition of Pulsar's log that are read as they were before compaction."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = []
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            found.append("--pulsar-tls-certificate and --pulsar-tls-key belong together.")
        if self.oauth2 is not None and self.token_file is not None:
            found.append(
                "A token for Pulsar comes from a file or an issuer, not both: --pulsar-token-file contradicts --pulsar-oauth2-issuer."
            )
        return found


LogConfig: TypeAlias = EmbeddedLogConfig | PulsarLogConfig
