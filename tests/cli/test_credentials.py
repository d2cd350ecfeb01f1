"""Commands against a server that requires tokens: the token is read from a file, and sent to no other machine without TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.signing import SECRET, token
from tests.cli.conftest import TOPIC, Terminal
from tests.cli.real_server import running
from topicpolicies_server.config import AuthenticationConfig, TokenConfig


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal of a server that requires tokens."""
    key = tmp_path / "secret.key"
    key.write_bytes(SECRET)
    authentication = AuthenticationConfig(token=TokenConfig(secret_key_file=key))
    with running(tmp_path, authentication=authentication) as address:
        yield Terminal(address)


def test_the_caller_is_the_subject_of_the_token_in_the_file(secured: Terminal, tmp_path: Path) -> None:
    mine = tmp_path / "token"
    mine.write_text(token(sub="alice"))
    assert secured.run("update", TOPIC, "max_producer_per_topic=5", "--token-file", str(mine)).exit_code == 0
    secured.environment["TOPICPOLICIES_TOKEN_FILE"] = str(mine)
    history = secured.run("history", TOPIC)
    assert history.exit_code == 0
    assert 'alice, who named "tests" as the actor' in history.stdout
    (entry,) = (each["entry"] for each in secured.lines("history", TOPIC))
    origin = entry["origin"]
    assert (origin["actor"], origin["actor_standing"]) == ("alice", "ACTOR_STANDING_AUTHENTICATED")
    assert (origin["principal"], origin["claimed_actor"]) == ("alice", "tests")
    del secured.environment["TOPICPOLICIES_ACTOR"]
    assert secured.run("update", TOPIC, "max_producer_per_topic=6").exit_code == 0
    newest = secured.lines("history", TOPIC)[0]["entry"]["origin"]
    assert newest["actor"] == "alice" and "claimed_actor" not in newest, "a login name is no claim where credentials say who calls"


def test_a_missing_or_invalid_token_is_reported_with_the_reason(secured: Terminal, tmp_path: Path) -> None:
    _, error = secured.failing("get", TOPIC)
    assert (error["code"], error["reason"]) == ("UNAUTHENTICATED", "CREDENTIALS_MISSING")
    bad = tmp_path / "bad"
    bad.write_text(token(bytes(32)))
    _, error = secured.failing("get", TOPIC, "--token-file", str(bad))
    assert error["reason"] == "CREDENTIALS_INVALID" and bad.read_text() not in str(error)
    bad.write_text("")
    assert secured.failing("get", TOPIC, "--token-file", str(bad))[1]["violations"][0]["reason"] == "MALFORMED_TOKEN"
    code, error = secured.failing("get", TOPIC, "--token-file", str(tmp_path / "gone"))
    assert (code, error["reason"]) == (2, "USAGE") and "--token-file" in error["message"]


def test_a_token_goes_to_no_other_machine_without_tls(secured: Terminal, tmp_path: Path) -> None:
    mine = tmp_path / "token"
    mine.write_text(token())
    _, error = secured.failing("get", TOPIC, "--server", "policies.example:6680", "--no-tls", "--token-file", str(mine))
    assert error["violations"][0]["reason"] == "TOKEN_IN_THE_CLEAR"


def test_health_needs_no_token(secured: Terminal) -> None:
    assert secured.run("health").exit_code == 0


def test_without_a_token_the_option_is_named_that_gives_one(secured: Terminal) -> None:
    assert "Say --token-file FILE" in secured.run("get", TOPIC).stderr
