"""The commands of the tutorial and the how-to pages, run in a shell as they stand there; what they print is what the page shows."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Serving
from .server_process import COMMAND, ServerProcess, environment

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}")


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yields each block of commands but those that start a server, and what the page shows behind it."""
    found = BLOCK.findall((DOCS / page).read_text())
    assert found
    return ((commands, shown) for commands, shown in found if not commands.startswith("topicpolicies serve"))


async def shell(server: ServerProcess, folder: Path, commands: str) -> subprocess.CompletedProcess[str]:
    """Runs commands in a folder, where ``topicpolicies`` is the program of this checkout, and the default server is this one."""
    program = folder / "bin" / "topicpolicies"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o700)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "TOPICPOLICIES_SERVER": server.address, "TOPICPOLICIES_ACTOR": "ann"}
    return await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", commands],
        cwd=folder,
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("page", ["index.md", "tutorial.md", "retrying.md", "terraform.md", "troubleshooting.md"])
async def test_the_commands_of_a_page_print_what_it_shows(page: str, serving: Serving, tmp_path: Path) -> None:
    server = await serving()
    if page == "terraform.md":
        shutil.copy(DOCS / "policies.yaml", tmp_path)
    for commands, shown in blocks(page):
        ended = await shell(server, tmp_path, commands)
        if shown:
            assert TIME.sub("TIME", ended.stdout) == TIME.sub("TIME", shown), commands
        else:
            assert ended.returncode == 0, (commands, ended.stdout)


async def test_the_step_of_a_pipeline_applies_once_and_stops_on_an_error(serving: Serving, tmp_path: Path) -> None:
    server = await serving()
    ((step, _),) = blocks("terraform.md")
    shutil.copy(DOCS / "policies.yaml", tmp_path)
    assert "1 document changed" in (await shell(server, tmp_path, step)).stdout
    assert "nothing to do" in (await shell(server, tmp_path, step)).stdout
    (tmp_path / "policies.yaml").write_text("version: 2")
    assert (await shell(server, tmp_path, step)).returncode == 1


async def test_a_backup_that_is_put_back_has_what_it_had(serving: Serving, tmp_path: Path) -> None:
    server = await serving()
    (backup, _), (restore, _), (export, _) = blocks("backup.md")
    update = "topicpolicies update public/default/orders max_producer_per_topic="
    assert (await shell(server, tmp_path, update + "5")).returncode == 0
    assert (await shell(server, tmp_path, backup)).returncode == 0
    assert (await shell(server, tmp_path, update + "6")).returncode == 0
    assert server.stop() == 0
    assert (await shell(server, tmp_path, restore)).returncode == 0
    await server.start()
    assert "max_producer_per_topic  5\n" in (await shell(server, tmp_path, "topicpolicies get public/default/orders")).stdout
    assert "Everything is as declared." in (await shell(server, tmp_path, export)).stdout
