"""Tokens of OpenID Connect: keys are requested, kept and refreshed; no caller can cause more requests to an issuer than intended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from topicpolicies_server.access import Caller, Way
from topicpolicies_server.access.identification import CallCredentials, Identification
from topicpolicies_server.access.issuers import ASK_SECONDS, LAST_SECONDS, MOST_WAITING, Issuers, OidcRules, Unanswered
from topicpolicies_server.access.jwks import KeySet, key_set
from topicpolicies_server.access.keys import secret_key
from topicpolicies_server.access.tokens import TokenRules, Tokens
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason

from .signing import NOW, SECRET, curve_key, jwk, signed, token

ISSUER, OTHER = "https://login.example.com/", "https://other.example.com"
RULES = OidcRules(frozenset({"topicpolicies"}), refresh=100.0)
PATIENCE = 20.0


class World:
    """Two fake issuers, the identification that requests their keys, and its clocks."""

    def __init__(self, rules: OidcRules = RULES) -> None:
        self.keys = {ISSUER: ["first"], OTHER: ["others"]}
        self.asked: list[str] = []
        self.down = False
        self.waiting: asyncio.Event | None = None
        self.moment = 0.0
        self.issuers = Issuers([ISSUER, OTHER], self.fetch, rules, lambda: NOW + self.moment, lambda: self.moment)
        self.identification = Identification(issuers=self.issuers, tokens=Tokens((secret_key(SECRET),), TokenRules()))

    async def fetch(self, name: str) -> KeySet:
        """Answers a request for the keys of an issuer."""
        self.asked.append(name)
        if self.waiting is not None:
            await self.waiting.wait()
        if self.down:
            raise Unanswered("it is down")
        return key_set(json.dumps({"keys": [jwk(curve_key(each), each) for each in self.keys[name]]}).encode())

    async def ask(self, shown: str) -> Caller:
        """Returns the caller whom a token names."""
        async with asyncio.timeout(PATIENCE):
            found = self.identification.caller(CallCredentials(f"Bearer {shown}"), NOW + self.moment, self.moment)
            return found if isinstance(found, Caller) else await found

    async def refused(self, shown: str) -> Reason:
        """Returns the reason why a token is refused."""
        with pytest.raises(PolicyError) as caught:
            await self.ask(shown)
        error = caught.value
        assert error.kind is (Kind.UNAVAILABLE if error.reason is Reason.AUTHORIZATION_UNKNOWN else Kind.UNAUTHENTICATED)
        return Reason(error.reason)

    async def settled(self) -> None:
        """Waits until requests in the background were answered."""
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Issuers whose keys were not requested yet."""
    made = World()
    yield made
    await made.issuers.close()


def id_token(key: str = "first", /, key_id: str | None = None, **claims: Any) -> str:
    chosen = {"iss": ISSUER, "aud": "topicpolicies", "exp": NOW + 10_000_000, **claims}
    return token(
        curve_key(key), "ES256", {"kid": key if key_id is None else key_id}, **{name: each for name, each in chosen.items() if each != "-"}
    )


async def test_the_first_token_waits_for_the_keys_and_the_next_ones_do_not(world: World) -> None:
    assert await world.ask(id_token()) == Caller("alice", Way.OIDC, expires_at=NOW + 10_000_000)
    found = world.identification.caller(CallCredentials(f"Bearer {id_token(sub='bob')}"), NOW, 0.0)
    assert isinstance(found, Caller) and found.principal == "bob"
    assert world.asked == [ISSUER]


async def test_the_keys_of_all_issuers_are_requested_at_the_start(world: World) -> None:
    world.issuers.start()
    await world.settled()
    assert sorted(world.asked) == [ISSUER, OTHER]
    assert isinstance(world.identification.caller(CallCredentials(f"Bearer {id_token()}"), NOW, 0.0), Caller)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 1}, Reason.CREDENTIALS_EXPIRED),
        ({"exp": "-"}, Reason.CREDENTIALS_INVALID),
        ({"nbf": NOW + 60}, Reason.CREDENTIALS_INVALID),
        ({"aud": "another"}, Reason.CREDENTIALS_INVALID),
        ({"aud": "-"}, Reason.CREDENTIALS_INVALID),
        ({"sub": None}, Reason.CREDENTIALS_INVALID),
        ({"iss": OTHER}, Reason.CREDENTIALS_INVALID),
        ({"iss": ISSUER.rstrip("/")}, Reason.CREDENTIALS_INVALID),
        ({"iss": "-"}, Reason.CREDENTIALS_INVALID),
    ],
)
async def test_a_token_with_an_invalid_or_missing_claim_is_refused(world: World, claims: dict[str, Any], reason: Reason) -> None:
    assert await world.refused(id_token(**claims)) is reason


async def test_a_key_of_one_issuer_does_not_verify_tokens_of_another(world: World) -> None:
    await world.ask(id_token("others", iss=OTHER))
    assert await world.refused(id_token("others")) is Reason.CREDENTIALS_INVALID
    assert await world.refused(id_token("others", key_id="first")) is Reason.CREDENTIALS_INVALID


async def test_unsigned_tokens_and_tokens_signed_with_a_secret_are_refused_for_an_issuer(world: World) -> None:
    claims = {"iss": ISSUER, "aud": "topicpolicies", "exp": NOW + 60, "sub": "admin"}
    for algorithm in ("none", "HS256"):
        for secret in (b"", SECRET, json.dumps(jwk(curve_key("first"), "first")).encode()):
            assert await world.refused(signed({"alg": algorithm, "kid": "first"}, claims, secret)) is Reason.CREDENTIALS_INVALID


async def test_tokens_of_pulsar_and_of_issuers_are_both_accepted(world: World) -> None:
    assert (await world.ask(token())).way is Way.TOKEN
    assert (await world.ask(id_token())).way is Way.OIDC
    assert await world.refused(token(iss=ISSUER, aud="topicpolicies", exp=NOW + 60)) is Reason.CREDENTIALS_INVALID, (
        "a secret does not verify an issuer's token"
    )
    assert (await world.ask(token(iss="https://pulsar.example"))).way is Way.TOKEN


async def test_keys_are_requested_when_a_token_names_an_unknown_key(world: World) -> None:
    await world.ask(id_token())
    world.keys[ISSUER] = ["first", "second"]
    world.moment = ASK_SECONDS
    assert (await world.ask(id_token("second"))).principal == "alice"
    assert world.asked == [ISSUER] * 2


async def test_a_withdrawn_key_is_refused_after_twice_the_refresh_time_at_the_latest(world: World) -> None:
    old = id_token()
    await world.ask(old)
    world.keys[ISSUER] = ["second"]
    world.moment = 2 * RULES.refresh - 1
    await world.ask(old)  # the keys are refreshed in the background
    await world.settled()
    assert await world.refused(old) is Reason.CREDENTIALS_INVALID
    world.keys[ISSUER] = ["first"]
    world.moment += 2 * RULES.refresh
    await world.ask(old)
    world.keys[ISSUER] = ["second"]
    world.moment += 2 * RULES.refresh
    assert await world.refused(old) is Reason.CREDENTIALS_INVALID, "the keys are old, so the call waits for the issuer's answer"


async def test_aging_keys_are_refreshed_in_the_background(world: World) -> None:
    await world.ask(id_token())
    world.waiting = asyncio.Event()
    world.moment = RULES.refresh
    for _ in range(10):
        found = world.identification.caller(CallCredentials(f"Bearer {id_token()}"), NOW, world.moment)
        assert isinstance(found, Caller), "no call waits"
    await world.settled()
    assert world.asked == [ISSUER] * 2
    world.waiting.set()


async def test_a_flood_of_unknown_keys_causes_one_request_in_each_interval(world: World) -> None:
    await world.ask(id_token())
    for second in range(60):
        world.moment = float(second)
        results = await asyncio.gather(*(world.refused(id_token("forged", key_id=f"{second}-{each}")) for each in range(20)))
        assert set(results) == {Reason.CREDENTIALS_INVALID}
    assert len(world.asked) == 1 + 60 // ASK_SECONDS - 1
    assert (await world.ask(id_token())).principal == "alice", "other tokens are not affected"


async def test_concurrent_calls_share_one_request_and_a_cancelled_call_does_not_end_it(world: World) -> None:
    world.waiting = asyncio.Event()
    asking = [asyncio.create_task(world.ask(id_token(jti=str(each)))) for each in range(50)]
    await world.settled()
    asking[0].cancel()  # the others still get the answer
    world.waiting.set()
    done = await asyncio.gather(*asking[1:])
    assert {each.principal for each in done} == {"alice"} and world.asked == [ISSUER]


async def test_the_number_of_calls_that_wait_for_an_issuer_is_bounded(world: World) -> None:
    await world.ask(id_token())
    world.moment, world.waiting = ASK_SECONDS, asyncio.Event()
    flood = [asyncio.create_task(world.refused(id_token("forged", key_id=str(each)))) for each in range(MOST_WAITING + 50)]
    await world.settled()
    reasons = [each.result() for each in flood if each.done()]
    assert reasons == [Reason.AUTHORIZATION_UNKNOWN] * 50, "calls beyond the bound are refused at once"
    assert (await world.ask(id_token())).principal == "alice"
    world.waiting.set()
    assert set(await asyncio.gather(*flood[:MOST_WAITING])) == {Reason.CREDENTIALS_INVALID}
    world.moment, world.waiting = 2 * ASK_SECONDS, None
    world.keys[ISSUER].append("second")
    assert (await world.ask(id_token("second"))).principal == "alice", "calls can wait again"


async def test_an_issuer_that_is_down_is_logged_once_and_requested_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.down = True
    for second in range(30):
        world.moment = float(second)
        assert await world.refused(id_token()) is Reason.AUTHORIZATION_UNKNOWN
    assert len(world.asked) == 3
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1, "one warning for all failures"
    world.down, world.moment = False, 30.0
    assert (await world.ask(id_token())).principal == "alice"


async def test_keys_of_an_issuer_that_is_down_are_used_for_a_day(world: World) -> None:
    shown = id_token()
    await world.ask(shown)
    world.down = True
    for moment in (RULES.refresh, 3 * RULES.refresh, LAST_SECONDS - 1):
        world.moment = moment
        assert (await world.ask(shown)).principal == "alice"
    world.moment = LAST_SECONDS
    assert await world.refused(shown) is Reason.AUTHORIZATION_UNKNOWN


async def test_calls_do_not_wait_for_an_issuer_that_has_not_answered_while_its_keys_are_in_force(world: World) -> None:
    await world.ask(id_token())
    world.down, world.moment = True, 2 * RULES.refresh + 1
    await world.ask(id_token())
    world.waiting = asyncio.Event()  # the issuer accepts requests now, and hangs
    for shown in (id_token(), id_token(sub="bob")):  # one that was verified before, and a new one
        world.moment += ASK_SECONDS
        for _ in range(MOST_WAITING + 1):
            found = world.identification.caller(CallCredentials(f"Bearer {shown}"), NOW + world.moment, world.moment)
            assert isinstance(found, Caller)
        await world.settled()
    assert len(world.asked) == 3, "it is requested again in the background"
    world.down = False
    world.keys[ISSUER] = ["second"]
    world.waiting.set()
    await world.settled()
    assert await world.refused(id_token()) is Reason.CREDENTIALS_INVALID, "the issuer is back, and has withdrawn the key"


async def test_keys_from_a_file_are_used_until_they_are_replaced_and_the_issuer_is_not_requested(world: World) -> None:
    def of(name: str) -> KeySet:
        return key_set(json.dumps({"keys": [jwk(curve_key(name), name)]}).encode())

    world.issuers.take(of("first"))
    world.issuers.start()
    world.moment = 10 * LAST_SECONDS
    old, new = id_token(), id_token("second")
    assert (await world.ask(old)).principal == "alice"
    assert await world.refused(new) is Reason.CREDENTIALS_INVALID
    world.issuers.take(of("second"))
    assert (await world.ask(new)).principal == "alice"
    assert await world.refused(old) is Reason.CREDENTIALS_INVALID
    assert world.asked == []


async def test_an_expired_token_is_refused_although_it_was_verified_before(world: World) -> None:
    shown = id_token(exp=NOW + 50)
    await world.ask(shown)
    world.moment = 50.0
    assert await world.refused(shown) is Reason.CREDENTIALS_EXPIRED
