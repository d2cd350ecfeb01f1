"""The core is pure, as its imports and calls show: no I/O, no event loop, no threads, no clock and no randomness of its own."""

import ast
import functools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_CORE = _ROOT / "server" / "topicpolicies_server" / "core"
_SHARED = ("masks", "secrets")
"""Modules of the client that the core uses."""

# Modules that only compute.
_STANDARD = frozenset(
    {
        "__future__",
        "abc",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "string",
        "marshal",
        "struct",
        "types",
        "typing",
        "weakref",
    }
)
_OURS = ("google.protobuf", "topicpolicies.masks", "topicpolicies.secrets", "topicpolicies.v1", "topicpolicies_server.core")
_EFFECTS = frozenset({"__import__", "breakpoint", "eval", "exec", "input", "open", "print"})


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Yields the full names of the modules that a module imports; for ``from a import b`` it is ``a.b``, because b may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) + 1 - node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{name.name}" for name in node.names)


def _allowed(name: str) -> bool:
    return name.partition(".")[0] in _STANDARD or any(f"{name}.".startswith(f"{ours}.") for ours in _OURS)


@functools.cache
def _impurities(source: str, package: str) -> list[str]:
    """Returns the imports and calls that a module of the core must not have."""
    tree = ast.parse(source)
    called = (node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return [f"imports {name}" for name in _imported(tree, package) if not _allowed(name)] + [
        f"calls {name}" for name in called if name in _EFFECTS
    ]


def _core_impurities(core: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(core.rglob("*.py")):
        inner = path.parent.relative_to(core).parts
        if impurities := _impurities(path.read_text(), ".".join(("topicpolicies_server", "core", *inner))):
            found[path.relative_to(core).as_posix()] = impurities
    return found


def test_the_core_has_only_pure_imports_and_calls() -> None:
    assert len(list(_CORE.rglob("*.py"))) > 20
    assert _core_impurities(_CORE) == {}


@pytest.mark.parametrize("name", _SHARED)
def test_a_module_that_the_core_shares_with_the_client_is_pure(name: str) -> None:
    assert _impurities((_ROOT / "clients" / "python" / "topicpolicies" / f"{name}.py").read_text(), "topicpolicies") == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("import asyncio", "imports asyncio"),
        ("from asyncio import sleep", "imports asyncio.sleep"),
        ("import time as clock", "imports time"),
        ("import random", "imports random"),
        ("import threading, re", "imports threading"),
        ("def late():\n    import socket", "imports socket"),
        ("import grpc", "imports grpc"),
        ("import pulsar", "imports pulsar"),
        ("from topicpolicies import client", "imports topicpolicies.client"),
        ("from topicpolicies_server.logs import change_log", "imports topicpolicies_server.logs.change_log"),
        ("from ..logs.change_log import ChangeLog", "imports topicpolicies_server.logs.change_log.ChangeLog"),
        ("from .. import config", "imports topicpolicies_server.config"),
        ("import google.rpc.status_pb2", "imports google.rpc.status_pb2"),
        ("log = open('log')", "calls open"),
    ],
)
def test_a_planted_impurity_is_found(tmp_path: Path, line: str, complaint: str) -> None:
    core = shutil.copytree(_CORE, tmp_path / "core")
    with (core / "names.py").open("a") as names:
        names.write(f"\n\n{line}\n")
    assert _core_impurities(core) == {"names.py": [complaint]}
