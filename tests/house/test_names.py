"""Names of classes that the server has more than once, each with the reason why this is not confusing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

_SERVER = Path(__file__).resolve().parents[2] / "server" / "topicpolicies_server"

_OWN = "each is the one of its own module's machine, and no other module names two of them"
_APART = "of rooms that do not know each other"
_BOTH = "the same thing of two logs, or of two files: each has its own, and nobody has both"

ALLOWED = {
    "Certificates": "of clients: those that are read, and the files that this server shows",
    "Check": _APART,
    "Compaction": _BOTH,
    "Counted": _APART,
    "Damaged": "bytes of the core, and a file; whoever reads files never meets the other",
    "Ended": _APART,
    "Facts": "the core's word for what rules need to know; the other is one command's",
    "Field": _APART,
    "Figures": "what operators are shown of a room: each room has its own",
    "Follower": "of a view; the other one, of a log in memory, is what a log calls whoever has it open",
    "Form": "a field's shape, and a text's normal form, in modules of the core that do not know each other",
    "Freshness": "how old facts may be, and how fresh a log is known to be",
    "Kind": "what kind of error is the core's; the others are of an option, an entry and a completion, and stay in their rooms",
    "Known": _APART,
    "Loading": "a phase of a namespace, and the reading of a file that is opened",
    "Log": "what a history, and what whoever serves, must know of a log: protocols of their own rooms",
    "NamespaceRow": _BOTH,
    "Noted": "the core's word for a request that is known; in the history an event that waits to be written",
    "Opened": "what came of an opening: of access, of a file, of a namespace's log",
    "Owner": "a protocol: whom a part tells; each part has its own",
    "Pace": "how often a room does its work; each room has its own",
    "Page": "of a history, and the words of a request that ask for one",
    "Place": "where something stands: a checkpoint, a server, an Avro document; of rooms that do not know each other",
    "Question": _APART,
    "Reach": _BOTH,
    "Recorded": _APART,
    "Replaced": _APART,
    "Report": _APART,
    "Result": "of a change; the other is one of the doctor's",
    "Row": _APART,
    "Rows": _APART,
    "Source": "where something is had from; each room has its own",
    "State": _OWN,
    "Stretch": "what follows a place of a history, and what stands between two entries of a log",
    "Tokens": "those that callers show, and the one that this server shows brokers",
    "Unreadable": "a cell, and a header of Avro",
    "Waiting": "what, or who, waits in a room; each room has its own",
    "Writer": "of a file: the history's and the embedded log's; and the option that says which writers a log has",
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
    assert repeated(defined(tmp_path))["Life"][-2:] == ["file.py", "life.py"] or line == "class Life: ..."
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
