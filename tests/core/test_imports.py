"""The core is pure, as its imports and calls show: no I/O, no event loop, no threads, no clock and no randomness of its own."""

import ast
from pathlib import Path

import pytest

from tests.house.test_layers import imported

_ROOT = Path(__file__).resolve().parents[2]
_CORE = _ROOT / "server" / "topicpolicies_server" / "core"
_CLIENT = _ROOT / "clients" / "python" / "topicpolicies"

_STANDARD = frozenset(
    {
        *("__future__", "abc", "base64", "bisect", "collections", "contextlib", "dataclasses", "enum", "functools", "hashlib", "heapq"),
        *("itertools", "json", "marshal", "operator", "re", "struct", "types", "typing", "weakref"),
    }
)
"""Modules that only compute."""
_OURS = ("google.protobuf", "topicpolicies.masks", "topicpolicies.secrets", "topicpolicies.v1", "topicpolicies_server.core")
_EFFECTS = frozenset({"__import__", "breakpoint", "eval", "exec", "input", "open", "print"})


def _allowed(name: str) -> bool:
    return name.partition(".")[0] in _STANDARD or any(f"{name}.".startswith(f"{ours}.") for ours in _OURS)


def impurities(path: Path, *package: str) -> list[str]:
    """Returns the imports and calls that a module of the core must not have."""
    tree = ast.parse(path.read_text())
    called = (node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return [f"imports {name}" for name in imported(path, package) if not _allowed(name)] + [
        f"calls {name}" for name in called if name in _EFFECTS
    ]


def test_the_core_has_only_pure_imports_and_calls() -> None:
    modules = sorted(_CORE.rglob("*.py"))
    assert len(modules) > 20
    for path in modules:
        assert impurities(path, "topicpolicies_server", "core", *path.parent.relative_to(_CORE).parts) == [], path


@pytest.mark.parametrize("name", ["masks", "secrets"])
def test_a_module_that_the_core_shares_with_the_client_is_pure(name: str) -> None:
    assert impurities(_CLIENT / f"{name}.py", "topicpolicies") == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("import threading, re", "imports threading"),
        ("def late():\n    from asyncio import sleep", "imports asyncio.sleep"),
        ("from topicpolicies import client", "imports topicpolicies.client"),
        ("from ..logs.change_log import ChangeLogs", "imports topicpolicies_server.logs.change_log.ChangeLogs"),
        ("from .. import config", "imports topicpolicies_server.config"),
        ("import google.rpc.status_pb2", "imports google.rpc.status_pb2"),
        ("log = open('log')", "calls open"),
    ],
)
def test_a_planted_impurity_is_found(tmp_path: Path, line: str, complaint: str) -> None:
    module = tmp_path / "names.py"
    module.write_text(line)
    assert impurities(module, "topicpolicies_server", "core") == [complaint]
