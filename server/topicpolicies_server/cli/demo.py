"""The demo command: a server, many clients on one topic, and the proof that no update was lost."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from topicpolicies import WATCH_MODE_EVERY, AsyncClient, ChangeResult, TopicPolicies

from ..config import DEFAULT_LISTEN, EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from .exits import ExitCode
from .globals import Globals
from .serve import starting

TOPIC = "persistent://public/default/demo"
_SETTINGS = (
    "max_producer_per_topic",
    "max_consumer_per_topic",
    "max_subscriptions_per_topic",
    "max_unacked_messages_on_consumer",
    "message_ttl_in_seconds",
)

_Made: TypeAlias = tuple[ChangeResult, str, int]
"""An acknowledged update: its answer, and the setting and value that it requested."""


def demo(
    chosen: Globals,
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen.")] = DEFAULT_LISTEN,
    clients: Annotated[int, typer.Option("--clients", metavar="N", min=1, max=1000, help="Clients that run at once.")] = 64,
    updates: Annotated[int, typer.Option("--updates", metavar="N", min=1, max=100_000, help="Updates of each client.")] = 50,
    once: Annotated[bool, typer.Option("--once", help="End when the proof is shown, instead of serving on.")] = False,
) -> None:
    """Show a server at work: many clients, one topic, no lost update.

    It starts a server on an embedded log that is deleted at the end; no broker is needed. The clients change the same five settings of one
    topic while a watch follows. It shows the proof that no update was lost. Then it serves on, so that you can try the other commands.

    \b
    Examples:
      topicpolicies demo
      topicpolicies demo --once --clients 200 --updates 20 --output json
    """  # noqa: D301 - "\b" keeps the lines
    with tempfile.TemporaryDirectory(prefix="topicpolicies-demo-") as folder:
        log, history = EmbeddedLogConfig(path=Path(folder) / "demo.db"), HistoryConfig(path=Path(folder) / "history.db")
        config = ServerConfig(log=log, listen=parse_address(listen), history=history)

        async def run() -> list[str]:
            from ..rpc.server import Server  # noqa: PLC0415 - what runs a server is not part of every command

            async with Server(config) as server:
                started()
                report = await _run(server.address, clients, updates)
                _show(report, clients, chosen)
                if not once:
                    await _serve_on(server.address)
            return report["problems"]  # type: ignore[no-any-return]

        with starting("the demo", chosen, config.listen) as started:
            problems = asyncio.run(run())
    if problems:
        raise typer.Exit(ExitCode.ERROR)


async def _run(address: str, clients: int, updates: int) -> dict[str, Any]:
    """Runs the clients and a watch at the same time, and returns what they did and what the proof found."""
    made: list[_Made] = []
    watched: list[str] = []

    async def work(client: AsyncClient, number: int) -> None:
        setting = _SETTINGS[number % len(_SETTINGS)]
        for value in range(1 + number * updates, 1 + (number + 1) * updates):  # no value twice: each is a change
            result = await client.update(TOPIC, {setting: value})
            made.append((result, setting, value))

    async with AsyncExitStack() as stack:
        everyone = [await stack.enter_async_context(AsyncClient(address, actor=f"client-{number:02}")) for number in range(clients)]
        beginning = (await everyone[0].delete(TOPIC)).version
        watch = await stack.enter_async_context(everyone[0].watch(topics=[TOPIC], mode=WATCH_MODE_EVERY))
        while not (await anext(watch)).bookmark.synced:
            pass

        async def follow() -> None:
            while len(watched) < clients * updates:
                event = await anext(watch)
                if event.HasField("change"):
                    watched.append(event.change.document.version)

        following = asyncio.ensure_future(follow())
        began = time.perf_counter()
        await asyncio.gather(*(work(client, number) for number, client in enumerate(everyone)))
        seconds = round(time.perf_counter() - began, 3)
        await asyncio.wait([following], timeout=60)
    problems = _problems(beginning, made, watched)
    return {"updates": len(made), "watched": len(watched), "seconds": seconds, "problems": problems}


def _problems(version: str, made: Sequence[_Made], watched: Sequence[str]) -> list[str]:
    """Returns what contradicts that no update was lost: an answer that was not made from the one before by its own change alone."""
    found, document = list[str](), TopicPolicies()
    for result, setting, value in sorted(made, key=lambda each: each[0].version):
        setattr(document, setting, value)
        if result.previous_version != version or result.document.policies != document:
            found.append(f"version {result.version} was not made from {version}")
        version, document = result.version, result.document.policies
    if list(watched) != sorted(result.version for result, _, _ in made):
        found.append("the watch has not received exactly the acknowledged versions, in order")
    return found


def _show(report: dict[str, Any], clients: int, chosen: Globals) -> None:
    if chosen.shown(report):
        return
    per_second = report["updates"] / report["seconds"]
    typer.echo(
        f"{clients} clients have made {report['updates']:,} updates of {TOPIC}\n"
        f"in {report['seconds']:.1f} s ({per_second:,.0f} per second); a watch has received {report['watched']:,} changes.\n"
        f"Updates lost: {'; '.join(report['problems']) or 'none. Their answers form one chain of versions, without a gap.'}"
    )


async def _serve_on(address: str) -> None:
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    call = _program() if address == DEFAULT_LISTEN else f"{_program()} --server {address}"
    typer.echo(
        f"\nServing on {address} until Ctrl-C. The data is temporary, and deleted at the end. In another terminal:\n"
        f"  {call} get {TOPIC}\n"
        f"  {call} update {TOPIC} max_producer_per_topic=5\n"
        f"  {call} watch public/default",
        err=True,
    )
    await stop.wait()


def _program() -> str:
    """Returns how this program is called in another terminal: by its name if that is on the PATH, else by its path."""
    program, found = Path(sys.executable).with_name("topicpolicies"), shutil.which("topicpolicies")
    return (
        "topicpolicies"
        if found == str(program) or not program.exists()
        else shlex.quote(str(program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program))
    )
