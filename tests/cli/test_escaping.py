"""Nothing that others have written moves the cursor, changes colours, or looks like a line of the command's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import TOPIC, A, Terminal
from topicpolicies import Client, TopicPolicies

NASTY = "\x1b]0;title\x07\x1b[31mred\n2026-01-01 00:00:00.000  a line of its own\u009b31m\u202ereversed"


@pytest.fixture
def hostile(terminal: Terminal) -> Terminal:
    """Somebody has put into a document, beside it and around it, what a terminal would obey."""
    policies = TopicPolicies(max_producer_per_topic=1)
    policies.subscription_policies[NASTY].dispatch_rate.dispatch_throttling_rate_in_msg = 100
    policies.offload_policies.managed_ledger_offload_driver = "filesystem"
    policies.offload_policies.managed_ledger_extra_configurations[f"managedLedgerOffloadExtraConfig{NASTY}"] = NASTY
    with Client(terminal.address) as client:
        client.update(TOPIC, TopicPolicies(max_producer_per_topic=2))
        client.update(TOPIC, policies, actor=NASTY, reason=NASTY)
        client.update(f"persistent://{A}/one\u009b31m\u202e", max_producer_per_topic=1)
    return terminal


COMMANDS = [
    ("get", TOPIC),
    ("list", A),
    ("history", TOPIC),
    ("history", TOPIC, "--limit", "1"),
    ("watch", A, "--until-synced"),
    ("watch", A, "--mode", "history", "--until-synced"),
    ("update", TOPIC, "max_producer_per_topic=4"),
    ("delete", TOPIC),
    ("get", f"persistent://{A}/wrong/{NASTY}"),
    ("list", f"{A}{NASTY}"),
    ("update", TOPIC, f"max_producer_per_topic={NASTY}"),
]


@pytest.mark.parametrize("columns", ["40", "200", "2000"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(ascii, command))[:40])
def test_what_others_have_written_is_not_obeyed_by_a_terminal(hostile: Terminal, command: tuple[str, ...], columns: str) -> None:
    hostile.environment["COLUMNS"] = columns
    result = hostile.run(*command)
    for text in (result.stdout, result.stderr):
        assert [character for character in text if not character.isprintable() and character != "\n"] == []
        assert not [line for line in text.splitlines() if line.startswith("2026-01-01")]
    assert result.stdout or result.stderr


def test_so_it_is_with_a_file_that_others_have_written(hostile: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(
        'version: 1\npolicies:\n  - topic: "public/a/orders"\n    set:\n      max_producer_per_topic: 3\n'
        '      subscription_policies: {"\\e[31m\\n": {dispatch_rate: {dispatch_throttling_rate_in_msg: 1}}}\n'
    )
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text('version: 1\npolicies:\n  - topic: "a/\\e[31m/b"\n    set: {}\n  - {pattern: "\\e[31m", set: {}}\n')
    for named in (file, wrong):
        result = hostile.run("plan", "-f", str(named))
        assert result.exit_code in (2, 7)
        for text in (result.stdout, result.stderr):
            assert "\x1b" not in text
