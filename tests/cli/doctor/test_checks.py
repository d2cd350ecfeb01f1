"""How checks are run and shown, and the findings that need no server."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from topicpolicies_server.cli.doctor import Check, Doctor, Problem
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason

CHECKS = {name: Check("it holds", "Mend it.") for name in ("a", "b", "failed", "warned")}
CHECKS |= {name: Check("it holds", "Mend it.", needs) for name, needs in (("above", "failed"), ("higher", "above"), ("on_it", "warned"))}


def raising(error: Exception) -> Callable[[], str]:
    def run() -> str:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(2, "No such file or directory", "/a"), "/a: No such file or directory"),
        (ConnectionRefusedError(), "ConnectionRefusedError"),
        (PolicyError(Kind.UNAVAILABLE, Reason.CLUSTER_UNAVAILABLE, "No answer."), "No answer."),
    ],
)
def test_a_check_that_raises_fails_and_the_others_are_run(error: Exception, told: str) -> None:
    doctor = Doctor(CHECKS, silent=True)
    doctor.check("a", raising(error))
    doctor.check("b", lambda: "well")
    assert [(each["level"], each["told"], each["remedy"]) for each in doctor.findings] == [("failed", told, "Mend it."), ("ok", "well", "")]


def test_a_check_that_needs_a_failed_or_skipped_one_is_skipped_and_names_it() -> None:
    doctor = Doctor(CHECKS, silent=True)
    doctor.check("failed", raising(Problem("no")))
    doctor.check("above", lambda: "")
    doctor.check("higher", lambda: "")
    doctor.check("warned", raising(Problem("soon", "Hurry.", level="warning")))
    doctor.check("on_it", lambda: "")
    found = doctor.findings
    assert [each["level"] for each in found] == ["failed", "skipped", "skipped", "warning", "ok"]
    assert "failed" in found[1]["told"] and found[3]["remedy"] == "Hurry."
    assert doctor.counts == {"ok": 1, "warning": 1, "failed": 1, "skipped": 2}


def test_lines_fit_80_columns_and_json_has_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    doctor = Doctor(CHECKS, silent=False)
    doctor.check("a", raising(Problem("no " * 90 + "\x1b[1m")))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 or "\x1b" in line] == []
    assert lines[0].startswith("failed   it holds: no") and lines[-1] == "         remedy: Mend it."
    expected = {"check": "a", "level": "failed", "holds": "it holds", "told": "", "remedy": "Mend it."}
    assert json.loads(json.dumps(doctor.findings)) == [expected | {"told": doctor.findings[0]["told"]}]
