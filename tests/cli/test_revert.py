"""The revert command, against a real server."""

from __future__ import annotations

from tests.cli.conftest import Terminal

TOPIC = "persistent://public/a/orders"


def test_a_document_becomes_again_what_it_was_at_a_version(recorded: Terminal) -> None:
    first = recorded.json("update", TOPIC, "max_producer_per_topic=1", "compaction_threshold=5")["version"]
    recorded.json("update", TOPIC, "max_producer_per_topic=2", "message_ttl_in_seconds=60")
    tried = recorded.run("revert", TOPIC, "--to", first, "--dry-run")
    assert tried.exit_code == 0
    assert tried.stderr == "1 document is not as it was then.\n"
    assert recorded.json("get", TOPIC)["policies"]["max_producer_per_topic"] == 2, "a dry run changed something"
    done = recorded.run("revert", TOPIC, "--to", first, "--reason", "too many")
    assert (done.exit_code, done.stderr) == (0, "1 document is not as it was then.\n1 document changed\n")
    assert recorded.json("get", TOPIC)["policies"] == {
        "max_producer_per_topic": 1,
        "compaction_threshold": "5",
    }
    (last, *_) = recorded.lines("history", TOPIC)
    assert last["entry"]["changed"] == ["max_producer_per_topic", "message_ttl_in_seconds"]
    assert last["entry"]["origin"]["reason"] == "too many"
    again = recorded.run("revert", TOPIC, "--to", first)
    assert (again.exit_code, again.stderr) == (0, "Everything is as it was then.\n")


def test_a_document_that_did_not_exist_then_is_deleted_and_a_deleted_one_comes_back(recorded: Terminal) -> None:
    made = recorded.json("update", TOPIC, "max_producer_per_topic=1")["version"]
    recorded.json("delete", TOPIC)
    deleted = recorded.lines("history", TOPIC)[0]["entry"]["document"]["version"]
    assert recorded.run("revert", TOPIC, "--to", made).exit_code == 0
    assert recorded.json("get", TOPIC)["policies"] == {"max_producer_per_topic": 1}
    assert recorded.run("revert", TOPIC, "--to", deleted).exit_code == 0
    assert recorded.run("get", TOPIC).exit_code == 4


def test_a_moment_that_the_history_does_not_have_changes_nothing(recorded: Terminal) -> None:
    recorded.json("update", TOPIC, "max_producer_per_topic=1")
    refused = recorded.run("revert", TOPIC, "--to", "999999")
    assert refused.exit_code == 1
    assert "no such version" in refused.stderr
    assert recorded.json("get", TOPIC)["policies"] == {"max_producer_per_topic": 1}
