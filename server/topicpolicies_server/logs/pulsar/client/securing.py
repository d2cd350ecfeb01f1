"""How a connection of the library's shows who the sidecar is, and checks who brokers are.

The library reads certificates, keys and authorities for each connection, and asks for the token then, so whoever rotates them only replaces
the files.
"""

from __future__ import annotations

import logging
from typing import Any

import _pulsar

from ..credentials import Identity, OAuth2, TlsOptions, TokenSource

_log = logging.getLogger(__name__)
_WITH_TLS = "pulsar+ssl"


def secure(configuration: Any, service_url: str, token: Identity | None, tls: TlsOptions) -> None:
    """Tells a client's configuration.

    Args:
        configuration: the library's.
        service_url: where it will connect; by its scheme with TLS or without.
        token: what says who the sidecar is; None: its certificate, if it has one.
        tls: how to check brokers' certificates.
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
    # The library's own idea of the system's authorities is that of the machine it was built on.
    configuration.tls_trust_certs_file_path(str(tls.authorities))
    if tls.certificate is not None and tls.key is not None:
        configuration.tls_certificate_file_path(str(tls.certificate))
        configuration.tls_private_key_file_path(str(tls.key))


def _harmless(token: TokenSource) -> TokenSource:
    """The token for threads of the library: where it can't be had, an empty one, which brokers refuse."""

    def read() -> str:
        try:
            return token()
        except Exception as error:  # noqa: BLE001 (raising here would end the process)
            _log.warning("The token for Pulsar can't be read: %s", getattr(error, "strerror", None) or type(error).__name__)
            return ""

    return read
