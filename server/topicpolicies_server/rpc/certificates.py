"""The server's certificate, its key, and the authority of its clients, which are read anew while it runs.

gRPC asks for them at each handshake, on threads of its own, and is given what has been read and checked already. Connections that are open
go on with what they were made with; what is asked on those of clients is judged by the present authorities (``trusting``).
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from .. import regular_file
from ..config import TlsConfig
from ..rereading import Rereading

_TRIES = 3
"""How often a pair is read that changes while it is."""


class Pem(NamedTuple):
    """What the files hold."""

    certificate: bytes
    key: bytes
    authority: bytes | None

    def __repr__(self) -> str:
        return "Pem(...)"  # a key is shown to nobody


def read_pem(tls: TlsConfig) -> Pem:
    """What the files hold now, checked: the key fits the certificate.

    Raises:
        OSError: that can't be used; in words that hold nothing of it.
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
    """What a server shows, and whom it lets in."""

    def __init__(self, tls: TlsConfig) -> None:
        """Reads the files.

        Raises:
            OSError: as ``read_pem``.
        """
        self._tls = tls
        self._first = read_pem(tls)
        self.ends_at = _end_of(self._first.certificate)
        """When the chain in force ends, in seconds since 1970: its certificate that ends first; None: that can't be read."""
        self._next: deque[grpc.ServerCertificateConfiguration] = deque(maxlen=1)
        """What gRPC has not been told yet. Its threads take it, in one step."""
        self._authority = self._first.authority
        self._trusted: Callable[[bytes], None] | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """For one address of a server."""
        strict = self._tls.client_ca_file is not None
        fetch: Callable[[], Any] = self._fetch  # gRPC's types do not say that it may be None
        return grpc.dynamic_ssl_server_credentials(_configuration(self._first), fetch, require_client_authentication=strict)

    def follow(self, rereading: Rereading, trusted: Callable[[bytes], None] | None = None) -> None:
        """Reads the files anew from now on.

        Args:
            rereading: does.
            trusted: told the authorities of clients, PEM, whenever they are others; None: nobody asks.
        """
        self._trusted = trusted
        tls = self._tls
        files = [each for each in (tls.certificate_file, tls.key_file, tls.client_ca_file) if each is not None]
        rereading.add("TLS of the server", files, lambda: read_pem(tls), self._take, self._first)

    def _take(self, pem: Pem) -> None:
        self._next.append(_configuration(pem))
        if self._trusted is not None and pem.authority is not None and pem.authority != self._authority:
            self._trusted(pem.authority)
        self._authority = pem.authority
        self.ends_at = _end_of(pem.certificate)

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """What is new; None: nothing. A thread of gRPC's calls it, which must not wait for anything."""
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
    except ValueError:  # OpenSSL takes some that this library does not
        return None


def _content(tls: TlsConfig) -> Pem:
    authority = regular_file.read(tls.client_ca_file) if tls.client_ca_file is not None else None
    return Pem(regular_file.read(tls.certificate_file), regular_file.read(tls.key_file), authority)


def _check_pair(certificate: Path, key: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT@SECLEVEL=0")  # how strong they have to be is for whoever connects
    try:
        context.load_cert_chain(certificate, key, password=str)  # never asked for at a terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise OSError(f"the key {key} does not fit the certificate {certificate}") from None
        raise OSError(f"{certificate} and {key} are no certificate and key in PEM without a password ({_reason(error)})") from None


def _check_authority(path: Path, content: bytes) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=content.decode("ascii", errors="replace"))
    except (ssl.SSLError, ValueError) as error:
        raise OSError(f"{path} holds no certificates of an authority in PEM ({_reason(error)})") from None
    from ..access.trust import certificates_of  # noqa: PLC0415 - as in rpc.server: cryptography takes a tenth of a second to import

    try:
        certificates_of(content)
    except ValueError as error:
        raise OSError(f"{path} can't be used: {error}") from None


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).lower().replace("_", " ")
