"""Commands against a server that asks who calls: the token stands in a file, and is told to nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access.signing import SECRET, token
from tests.cli.conftest import TOPIC, Terminal
from tests.cli.real_server import running
from topicpolicies_server.config import AuthenticationConfig, AuthorizationConfig, TokenConfig


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal of a server that asks for tokens; ``gateway`` is a proxy."""
    key = tmp_path / "secret.key"
    key.write_bytes(SECRET)
    authentication = AuthenticationConfig(token=TokenConfig(secret_key_file=key))
    with running(tmp_path, authentication=authentication) as address:
        yield Terminal(address)


def test_the_token_of_a_file_says_who_calls(asked: Terminal, tmp_path: Path) -> None:
    mine = tmp_path / "token"
    mine.write_text(token(sub="alice"))
    assert asked.run("update", TOPIC, "max_producer_per_topic=5", "--token-file", str(mine)).exit_code == 0
    asked.environment["TOPICPOLICIES_TOKEN_FILE"] = str(mine)
    told = asked.run("history", TOPIC)
    assert told.exit_code == 0
    assert 'alice, who claimed to be "tests"' in told.stdout
    (entry,) = (each["entry"] for each in asked.lines("history", TOPIC))
    origin = entry["origin"]
    assert (origin["actor"], origin["actor_standing"]) == ("alice", "ACTOR_STANDING_AUTHENTICATED")
    assert (origin["principal"], origin["claimed_actor"]) == ("alice", "tests")


def test_without_a_token_or_with_a_bad_one_the_command_says_why(asked: Terminal, tmp_path: Path) -> None:
    _, error = asked.failing("get", TOPIC)
    assert (error["code"], error["reason"]) == ("UNAUTHENTICATED", "CREDENTIALS_MISSING")
    bad = tmp_path / "bad"
    bad.write_text(token(bytes(32)))
    _, error = asked.failing("get", TOPIC, "--token-file", str(bad))
    assert error["reason"] == "CREDENTIALS_INVALID" and bad.read_text() not in str(error)
    bad.write_text("")
    assert asked.failing("get", TOPIC, "--token-file", str(bad))[1]["reason"] == "MALFORMED_TOKEN"
    code, error = asked.failing("get", TOPIC, "--token-file", str(tmp_path / "gone"))
    assert (code, error["reason"]) == (2, "USAGE") and "--token-file" in error["message"]


def test_a_token_goes_to_no_other_machine_without_tls(asked: Terminal, tmp_path: Path) -> None:
    mine = tmp_path / "token"
    mine.write_text(token())
    _, error = asked.failing("get", TOPIC, "--server", "policies.example:6680", "--no-tls", "--token-file", str(mine))
    assert error["reason"] == "TOKEN_IN_THE_CLEAR"


def test_health_needs_none(asked: Terminal) -> None:
    assert asked.run("health").exit_code == 0


def test_top_shows_a_namespace_that_may_not_be_watched_as_a_problem(tmp_path: Path) -> None:
    key, mine, roles = tmp_path / "secret.key", tmp_path / "token", tmp_path / "roles.toml"
    key.write_bytes(SECRET)
    mine.write_text(token(sub="alice"))
    roles.write_text('[[grants]]\nroles = ["alice"]\nnamespaces = ["public/a"]\npermissions = ["watch", "history"]\n')
    asks = AuthenticationConfig(token=TokenConfig(secret_key_file=key))
    with running(tmp_path, authentication=asks, authorization=AuthorizationConfig(file=roles)) as address:
        terminal = Terminal(address)
        terminal.environment["TOPICPOLICIES_TOKEN_FILE"] = str(mine)
        once = ("--once", "--seconds", "0.2")
        found = terminal.json("top", "public/b", "public/a", "persistent://public/c/orders", *once)
        assert found["problems"] == [
            f'"alice" may not do this in public/{name}: it needs the permission "watch" there.' for name in ("b", "c")
        ]
        assert found["loading"] == []
        code, error = terminal.failing("top", "public/b", "public/c", *once)
        assert (code, error["reason"]) == (1, "PERMISSION_DENIED")


def test_without_a_token_the_option_is_named_that_gives_one(asked: Terminal) -> None:
    assert "Say --token-file FILE" in asked.run("get", TOPIC).stderr
