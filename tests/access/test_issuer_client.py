"""Keys of issuers are requested over HTTP, and invalid answers are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from topicpolicies_server.access import issuers
from topicpolicies_server.access.issuers import Unanswered, fetch_keys, trusting

from .issuer import Issuer, serving
from .signing import curve_key, jwk


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer with one key."""
    with serving() as running:
        running.keys = [jwk(curve_key(), "first")]
        yield running


async def test_the_keys_are_found_by_the_discovery_document_of_the_issuer(issuer: Issuer) -> None:
    assert [name for name, _ in await fetch_keys(trusting(None), issuer.name)] == ["first"]
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
async def test_a_discovery_document_that_is_not_the_issuers_own_is_refused(issuer: Issuer, discovery: dict[str, object], why: str) -> None:
    issuer.discovery = {name: issuer.name if each == "NAME" else each for name, each in discovery.items()}
    with pytest.raises(Unanswered, match=why):
        await fetch_keys(trusting(None), issuer.name)
    assert issuer.times() == 0


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"keys": []}'])
async def test_a_body_that_is_not_a_key_set_is_no_answer(issuer: Issuer, body: bytes) -> None:
    issuer.body = body
    with pytest.raises(Unanswered):
        await fetch_keys(trusting(None), issuer.name)


async def test_errors_and_redirects_are_no_answers(issuer: Issuer) -> None:
    issuer.location = "https://login.example.com/keys"
    with pytest.raises(Unanswered, match="302"):
        await fetch_keys(trusting(None), issuer.name)
    issuer.status = 500
    with pytest.raises(Unanswered, match="500"):
        await fetch_keys(trusting(None), issuer.name)
    with pytest.raises(Unanswered, match="does not answer"):
        await fetch_keys(trusting(None), "http://127.0.0.1:1")


async def test_a_request_to_an_issuer_that_does_not_answer_ends_in_time(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "TOTAL_SECONDS", 0.2)
    issuer.answers.clear()
    with pytest.raises(Unanswered, match="no answer"):
        await fetch_keys(trusting(None), issuer.name)


async def test_the_keys_of_an_issuer_on_this_machine_do_not_come_through_a_proxy(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy:
        for name in ("HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.name)
        assert [name for name, _ in await fetch_keys(trusting(None), issuer.name)] == ["first"]
        assert not proxy.asked


@pytest.mark.parametrize("host", ["a..b", "xn--", "a\ud800b", "\u3002"])
async def test_a_host_that_can_not_be_looked_up_gives_no_answer(issuer: Issuer, host: str) -> None:
    issuer.discovery = {"issuer": issuer.name, "jwks_uri": f"https://{host}/keys"}
    with pytest.raises(Unanswered, match=r"does not answer|not https"):
        await fetch_keys(trusting(None), issuer.name)
