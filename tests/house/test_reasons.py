"""The reasons of errors: the definition, the server's enum and the uses in the server's code agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from proto.reasons import PREFIX, Reason
from topicpolicies.v1 import errors_pb2
from topicpolicies_server.core import reasons as server_reasons
from topicpolicies_server.core.errors import Kind

_SERVER = Path(__file__).resolve().parents[2] / "server" / "topicpolicies_server"
_COMMAND_LINE = _SERVER / "cli"
"""The command line has reasons of its own about its arguments, which no call has."""
_PATHS = _SERVER.parents[1] / "clients" / "python" / "topicpolicies" / "masks.py"
"""The parser of paths, which the server uses; its reasons are the server's."""
_CLIENTS_ONLY = "Only clients say this"
"""The beginning of a sentence in the comment of a reason that only clients use."""
_STATUS = re.compile(r"[A-Z]+(?:_[A-Z]+)+|INTERNAL|UNAVAILABLE|ABORTED")
_LOOKS_LIKE_A_REASON = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_IMPLIED = {"invalid": Kind.INVALID_ARGUMENT, "LogError": Kind.UNAVAILABLE}
"""The kinds of errors of these calls if they name none."""
_TAKES_REASONS = {"LogError", "NotLeader", "PathError", "PolicyError", "Reason", "Violation", "invalid", "refusal", "reset", "unavailable"}
"""Functions and classes that take a reason, also as a text."""


class Use(NamedTuple):
    """A use of a reason in the code."""

    place: str
    reason: str
    kinds: frozenset[str]
    """The kinds of the error; empty if the code does not name one."""
    metadata: frozenset[str] | None
    """The keys of the error's metadata; None if they are not literal."""


@pytest.fixture(scope="module")
def uses() -> list[Use]:
    """The uses of reasons in the server's code."""
    return [each for path in _sources() for each in _uses(path.name, ast.parse(path.read_text()))]


def _sources() -> list[Path]:
    paths = [path for path in _SERVER.rglob("*.py") if not path.is_relative_to(_COMMAND_LINE) and path.name != "reasons.py"]
    return [*sorted(paths), _PATHS]


def _uses(place: str, tree: ast.AST) -> Iterator[Use]:
    """Yields each ``Reason.X`` of a module, and each call with one, or with a text in its place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _names(node, "Reason"):
            yield Use(f"{place}:{node.lineno}", node.attr, frozenset(), None)
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        kinds = frozenset(each.attr for each in given if isinstance(each, ast.Attribute) and _names(each, "Kind", "ErrorKind"))
        if called in _IMPLIED and not kinds:
            kinds = frozenset({_IMPLIED[called].name})
        for each in given:
            if isinstance(each, ast.Attribute) and _names(each, "Reason"):
                # The reason of a violation is the error's own only if all violations agree.
                yield Use(f"{place}:{node.lineno}", each.attr, frozenset() if called == "refusal" else kinds, _metadata(node))
            elif called in _TAKES_REASONS and (text := _text(each)) and _LOOKS_LIKE_A_REASON.fullmatch(text):
                yield Use(f"{place}:{node.lineno}", text, kinds, None)


def _names(node: ast.Attribute, *owners: str) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in owners and node.attr.isupper()


def _text(node: ast.AST) -> str:
    """Returns a literal text; "" for other nodes."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _metadata(call: ast.Call) -> frozenset[str] | None:
    """Returns the keys of a call's metadata if they are literal."""
    for keyword in call.keywords:
        if keyword.arg == "metadata" and isinstance(keyword.value, ast.Dict):
            return frozenset(_text(key) for key in keyword.value.keys if key is not None)
    return None


def _wrong_statuses(uses: Iterable[Use], promised: dict[str, Reason]) -> list[str]:
    """Returns the uses of reasons with a kind of error that the comment of the reason does not name."""
    return [
        f"{each.place}: {each.reason} is {', '.join(sorted(each.kinds))}"
        for each in uses
        if each.reason in promised and not each.kinds <= {promised[each.reason].status, *_STATUS.findall(promised[each.reason].what)}
    ]


def test_the_definition_and_the_server_have_the_same_reasons(promised: dict[str, Reason]) -> None:
    names = [reason.value for reason in server_reasons.Reason]
    assert names == [reason.name for reason in server_reasons.Reason]
    assert names == list(promised)
    assert names == [name.removeprefix(PREFIX) for name, number in errors_pb2.ErrorReason.items() if number]


def test_every_reason_in_the_code_is_in_the_definition(uses: list[Use], promised: dict[str, Reason]) -> None:
    assert [each for each in uses if each.reason not in promised] == []


def test_every_reason_is_used_by_the_server_or_marked_as_the_clients(uses: list[Use], promised: dict[str, Reason]) -> None:
    used = {each.reason for each in uses}
    assert len(used) > 100
    of_clients = {name for name, reason in promised.items() if _CLIENTS_ONLY in reason.what}
    assert promised.keys() - used == of_clients


def test_errors_have_the_kind_that_the_comment_of_their_reason_names(uses: list[Use], promised: dict[str, Reason]) -> None:
    assert sum(bool(each.kinds) for each in uses) > 100
    assert _wrong_statuses(uses, promised) == []


def test_errors_have_only_metadata_that_the_comment_of_their_reason_names(uses: list[Use], promised: dict[str, Reason]) -> None:
    given = [each for each in uses if each.metadata is not None]
    assert len(given) >= 10
    assert [each for each in given if not (each.metadata or frozenset()) <= set(promised[each.reason].metadata)] == []


def test_every_reason_but_those_of_watches_names_its_status_and_whether_to_repeat(promised: dict[str, Reason]) -> None:
    silent = [name for name, reason in promised.items() if not (reason.status and reason.repeat)]
    assert silent == ["NAMESPACE_LOADING", "TOKEN_OUT_OF_RANGE", "TOPIC_POLICIES_SWITCHED", "EVENTS_GONE"]
    assert {reason.status for reason in promised.values() if reason.status} <= {kind.value for kind in Kind}
    sections = [reason.section for reason in promised.values() if reason.section]
    assert any("No call has these as its status" in section for section in sections)


def test_requests_that_may_have_been_applied_are_to_be_repeated_with_the_same_id_only(promised: dict[str, Reason]) -> None:
    assert [name for name, reason in promised.items() if reason.repeat == "same id"] == ["OUTCOME_UNKNOWN", "INTERNAL"]
    assert "request_id" in promised["OUTCOME_UNKNOWN"].metadata


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('raise LogError("NO_SUCH_REASON", "Why.")', ["NO_SUCH_REASON"]),
        ('invalid("NOPE", Violation("topic", Reason.BLANK, "Why."))', ["NOPE"]),
        ('Violation("field", "NO_REASON", "A sentence.")', ["NO_REASON"]),
        ("raise PolicyError(Kind.ABORTED, Reason.NO_SUCH_REASON, 'Why.')", ["NO_SUCH_REASON", "NO_SUCH_REASON"]),
        ("reasons = {1: Reason.GONE}", ["GONE"]),
        ('Violation("topic", Reason.BLANK, "It is EMPTY."); other("NOT_A_REASON")', []),
    ],
)
def test_a_planted_reason_that_the_definition_lacks_is_reported(promised: dict[str, Reason], code: str, found: list[str]) -> None:
    assert [each.reason for each in _uses("planted.py", ast.parse(code)) if each.reason not in promised] == found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('PolicyError(Kind.NOT_FOUND, Reason.ETAG_MISMATCH, "Why.")', ["planted.py:1: ETAG_MISMATCH is NOT_FOUND"]),
        ('LogError(Reason.LOG_BUSY, "Why.")', ["planted.py:1: LOG_BUSY is UNAVAILABLE"]),
        ('LogError(Reason.LOG_BUSY, "Why.", kind=Kind.RESOURCE_EXHAUSTED)', []),
        ("invalid(Reason.CONTENTION)", ["planted.py:1: CONTENTION is INVALID_ARGUMENT"]),
    ],
)
def test_a_planted_error_of_another_kind_than_its_reason_names_is_reported(
    promised: dict[str, Reason], code: str, found: list[str]
) -> None:
    assert _wrong_statuses(_uses("planted.py", ast.parse(code)), promised) == found
