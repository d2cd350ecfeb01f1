"""The demo command: a server, many clients on one topic, and the proof that no update was lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ...config import DEFAULT_LISTEN, EmbeddedLogConfig, HistoryConfig, ServerConfig, history_beside, parse_address
from ..exits import ExitCode, reporting
from ..settings import Output, settings
from ..showing.rendering import console
from .demo_run import TOPIC, Report
from .demo_run import run as run_clients
from .running import reporting_problems, starting

if TYPE_CHECKING:
    from ...rpc.server import Server


def demo(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIRECTORY", help="Where to keep the embedded log; by default it is temporary.")
    ] = None,
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen.")] = DEFAULT_LISTEN,
    clients: Annotated[int, typer.Option("--clients", min=1, max=1000, help="Clients that run at once.")] = 64,
    updates: Annotated[int, typer.Option("--updates", min=1, max=100_000, help="Updates of each client.")] = 50,
    once: Annotated[bool, typer.Option("--once", help="End when the proof is shown, instead of serving on.")] = False,
) -> None:
    """Show a server at work: many clients, one topic, no lost update.

    It starts a server on the embedded log; no broker is needed. The clients change different settings and subscriptions of one topic,
    and some increment one shared counter, while a watch follows. It shows the proof that no update was lost. Then it serves on, so that
    you can try the other commands.

    \b
    Examples:
      topicpolicies demo
      topicpolicies demo --once --clients 200 --updates 20 --output json
    """  # noqa: D301 - "\b" keeps the lines
    output = settings(context).output
    with contextlib.ExitStack() as stack:
        directory = data if data is not None else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="topicpolicies-demo-")))
        with starting("the demo", output):
            directory.mkdir(parents=True, exist_ok=True)
        with reporting_problems(output):
            log = directory / "demo.db"
            config = ServerConfig(
                log=EmbeddedLogConfig(path=log), listen=parse_address(listen), history=HistoryConfig(path=history_beside(log))
            )
        with reporting(output), starting("the demo", output, config.listen) as started:
            report = _run(_demonstrate(config, clients, updates, output, started, serve_on=not once))
    if report.problems:
        raise typer.Exit(ExitCode.ERROR)


async def _demonstrate(
    config: ServerConfig, clients: int, updates: int, output: Output, started: Callable[[], None], *, serve_on: bool
) -> Report:
    from ...rpc.server import Server  # noqa: PLC0415 - what runs a server is not part of every command

    async with Server(config) as server:
        started()
        with _progress(clients * updates, output) as progress:
            report = await run_clients(server.address, clients=clients, updates_per_client=updates, progress=progress)
        _show(report, output)
        if serve_on:
            await _serve_on(server)
    return report


async def _serve_on(server: Server) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(each, stop.set)
    call = command() if server.address == DEFAULT_LISTEN else f"{command()} --server {server.address}"
    for line in (
        "",
        f"Serving on {server.address} until Ctrl-C. In another terminal:",
        f"  {call} get {TOPIC}",
        f"  {call} update {TOPIC} max_producer_per_topic=5",
        f"  {call} watch public/default",
    ):
        typer.echo(line, err=True)
    await stop.wait()


def command() -> str:
    """Returns how this program is called in a terminal: by its name if that is on the PATH, else by its path."""
    program = shutil.which("topicpolicies", path=str(Path(sys.executable).parent))
    found = shutil.which("topicpolicies")
    if program is None:
        return "topicpolicies" if found else f"{shlex.quote(sys.executable)} -m topicpolicies_server"
    if found is not None and Path(found).samefile(program):
        return "topicpolicies"
    here, path = Path.cwd(), Path(program)
    near = path.is_relative_to(here) and path.parent != here
    return shlex.quote(str(path.relative_to(here) if near else path))


@contextlib.contextmanager
def _progress(total: int, output: Output) -> Iterator[Callable[[Report], None]]:
    """Shows the progress of the demo, on a terminal and without JSON. Yields the function that updates it."""
    told = console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:>6,.0f} of {task.total:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=told, disable=output is Output.JSON or not told.is_terminal, refresh_per_second=10) as bar:
        acknowledged = bar.add_task("acknowledged", total=total)
        watched = bar.add_task("watched", total=total)

        def show(report: Report) -> None:
            bar.update(acknowledged, completed=report.updates, description=f"acknowledged ({report.conflicts:,} conflicts)")
            bar.update(watched, completed=report.watched)

        yield show


def _show(report: Report, output: Output) -> None:
    if output is Output.JSON:
        figures = asdict(report) | {"updates_per_second": round(report.updates_per_second, 1)}
        typer.echo(json.dumps(figures | {"lost": len(report.problems) > 0}))
        return
    table = Table(show_header=False)
    for name, value in (
        ("clients on one topic", f"{report.clients}"),
        ("updates acknowledged", f"{report.updates:,}"),
        ("conflicts, tried again", f"{report.conflicts:,}"),
        ("changes watched", f"{report.watched:,}"),
        ("links checked", f"{report.links:,}"),
        ("updates lost", "none" if not report.problems else "see below"),
        ("seconds", f"{report.seconds:.2f}"),
        ("updates per second", f"{report.updates_per_second:,.0f}"),
    ):
        table.add_row(name, value)
    console().print(table)
    for problem in report.problems:
        typer.echo(f"Contradiction: {problem}", err=True)


def _run(demonstration: Coroutine[object, object, Report]) -> Report:
    """Runs the demo on uvloop if it is installed, as the server does."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run(demonstration)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(demonstration)
