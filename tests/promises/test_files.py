"""The files of the embedded log and of its history: their sizes, what is said of damaged ones, and that a refused start changes none."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import Api, Change, Refused, Update, refusal
from .server_process import ServerProcess

pytestmark = pytest.mark.slow

MIB = 1 << 20
PAGE = 4_096
_TOPICS, _CALLERS, _BATCHES, _BATCH = 150, 6, 25, 250


def topic(number: int, namespace: str = "public/default") -> str:
    return f"persistent://{namespace}/topic-{number}"


def large(value: int) -> TopicPolicies:
    """Returns policies of two kilobytes and a half."""
    policies = TopicPolicies()
    policies.offload_policies.managed_ledger_offload_driver = "filesystem"
    policies.offload_policies.file_system_uri = f"{value:_>2500}"
    return policies


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Makes servers on one log, with further options; all of them are ended."""
    made: list[ServerProcess] = []

    def make(*options: str) -> ServerProcess:
        made.append(ServerProcess(["--data", str(tmp_path / "policies.db"), *options], tmp_path / "server.log"))
        return made[-1]

    yield make
    for each in made:
        each.kill()


def on_disk(folder: Path) -> float:
    """Returns how many MiB the history takes, with its write-ahead log."""
    found = 0
    for name in ("policies.history.db", "policies.history.db-wal"):
        try:
            found += (folder / name).stat().st_size
        except FileNotFoundError:
            continue
    return found / MIB


class Peak:
    """The most MiB that the history took."""

    def __init__(self) -> None:
        self.mib = 0.0


@asynccontextmanager
async def sampled(folder: Path) -> AsyncIterator[Peak]:
    peak = Peak()

    async def sample() -> None:
        while True:
            peak.mib = max(peak.mib, on_disk(folder))
            await asyncio.sleep(0.01)

    sampling = asyncio.create_task(sample())
    try:
        yield peak
    finally:
        sampling.cancel()


async def change(address: str, batches: int) -> None:
    """Gives topics in turn large policies, another value with each change."""

    async def call(caller: int) -> None:
        async with Api(address) as api:
            for batch in range(caller, batches, _CALLERS):
                numbers = range(batch * _BATCH, (batch + 1) * _BATCH)
                answers = await api.batch([Update(topic(number % _TOPICS), large(number)) for number in numbers], timeout=60)
                assert all(isinstance(answer, Change) and answer.outcome == "APPLIED" for answer in answers), answers

    await asyncio.gather(*map(call, range(_CALLERS)))


@pytest.mark.timeout(180)
async def test_the_history_takes_no_more_of_the_disk_than_its_bound_and_a_little(
    tmp_path: Path, server: Callable[..., ServerProcess]
) -> None:
    of_8 = server("--history-megabytes", "8", "--no-checkpoints")
    await of_8.start()
    async with sampled(tmp_path) as peak:
        await change(of_8.address, _BATCHES)
        async with Api(of_8.address) as api:
            entries = await api.history(topic(7))  # returns when everything before is written
            assert entries[-1].document == await api.get(topic(7))
        assert len(entries) > 5, "the bound has room for several changes of each topic"
    at_the_end = on_disk(tmp_path)
    of_8.stop()
    assert peak.mib <= 8 + 24
    assert at_the_end <= 8 + 4
    of_1 = server("--history-megabytes", "1", "--no-checkpoints")
    await of_1.start()
    async with asyncio.timeout(60):
        while on_disk(tmp_path) > 1 + 4:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.1)
    async with Api(of_1.address) as api:
        other = topic(7, "public/other")
        assert (await api.update(other, large(0))).outcome == "APPLIED"
        assert [entry.document for entry in await api.history(other)] == [await api.get(other)]
    of_1.stop()
    print(f"peak {peak.mib:.1f} MiB, then {at_the_end:.1f}; with the smaller bound {on_disk(tmp_path):.1f}")


NAMESPACES = ("public/a", "public/b", "public/c")


async def write(address: str) -> None:
    async with Api(address) as api:
        for namespace in NAMESPACES:
            await api.batch([Update(topic(number, namespace), large(number)) for number in range(100)])


def overwrite(file: Path, page: int) -> None:
    with file.open("r+b") as content:
        content.seek(page * PAGE)
        content.write(b"\xa5" * PAGE)


async def refused(address: str, *, change: bool) -> Refused:
    async with Api(address) as api:
        return await refusal(api.update(topic(1, "public/b"), {"max_producer_per_topic": 1}) if change else api.get(topic(1, "public/b")))


async def test_a_damaged_page_of_the_log_is_to_be_restored_and_logged_once(tmp_path: Path, server: Callable[..., ServerProcess]) -> None:
    sidecar = server("--no-checkpoints")
    await sidecar.start()
    await write(sidecar.address)
    sidecar.stop()
    file = tmp_path / "policies.db"
    content = file.read_bytes()
    pages = [at // PAGE for at in range(0, len(content), PAGE) if b"public/b/topic-50" in content[at : at + PAGE]]
    overwrite(file, pages[0])
    printed = (tmp_path / "server.log").stat().st_size
    await sidecar.start()
    async with asyncio.timeout(60):
        for _ in range(10):  # the server tries again meanwhile
            for each in await asyncio.gather(refused(sidecar.address, change=True), refused(sidecar.address, change=False)):
                assert each.reason == "LOG_FILE_UNUSABLE"
                assert "Restore it from a backup" in each.message
            await asyncio.sleep(0.3)
        async with Api(sidecar.address) as api:
            for namespace in ("public/a", "public/c"):
                assert (await api.get(topic(1, namespace))).policies == large(1)
                assert (await api.update(topic(1, namespace), {"max_producer_per_topic": 1})).outcome == "APPLIED"
    sidecar.stop()
    log = (tmp_path / "server.log").read_bytes()[printed:].decode()
    assert "Traceback" not in log
    assert 1 <= log.count("damaged") <= 3, log


async def test_a_log_that_is_damaged_throughout_does_not_start_and_says_to_restore_it(
    tmp_path: Path, server: Callable[..., ServerProcess]
) -> None:
    sidecar = server("--no-checkpoints")
    await sidecar.start()
    await write(sidecar.address)
    sidecar.stop()
    file = tmp_path / "policies.db"
    for page in range(1, file.stat().st_size // PAGE):
        overwrite(file, page)
    content = file.read_bytes()
    with pytest.raises(AssertionError, match="Restore it from a backup") as refused:
        await sidecar.start()
    assert "Traceback" not in str(refused.value)
    assert file.read_bytes() == content


def contents(folder: Path) -> dict[str, bytes]:
    """Returns what all files hold, but for locks and indexes in shared memory, in which nothing lasts."""
    return {each.name: each.read_bytes() for each in folder.glob("policies*") if not each.name.endswith((".lock", "-shm"))}


def put_back(folder: Path, name: str, content: dict[str, bytes]) -> None:
    """Puts back what a file and those beside it held."""
    for beside in ("", "-wal", "-shm"):
        (folder / f"{name}{beside}").unlink(missing_ok=True)
        if f"{name}{beside}" in content:
            (folder / f"{name}{beside}").write_bytes(content[f"{name}{beside}"])


def spoil(file: Path, how: str) -> None:
    if how == "junk":
        file.write_bytes(b"certainly not a database " * 1_000)
        return
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE streams SET position = 'elsewhere'" if how == "damaged" else "PRAGMA user_version = 99")
        connection.commit()


@pytest.mark.parametrize(
    ("name", "how", "end", "does"),
    [
        ("policies.history.db", "junk", "stopped", "move it away"),
        ("policies.history.db", "damaged", "stopped", "move it away"),
        ("policies.history.db", "format", "killed", "name another file"),
        ("policies.db", "junk", "killed", "name another file"),
        ("policies.db", "format", "stopped", "name another file"),
    ],
)
async def test_a_start_that_is_refused_has_changed_nothing(
    tmp_path: Path, server: Callable[..., ServerProcess], name: str, how: str, end: str, does: str
) -> None:
    sidecar = server()
    await sidecar.start()
    async with Api(sidecar.address) as api:
        await api.update(topic(1), {"max_producer_per_topic": 7})
        await api.history(topic(1))
    if end == "stopped":
        sidecar.stop()
    else:
        sidecar.kill()
    good = contents(tmp_path)
    spoil(tmp_path / name, how)
    if how == "junk":
        for beside in ("-wal", "-shm"):
            (tmp_path / f"{name}{beside}").unlink(missing_ok=True)
    before = contents(tmp_path)
    with pytest.raises(AssertionError, match=does) as refused:
        await sidecar.start()
    assert name in str(refused.value)
    assert "Traceback" not in str(refused.value)
    assert contents(tmp_path) == before
    put_back(tmp_path, name, good)
    await sidecar.start()
    async with Api(sidecar.address) as api:
        assert (await api.get(topic(1))).policies == TopicPolicies(max_producer_per_topic=7)
        assert len(await api.history(topic(1))) == 1
    sidecar.stop()
