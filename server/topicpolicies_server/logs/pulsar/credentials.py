"""How the sidecar authenticates to brokers, and how it verifies them: the same for the binary protocol and the admin API.

A token is never cached here: it is read whenever a connection is made or a request is sent, so to rotate it, replace the file.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import certifi

from ... import regular_file

_LOG = logging.getLogger(__name__)
TokenSource: TypeAlias = Callable[[], str]
"""Returns the token to use now. It is called from the event loop and from threads of pulsar-client, and may raise ``OSError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2:
    """An issuer of tokens (OAuth 2.0, client credentials): pulsar-client calls it for the binary protocol, ``oauth2`` for the admin API."""

    issuer: str
    credentials: Path
    """JSON with ``client_id`` and ``client_secret``; read for each token."""
    audience: str = ""
    scope: str = ""

    def parameters(self) -> str:
        """Returns the parameters of pulsar-client's ``AuthenticationOauth2``; there is no secret in them."""
        told = {"type": "client_credentials", "issuer_url": self.issuer, "private_key": str(self.credentials.absolute())}
        return json.dumps(told | {name: said for name in ("audience", "scope") if (said := getattr(self, name))})


Identity: TypeAlias = TokenSource | OAuth2
"""How the sidecar authenticates."""
_MOST_CHARACTERS = 65_536


def checked_token(token: str, what: str) -> str:
    """Returns a token that can be sent: printable ASCII, at most 64 KiB.

    Any other text would appear in the errors of the code that tries to send it.

    Args:
        token: the text that was read.
        what: what the text is, for the error message.

    Raises:
        OSError: the text can't be sent; the message contains nothing of it.
    """
    if not token:
        raise OSError(f"{what} is empty")
    if len(token) > _MOST_CHARACTERS or not (token.isascii() and token.isprintable() and " " not in token):
        raise OSError(f"{what} has something other than a token")
    return token


def token_from_file(path: Path) -> TokenSource:
    """Returns a source that reads the token from a file each time; spaces and line ends around it are ignored."""

    def read() -> str:
        content = regular_file.read(path, _MOST_CHARACTERS + 2)
        return checked_token(content.decode("ascii", errors="replace").strip(), f"the file {path}")

    return read


def token_from_environment(variable: str) -> TokenSource:
    """Returns a source that reads the token from an environment variable each time.

    A process's environment only changes from within, so a new token set outside has no effect.
    """

    def read() -> str:
        try:
            token = os.environ[variable].strip()
        except KeyError:
            raise OSError(f"the environment variable {variable} is not set") from None
        return checked_token(token, f"the environment variable {variable}")

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """How TLS connections are made. All files are PEM."""

    trust_certs: Path | None = None
    """The authorities that brokers' certificates are verified against; None: the authorities that the system trusts."""
    certificate: Path | None = None
    """The sidecar's own certificate, for brokers that request one."""
    key: Path | None = None
    """The private key of ``certificate``."""
    check_hostname: bool = True
    """Whether a broker's certificate must be valid for the name by which it was reached. Turn it off only where names can't be right."""

    @property
    def authorities(self) -> Path:
        """The file for a library that needs one: ``trust_certs``, else the file of the system's authorities, else Mozilla's."""
        return Path(self.trust_certs or ssl.get_default_verify_paths().cafile or certifi.where())

    def context(self) -> ssl.SSLContext:
        """Returns a context for Python's own TLS.

        Files are read each time; the system's authorities only once, which takes some 30 ms.

        Raises:
            OSError: a file can't be read, or has the wrong content (``ssl.SSLError`` is an ``OSError``).
        """
        if self.trust_certs is None and self.certificate is None:
            return _of_the_system(self.check_hostname)
        for each in (self.trust_certs, self.certificate, self.key):
            if each is not None:
                regular_file.checked(each)
        context = _trusting(self.trust_certs, self.check_hostname)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key, password=str)  # an empty password, so that OpenSSL never prompts for one
        return context


class LiveContext:
    """A TLS context that follows changes of its files. If new files can't be used, the old context stays in force, which is logged once."""

    def __init__(self, tls: TlsOptions) -> None:
        """Reads the files.

        Raises:
            OSError: as ``TlsOptions.context``.
        """
        self._tls = tls
        self._files = [each for each in (tls.trust_certs, tls.certificate, tls.key) if each is not None]
        self._seen = self._look()
        self._problem = ""
        self.context = tls.context()
        """The context for new connections, from the files as they were when they were last read."""

    def renew(self) -> bool:
        """Reads the files if they have changed; returns whether there is a new context."""
        if not self._files or (seen := self._look()) == self._seen:
            return False
        try:
            context = self._tls.context()
        except OSError as error:
            if self._problem != (problem := str(error)):
                _LOG.warning("TLS to Pulsar: %s; the former content stays in force", problem)
            self._problem = problem
            return False
        self.context, self._seen, self._problem = context, seen, ""
        _LOG.info("TLS to Pulsar: read again, and in force")
        return True

    def _look(self) -> list[regular_file.Signature | None]:
        return [regular_file.signature(each) for each in self._files]


def _trusting(authorities: Path | None, check_hostname: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_hostname
    return context


@functools.cache
def _of_the_system(check_hostname: bool) -> ssl.SSLContext:
    """Returns a context shared by all clients that need no other: connections do not change it."""
    return _trusting(None, check_hostname)
