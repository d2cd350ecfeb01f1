"""Verifies tokens of OpenID Connect with the keys that their issuers publish (JWKS, RFC 7517).

The keys of an issuer are requested at the start and every ``refresh`` seconds; after a failure every ``ASK_SECONDS``; and at once for a
token of a key that is not known, whose call waits for the answer. An issuer is asked at most once in ``ASK_SECONDS``, whatever callers
send. While it does not answer, its keys stay in force for ``LAST_SECONDS``. Keys that are in a file stay in force, and their issuer is not
asked.

Source: PIP-257, ``AuthenticationProviderOpenID``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias

import jwt

from ..core.errors import PolicyError
from ..tasks import TaskSet
from .caller import Caller, Way
from .keys import Key, KeyUnusable, of_public
from .refusals import invalid, unverifiable
from .tokens import UnverifiedClaims, caller_of, check_audience, verified

_LOG = logging.getLogger(__name__)
ASK_SECONDS = 10.0
"""The least time between two requests to an issuer."""
LAST_SECONDS = 86_400.0
"""How long keys are used while the issuer does not answer."""
MOST_BYTES = 256 * 1024
"""The largest size of a set of keys."""

KeySet: TypeAlias = tuple[tuple[str, Key], ...]
"""The keys of an issuer, each with its id; "": it has none."""


def key_set(content: bytes) -> KeySet:
    """Reads the keys in the bytes of a JWKS, without those that sign no tokens, secret and private ones.

    Raises:
        KeyUnusable: the bytes are no JWKS, or no key in it verifies tokens.
    """
    if len(content) > MOST_BYTES:
        raise KeyUnusable(f"it has more than {MOST_BYTES:,} bytes")
    try:
        written = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise KeyUnusable("it is not JSON") from error
    listed = written.get("keys") if isinstance(written, dict) else None
    if not isinstance(listed, list):
        raise KeyUnusable("it has no list of keys")
    found = []
    for each in listed:
        if not isinstance(each, dict) or each.get("kty") == "oct" or "d" in each or each.get("use", "sig") != "sig":
            continue
        try:
            key = of_public(jwt.PyJWK(each).key)
        except (jwt.PyJWTError, KeyUnusable, ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
            continue
        algorithm = each.get("alg")
        if algorithm is None or algorithm in key.algorithms:
            algorithms = key.algorithms if algorithm is None else (algorithm,)
            found.append((str(each.get("kid") or ""), Key(key.material, algorithms)))
    if not found:
        raise KeyUnusable("it has no public key for signatures of tokens")
    return tuple(found)


class Unanswered(Exception):
    """Raised if an issuer gave no keys; the text is a clause that says why."""


class OidcRules(NamedTuple):
    """What is required of a token."""

    audiences: frozenset[str]
    role_claim: str = "sub"
    leeway: float = 0.0
    """By how many seconds clocks may differ."""
    refresh: float = 900.0
    """The age at which keys are fetched again, in seconds."""


class KeysKnown(NamedTuple):
    """Figures about the issuers' keys."""

    oldest_seconds: float
    """How long ago the oldest keys came; 0: none did, or they are in a file."""
    unanswered: int
    """How many issuers gave no keys when they were last asked."""


Fetch: TypeAlias = Callable[[str], Awaitable[KeySet]]
"""Fetches the keys of an issuer; raises ``Unanswered``."""


class _Issuer:
    """One issuer and its keys."""

    def __init__(self, name: str, fetch: Fetch, refresh: float, changed: Callable[[], None]) -> None:
        self.name = name
        self.keys: KeySet = ()
        self.came_at = 0.0
        """When the keys came, in monotonic seconds; meaningless if there are none."""
        self.problem = ""
        """Why the issuer gave no keys when it was last asked; "": it gave some, or is not asked."""
        self._fetch = fetch
        self._refresh = refresh
        self._changed = changed
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._next: asyncio.TimerHandle | None = None
        self._owned = TaskSet(f"keys of {name}")
        self._given = False

    def take(self, keys: KeySet) -> None:
        """Sets the keys; the issuer is not asked from now on."""
        self._given, self.keys = True, keys
        self._changed()

    def age(self) -> float:
        """Returns how many seconds ago the keys came; 0: there are none, or they were given."""
        return time.monotonic() - self.came_at if self.keys and not self._given else 0.0

    def ask(self) -> asyncio.Task[None] | None:
        """Starts fetching the keys, unless that is under way. Returns the task that fetches them; None: the issuer was asked just now."""
        if self._asking is None and not self._given and (now := time.monotonic()) >= self._asked_at + ASK_SECONDS:
            if self._next is not None:
                self._next.cancel()
            self._asked_at = now
            self._asking = self._owned.begin(self._ask(), f"keys of {self.name}")
        return self._asking

    def find(self, said: UnverifiedClaims) -> Key | None:
        """Returns the key of a token; None: there is none. A token that names no key can only be verified if there is exactly one."""
        named = [key for key_id, key in self.keys if key_id == said.key_id or not said.key_id]
        key = named[0] if named and (said.key_id or len(named) == 1) else None
        return key if key is not None and said.algorithm in key.algorithms else None

    def refusal(self) -> PolicyError:
        """Returns the error for a token whose key is not there."""
        if not self.keys:
            return unverifiable(f"The keys of {self.name} are not known ({self.problem or 'requested a moment ago'}): try again.")
        return invalid(f"The token is signed with a key that {self.name} does not publish.")

    async def close(self) -> None:
        """Ends the request under way; the issuer is not asked any more."""
        self._given = True
        if self._next is not None:
            self._next.cancel()
        await self._owned.close()

    async def _ask(self) -> None:
        try:
            keys = await self._fetch(self.name)
        except Unanswered as error:
            if not self.problem:
                _LOG.warning("the keys of %s can't be fetched (%s); they are requested again", self.name, error)
            self.problem = str(error)
            keys = self.keys if self.age() < LAST_SECONDS else ()
        else:
            if self.problem:
                _LOG.info("the keys of %s were fetched again", self.name)
            self.problem, self.came_at = "", time.monotonic()
        finally:
            self._asking = None
        if keys != self.keys:
            self.keys = keys
            self._changed()
        pause = ASK_SECONDS if self.problem else max(ASK_SECONDS, self._refresh)
        self._next = asyncio.get_running_loop().call_later(pause, self.ask)


class Issuers:
    """Verifies tokens of issuers. It is bound to one event loop."""

    def __init__(self, names: Iterable[str], fetch: Fetch, rules: OidcRules, changed: Callable[[], None] = lambda: None) -> None:
        """Creates the object; sends no request yet.

        Args:
            names: the issuers' names, as their tokens have them.
            fetch: fetches the keys of an issuer.
            rules: what is required of tokens.
            changed: called when keys have changed: tokens that were verified before may not be valid any more.
        """
        self._rules = rules
        self._issuers = {name: _Issuer(name, fetch, rules.refresh, changed) for name in names}

    def __contains__(self, name: str) -> bool:
        return name in self._issuers

    def keys(self) -> KeysKnown:
        """Returns the figures about the keys. Any thread may call this."""
        issuers = self._issuers.values()
        return KeysKnown(max((each.age() for each in issuers), default=0.0), sum(bool(each.problem) for each in issuers))

    def start(self) -> None:
        """Starts fetching the keys of all issuers, so that the first call need not wait."""
        for each in self._issuers.values():
            each.ask()

    def take(self, keys: KeySet) -> None:
        """Sets the keys of all issuers; none of them is asked from now on."""
        for each in self._issuers.values():
            each.take(keys)

    async def close(self) -> None:
        """Ends the requests under way; no issuer is asked any more."""
        await asyncio.gather(*(each.close() for each in self._issuers.values()))

    def caller(self, token: str, said: UnverifiedClaims) -> Caller | Awaitable[Caller]:
        """Returns the caller that a token names, or an awaitable that finds out.

        Raises:
            PolicyError: UNAUTHENTICATED: the token is not valid, or not any more; UNAVAILABLE: this can't be known now.
        """
        issuer = self._issuers.get(said.issuer)
        if issuer is None:
            raise invalid("The token is from an issuer that this server does not accept.")
        if issuer.find(said) is None and (asking := issuer.ask()) is not None:
            return self._asked(issuer, token, said, asking)
        return self._verified(issuer, token, said)

    async def _asked(self, issuer: _Issuer, token: str, said: UnverifiedClaims, asking: asyncio.Task[None]) -> Caller:
        await asyncio.wait([asking])  # unlike awaiting the task, this neither cancels it with the caller nor raises its error
        return self._verified(issuer, token, said)

    def _verified(self, issuer: _Issuer, token: str, said: UnverifiedClaims) -> Caller:
        key = issuer.find(said)
        if key is None:
            raise issuer.refusal()
        claims = verified(token, key, self._rules.leeway, require=("exp", "iss"))
        check_audience(claims, "aud", self._rules.audiences)
        return caller_of(claims, self._rules.role_claim, Way.OIDC, self._rules.leeway)
