"""Tokens of OpenID Connect: keys are requested, kept and refreshed; no caller can cause more requests to an issuer than intended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from tests.eventually import eventually
from topicpolicies_server.access import Caller, Way, issuers
from topicpolicies_server.access.identification import Identification
from topicpolicies_server.access.issuers import Issuer, KeySet, Unanswered, key_set
from topicpolicies_server.access.keys import secret_key
from topicpolicies_server.access.tokens import Tokens
from topicpolicies_server.config import OidcConfig
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason

from .signing import NOW, SECRET, at_once, curve_key, jwk, signed, token

ISSUER, OTHER = "https://login.example.com/", "https://other.example.com"
PATIENCE = 20.0
ASK_SECONDS = 0.3


class World:
    """Two fake issuers, and the identification that requests their keys."""

    def __init__(self) -> None:
        self.keys = {ISSUER: ["first"], OTHER: ["others"]}
        self.asked: list[str] = []
        self.down = False
        self.waiting: asyncio.Event | None = None
        self.identification = Identification(tokens=Tokens((secret_key(SECRET),)))
        config = OidcConfig(issuers=(ISSUER, OTHER), audiences=("topicpolicies",))
        of = partial(Issuer, config=config, fetch=self.fetch, changed=self.identification.forget)
        self.issuers = self.identification.issuers = {name: of(name) for name in config.issuers}

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
            return await self.identification.caller([("authorization", f"Bearer {shown}")])

    async def refused(self, shown: str) -> Reason:
        """Returns the reason why a token is refused."""
        with pytest.raises(PolicyError) as caught:
            await self.ask(shown)
        error = caught.value
        assert error.kind is (Kind.UNAVAILABLE if error.reason is Reason.AUTHORIZATION_UNKNOWN else Kind.UNAUTHENTICATED)
        return Reason(error.reason)


@pytest.fixture
def refresh() -> float:
    """Returns after how many seconds keys are requested again."""
    return 600.0


@pytest.fixture
async def world(refresh: float, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Issuers whose keys were not requested yet."""
    monkeypatch.setattr(issuers, "ASK_SECONDS", ASK_SECONDS)
    monkeypatch.setattr(issuers, "REFRESH_SECONDS", refresh)
    made = World()
    yield made
    await made.identification.close()


def id_token(key: str = "first", /, key_id: str | None = None, **claims: Any) -> str:
    chosen = {"iss": ISSUER, "aud": "topicpolicies", "exp": NOW + 10_000, **claims}
    return token(
        curve_key(key), "ES256", {"kid": key if key_id is None else key_id}, **{name: each for name, each in chosen.items() if each != "-"}
    )


async def test_the_first_token_waits_for_the_keys_and_the_next_ones_do_not(world: World) -> None:
    assert await world.ask(id_token()) == Caller("alice", Way.OIDC, expires_at=NOW + 10_000)
    assert at_once(world.identification.caller([("authorization", f"Bearer {id_token(sub='bob')}")])).principal == "bob"
    assert world.asked == [ISSUER]


async def test_the_keys_of_all_issuers_are_requested_at_the_start(world: World) -> None:
    for each in world.issuers.values():
        each.ask()
    await eventually(lambda: sorted(world.asked) == [ISSUER, OTHER])
    await asyncio.sleep(0)
    assert at_once(world.identification.caller([("authorization", f"Bearer {id_token()}")])).principal == "alice"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 60}, Reason.CREDENTIALS_EXPIRED),
        ({"exp": "-"}, Reason.CREDENTIALS_INVALID),
        ({"nbf": NOW + 3600}, Reason.CREDENTIALS_INVALID),
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
    claims = {"iss": ISSUER, "aud": "topicpolicies", "exp": NOW + 3600, "sub": "admin"}
    for algorithm in ("none", "HS256"):
        for secret in (b"", SECRET, json.dumps(jwk(curve_key("first"), "first")).encode()):
            assert await world.refused(signed({"alg": algorithm, "kid": "first"}, claims, secret)) is Reason.CREDENTIALS_INVALID


async def test_tokens_of_pulsar_and_of_issuers_are_both_accepted(world: World) -> None:
    assert (await world.ask(token())).way is Way.TOKEN
    assert (await world.ask(id_token())).way is Way.OIDC
    assert await world.refused(token(iss=ISSUER, aud="topicpolicies", exp=NOW + 3600)) is Reason.CREDENTIALS_INVALID, (
        "a secret does not verify an issuer's token"
    )
    assert (await world.ask(token(iss="https://pulsar.example"))).way is Way.TOKEN


async def test_a_token_that_names_no_key_is_verified_only_if_its_issuer_has_one_key(world: World) -> None:
    assert (await world.ask(id_token(key_id=""))).principal == "alice"
    world.keys[ISSUER] = ["first", "second"]
    await asyncio.sleep(ASK_SECONDS)
    await world.ask(id_token("second"))
    assert await world.refused(id_token(key_id="")) is Reason.CREDENTIALS_INVALID


async def test_keys_are_requested_when_a_token_names_an_unknown_key(world: World) -> None:
    await world.ask(id_token())
    world.keys[ISSUER] = ["first", "second"]
    await asyncio.sleep(ASK_SECONDS)
    assert (await world.ask(id_token("second"))).principal == "alice"
    assert world.asked == [ISSUER] * 2


@pytest.mark.parametrize("refresh", [0.4])
async def test_keys_are_refreshed_and_a_withdrawn_one_is_refused_then(world: World) -> None:
    old = id_token()
    await world.ask(old)
    world.keys[ISSUER] = ["second"]
    await eventually(lambda: len(world.asked) > 1)
    await asyncio.sleep(0)
    assert await world.refused(old) is Reason.CREDENTIALS_INVALID


async def test_a_flood_of_unknown_keys_causes_one_request_in_each_interval(world: World) -> None:
    await world.ask(id_token())
    began = time.monotonic()
    for number in range(5):
        results = await asyncio.gather(*(world.refused(id_token("forged", key_id=f"{number}-{each}")) for each in range(20)))
        assert set(results) == {Reason.CREDENTIALS_INVALID}
        await asyncio.sleep(ASK_SECONDS / 3)
    assert len(world.asked) <= 2 + (time.monotonic() - began) / ASK_SECONDS
    assert (await world.ask(id_token())).principal == "alice", "other tokens are not affected"


async def test_concurrent_calls_share_one_request_and_a_cancelled_call_does_not_end_it(world: World) -> None:
    world.waiting = asyncio.Event()
    asking = [asyncio.create_task(world.ask(id_token(jti=str(each)))) for each in range(50)]
    await eventually(lambda: bool(world.asked))
    asking[0].cancel()  # the others still get the answer
    world.waiting.set()
    done = await asyncio.gather(*asking[1:])
    assert {each.principal for each in done} == {"alice"} and world.asked == [ISSUER]


async def test_an_issuer_that_is_down_is_logged_once_and_requested_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.down = True
    assert await world.refused(id_token()) is Reason.AUTHORIZATION_UNKNOWN
    await eventually(lambda: len(world.asked) == 3)
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 1, "one warning for all failures"
    world.down = False
    await eventually(lambda: len(world.asked) == 4)
    assert (await world.ask(id_token())).principal == "alice"


@pytest.mark.parametrize("refresh", [0.3])
async def test_keys_of_an_issuer_that_is_down_stay_in_force_for_a_while_and_no_call_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "LAST_SECONDS", 1.0)
    shown = id_token()
    await world.ask(shown)
    began, world.down = time.monotonic(), True
    while time.monotonic() < began + 0.8:
        for each in (shown, id_token(jti=str(time.monotonic()))):
            assert at_once(world.identification.caller([("authorization", f"Bearer {each}")])).principal == "alice"
        await asyncio.sleep(0.02)
    assert len(world.asked) >= 2, "it is requested again in the background"
    await eventually(lambda: not world.issuers[ISSUER].keys)
    assert await world.refused(shown) is Reason.AUTHORIZATION_UNKNOWN


async def test_keys_from_a_file_are_used_until_they_are_replaced_and_the_issuer_is_not_requested(world: World) -> None:
    def of(name: str) -> KeySet:
        return key_set(json.dumps({"keys": [jwk(curve_key(name), name)]}).encode())

    config = OidcConfig(issuers=(ISSUER,), audiences=("topicpolicies",))
    given = world.identification.issuers[ISSUER] = Issuer(ISSUER, config, None, world.identification.forget)
    given.take(of("first"))
    old, new = id_token(), id_token("second")
    assert (await world.ask(old)).principal == "alice"
    assert await world.refused(new) is Reason.CREDENTIALS_INVALID
    given.take(of("second"))
    assert (await world.ask(new)).principal == "alice"
    assert await world.refused(old) is Reason.CREDENTIALS_INVALID
    assert world.asked == []
