"""How checks are run and shown, and the findings that need no server."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from topicpolicies.addresses import Place
from topicpolicies_server.cli.checks import Check, Finding, Level, counts, examine, failed, ok
from topicpolicies_server.cli.sidecar import resolved
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason


def check(name: str, run: Callable[[], Finding], needs: str = "") -> Check:
    return Check(name, "it holds", "Mend it.", run, needs)


def raising(error: Exception) -> Callable[[], Finding]:
    def run() -> Finding:
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
    found = list(examine([check("a", raising(error)), check("b", lambda: ok("well"))]))
    assert [result.finding for result in found] == [failed(told), ok("well")]
    assert [result.remedy for result in found] == ["Mend it.", ""]


def test_a_check_that_needs_a_failed_or_skipped_one_is_skipped_and_names_it() -> None:
    warning = Finding(Level.WARNING, "soon", "Hurry.")
    found = list(
        examine(
            [
                check("failed", lambda: failed("no")),
                check("above", ok, "failed"),
                check("higher", ok, "above"),
                check("warned", lambda: warning),
                check("on_it", ok, "warned"),
            ]
        )
    )
    assert [result.finding.level.value for result in found] == ["failed", "skipped", "skipped", "warning", "ok"]
    assert "failed" in found[1].finding.told and found[3].remedy == "Hurry."
    assert counts(found) == {"ok": 1, "warning": 1, "failed": 1, "skipped": 2}


def test_lines_fit_80_columns_and_json_has_the_remedy() -> None:
    (found,) = examine([check("a.failed", lambda: failed("no " * 90 + "\x1b[1m"))])
    lines = list(found.lines())
    assert [line for line in lines if len(line) > 80 or "\x1b" in line] == []
    assert lines[0].startswith("failed   it holds: no") and lines[-1] == "         remedy: Mend it."
    assert json.loads(json.dumps(found.json())) | {"told": ""} == {
        "check": "a.failed",
        "level": "failed",
        "holds": "it holds",
        "told": "",
        "remedy": "Mend it.",
    }


def test_a_host_that_can_not_be_resolved_is_named() -> None:
    found = resolved([Place("127.0.0.1", 1), Place("nowhere.invalid", 6680)])
    assert found.level is Level.FAILED and found.told.startswith("nowhere.invalid: ")
