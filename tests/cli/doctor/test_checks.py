"""How checks are run and shown, and the findings that need no server."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from topicpolicies_server.cli.doctor import Doctor, Problem
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason


def raising(error: Exception) -> Callable[[], str]:
    def run() -> str:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(2, "No such file or directory", "/a"), "/a: No such file or directory"),
        (ConnectionRefusedError(), "ConnectionRefusedError"),
        (PolicyError(Kind.UNAVAILABLE, Reason.CLUSTER_UNAVAILABLE, "No answer."), "CLUSTER_UNAVAILABLE: No answer."),
    ],
)
def test_a_check_that_raises_fails_and_the_others_are_run(error: Exception, told: str) -> None:
    doctor = Doctor(silent=True)
    doctor.check("address", raising(error))
    doctor.check("broker.admin", lambda: "well")
    assert [(each["level"], each["told"], each["remedy"]) for each in doctor.findings] == [
        ("failed", told, doctor.findings[0]["remedy"]),
        ("ok", "well", ""),
    ]
    assert "--server" in doctor.findings[0]["remedy"]


def test_a_check_that_needs_a_failed_or_skipped_one_is_skipped_and_names_it() -> None:
    doctor = Doctor(silent=True)
    doctor.check("address", raising(Problem("no")))
    doctor.check("server.service", lambda: "")
    doctor.check("server.readiness", lambda: "")
    doctor.check("broker.admin", raising(Problem("soon", level="warning")))
    doctor.check("token.accepted", lambda: "")
    found = doctor.findings
    assert [each["level"] for each in found] == ["failed", "skipped", "skipped", "warning", "ok"]
    assert "address" in found[1]["told"]
    assert doctor.counts == {"ok": 1, "warning": 1, "failed": 1, "skipped": 2}


def test_lines_for_people_and_json_have_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    doctor = Doctor(silent=False)
    doctor.check("broker.service", raising(Problem("no \x1b[1m")))
    assert capsys.readouterr().out.splitlines() == [
        "failed   the brokers accept connections: no \\x1b[1m",
        f"         remedy: {doctor.findings[0]['remedy']}",
    ]
    expected = {"check": "broker.service", "level": "failed", "holds": "the brokers accept connections", "told": "no \x1b[1m"}
    assert json.loads(json.dumps(doctor.findings)) == [expected | {"remedy": doctor.findings[0]["remedy"]}]
