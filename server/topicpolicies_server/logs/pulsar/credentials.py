"""How the sidecar authenticates to brokers, and how it verifies them: the same for the binary protocol and the admin API.

A token in a file is read whenever a connection is made or a request is sent, so to rotate it, replace the file. A token of an issuer
(OAuth 2.0, client credentials) is used until shortly before it expires, or until brokers refuse it. The credentials are read from their
file for each request, and are sent to the issuer only.
"""

from __future__ import annotations

import functools
import json
import re
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import certifi
import httpx

from ... import files
from ...config import OAuth2Config, PulsarLogConfig

_MOST_CHARACTERS = 65_536
_SECONDS = 4.0
"""How long an issuer may take for a connection or for a piece of an answer; an attempt at the admin API has 10 s."""
_DISCOVERY = "/.well-known/openid-configuration"
_EARLIER_SECONDS = 60.0
_EARLIER_PART = 0.2
"""A new token is requested this long before the old one expires: a minute, or a fifth of its lifetime if that is less."""
_UNSAID_SECONDS = 300.0
"""How long a token is used if the issuer does not say how long it is valid."""
_CODE = re.compile(r"[a-z_]{1,60}")
"""The form of an issuer's error code (RFC 6749, 5.2)."""

TokenSource: TypeAlias = Callable[[], str]
"""Returns the token to use now, which can be sent (``checked_token``). It is called in threads, and may raise ``OSError``."""


def checked_token(token: str, what: str) -> str:
    """Returns a token that can be sent: printable ASCII, at most 64 KiB.

    Any other text would appear in the errors of the code that tries to send it. ``what``: what the text is, for the error message.

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
        content = files.read(path, _MOST_CHARACTERS + 2)
        return checked_token(content.decode("ascii", errors="replace").strip(), f"the file {path}")

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

    @property
    def _files(self) -> list[Path]:
        return [each for each in (self.trust_certs, self.certificate, self.key) if each is not None]

    def signatures(self) -> list[files.Signature | None]:
        """Returns a value that changes whenever a file is written; an empty list if no file is named."""
        return [files.signature(each) for each in self._files]

    def context(self) -> ssl.SSLContext:
        """Returns a context for Python's own TLS. Files are read each time; the system's authorities only once, which takes some 30 ms.

        Raises:
            OSError: a file can't be read, or has the wrong content (``ssl.SSLError`` is an ``OSError``).
        """
        if self.trust_certs is None and self.certificate is None:
            return _of_the_system(self.check_hostname)
        for each in self._files:
            files.checked(each)
        context = _trusting(self.trust_certs, self.check_hostname)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key, password=str)  # an empty password, so that OpenSSL never prompts for one
        return context


def _trusting(authorities: Path | None, check_hostname: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authorities)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 sets it; the client library does without key identifiers
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_hostname
    return context


@functools.cache
def _of_the_system(check_hostname: bool) -> ssl.SSLContext:
    """Returns a context shared by all clients that need no other: connections do not change it."""
    return _trusting(None, check_hostname)


class IssuedToken:
    """The token of an issuer (OAuth 2.0, client credentials): a ``TokenSource``. Requests a token when the last one is about to expire."""

    def __init__(self, oauth2: OAuth2Config, clock: Callable[[], float] = time.monotonic) -> None:
        """Requests nothing yet."""
        self._oauth2 = oauth2
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def __call__(self) -> str:
        """Returns the token to use now. Callers share a request to the issuer.

        Raises:
            OSError: the issuer gives none; the message contains no secret.
        """
        with self._lock:
            if not self._token or self._clock() >= self._until:
                self._token, seconds = _issued(self._oauth2)
                self._until = self._clock() + seconds - min(_EARLIER_SECONDS, _EARLIER_PART * seconds)
            return self._token

    def refused(self, token: str) -> None:
        """Forgets a token that brokers do not accept although it has not expired."""
        if token == self._token:
            self._until = 0.0


def _issued(oauth2: OAuth2Config) -> tuple[str, float]:
    """Requests a token, and returns it with the seconds for which it is valid."""
    issuer = oauth2.issuer.rstrip("/")
    where = urlsplit(issuer).netloc
    form = {"grant_type": "client_credentials", **_credentials(oauth2.credentials_file)}
    form |= {name: said for name, said in (("audience", oauth2.audience), ("scope", oauth2.scope)) if said}
    try:
        with httpx.Client(verify=TlsOptions().context(), timeout=_SECONDS, trust_env=False) as http:
            endpoint = str(_object(http.get(issuer + _DISCOVERY)).get("token_endpoint", ""))
            if urlsplit(endpoint).scheme != "https" and urlsplit(issuer).scheme == "https":
                raise OSError(f"the issuer {where} has no token endpoint with TLS")
            told = _object(http.post(endpoint, data=form))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise OSError(f"the issuer {where} can't be reached ({type(error).__name__})") from None
    token = checked_token(str(told.get("access_token") or ""), f"what the issuer {where} gives")
    return token, _seconds(told.get("expires_in"))


def _credentials(path: Path) -> dict[str, str]:
    try:
        read = json.loads(files.read(path))
        return {name: str(read[name]) for name in ("client_id", "client_secret")}
    except (ValueError, TypeError, LookupError, RecursionError):
        raise OSError(f"the file {path} is not JSON with client_id and client_secret") from None


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        found = None
    if not answer.is_success or not isinstance(found, dict):
        code = str(found.get("error", "")) if isinstance(found, dict) else ""
        why = f" ({code})" if _CODE.fullmatch(code) else ""
        raise OSError(f"the issuer {answer.url.netloc.decode()} answers {answer.status_code}{why} to the request for a token")
    return found


def _seconds(said: object) -> float:
    try:
        seconds = float(str(said))
    except ValueError:
        return _UNSAID_SECONDS
    return seconds if 0 < seconds < float("inf") else _UNSAID_SECONDS


def token_of(config: PulsarLogConfig) -> TokenSource | None:
    """Returns the source of the sidecar's tokens; None: nothing authenticates it, or only a certificate."""
    if config.oauth2 is not None:
        return IssuedToken(config.oauth2)
    return None if config.token_file is None else token_from_file(config.token_file)


def tls_of(config: PulsarLogConfig) -> TlsOptions:
    """Returns how TLS connections to brokers are made."""
    return TlsOptions(
        trust_certs=config.tls_trust_certs_file,
        certificate=config.tls_certificate_file,
        key=config.tls_key_file,
        check_hostname=config.tls_validate_hostname,
    )
