"""Keys of issuers are requested over HTTP, and invalid answers are refused."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from topicpolicies_server.access import issuers
from topicpolicies_server.access.issuers import MOST_BYTES, IssuerClient, Unanswered
from topicpolicies_server.config.callers import MOST_ISSUERS

from .issuer import Issuer, serving
from .signing import curve_key, jwk


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer with one key."""
    with serving() as running:
        running.keys = [jwk(curve_key(), "first")]
        yield running


@pytest.fixture
async def asking() -> AsyncIterator[IssuerClient]:
    """A client that finds the keys by discovery."""
    made = IssuerClient()
    yield made
    await made.close()


async def test_the_keys_are_found_by_the_discovery_document_of_the_issuer(issuer: Issuer, asking: IssuerClient) -> None:
    assert [name for name, _ in await asking.keys(issuer.name)] == ["first"]
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    ("discovery", "why"),
    [
        ({"issuer": "https://another", "jwks_uri": "https://another/keys"}, "names another issuer"),
        ({"issuer": "NAME", "jwks_uri": "http://login.example.com/keys"}, "not https"),
        ({"issuer": "NAME", "jwks_uri": "file:///etc/passwd"}, "not https"),
        ({"issuer": "NAME"}, "does not say"),
        ({"issuer": "NAME", "jwks_uri": 5}, "not https"),
        ({"keys": []}, "does not say"),
    ],
)
async def test_a_discovery_document_that_is_not_the_issuers_own_is_refused(
    issuer: Issuer, asking: IssuerClient, discovery: dict[str, object], why: str
) -> None:
    issuer.discovery = {name: issuer.name if each == "NAME" else each for name, each in discovery.items()}
    with pytest.raises(Unanswered, match=why):
        await asking.keys(issuer.name)
    assert issuer.times() == 0


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"keys": []}', b"x" * (MOST_BYTES + 1)])
async def test_a_body_that_is_not_a_key_set_is_no_answer(issuer: Issuer, asking: IssuerClient, body: bytes) -> None:
    issuer.body = body
    with pytest.raises(Unanswered):
        await asking.keys(issuer.name)


@pytest.mark.parametrize("times", [1, 2])
async def test_an_answer_that_grows_when_it_is_unpacked_is_not_unpacked(issuer: Issuer, times: int) -> None:
    issuer.body = b" " * (64 << 20)
    for _ in range(times):
        issuer.body = gzip.compress(issuer.body)
    issuer.encoding = ", ".join(["gzip"] * times)
    asking = IssuerClient()
    tracemalloc.start()
    try:
        with pytest.raises(Unanswered, match="compressed"):
            await asking.keys(issuer.name)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
        await asking.close()


async def test_errors_and_redirects_are_no_answers(issuer: Issuer, asking: IssuerClient) -> None:
    issuer.location = "https://login.example.com/keys"
    with pytest.raises(Unanswered, match="302"):
        await asking.keys(issuer.name)
    issuer.status = 500
    with pytest.raises(Unanswered, match="500"):
        await asking.keys(issuer.name)
    with pytest.raises(Unanswered, match="does not answer"):
        await asking.keys("http://127.0.0.1:1")


async def test_a_request_to_an_issuer_that_does_not_answer_ends_in_time(
    issuer: Issuer, asking: IssuerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "TOTAL_SECONDS", 0.2)
    issuer.answers.clear()
    with pytest.raises(Unanswered, match="no answer"):
        await asking.keys(issuer.name)


async def test_issuers_that_do_not_answer_delay_no_other_issuer(asking: IssuerClient, issuer: Issuer) -> None:
    with ExitStack() as others:
        silent = [others.enter_context(serving()) for _ in range(MOST_ISSUERS - 1)]
        for each in silent:
            each.answers.clear()
        waiting = [asyncio.create_task(asking.keys(each.name)) for each in silent]
        await asyncio.wait(waiting, timeout=0.5)  # their requests are under way
        async with asyncio.timeout(3):
            assert [name for name, _ in await asking.keys(issuer.name)] == ["first"]
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def test_the_keys_of_an_issuer_on_this_machine_do_not_come_through_a_proxy(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy:
        for name in ("HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.name)
        asking = IssuerClient()
        assert [name for name, _ in await asking.keys(issuer.name)] == ["first"]
        await asking.close()
        assert not proxy.asked


@pytest.mark.parametrize("host", ["a..b", "xn--", "a\ud800b", "\u3002"])
async def test_a_host_that_can_not_be_looked_up_gives_no_answer(issuer: Issuer, asking: IssuerClient, host: str) -> None:
    issuer.discovery = {"issuer": issuer.name, "jwks_uri": f"https://{host}/keys"}
    with pytest.raises(Unanswered, match=r"does not answer|not https"):
        await asking.keys(issuer.name)
