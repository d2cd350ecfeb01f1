"""Authentication and TLS of the library's connections.

The library reads certificates, keys and authorities for each new connection, and requests the token then, so to rotate them, replace the
files.
"""

from __future__ import annotations

import logging
from typing import Any

import _pulsar

from ..credentials import Identity, OAuth2, TlsOptions, TokenSource

_log = logging.getLogger(__name__)
_WITH_TLS = "pulsar+ssl"


def secure(configuration: Any, service_url: str, token: Identity | None, tls: TlsOptions) -> None:
    """Configures authentication and TLS of a client.

    Args:
        configuration: the library's client configuration.
        service_url: where the client will connect; its scheme says whether with TLS.
        token: what authenticates the sidecar; None: its certificate, if it has one.
        tls: how to verify brokers' certificates.
    """
    secured = service_url.startswith(_WITH_TLS)
    if isinstance(token, OAuth2):
        configuration.authentication(_pulsar.AuthenticationOauth2.create(token.parameters()))
    elif token is not None:
        configuration.authentication(_pulsar.AuthenticationToken.create(_harmless(token)))
    elif secured and tls.certificate is not None and tls.key is not None:
        configuration.authentication(_pulsar.AuthenticationTLS.create(str(tls.certificate), str(tls.key)))
    if secured:
        _configure_tls(configuration, tls)


def _configure_tls(configuration: Any, tls: TlsOptions) -> None:
    configuration.tls_allow_insecure_connection(False)
    configuration.tls_validate_hostname(tls.check_hostname)
    # The library's own path to the system's authorities is that of the machine it was built on.
    configuration.tls_trust_certs_file_path(str(tls.authorities))
    if tls.certificate is not None and tls.key is not None:
        configuration.tls_certificate_file_path(str(tls.certificate))
        configuration.tls_private_key_file_path(str(tls.key))


def _harmless(token: TokenSource) -> TokenSource:
    """Wraps a token source for threads of the library: if the token can't be read, it returns an empty one, which brokers refuse."""

    def read() -> str:
        try:
            return token()
        except Exception as error:  # noqa: BLE001 (raising here would end the process)
            _log.warning("The token for Pulsar can't be read: %s", getattr(error, "strerror", None) or type(error).__name__)
            return ""

    return read
