"""Names of classes that the server has more than once, each with the reason why this is not confusing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

_SERVER = Path(__file__).resolve().parents[2] / "server" / "topicpolicies_server"

_OWN = "each belongs to the state machine of its own module, and no module names two of them"
_APART = "they belong to rooms that do not import each other"
_BOTH = "the same concept for two logs, or for two files, which no module uses together"

ALLOWED = {
    "Certificates": "of clients, as they are read, and of the server, as it presents them",
    "Check": _APART,
    "Compaction": _BOTH,
    "Counted": _APART,
    "Damaged": "bytes of the core, and a file; code that reads files does not decode the former",
    "Ended": _APART,
    "Facts": "the facts that rules need, and those of one check of the doctor",
    "Field": _APART,
    "Figures": "the numbers that a room shows to operators; each room has its own",
    "Follower": "of a view, and an open log of a namespace that is stored in memory",
    "Form": "the shape of a field, and the encoding of ids, in modules of the core that do not import each other",
    "Freshness": "how old facts may be, and as of when a view is complete",
    "Kind": "of an error in the core; the others, of an option, an entry and a completion, are used in their rooms only",
    "Known": _APART,
    "Loading": "a state of a namespace, and the reading of a file that is opened",
    "Log": "protocols of two rooms: what the history and what the serving code need of a log",
    "NamespaceRow": _BOTH,
    "Noted": "an event that may be folded again, and, in the history, an event to be recorded",
    "Opened": "the result of an opening: of access, of a file, of a namespace's log",
    "Owner": "a protocol: the object that a part notifies; each part has its own",
    "Pace": "how often a room does its work; each room has its own",
    "Page": "of a history, of a listing of documents, and of an answer over HTTP",
    "Place": "of a checkpoint, a server, an Avro document; they belong to rooms that do not import each other",
    "Question": _APART,
    "Reach": _BOTH,
    "Recorded": _APART,
    "Replaced": _APART,
    "Report": _APART,
    "Result": "of a change, and of a check of the doctor",
    "Row": _APART,
    "Rows": _APART,
    "Source": "the origin of something; each room has its own",
    "State": _OWN,
    "Stretch": "the part of a history after a place, and the entries of a log between two places",
    "Tokens": "those of callers, and the one that the server presents to brokers",
    "Unreadable": "of a cell, and of a message",
    "Waiting": "the items or callers that wait in a room; each room has its own",
    "Writer": "of the history's file and of the embedded log's; and the option for the writers of a log",
}
"""Names that several public classes have. A new class needs a name of its own, or a reason here."""


def defined(root: Path) -> dict[str, list[str]]:
    """Returns the names of public classes, each with the modules that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(root).as_posix())
    return found


def repeated(classes: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Returns the classes that several modules define."""
    return {name: modules for name, modules in classes.items() if len(modules) > 1}


def met(root: Path) -> list[str]:
    """Returns the modules in which one name stands for two classes of the server, by imports or definitions."""
    names = repeated(defined(root)).keys()
    found = []
    for path in sorted(root.rglob("*.py")):
        here: dict[str, set[str]] = defaultdict(set)
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(node, ast.ImportFrom) and node.level:
                for name in node.names:
                    here[name.name].add(f"{'.' * node.level}{node.module or ''}")
            elif isinstance(node, ast.ClassDef):
                here[node.name.lstrip("_")].add("defined here")
        found += [f"{path.relative_to(root).as_posix()}: {name}" for name, places in here.items() if name in names and len(places) > 1]
    return found


def test_every_name_of_several_classes_is_listed_with_a_reason() -> None:
    assert repeated(defined(_SERVER)).keys() == ALLOWED.keys()


def test_no_module_has_two_classes_of_one_name() -> None:
    assert met(_SERVER) == []


@pytest.mark.parametrize("line", ["from .life import Life", "class Life: ...", "class _Life: ..."])
def test_a_planted_name_of_two_classes_is_reported(tmp_path: Path, line: str) -> None:
    (tmp_path / "life.py").write_text("class Life: ...\n")
    (tmp_path / "file.py").write_text("class Life: ...\n")
    (tmp_path / "both.py").write_text(f"from .file import Life\n{line}\n")
    assert repeated(defined(tmp_path))["Life"][-2:] == ["file.py", "life.py"]
    assert met(tmp_path) == ["both.py: Life"]


_FIRST = "del times[next(iter(times))]"


def queues(root: Path) -> list[str]:
    """Returns the places that remove the first key of a dictionary: finding it walks over all keys that were removed before."""
    found = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            for key in [each.slice for each in node.targets if isinstance(each, ast.Subscript)] if isinstance(node, ast.Delete) else []:
                if ast.unparse(key).startswith("next(iter("):
                    found.append(f"{path.relative_to(root).as_posix()}:{key.lineno}")
    return found


def test_no_dictionary_serves_as_a_queue() -> None:
    assert queues(_SERVER) == []


def test_a_planted_dictionary_that_serves_as_a_queue_is_reported(tmp_path: Path) -> None:
    (tmp_path / "keeping.py").write_text(f"def keep(times):\n    {_FIRST}\n")
    assert queues(tmp_path) == ["keeping.py:2"]
