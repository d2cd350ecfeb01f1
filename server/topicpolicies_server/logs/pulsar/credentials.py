"""How the sidecar shows brokers who it is, and how it checks who they are: the same for the binary protocol and the admin API.

A token is never kept: it is asked for whenever a connection is made or a call is sent, so that whoever rotates it only replaces the file.
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
"""Gives the token to use now. It is called from the event loop and from threads of pulsar-client, and may raise ``OSError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2:
    """An issuer of tokens (OAuth 2.0, client credentials): pulsar-client asks it for the binary protocol, ``oauth2`` for the admin API."""

    issuer: str
    credentials: Path
    """JSON with ``client_id`` and ``client_secret``; read for each token."""
    audience: str = ""
    scope: str = ""

    def parameters(self) -> str:
        """What ``AuthenticationOauth2`` of pulsar-client is told; there is no secret in it."""
        told = {"type": "client_credentials", "issuer_url": self.issuer, "private_key": str(self.credentials.absolute())}
        return json.dumps(told | {name: said for name in ("audience", "scope") if (said := getattr(self, name))})


Identity: TypeAlias = TokenSource | OAuth2
"""What says who the sidecar is."""
_MOST_CHARACTERS = 65_536


def checked_token(token: str, what: str) -> str:
    """A token that can be sent: printable ASCII, at most 64 KiB. Others would stand in the errors of those who try to send them.

    Args:
        token: as it was read.
        what: it is, for people.

    Raises:
        OSError: it can't be sent, in words that hold nothing of it.
    """
    if not token:
        raise OSError(f"{what} is empty")
    if len(token) > _MOST_CHARACTERS or not (token.isascii() and token.isprintable() and " " not in token):
        raise OSError(f"{what} holds something else than a token")
    return token


def token_from_file(path: Path) -> TokenSource:
    """A token that is read from a file each time; spaces and line ends around it don't count."""

    def read() -> str:
        content = regular_file.read(path, _MOST_CHARACTERS + 2)
        return checked_token(content.decode("ascii", errors="replace").strip(), f"the file {path}")

    return read


def token_from_environment(variable: str) -> TokenSource:
    """A token that is read from an environment variable each time.

    It is not re-read from outside: a process's environment only changes from within.
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
    """The authorities that brokers' certificates are checked against; None: those that the system trusts."""
    certificate: Path | None = None
    """The sidecar's own certificate, where brokers ask for one."""
    key: Path | None = None
    """The private key of ``certificate``."""
    check_hostname: bool = True
    """Whether a broker's certificate must be for the name that it was reached by. Turn it off only where names can't be right."""

    @property
    def authorities(self) -> Path:
        """The file for a library that can't be told to take the system's: ``trust_certs``, else the system's, else Mozilla's."""
        return Path(self.trust_certs or ssl.get_default_verify_paths().cafile or certifi.where())

    def context(self) -> ssl.SSLContext:
        """These options for Python's own TLS. Files are read anew each time; the system's authorities once, which takes some 30 ms.

        Raises:
            OSError: a file can't be read, or holds something else (``ssl.SSLError`` is one).
        """
        if self.trust_certs is None and self.certificate is None:
            return _of_the_system(self.check_hostname)
        for each in (self.trust_certs, self.certificate, self.key):
            if each is not None:
                regular_file.checked(each)
        context = _trusting(self.trust_certs, self.check_hostname)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key, password=str)  # never asked for at a terminal
        return context


class LiveContext:
    """A TLS context for the connections from now on. What can't be used leaves in force what was read before, and is told once."""

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
        """As the files were when they were read."""

    def renew(self) -> bool:
        """Reads the files, if they have changed; whether there is another context now."""
        if not self._files or (seen := self._look()) == self._seen:
            return False
        try:
            context = self._tls.context()
        except OSError as error:
            if self._problem != (problem := str(error)):
                _LOG.warning("TLS towards Pulsar: %s; what was read before stays in force", problem)
            self._problem = problem
            return False
        self.context, self._seen, self._problem = context, seen, ""
        _LOG.info("TLS towards Pulsar: read anew, and in force")
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
    """Shared by all clients that need nothing else: connections change nothing of it."""
    return _trusting(None, check_hostname)
