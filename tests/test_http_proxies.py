"""A proxy of the environment that can't be used is reported in a sentence, without its password."""

from __future__ import annotations

import pytest

from topicpolicies_server.access.issuers import Unanswered, fetch_keys, trusting

WRONG = [
    ("ALL_PROXY", "socks5://me:fish@127.0.0.1:1080"),
    ("HTTPS_PROXY", "ftp://me:fish@127.0.0.1:1080"),
    ("HTTPS_PROXY", "http://me:sword/fish@127.0.0.1:1080"),
    ("NO_PROXY", "[::1"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
async def test_a_proxy_that_can_not_be_used_is_reported_in_a_sentence_without_its_password(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(each, raising=False)
        monkeypatch.delenv(each.lower(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1080")
    monkeypatch.setenv(name, value)
    with pytest.raises(Unanswered, match="a proxy in the environment can't be used") as caught:
        await fetch_keys(trusting(None), "https://127.0.0.1:1")
    assert "fish" not in str(caught.value)
