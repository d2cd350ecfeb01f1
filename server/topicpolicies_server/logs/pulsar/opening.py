"""Creates the clients for the brokers from a configuration: the change logs, and the admin API with the same credentials."""

from __future__ import annotations

from collections.abc import Callable

from ...config import Limits, PulsarLogConfig, Writer
from .access import PulsarLimits
from .admin import Admin
from .credentials import Identity, OAuth2, TlsOptions, token_from_file
from .log import PulsarLog


def pulsar_log(config: PulsarLogConfig, limits: Limits, advertised: Callable[[], str] | None = None) -> PulsarLog:
    """Returns the change logs of a cluster. Nothing is connected yet.

    ``advertised`` returns where clients reach this process; None: this process never writes, so it never is the one writer of a log.
    """
    exclusive = config.writer is Writer.EXCLUSIVE
    return PulsarLog(
        config.service_url,
        config.admin_url,
        token=identity_of(config),
        tls=tls_of(config),
        limits=PulsarLimits(recalled=config.recalled_entries, in_flight=limits.max_in_flight_per_namespace),
        advertised=advertised if exclusive else None,
    )


def admin_api(config: PulsarLogConfig) -> Admin:
    """Returns a client of a cluster's admin API. Nothing is connected yet.

    Raises:
        OSError: a TLS file can't be used.
    """
    return Admin(config.admin_url, token=identity_of(config), tls=tls_of(config))


def identity_of(config: PulsarLogConfig) -> Identity | None:
    """Returns what authenticates the sidecar; None: nothing does, or only a certificate."""
    issued = config.oauth2
    if issued is not None and issued.credentials_file is not None:
        return OAuth2(issuer=issued.issuer, credentials=issued.credentials_file, audience=issued.audience, scope=issued.scope)
    return None if config.token_file is None else token_from_file(config.token_file)


def tls_of(config: PulsarLogConfig) -> TlsOptions:
    """Returns how TLS connections to brokers are made."""
    return TlsOptions(
        trust_certs=config.tls_trust_certs_file,
        certificate=config.tls_certificate_file,
        key=config.tls_key_file,
        check_hostname=config.tls_validate_hostname,
    )
