"""The server's certificate, its key, and the authorities of client certificates, which are read again while the server runs.

gRPC asks for them at each handshake, on threads of its own, and is given what has been read and checked already. An open connection keeps
what it was made with; where clients have certificates it is closed after ten minutes (``listening``), so that its client shows one again.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from .. import files
from ..config import TlsConfig
from ..files import Reloader

_TRIES = 3
"""How often files are read that change while they are read."""


class Pem(NamedTuple):
    """The contents of the files. ``authority``: None where client certificates are not asked for."""

    certificate: bytes
    key: bytes
    authority: bytes | None

    def __repr__(self) -> str:
        return "Pem(...)"  # the key must not get into logs


def read_pem(tls: TlsConfig) -> Pem:
    """Reads the files, and checks that they can be used: the key fits the certificate, and the authorities can be read.

    Raises:
        OSError: the files can't be read or used. Its message contains nothing of what they hold.
    """
    for _ in range(_TRIES):
        pem = _content(tls)
        _check_pair(tls.certificate_file, tls.key_file)
        if tls.client_ca_file is not None:
            _check_authority(tls.client_ca_file, pem.authority or b"")
        if pem == _content(tls):  # what was checked is what was read
            return pem
    raise OSError(f"{tls.certificate_file} and {tls.key_file} change while they are read")


class Certificates:
    """The certificate that a server presents, and the authorities whose client certificates it accepts."""

    def __init__(self, tls: TlsConfig) -> None:
        """Reads the files.

        Raises:
            OSError: as ``read_pem``.
        """
        self._tls = tls
        self._first = read_pem(tls)
        self.ends_at = _end_of(self._first.certificate)
        """When the first certificate of the chain in force expires, in seconds since 1970; None: the chain can't be parsed for that."""
        self._next: deque[grpc.ServerCertificateConfiguration] = deque(maxlen=1)
        """The configuration that gRPC has not fetched yet, if there is one. Its threads take it in one atomic step."""

    def credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials for one address of a server."""
        strict = self._tls.client_ca_file is not None
        fetch: Callable[[], Any] = self._fetch  # gRPC's types do not say that it may be None
        return grpc.dynamic_ssl_server_credentials(_configuration(self._first), fetch, require_client_authentication=strict)

    def follow(self, reloader: Reloader) -> None:
        """Has ``reloader`` read the files again from now on."""
        tls = self._tls
        files = [each for each in (tls.certificate_file, tls.key_file, tls.client_ca_file) if each is not None]
        reloader.add("TLS of the server", files, lambda: read_pem(tls), self._take, self._first)

    def _take(self, pem: Pem) -> None:
        self._next.append(_configuration(pem))
        self.ends_at = _end_of(pem.certificate)

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Returns the new configuration; None: there is none. A thread of gRPC calls this, and must not be blocked."""
        try:
            return self._next.pop()
        except IndexError:
            return None


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], pem.authority)


def _end_of(chain: bytes) -> float | None:
    from cryptography import x509  # noqa: PLC0415 - it takes a tenth of a second to import, and servers without TLS need none of it

    try:
        return min(each.not_valid_after_utc.timestamp() for each in x509.load_pem_x509_certificates(chain))
    except ValueError:  # OpenSSL accepts some certificates that this library does not
        return None


def _content(tls: TlsConfig) -> Pem:
    read = files.read
    return Pem(read(tls.certificate_file), read(tls.key_file), read(tls.client_ca_file) if tls.client_ca_file is not None else None)


def _check_pair(certificate: Path, key: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT@SECLEVEL=0")  # clients decide how strong key and certificate have to be
    try:
        context.load_cert_chain(certificate, key, password=str)  # never asked for at a terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise OSError(f"the key {key} does not belong to the certificate {certificate}") from None
        raise OSError(f"{certificate} and {key} are not a certificate and key in PEM without a password ({_reason(error)})") from None


def _check_authority(path: Path, content: bytes) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=content.decode("ascii", errors="replace"))
    except (ssl.SSLError, ValueError) as error:
        raise OSError(f"{path} has no certificates of an authority in PEM ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).lower().replace("_", " ")
