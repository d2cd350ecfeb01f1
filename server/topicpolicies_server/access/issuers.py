"""Verifies tokens of OpenID Connect with the keys that their issuers publish (JWKS, RFC 7517).

An issuer says where its keys are (OpenID Connect Discovery 1.0).

The keys of an issuer are requested at the start and every ``REFRESH_SECONDS``; after a failure every ``ASK_SECONDS``; and at once for a
token of a key that is not known, whose call waits for the answer. An issuer is asked at most once in ``ASK_SECONDS``, whatever callers
send. While it does not answer, its keys stay in force for ``LAST_SECONDS``. Keys that are in a file stay in force, and their issuer is not
asked. An issuer's answers are trusted as its tokens are: they may be of any size.

Source: PIP-257, ``AuthenticationProviderOpenID``.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import httpx
import jwt

from ..config import OidcConfig
from ..config.address import is_private
from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..tasks import TaskSet
from .caller import Caller, Way, invalid
from .keys import Key, KeyUnusable, of_public
from .tokens import UnverifiedClaims, caller_of, check_audience, verified

_LOG = logging.getLogger(__name__)
REFRESH_SECONDS = 900.0
ASK_SECONDS = 10.0
LAST_SECONDS = 86_400.0
TOTAL_SECONDS = 5.0
"""How long an issuer may take for both answers together: calls wait for it."""
_DISCOVERY = "/.well-known/openid-configuration"

KeySet: TypeAlias = tuple[tuple[str, Key], ...]
"""The keys of an issuer, each with its id; "": it has none."""


def key_set(content: bytes) -> KeySet:
    """Reads the keys in the bytes of a JWKS, without those that sign no tokens, secret and private ones.

    Raises:
        KeyUnusable: the bytes are no JWKS, or no key in it verifies tokens.
    """
    try:
        listed = jwt.PyJWKSet.from_json(content.decode()).keys
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise KeyUnusable("it is no set of keys (JWKS)") from error
    found = []
    for each in listed:
        if each.public_key_use in (None, "sig"):
            with suppress(KeyUnusable):  # a secret or private key is none
                found.append((each.key_id or "", of_public(each.key)._replace(algorithms=(each.algorithm_name,))))
    if not found:
        raise KeyUnusable("it has no public key for signatures of tokens")
    return tuple(found)


class Unanswered(Exception):
    """Raised if an issuer gave no keys; the text is a clause that says why."""


def trusting(certificates: Path | None) -> ssl.SSLContext:
    """Returns the TLS of requests to issuers. ``certificates``: the authorities to trust; None: those of the system.

    Raises:
        RuntimeError: the file can't be used.
    """
    try:
        trusted = ssl.create_default_context(cafile=certificates)
    except OSError as error:
        raise RuntimeError(f'"{certificates}" can\'t be used as OpenID Connect trust certificate: {error.strerror}') from error
    trusted.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 sets it; private authorities often give no key identifiers
    return trusted


async def fetch_keys(trusted: ssl.SSLContext, issuer: str) -> KeySet:
    """Requests the keys of an issuer, from where its discovery document says that they are.

    Raises:
        Unanswered: the issuer gives no keys, or not in ``TOTAL_SECONDS``.
    """
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            # never through a proxy of the environment by http: only an issuer on this machine may have that
            async with httpx.AsyncClient(verify=trusted, timeout=TOTAL_SECONDS, mounts={"http://": None}) as http:
                where = _keys_url(issuer, await _get(http, issuer.removesuffix("/") + _DISCOVERY))
                return key_set((await _get(http, where)).content)
    except TimeoutError as error:
        raise Unanswered(f"no answer in {TOTAL_SECONDS:g} s") from error
    except KeyUnusable as error:
        raise Unanswered(f"its answer is not a set of keys: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError) as error:  # their texts may have a proxy's password
        raise Unanswered(f"it does not answer, or a proxy in the environment can't be used: {type(error).__name__}") from error


async def _get(http: httpx.AsyncClient, url: str) -> httpx.Response:
    response = await http.get(url)
    if response.status_code != httpx.codes.OK:
        raise Unanswered(f"it answers with status {response.status_code}")
    return response


def _keys_url(issuer: str, discovery: httpx.Response) -> str:
    try:
        said = discovery.json()
        url, name = said["jwks_uri"], said["issuer"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise Unanswered("its discovery document does not say where its keys are") from error
    if name != issuer:
        raise Unanswered("its discovery document names another issuer")
    if not isinstance(url, str) or not is_private(url) or (url.startswith("http:") and not issuer.startswith("http:")):
        raise Unanswered("the URL of its keys is not https")
    return url


Fetch: TypeAlias = Callable[[str], Awaitable[KeySet]]


class Issuer:
    """Verifies the tokens of one issuer. It is bound to one event loop."""

    def __init__(self, name: str, config: OidcConfig, fetch: Fetch | None, changed: Callable[[], None], *, leeway: float = 0.0) -> None:
        """Sends no request yet.

        ``fetch``: requests the keys; None: ``take`` sets them. ``changed`` is called when keys have changed: tokens that were verified
        before may not be valid any more. ``leeway``: by how many seconds clocks may differ.
        """
        self.keys: KeySet = ()
        self.problem = ""
        """Why the issuer gave no keys when it was last asked; "": it gave some, or is not asked."""
        self._name = name
        self._config = config
        self._leeway = leeway
        self._came_at = float("-inf")
        """When keys were fetched last, in monotonic seconds."""
        self._fetch = fetch
        """None: the issuer is not asked, or not any more."""
        self._changed = changed
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._next: asyncio.TimerHandle | None = None
        self._owned = TaskSet(f"keys of {name}")

    def take(self, keys: KeySet) -> None:
        """Sets the keys."""
        if keys != self.keys:
            self.keys = keys
            self._changed()

    def ask(self) -> asyncio.Task[None] | None:
        """Starts fetching the keys, unless that is under way. Returns the task that fetches them; None: the issuer was asked just now."""
        now = time.monotonic()
        if self._asking is None and self._fetch is not None and now >= self._asked_at + ASK_SECONDS:
            if self._next is not None:
                self._next.cancel()
            self._asked_at = now
            self._asking = self._owned.begin(self._ask(self._fetch), f"keys of {self._name}")
        return self._asking

    async def caller(self, token: str, said: UnverifiedClaims) -> Caller:
        """Returns the caller that a token names. It waits for the issuer's answer only if the token's key is not known.

        Raises:
            PolicyError: UNAUTHENTICATED: the token is not valid, or not any more; UNAVAILABLE: this can't be known now.
        """
        if self._key(said) is None and (asking := self.ask()) is not None:
            await asyncio.wait([asking])  # unlike awaiting the task, this neither cancels it with the caller nor raises its error
        key = self._key(said)
        if key is None and not self.keys:
            problem = f"The keys of {self._name} are not known ({self.problem or 'requested a moment ago'}): try again."
            raise PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, problem)
        if key is None:
            raise invalid(f"The token is signed with a key that {self._name} does not publish.")
        claims = verified(token, key, self._leeway, require=("exp", "iss"))
        check_audience(claims, "aud", self._config.audiences)
        return caller_of(claims, self._config.role_claim, Way.OIDC, self._leeway)

    async def close(self) -> None:
        """Ends the request under way; the issuer is not asked any more."""
        self._fetch = None
        if self._next is not None:
            self._next.cancel()
        await self._owned.close()

    def _key(self, said: UnverifiedClaims) -> Key | None:
        """Returns the key of a token; None: there is none. A token that names no key can only be verified if there is exactly one."""
        named = [key for key_id, key in self.keys if key_id == said.key_id or not said.key_id]
        key = named[0] if named and (said.key_id or len(named) == 1) else None
        return key if key is not None and said.algorithm in key.algorithms else None

    async def _ask(self, fetch: Fetch) -> None:
        try:
            keys = await fetch(self._name)
        except Unanswered as error:
            if not self.problem:
                _LOG.warning("the keys of %s can't be fetched (%s); they are requested again", self._name, error)
            self.problem = str(error)
            keys = self.keys if time.monotonic() < self._came_at + LAST_SECONDS else ()
        else:
            if self.problem:
                _LOG.info("the keys of %s were fetched again", self._name)
            self.problem, self._came_at = "", time.monotonic()
        finally:
            self._asking = None
        self.take(keys)
        self._next = asyncio.get_running_loop().call_later(ASK_SECONDS if self.problem else REFRESH_SECONDS, self.ask)
