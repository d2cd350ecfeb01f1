"""The Protobuf definitions pass lint, are compatible with the last release, and generate the committed code."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proto import buf, generate
from topicpolicies.v1 import errors_pb2
from topicpolicies_server.core.reasons import Reason

_ROOT = Path(__file__).resolve().parents[2]
_PROTO = _ROOT / "proto"
_PYTHON = _ROOT / "clients" / "python"
_FOUND = 100
"""buf's exit status if it has found problems; it has others if it could not do its work."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the definitions, which tests may change."""
    return shutil.copytree(_PROTO, tmp_path / "proto")


def spoil(definitions: Path, file: str, before: str, after: str) -> None:
    """Replaces a text, which must be there, in one file of the definitions below a root."""
    path = definitions / "topicpolicies" / "v1" / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def _judged(command: str, definitions: Path = _PROTO) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(_PROTO / "buf.py"), command, str(definitions)]
    return subprocess.run(program, capture_output=True, text=True, check=False, cwd=_ROOT)


def test_the_definitions_pass_lint_and_format() -> None:
    lint = _judged("lint")
    assert (lint.returncode, lint.stdout, lint.stderr) == (0, "", "")
    command = [str(Path(sys.executable).with_name("buf")), "format", "proto", "--diff", "--exit-code"]
    layout = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)
    assert (layout.returncode, layout.stdout) == (0, "")


@pytest.mark.parametrize(
    ("file", "before", "after", "complaint"),
    [
        ("service.proto", "rpc GetPolicy(", "rpc FetchPolicy(", 'RPC "GetPolicy"'),
        ("policies.proto", "EntryFilters entry_filters = 11;", "string entry_filters = 11;", "changed type"),
        ("service.proto", "string topic = 1", "string topic = 100", 'field "1" with name "topic"'),
    ],
    ids=["an RPC renamed", "a field of another type", "a field renumbered"],
)
def test_an_incompatible_change_is_refused(copy: Path, file: str, before: str, after: str, complaint: str) -> None:
    spoil(copy, file, before, after)
    answer = _judged("breaking", copy)
    assert answer.returncode == _FOUND
    assert complaint in answer.stdout


def test_a_definition_without_comments_is_refused(copy: Path) -> None:
    spoil(copy, "service.proto", "  // Reads one document.\n", "")
    answer = _judged("lint", copy)
    assert answer.returncode == _FOUND
    assert "GetPolicy" in answer.stdout


@pytest.mark.parametrize("command", ["lint", "breaking", "baseline"])
def test_a_missing_import_is_an_error_that_names_it(copy: Path, command: str) -> None:
    spoil(copy, "service.proto", "google/rpc/status.proto", "google/rpc/no_such.proto")
    before = buf.BASELINE.read_bytes()
    answer = _judged(command, copy)
    assert answer.returncode not in {0, _FOUND}
    assert "google/rpc/no_such.proto" in answer.stderr
    assert buf.BASELINE.read_bytes() == before


def test_changes_are_compared_with_a_newly_taken_baseline(copy: Path, tmp_path: Path) -> None:
    spoil(copy, "service.proto", "rpc GetPolicy(", "rpc FetchPolicy(")
    taken = tmp_path / "baseline.binpb"
    assert buf.baseline(copy, taken) == 0
    assert buf.breaking(copy, taken) == 0
    assert buf.breaking(_PROTO, taken) == _FOUND


def test_a_definition_changed_without_generating_is_reported(copy: Path, tmp_path: Path) -> None:
    spoil(copy, "service.proto", "rpc GetPolicy(", "rpc FetchPolicy(")
    generate.generate(tmp_path, copy)
    changes = generate.differences(_PYTHON, tmp_path)
    assert any(line.startswith("+    def FetchPolicy(") for line in changes)


def test_code_left_over_from_a_removed_definition_is_reported(tmp_path: Path) -> None:
    generate.generate(tmp_path)
    committed = tmp_path / "committed"
    shutil.copytree(tmp_path / "topicpolicies", committed / "topicpolicies")
    (committed / "topicpolicies" / "v1" / "gone_pb2.py").write_text("print()\n")
    assert "--- committed/topicpolicies/v1/gone_pb2.py\n" in generate.differences(committed, tmp_path)


def test_the_server_has_the_reasons_of_the_definition() -> None:
    assert [f"ERROR_REASON_{reason.value}" for reason in Reason] == [name for name, number in errors_pb2.ErrorReason.items() if number]
