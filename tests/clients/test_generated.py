"""The generated code of every language: a change of a definition is noticed, and generated files are marked as such."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from proto import generate_reference
from proto.generate import LANGUAGES, Language, differences
from proto.tools import ROOT
from tests import java_build

_in_a_checkout = pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="not a git checkout")


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    """A copy of the definitions in which one method is renamed."""
    copy = shutil.copytree(ROOT / "proto", tmp_path / "proto")
    service = copy / "topicpolicies" / "v1" / "service.proto"
    text = service.read_text()
    assert "rpc GetPolicy(" in text
    service.write_text(text.replace("rpc GetPolicy(", "rpc FetchPolicy(", 1))
    return copy


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_a_definition_that_was_changed_without_generating_is_noticed(language: Language, definitions: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    language.generate(fresh, definitions)
    changes = differences(language.out, fresh, language.pattern)
    assert any(line.startswith("+") and "fetchpolicy" in line.lower() for line in changes)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("java")
@pytest.mark.usefixtures("definitions")
def test_the_build_of_the_java_client_generates_code_from_the_definitions(tmp_path: Path) -> None:
    sources = tmp_path / "clients" / "java"
    for pom in java_build.SOURCES.rglob("pom.xml"):
        (sources / pom.relative_to(java_build.SOURCES)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pom, sources / pom.relative_to(java_build.SOURCES))
    java_build.generated(sources)
    (code,) = sources.rglob("TopicPoliciesServiceGrpc.java")
    assert "FetchPolicy" in code.read_text()
    assert "GetPolicyMethod" not in code.read_text()


def test_python_go_and_typescript_have_generated_code() -> None:
    assert [language.name for language in LANGUAGES] == ["Python", "Go", "TypeScript"]
    for language in LANGUAGES:
        assert len(list(language.out.glob(language.pattern))) >= 4


@_in_a_checkout
def test_generated_files_are_marked_as_generated_and_generated_code_is_excluded_from_diffs() -> None:
    code = [path for language in LANGUAGES for path in language.out.glob(language.pattern)]
    page = generate_reference.OUT / generate_reference.PATTERN
    marks = _attributes([*code, page])
    assert [path for path in (*code, page) if marks[path, "linguist-generated"] != "set"] == []
    assert [path for path in code if marks[path, "diff"] != "unset"] == []


@_in_a_checkout
def test_no_generated_java_is_committed() -> None:
    tracked = _git("ls-files", "-z", "--", "clients/java").split("\0")
    assert [path for path in tracked if "/v1/" in path or path.startswith("clients/java/stubs/src/")] == []
    assert "clients/java/stubs/pom.xml" in tracked


def _attributes(paths: list[Path]) -> dict[tuple[Path, str], str]:
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    output = _git("check-attr", "-z", "linguist-generated", "diff", "--", *names).split("\0")
    return {(ROOT / path, attribute): value for path, attribute, value in zip(output[::3], output[1::3], output[2::3], strict=False)}


def _git(*arguments: str) -> str:
    """Returns the output of git in this checkout, which may belong to another user, as in many build containers."""
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
