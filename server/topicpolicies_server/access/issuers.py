"""Tokens of OpenID Connect: verified with keys that their issuers publish, which are asked for, kept, and asked for again.

The keys of one issuer, by how long ago they came. It is asked at most once in ``ASK_SECONDS``, whatever anybody sends. Keys that were given
(``take``: they stand in a file) stay FRESH, and their issuer is not asked. At most ``MOST_WAITING`` calls wait for its
answer; more are told CREDENTIALS_UNVERIFIABLE.

| state | age of the keys | a token of a known key | a token of another key |
|---|---|---|---|
| NONE | there are none | | waits for an answer; CREDENTIALS_UNVERIFIABLE without one |
| FRESH | less than ``refresh`` | is verified | waits for an answer, if the issuer may be asked; without one CREDENTIALS_INVALID |
| AGING | less than twice that | is verified, and the issuer is asked meanwhile | the same |
| OLD | less than ``LAST_SECONDS`` | waits for an answer, if the issuer may be asked; is verified with what there is then | the same |
| OUT | more | as NONE | as NONE |

So a key that an issuer has withdrawn is in force for twice ``refresh`` at most, unless the issuer does not answer: then a day.

Source: PIP-257, ``AuthenticationProviderOpenID``.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeAlias

from ..tasks import Owned
from . import signed
from .caller import Caller, Way
from .jwks import KeySet
from .keys import Key
from .refusals import invalid, unverifiable
from .remembered import MOST, Remembered

_LOG = logging.getLogger(__name__)
ASK_SECONDS = 10.0
"""The least between two questions to an issuer."""
MOST_WAITING = 1_000
"""Calls that wait for the answer of an issuer. Nobody knows yet who makes them, and each takes the place of another."""
LAST_SECONDS = 86_400.0
"""How old keys get that can't be had anew."""


class Unanswered(Exception):
    """An issuer gave no keys; the text is a clause that says why."""


class OidcRules(NamedTuple):
    """What a token has to say."""

    audiences: frozenset[str]
    role_claim: str = "sub"
    leeway: float = 0.0
    """Seconds by which clocks may differ."""
    refresh: float = 900.0
    """How old keys get before they are asked for again, in seconds."""


class KeysKnown(NamedTuple):
    """What is known of the issuers' keys."""

    oldest_seconds: float
    """How long ago the oldest of them came; 0: none did, or they stand in a file."""
    unanswered: int
    """Issuers that gave none when they were asked last."""


Fetch: TypeAlias = Callable[[str], Awaitable[KeySet]]
"""Asks an issuer for its keys; raises ``Unanswered``."""


class State(enum.Enum):
    """Of what age the keys of an issuer are."""

    NONE = enum.auto()
    FRESH = enum.auto()
    AGING = enum.auto()
    OLD = enum.auto()
    OUT = enum.auto()


class _Issuer:
    """The keys of one issuer."""

    def __init__(self, name: str, fetch: Fetch, rules: OidcRules, owned: Owned, steady: Callable[[], float]) -> None:
        self.name = name
        self.remembered = Remembered()
        self.waiting = 0
        """Calls that wait for its answer."""
        self._fetch = fetch
        self._rules = rules
        self._owned = owned
        self._steady = steady
        self._keys: KeySet | None = None
        self._came_at = self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._problem = ""
        """Why it gave none when it was asked last."""
        self._given = False
        """Whether its keys were given, so that it is not asked."""

    def take(self, keys: KeySet) -> None:
        """These are its keys, and it is not asked."""
        self._given, self._keys = True, keys
        self.remembered.clear()

    def state(self, moment: float) -> State:
        """Of what age its keys are."""
        if self._given:
            return State.FRESH
        if self._keys is None:
            return State.NONE
        age = moment - self._came_at
        if age < self._rules.refresh:
            return State.FRESH
        if age < 2 * self._rules.refresh:
            return State.AGING
        return State.OLD if age < LAST_SECONDS else State.OUT

    def age(self, moment: float) -> float:
        """Seconds since its keys came; 0: they did not."""
        return moment - self._came_at if self._keys is not None and not self._given else 0.0

    @property
    def unanswered(self) -> bool:
        """Whether it gave no keys when it was asked last."""
        return bool(self._problem) and not self._given

    def may_ask(self, moment: float) -> bool:
        """Whether it may be asked, or is being asked."""
        if self._given:
            return False
        return self._asking is not None or moment >= self._asked_at + ASK_SECONDS

    def ask(self, moment: float) -> asyncio.Task[None]:
        """Asks it, unless that is being done."""
        if self._asking is None:
            self._asked_at = moment
            self._asking = self._owned.begin(self._ask(), f"keys of {self.name}")
        return self._asking

    def key(self, said: signed.Look) -> Key | None:
        """The key of a token, if there is one."""
        return self._keys.find(said.key_id, said.algorithm) if self._keys is not None else None

    def refusal(self, moment: float) -> Exception:
        """Why a token can't be verified whose key is not there."""
        if self.state(moment) in (State.NONE, State.OUT):
            return unverifiable(f"The keys of {self.name} are not known ({self._problem or 'it was asked a moment ago'}): try again.")
        return invalid(f"The token is signed with a key that {self.name} does not name.")

    async def _ask(self) -> None:
        try:
            keys = await self._fetch(self.name)
        except Unanswered as error:
            if not self._problem:
                _LOG.warning("the keys of %s can't be had (%s); it is asked again", self.name, error)
            self._problem = str(error)
        else:
            if self._problem:
                _LOG.info("the keys of %s are known again", self.name)
            self._problem = ""
            if keys != self._keys:
                self.remembered.clear()
            self._keys, self._came_at = keys, self._steady()
        finally:
            self._asking = None


class Issuers:
    """Verifies tokens of issuers. It belongs to one event loop."""

    def __init__(
        self,
        names: Iterable[str],
        fetch: Fetch,
        rules: OidcRules,
        wall: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        """Asks nobody yet.

        Args:
            names: of the issuers, as their tokens have them.
            fetch: asks one for its keys.
            rules: what tokens have to say.
            wall: tells the time, in seconds since 1970.
            steady: seconds of a clock that does not go back.
        """
        self._owned = Owned("OpenID Connect")
        self._rules = rules
        self._wall = wall
        self._steady = steady

        self._issuers = {name: _Issuer(name, fetch, rules, self._owned, steady) for name in names}

    def __contains__(self, name: str) -> bool:
        return name in self._issuers

    def kept(self) -> dict[str, tuple[int, int]]:
        """What is remembered, and how much at most; any thread may ask."""
        remembered = [len(each.remembered) for each in self._issuers.values()]
        return {"tokens_of_issuers": (sum(remembered), MOST * len(remembered))}

    def keys(self) -> KeysKnown:
        """What is known of the keys; any thread may ask."""
        moment = self._steady()
        ages = [each.age(moment) for each in self._issuers.values()]
        return KeysKnown(max(ages, default=0.0), sum(each.unanswered for each in self._issuers.values()))

    def start(self) -> None:
        """Asks all of them, so that the first call need not wait."""
        for each in self._issuers.values():
            if each.may_ask(self._steady()):
                each.ask(self._steady())

    def take(self, keys: KeySet) -> None:
        """These are the keys of all of them from now on, and nobody is asked."""
        for each in self._issuers.values():
            each.take(keys)

    async def close(self) -> None:
        """Asks nobody any more."""
        await self._owned.close()

    def known(self, token: str, now: float, moment: float) -> Caller | None:
        """Whose token it is, if it was verified before, with a key that is in force.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED, it has expired since.
        """
        for each in self._issuers.values():
            if (caller := each.remembered.get(token, now)) is not None:
                state = each.state(moment)
                if state is State.AGING and each.may_ask(moment):
                    each.ask(moment)
                return caller if state in (State.FRESH, State.AGING) else None
        return None

    def caller(self, token: str, said: signed.Look, now: float, moment: float) -> Caller | Awaitable[Caller]:
        """Whose token it is; or what finds that out.

        Raises:
            PolicyError: UNAUTHENTICATED, nobody's, or not any more; UNAVAILABLE, that can't be known now.
        """
        issuer = self._issuers.get(said.issuer)
        if issuer is None:
            raise invalid("The token is of an issuer that is not taken here.")
        state, key = issuer.state(moment), issuer.key(said)
        may_ask = issuer.may_ask(moment)
        if may_ask and (key is None or state in (State.NONE, State.OLD, State.OUT)):
            if issuer.waiting >= MOST_WAITING:
                raise unverifiable(f"{MOST_WAITING:,} calls wait for the keys of {issuer.name}, which is the most: try again.")
            return self._asked(issuer, token, said, issuer.ask(moment))
        if may_ask and state is State.AGING:
            issuer.ask(moment)
        return self._verified(issuer, token, said, now, moment)

    async def _asked(self, issuer: _Issuer, token: str, said: signed.Look, asking: asyncio.Task[None]) -> Caller:
        issuer.waiting += 1
        try:
            await asyncio.wait([asking])  # whose end does not depend on who waits for it
        finally:
            issuer.waiting -= 1
        return self._verified(issuer, token, said, self._wall(), self._steady())

    def _verified(self, issuer: _Issuer, token: str, said: signed.Look, now: float, moment: float) -> Caller:
        key = issuer.key(said)
        if key is None or issuer.state(moment) in (State.NONE, State.OUT):
            raise issuer.refusal(moment)
        claims = signed.verified(token, key)
        begins_at, expires_at = signed.times(claims, now, self._rules.leeway)
        if expires_at == math.inf:
            raise invalid("The token does not say when it expires (exp).")
        if claims.get("iss") != issuer.name:
            raise invalid("The token is of an issuer that is not taken here.")
        signed.check_audience(claims, "aud", self._rules.audiences)
        role = signed.role(claims, self._rules.role_claim)
        return issuer.remembered.put(token, Caller(role, Way.OIDC, expires_at=expires_at, begins_at=begins_at))
