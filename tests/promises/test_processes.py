"""A server's process: how it stops, what it reads again, and to whom its files belong."""

from __future__ import annotations

import asyncio
import signal
import stat
from pathlib import Path

import pytest

from .api import Api, Event, Refused
from .conftest import Serving
from .server_process import COMMAND, environment, run

NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/orders"


async def to_its_end(address: str, begun: asyncio.Event) -> tuple[list[Event], Refused]:
    """Watches until the server ends the stream; returns what came, and the status."""
    seen: list[Event] = []
    async with Api(address) as api:
        try:
            async for event in api.watch([NAMESPACE]):
                seen.append(event)
                if event.kind == "synced":
                    begun.set()
        except Refused as refusal:
            return seen, refusal
    raise AssertionError("the stream ended with OK")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_sigterm_and_sigint_end_watches_and_the_process_in_good_order(serving: Serving, number: signal.Signals) -> None:
    server = await serving()
    begun = [asyncio.Event() for _ in range(10)]
    watches = [asyncio.create_task(to_its_end(server.address, each)) for each in begun]
    async with Api(server.address) as api:
        made = await api.update(TOPIC, {"max_producer_per_topic": 1})
        await asyncio.gather(*(each.wait() for each in begun))
        assert await asyncio.to_thread(server.end, number) == 0
    for seen, refusal in await asyncio.gather(*watches):
        assert (refusal.code, refusal.reason) == ("UNAVAILABLE", "SHUTTING_DOWN")
        assert made.version in {event.document.version for event in seen if event.document}
        assert seen[-1].kind == "bookmark" and seen[-1].token, "the last thing is a place to resume from"
    printed = server.printed
    assert not [word for word in ("Traceback", "WARNING", "ERROR") if word in printed], printed


async def test_sigterm_finishes_what_was_accepted(serving: Serving) -> None:
    server = await serving()
    async with Api(server.address) as api:
        updates = [asyncio.ensure_future(api.update(TOPIC, {"max_producer_per_topic": value})) for value in range(64)]
        while not any(each.done() for each in updates):  # noqa: ASYNC110 (each answer counts)
            await asyncio.sleep(0)
        assert await asyncio.to_thread(server.stop) == 0
        outcomes = await asyncio.gather(*updates, return_exceptions=True)
    answered = [each for each in outcomes if not isinstance(each, BaseException)]
    refused = [each for each in outcomes if isinstance(each, Refused)]
    assert len(answered) + len(refused) == len(updates) and answered
    assert {each.code for each in refused} <= {"UNAVAILABLE", "CANCELLED"}
    await server.start()
    async with Api(server.address) as api:
        entries = await api.history(TOPIC)
    assert {entry.document.version for entry in entries} == {each.version for each in answered}, "what is in the log was answered"


async def test_sighup_ends_nothing_and_files_are_read_again(serving: Serving) -> None:
    server = await serving()
    begun = asyncio.Event()
    watch = asyncio.create_task(to_its_end(server.address, begun))
    await begun.wait()
    for count in (1, 2):
        server.hang_up()
        async with asyncio.timeout(20):
            while server.printed.count("files are read again") < count:  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.01)
    async with Api(server.address) as api:
        await api.update(TOPIC, {"max_producer_per_topic": 1})
    assert server.stop() == 0
    seen, _ = await watch
    assert "change" in [event.kind for event in seen]


async def test_one_process_owns_the_log_and_another_is_refused_with_its_id(serving: Serving, tmp_path: Path) -> None:
    server = await serving()
    second = run("serve", "--data", str(tmp_path / "policies.db"), "--listen", "127.0.0.1:0")
    assert second.returncode == 9
    assert str(server.pid) in second.stderr
    server.kill()
    await server.start()  # the lock ended with the process


async def test_a_server_whose_address_is_taken_exits_with_9_and_one_sentence(serving: Serving, tmp_path: Path) -> None:
    server = await serving()
    second = run("serve", "--data", str(tmp_path / "another.db"), "--listen", server.address)
    assert second.returncode == 9
    assert server.address in second.stderr and "Traceback" not in second.stderr


def modes(folder: Path) -> dict[str, int]:
    """Returns who may read and write each of the server's files."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("policies*")}


async def test_only_the_owner_can_read_the_files_of_a_server(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "policies.db").touch(mode=0o644)
    server = await serving()
    async with Api(server.address) as api:
        await api.update(TOPIC, {"max_producer_per_topic": 1})
        await api.history(TOPIC)
    found = modes(tmp_path)
    assert {"policies.db", "policies.history.db"} <= found.keys()
    assert not {name: oct(mode) for name, mode in found.items() if mode & 0o077 and not name.endswith(".lock")}


async def test_without_options_the_log_is_in_the_data_folder_on_loopback(tmp_path: Path) -> None:
    variables = {"XDG_DATA_HOME": str(tmp_path), "TOPICPOLICIES_LISTEN": "127.0.0.1:0"}
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "serve", env=environment(variables), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    printed = ""
    try:
        async with asyncio.timeout(30):
            while "127.0.0.1:" not in printed or str(tmp_path) not in printed:
                line = await process.stdout.readline()
                assert line, printed
                printed += line.decode()
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert (tmp_path / "topicpolicies" / "policies.db").is_file()
    assert process.returncode == 0
