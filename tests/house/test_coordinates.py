"""The names under which the packages are published are in one file, and one command puts them everywhere else."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proto import coordinates, places, tools

_ROOT = tools.ROOT
_OTHERS = {
    "go.module": "git.first.test/policies-go",
    "java.group": "test.first.group",
    "java.package": "test.first.policies",
    "typescript.name": "@first/policies",
    "python.distribution": "first-policies",
}
_FURTHER = {
    "go.module": "second.test/a/b",
    "java.group": "second_group",
    "java.package": "second",
    "typescript.name": "second-policies",
    "python.distribution": "Second.Policies",
}
_TRACES = {
    "go.module": r"{old}/(?:topicpolicies|internal|example)\b",
    "java.group": r"<groupId>{old}<|\b{old}:topicpolicies-|<include>{old}:",
    "java.package": r"^(?:package|import|import static) {old}\.|java_package = \"{old}\.|[^/\w.\"]{old}\.v1\.[A-Z]\w+\.newBuilder"
    r"|{old}\.(?:broker|example)\.[A-Z]\w+",
    "typescript.name": r"\bfrom \"{old}(?:/v1)?\"|^ *\"name\": \"{old}\"",
    "python.distribution": r"^name = \"{old}\"|{old}\[(?:cli|server|spark|dev)\]|pip install '?{old}\b|metadata\.version\(\"{old}\"",
}
"""Patterns of places that have a name; the present names are also words with other meanings."""
_NAMES = """\
package ROOT.client;

import ROOT.v1.Scope;
import static ROOT.v1.ErrorReason.*;

/** See {@link ROOT.v1.Scope}, {@code ROOT.client}. */
final class Names {
    static final String SERVICE = "topicpolicies.v1.TopicPoliciesService";
    static final String CALL = "/topicpolicies.v1.TopicPoliciesService/GetPolicy";
    static final String DOMAIN = "topicpolicies", ACTOR = "topicpolicies-actor";
    static final String CLASS = "ROOT.client.Names";
    private ROOT.v1.Scope scope;
}
"""
"""A Java class that names Java packages and the Protobuf package."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the project, which tests may change."""
    return _copied(tmp_path / "copy")


@pytest.fixture(scope="module")
def same_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project for tests that leave it unchanged."""
    return _copied(tmp_path_factory.mktemp("same") / "copy")


def _copied(root: Path) -> Path:
    if shutil.which("git") is None or not (_ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    made = set[str]()
    for name in filter(None, listed.split("\0")):
        folder = os.path.dirname(name)  # noqa: PTH120 - thousands of files, many times
        if folder not in made:
            (root / folder).mkdir(parents=True, exist_ok=True)
            made.add(folder)
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(f"{_ROOT}/{name}", f"{root}/{name}")
    return root


@pytest.fixture
def names() -> dict[str, str]:
    """The present names."""
    return coordinates.wanted()


def _give(root: Path, names: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Changes the file of names in a copy, and runs the command there."""
    text = (root / coordinates.FILE.name).read_text()
    for key, value in names.items():
        table, name = key.split(".")
        text = re.sub(rf'(?ms)(^\[{table}\]\n.*?^{name} = )"[^"]*"', rf'\g<1>"{value}"', text)
    (root / coordinates.FILE.name).write_text(text)
    return _run(root, *options)


def _run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "proto" / "coordinates.py"), *options]
    environment = {**os.environ, "PYTHONPATH": ""}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=280)


def _contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and not {"node_modules", ".cache", "__pycache__"} & set(path.parts))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def _traces(root: Path, names: dict[str, str]) -> list[str]:
    found = []
    for path, raw in _contents(root).items():
        if path in {coordinates.FILE.name, "tests/house/test_coordinates.py"}:
            continue
        text = raw.decode(errors="replace")
        for key, pattern in _TRACES.items():
            filled = pattern.replace("{old}", re.escape(names[key]))
            # The package of a definition is the Protobuf package, which keeps its name.
            found += [
                f"{path}: {each[0]}"
                for each in re.finditer(filled, text, re.MULTILINE)
                if not (path.endswith(".proto") and each[0].startswith("package "))
            ]
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("generators")
def test_renaming_leaves_no_trace_of_the_old_names_and_can_be_undone(copy: Path, names: dict[str, str]) -> None:
    (_ROOT / ".cache").mkdir(exist_ok=True)  # a checkout has none before its first generation
    (copy / ".cache").symlink_to(_ROOT / ".cache")
    # An installation of packages empties the folder, so it must not be the project's own.
    shutil.copytree(tools.node_modules(), copy / "clients" / "typescript" / "node_modules", symlinks=True)
    before = _contents(copy)
    assert _traces(copy, names)

    given = _give(copy, _OTHERS)
    assert given.returncode == 0, given.stdout + given.stderr
    assert _traces(copy, names) == []
    moved = [path for path in _contents(copy) if path.endswith(".java") and "/src/" in path]
    assert len(moved) > 30
    assert [path for path in moved if "/java/test/first/policies/" not in path] == []
    assert [path for path in copy.rglob("java/topicpolicies") if path.is_dir()] == []

    given = _give(copy, _FURTHER)
    assert given.returncode == 0, given.stdout + given.stderr
    after = {path: raw for path, raw in _contents(copy).items() if path != "tests/house/test_coordinates.py"}
    kept = [(path, value) for path, raw in after.items() for value in _OTHERS.values() if value.encode() in raw]
    assert kept == []
    assert [path for path in after if "first" in path.split("/")] == []

    given = _give(copy, names)
    assert given.returncode == 0, given.stdout + given.stderr
    restored = _contents(copy)
    assert sorted(path for path in before.keys() | restored.keys() if before.get(path) != restored.get(path)) == []


def test_renaming_to_the_present_names_changes_nothing(same_copy: Path, names: dict[str, str]) -> None:
    before = _contents(same_copy)
    assert coordinates.stale(same_copy, names) == []
    assert coordinates.rename(same_copy, names) == []
    assert _contents(same_copy) == before


@pytest.mark.slow
def test_names_that_a_publisher_can_not_choose_are_not_renamed(copy: Path, names: dict[str, str]) -> None:
    old, new = names["java.package"], _OTHERS["java.package"]
    sources = copy / "clients" / "java" / "client" / "src" / "main" / "java"
    (sources / old.replace(".", "/") / "client" / "Names.java").write_text(_NAMES.replace("ROOT", old))
    coordinates.rename(copy, _OTHERS)
    assert (sources / new.replace(".", "/") / "client" / "Names.java").read_text() == _NAMES.replace("ROOT", new)
    assert "package topicpolicies.v1;" in (copy / "proto" / "topicpolicies" / "v1" / "service.proto").read_text()
    python = (copy / "pyproject.toml").read_text()
    assert 'packages = ["clients/python/topicpolicies"' in python
    assert 'topicpolicies = "topicpolicies_server.entry:main"' in python
    assert "from topicpolicies import Client" in (copy / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "old", "new", "key"),
    [
        ("clients/go/go.mod", "module NAME", "module elsewhere.test/go", "go.module"),
        (
            "clients/go/topicpolicies/doc.go",
            "\npackage topicpolicies\n",
            '\npackage topicpolicies\n\nimport "elsewhere.test/x/internal/x"\n',
            "go.module",
        ),
        ("clients/java/client/pom.xml", "<groupId>NAME</groupId>", "<groupId>elsewhere</groupId>", "java.group"),
        ("clients/java/pom.xml", "<groupId>NAME</groupId>", "<groupId>elsewhere</groupId>", "java.group"),
        ("proto/topicpolicies/v1/events.proto", 'java_package = "NAME.v1"', 'java_package = "elsewhere.v1"', "java.package"),
        ("clients/typescript/package.json", '"name": "NAME"', '"name": "@elsewhere/p"', "typescript.name"),
        ("pyproject.toml", '"NAME[cli]"', '"elsewhere[cli]"', "python.distribution"),
        ("server/topicpolicies_server/rpc/info.py", 'metadata.version("NAME")', 'metadata.version("elsewhere")', "python.distribution"),
    ],
)
def test_another_name_in_one_place_is_reported_and_renamed(
    same_copy: Path, names: dict[str, str], path: str, old: str, new: str, key: str
) -> None:
    before = (same_copy / path).read_text()
    old = old.replace("NAME", names[key])
    assert old in before
    try:
        (same_copy / path).write_text(before.replace(old, new, 1))
        answer = _run(same_copy, "--check")
        assert answer.returncode == 1
        (line,) = answer.stdout.splitlines()
        assert line.startswith(f"{path}:")
        assert f"{key} is " in line
        assert "run: python3 dev.py coordinates" in answer.stderr
        assert coordinates.rename(same_copy, names) == [path]
        assert coordinates.stale(same_copy, names) == []
    finally:
        (same_copy / path).write_text(before)


def test_a_java_source_outside_of_the_packages_is_reported(copy: Path, names: dict[str, str]) -> None:
    package = names["java.package"]
    sources = copy / "clients" / "java" / "client" / "src" / "main" / "java"
    (sources / "Lost.java").write_text(f"package {package}.client;\n")
    (sources / package.replace(".", "/") / "Other.java").write_text(f"package {package}.other;\n")
    reported = {each.place.rpartition("/")[2]: each.what for each in coordinates.stale(copy, names)}
    assert reported == {
        "Lost.java": f"the package {package}.client is elsewhere",
        "Other.java": f"the package {package}.other is none of {package}.{{client,broker,example,v1}}",
    }


def test_a_missing_declaration_of_a_name_is_reported(copy: Path, names: dict[str, str]) -> None:
    package = copy / "clients" / "typescript" / "package.json"
    package.write_text(package.read_text().replace('"name"', '"called"'))
    assert coordinates.stale(copy, names) == [
        coordinates.Stale("clients/typescript/package.json", "nothing here says what typescript.name is")
    ]


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("docs/a.md", 'import { Client } from "topicpolicies";', 'import { Client } from "@first/policies";'),
        ("docs/a.md", "import { Scope } from 'topicpolicies/v1'", "import { Scope } from '@first/policies/v1'"),
        ("docs/a.md", "npm install topicpolicies", "npm install @first/policies"),
        ("docs/a.md", "The command `topicpolicies`, proto/topicpolicies/v1", "The command `topicpolicies`, proto/topicpolicies/v1"),
        ("clients/typescript/tsconfig.json", '"topicpolicies": ["./src"]', '"@first/policies": ["./src"]'),
        ("clients/typescript/README.md", "in `topicpolicies/v1`", "in `@first/policies/v1`"),
        ("clients/go/README.md", "in `topicpolicies/v1`", "in `topicpolicies/v1`"),
    ],
)
def test_uses_of_the_npm_name_are_distinguished_from_other_words(path: str, before: str, after: str) -> None:
    assert places.renamed(path, before, "typescript.name", "topicpolicies", _OTHERS["typescript.name"]) == after


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("docs/a.md", "```java\nimport topicpolicies.client.Edit;\n```", "```java\nimport x.y.client.Edit;\n```"),
        ("docs/a.md", "grpc: topicpolicies.v1.TopicPoliciesService", "grpc: topicpolicies.v1.TopicPoliciesService"),
        ("docs/a.md", "ClassName=topicpolicies.broker.Service", "ClassName=x.y.broker.Service"),
        ("docs/a.md", "in client/src/main/java/topicpolicies/client/Edit.java", "in client/src/main/java/x/y/client/Edit.java"),
        ("tests/a.py", "from topicpolicies.client import Client", "from topicpolicies.client import Client"),
        ("clients/java/a/pom.xml", "<mainClass>topicpolicies.example.Tour</mainClass>", "<mainClass>x.y.example.Tour</mainClass>"),
        ("A.java", "a.topicpolicies.client.B my_topicpolicies.v1", "a.topicpolicies.client.B my_topicpolicies.v1"),
    ],
)
def test_uses_of_the_java_package_are_distinguished_from_other_words(path: str, before: str, after: str) -> None:
    assert places.renamed(path, before, "java.package", "topicpolicies", "x.y") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"a.test/b/topicpolicies"', '"c.test/topicpolicies"'),
        ("the module a.test/b.", "the module c.test."),
        ("a.test/bc a.test/b-c x.a.test/b a.test/b.c", "a.test/bc a.test/b-c x.a.test/b a.test/b.c"),
    ],
)
def test_uses_of_the_go_module_are_distinguished_from_longer_paths(before: str, after: str) -> None:
    assert places.renamed("README.md", before, "go.module", "a.test/b", "c.test") == after


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("go.module", '"clients/go"', "go.module can't be 'clients/go'"),
        ("java.package", '"Topic-Policies"', "java.package can't be 'Topic-Policies'"),
        ("typescript.name", '"@/x"', "typescript.name can't be '@/x'"),
        ("python.distribution", "5", "python.distribution can't be 5"),
        ("java.group", '"x"\njava.other = "y"', "does not have exactly go.module, java.group"),
    ],
)
def test_invalid_names_are_refused(tmp_path: Path, names: dict[str, str], key: str, value: str, message: str) -> None:
    file = tmp_path / "coordinates.toml"
    tables = {each: f'"{name}"' for each, name in names.items()} | {key: value}
    file.write_text("".join(f"{each} = {name}\n" for each, name in tables.items()))
    with pytest.raises(ValueError, match=re.escape(message)):
        coordinates.wanted(file)
