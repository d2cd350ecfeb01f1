"""Clients of all languages do the same twenty tasks (``twenty.md``) against one server and print the same lines."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests import java_build
from tests.clients.toolchains import RUST, cargo, go_program, java_program, run, typescript_program
from tests.promises.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_CLIENTS = Path(__file__).parents[2] / "clients"


def _python() -> list[str]:
    return [sys.executable, str(_CLIENTS / "python" / "examples" / "twenty.py")]


def _go() -> list[str]:
    return [str(go_program("twenty"))]


def _java() -> list[str]:
    return java_program("-cp", str(java_build.example_jar()), "topicpolicies.example.Twenty")


def _typescript() -> list[str]:
    return typescript_program("example/twenty.js")


def _rust() -> list[str]:
    return [cargo(), "run", "--quiet", "--manifest-path", str(RUST / "Cargo.toml"), "--example", "twenty"]


PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "python": _python,
    "go": _go,
    "java": _java,
    "typescript": _typescript,
    "rust": _rust,
}


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    """A server on the embedded log with a history, and a cluster file with the namespaces of all programs."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text("\n".join(['cluster = "us"', "[broker]", *(f'[namespaces."twenty/{name}"]' for name in PROGRAMS)]))
    process = ServerProcess(["--data", str(tmp_path / "policies.db"), "--cluster-file", str(cluster)], tmp_path / "server.log")
    await process.start()
    yield process
    process.kill()


@pytest.mark.parametrize(
    "languages", [("python", "go", "java", "typescript"), pytest.param(("python", "rust"), marks=pytest.mark.evidence)]
)
async def test_clients_of_all_languages_print_the_same_results_of_the_twenty_tasks(
    server: ServerProcess, tmp_path: Path, languages: tuple[str, ...]
) -> None:
    printed: dict[str, list[str]] = {}
    for name in languages:
        command = [*await asyncio.to_thread(PROGRAMS[name]), server.address, f"twenty/{name}"]
        printed[name] = (await asyncio.to_thread(run, command, tmp_path, seconds=400)).splitlines()
    table = (Path(__file__).parent / "twenty.md").read_text()
    titles = re.findall(r"^\| `(\d\d [^`]+)` \|", table, re.MULTILINE)
    assert len(titles) == 20
    for name, lines in printed.items():
        assert [line.partition(":")[0] for line in lines] == titles, name
        assert lines == printed["python"], name
    assert printed["python"][-1] == "20 history: 9, chained, tour, first, EMBEDDED"
