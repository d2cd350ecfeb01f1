"""How the sidecar authenticates to brokers, and how it verifies them: the same for the binary protocol and the admin API.

A token in a file is read whenever a connection is made or a request is sent, so to rotate it, replace the file. A token of an issuer
(OAuth 2.0, client credentials) is requested by pulsar-client for the binary protocol, and by ``Tokens`` for the admin API; it is used until
shortly before it expires, or until brokers refuse it. The credentials are read from their file for each request, and are sent to the issuer
only.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import ssl
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
_SECONDS = 8.0
"""How long an issuer may take for discovery and token together; an attempt at the admin API has 10 s."""
_MOST_BYTES = 256 * 1024
_DISCOVERY = "/.well-known/openid-configuration"
_EARLIER_SECONDS = 60.0
_EARLIER_PART = 0.2
"""A new token is requested this long before the old one expires: a minute, or a fifth of its lifetime if that is less."""
_UNSAID_SECONDS = 300.0
"""How long a token is used if the issuer does not say how long it is valid."""
_CODE = re.compile(r"[a-z_]{1,60}")
"""The form of an issuer's error code (RFC 6749, 5.2)."""

TokenSource: TypeAlias = Callable[[], str]
"""Returns the token to use now. It is called from the event loop and from threads of pulsar-client, and may raise ``OSError``."""


Identity: TypeAlias = TokenSource | OAuth2Config
"""How the sidecar authenticates."""


def scoped(oauth2: OAuth2Config) -> dict[str, str]:
    """Returns what a token is requested for, by the names of OAuth 2.0."""
    return {name: said for name, said in (("audience", oauth2.audience), ("scope", oauth2.scope)) if said}


def oauth2_parameters(oauth2: OAuth2Config) -> str:
    """Returns the parameters of pulsar-client's ``AuthenticationOauth2``; there is no secret in them."""
    key = oauth2.credentials_file.absolute()
    return json.dumps({"type": "client_credentials", "issuer_url": oauth2.issuer, "private_key": str(key), **scoped(oauth2)})


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


class Tokens:
    """The tokens for the admin API. An instance belongs to the event loop that it is first used on."""

    def __init__(self, identity: Identity | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Reads and requests nothing yet. ``identity``: the source of the token, or its issuer; None: there is no token."""
        self._identity = identity
        self._clock = clock
        self._token = ""
        self._until = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def token(self) -> str:
        """Returns the token to send now; "" if there is none to send. Callers share a request to the issuer.

        Raises:
            OSError: the token can't be read, or the issuer gives none; the message contains no secret.
        """
        if self._identity is None:
            return ""
        if not isinstance(self._identity, OAuth2Config):
            return _read_now(self._identity)
        if not self._token or self._clock() >= self._until:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.get_running_loop().create_task(self._ask(self._identity), name="token for Pulsar")
            asking = self._asking
            await asyncio.wait({asking})  # a caller that is cancelled does not end it for the others
            if asking.cancelled():
                raise OSError("the client was closed")
            asking.result()
        return self._token

    def refused(self, token: str) -> None:
        """Forgets an issuer's token that brokers do not accept although it has not expired."""
        if token == self._token:
            self._token = ""

    async def close(self) -> None:
        """Cancels a request that is under way."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self, oauth2: OAuth2Config) -> None:
        issuer = oauth2.issuer.rstrip("/")
        where = urlsplit(issuer).netloc
        form = {"grant_type": "client_credentials", **_credentials(oauth2.credentials_file), **scoped(oauth2)}
        try:
            async with asyncio.timeout(_SECONDS), httpx.AsyncClient(verify=TlsOptions().context(), trust_env=False) as http:
                found = await _json(http, "GET", issuer + _DISCOVERY)
                endpoint = str(found.get("token_endpoint", ""))
                if urlsplit(endpoint).scheme != "https" and urlsplit(issuer).scheme == "https":
                    raise OSError(f"the issuer {where} has no token endpoint with TLS")
                told = await _json(http, "POST", endpoint, data=form)
        except TimeoutError:
            raise OSError(f"the issuer {where} did not answer within {_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(f"the issuer {where} can't be reached ({type(error).__name__})") from None
        token = checked_token(str(told.get("access_token") or ""), f"what the issuer {where} gives")
        seconds = _seconds(told.get("expires_in"))
        self._token, self._until = token, self._clock() + seconds - min(_EARLIER_SECONDS, _EARLIER_PART * seconds)


def _read_now(source: TokenSource) -> str:
    try:
        return checked_token(source(), "the token")
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 (whoever gives the token may fail in any way, and its words may hold it)
        problem = type(error).__name__
    raise OSError(f"reading the token failed: {problem}")


def _credentials(path: Path) -> dict[str, str]:
    try:
        read = json.loads(files.read(path))
        return {name: str(read[name]) for name in ("client_id", "client_secret")}
    except (ValueError, TypeError, LookupError, RecursionError):
        raise OSError(f"the file {path} is not JSON with client_id and client_secret") from None


async def _json(http: httpx.AsyncClient, method: str, url: str, **content: Any) -> dict[str, Any]:
    async with http.stream(method, url, headers={"accept": "application/json"}, **content) as answer:
        body = b""
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > _MOST_BYTES:
                raise OSError(f"the issuer {urlsplit(url).netloc} answered more than {_MOST_BYTES:,} bytes")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if answer.status_code != httpx.codes.OK or not isinstance(found, dict):
        code = str(found.get("error", "")) if isinstance(found, dict) else ""
        why = f" ({code})" if _CODE.fullmatch(code) else ""
        raise OSError(f"the issuer {urlsplit(url).netloc} answers {answer.status_code}{why} to the request for a token")
    return found


def _seconds(said: object) -> float:
    try:
        seconds = float(str(said))
    except ValueError:
        return _UNSAID_SECONDS
    return seconds if 0 < seconds < float("inf") else _UNSAID_SECONDS


def identity_of(config: PulsarLogConfig) -> Identity | None:
    """Returns what authenticates the sidecar; None: nothing does, or only a certificate."""
    return config.oauth2 or (None if config.token_file is None else token_from_file(config.token_file))


def tls_of(config: PulsarLogConfig) -> TlsOptions:
    """Returns how TLS connections to brokers are made."""
    return TlsOptions(
        trust_certs=config.tls_trust_certs_file,
        certificate=config.tls_certificate_file,
        key=config.tls_key_file,
        check_hostname=config.tls_validate_hostname,
    )
