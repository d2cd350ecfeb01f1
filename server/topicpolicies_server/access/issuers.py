"""Verifies tokens of OpenID Connect with the keys that their issuers publish, which are fetched, kept, and fetched again.

The states of one issuer's keys, by the time since they came. An issuer is asked at most once in ``ASK_SECONDS``, whatever callers send, and
at most ``MOST_WAITING`` calls wait for its answer; further ones get CREDENTIALS_UNVERIFIABLE. Keys that were given (``take``: they are in a
file) stay FRESH, and their issuer is not asked.

| state | age of the keys | a token of a known key | a token of another key |
|---|---|---|---|
| NONE | there are none | | waits for an answer; CREDENTIALS_UNVERIFIABLE without one |
| FRESH | less than ``refresh`` | is verified | waits for an answer, if the issuer may be asked; without one CREDENTIALS_INVALID |
| AGING | less than twice that | is verified, and the issuer is asked meanwhile | as FRESH |
| OLD | less than ``LAST_SECONDS`` | waits for an answer, if the issuer may be asked; is verified with the keys of then | as FRESH |
| SILENT | as OLD, and the issuer did not answer the latest request | as AGING: waiting for it again would delay every call | as FRESH |
| OUT | more | as NONE | as NONE |

So a key that an issuer has withdrawn is in force for twice ``refresh`` at most, unless the issuer does not answer: then for a day.

Source: PIP-257, ``AuthenticationProviderOpenID``.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias

from ..tasks import TaskSet
from . import signed
from .caller import Caller, Way
from .caller_cache import MOST, CallerCache
from .jwks import KeySet
from .keys import Key
from .refusals import invalid, unverifiable

_LOG = logging.getLogger(__name__)
ASK_SECONDS = 10.0
"""The least time between two requests to an issuer."""
MOST_WAITING = 1_000
"""How many calls wait for the answer of an issuer at most. Their callers are not verified yet, so they share one bound."""
LAST_SECONDS = 86_400.0
"""How long keys are used while the issuer does not answer."""


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


class State(enum.Enum):
    """The age of an issuer's keys, as in the table above."""

    NONE = enum.auto()
    FRESH = enum.auto()
    AGING = enum.auto()
    OLD = enum.auto()
    SILENT = enum.auto()
    OUT = enum.auto()


_REFRESHED = (State.AGING, State.SILENT)
"""The states in which keys verify tokens while their issuer is asked."""


class _Issuer:
    """One issuer and its keys."""

    def __init__(self, name: str, fetch: Fetch, rules: OidcRules, owned: TaskSet, steady: Callable[[], float]) -> None:
        self.name = name
        self.cache = CallerCache()
        self.waiting = 0
        """How many calls wait for the issuer's answer."""
        self._fetch = fetch
        self._rules = rules
        self._owned = owned
        self._steady = steady
        self._keys: KeySet | None = None
        self._came_at = self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._problem = ""
        """Why the issuer gave no keys when it was last asked; "": it gave some."""
        self._given = False
        """Whether the keys were given, so that the issuer is not asked."""

    def take(self, keys: KeySet) -> None:
        """Sets the keys; the issuer is not asked from now on."""
        self._given, self._keys = True, keys
        self.cache.clear()

    def state(self, moment: float) -> State:
        """Returns the state of the keys."""
        if self._given:
            return State.FRESH
        if self._keys is None:
            return State.NONE
        age = moment - self._came_at
        if age < self._rules.refresh:
            return State.FRESH
        if age < 2 * self._rules.refresh:
            return State.AGING
        if age >= LAST_SECONDS:
            return State.OUT
        return State.SILENT if self._problem else State.OLD

    def age(self, moment: float) -> float:
        """Returns how many seconds ago the keys came; 0: there are none, or they were given."""
        return moment - self._came_at if self._keys is not None and not self._given else 0.0

    @property
    def unanswered(self) -> bool:
        """Whether the issuer gave no keys when it was last asked."""
        return bool(self._problem) and not self._given

    def may_ask(self, moment: float) -> bool:
        """Whether the issuer may be asked now, or is being asked."""
        if self._given:
            return False
        return self._asking is not None or moment >= self._asked_at + ASK_SECONDS

    def ask(self, moment: float) -> asyncio.Task[None]:
        """Starts fetching the keys, unless that is under way. Returns the task that fetches them."""
        if self._asking is None:
            self._asked_at = moment
            self._asking = self._owned.begin(self._ask(), f"keys of {self.name}")
        return self._asking

    def key(self, said: signed.UnverifiedClaims) -> Key | None:
        """Returns the key of a token; None: there is none."""
        return self._keys.find(said.key_id, said.algorithm) if self._keys is not None else None

    def refusal(self, moment: float) -> Exception:
        """Returns the error for a token whose key is not there."""
        if self.state(moment) in (State.NONE, State.OUT):
            return unverifiable(f"The keys of {self.name} are not known ({self._problem or 'requested a moment ago'}): try again.")
        return invalid(f"The token is signed with a key that {self.name} does not publish.")

    async def _ask(self) -> None:
        try:
            keys = await self._fetch(self.name)
        except Unanswered as error:
            if not self._problem:
                _LOG.warning("the keys of %s can't be fetched (%s); they are requested again", self.name, error)
            self._problem = str(error)
        else:
            if self._problem:
                _LOG.info("the keys of %s were fetched again", self.name)
            self._problem = ""
            if keys != self._keys:
                self.cache.clear()
            self._keys, self._came_at = keys, self._steady()
        finally:
            self._asking = None


class Issuers:
    """Verifies tokens of issuers. It is bound to one event loop."""

    def __init__(
        self,
        names: Iterable[str],
        fetch: Fetch,
        rules: OidcRules,
        wall: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        """Creates the object; sends no request yet.

        Args:
            names: the issuers' names, as their tokens have them.
            fetch: fetches the keys of an issuer.
            rules: what is required of tokens.
            wall: returns the time, in seconds since 1970.
            steady: returns monotonic seconds.
        """
        self._owned = TaskSet("OpenID Connect")
        self._rules = rules
        self._wall = wall
        self._steady = steady

        self._issuers = {name: _Issuer(name, fetch, rules, self._owned, steady) for name in names}

    def __contains__(self, name: str) -> bool:
        return name in self._issuers

    def kept(self) -> dict[str, tuple[int, int]]:
        """Returns how many tokens are remembered, and how many at most. Any thread may call this."""
        remembered = [len(each.cache) for each in self._issuers.values()]
        return {"tokens_of_issuers": (sum(remembered), MOST * len(remembered))}

    def keys(self) -> KeysKnown:
        """Returns the figures about the keys. Any thread may call this."""
        moment = self._steady()
        ages = [each.age(moment) for each in self._issuers.values()]
        return KeysKnown(max(ages, default=0.0), sum(each.unanswered for each in self._issuers.values()))

    def start(self) -> None:
        """Starts fetching the keys of all issuers, so that the first call need not wait."""
        for each in self._issuers.values():
            if each.may_ask(self._steady()):
                each.ask(self._steady())

    def take(self, keys: KeySet) -> None:
        """Sets the keys of all issuers; none of them is asked from now on."""
        for each in self._issuers.values():
            each.take(keys)

    async def close(self) -> None:
        """Cancels the requests under way; no issuer is asked any more."""
        await self._owned.close()

    def known(self, token: str, now: float, moment: float) -> Caller | None:
        """Returns the caller of a token that was verified before with a key that is in force; None: ``caller`` has to verify it.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED: the token has expired since.
        """
        for each in self._issuers.values():
            if (caller := each.cache.get(token, now)) is not None:
                state = each.state(moment)
                if state in _REFRESHED and each.may_ask(moment):
                    each.ask(moment)
                return caller if state is State.FRESH or state in _REFRESHED else None
        return None

    def caller(self, token: str, said: signed.UnverifiedClaims, now: float, moment: float) -> Caller | Awaitable[Caller]:
        """Returns the caller that a token names, or an awaitable that finds out.

        Raises:
            PolicyError: UNAUTHENTICATED: the token is not valid, or not any more; UNAVAILABLE: this can't be known now.
        """
        issuer = self._issuers.get(said.issuer)
        if issuer is None:
            raise invalid("The token is from an issuer that this server does not accept.")
        state, key = issuer.state(moment), issuer.key(said)
        may_ask = issuer.may_ask(moment)
        if may_ask and (key is None or state in (State.NONE, State.OLD, State.OUT)):
            if issuer.waiting >= MOST_WAITING:
                raise unverifiable(f"{MOST_WAITING:,} calls wait for the keys of {issuer.name}, which is the limit: try again.")
            return self._asked(issuer, token, said, issuer.ask(moment))
        if may_ask and state in _REFRESHED:
            issuer.ask(moment)
        return self._verified(issuer, token, said, now, moment)

    async def _asked(self, issuer: _Issuer, token: str, said: signed.UnverifiedClaims, asking: asyncio.Task[None]) -> Caller:
        issuer.waiting += 1
        try:
            await asyncio.wait([asking])  # unlike awaiting the task, this neither cancels it with the caller nor raises its error
        finally:
            issuer.waiting -= 1
        return self._verified(issuer, token, said, self._wall(), self._steady())

    def _verified(self, issuer: _Issuer, token: str, said: signed.UnverifiedClaims, now: float, moment: float) -> Caller:
        key = issuer.key(said)
        if key is None or issuer.state(moment) in (State.NONE, State.OUT):
            raise issuer.refusal(moment)
        claims = signed.verified(token, key)
        begins_at, expires_at = signed.times(claims, now, self._rules.leeway)
        if expires_at == math.inf:
            raise invalid("The token does not say when it expires (exp).")
        if claims.get("iss") != issuer.name:
            raise invalid("The token is from an issuer that this server does not accept.")
        signed.check_audience(claims, "aud", self._rules.audiences)
        role = signed.role(claims, self._rules.role_claim)
        return issuer.cache.put(token, Caller(role, Way.OIDC, expires_at=expires_at, begins_at=begins_at))
