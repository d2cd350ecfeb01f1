"""A damaged, foreign or old checkpoint, or none, costs only time: that is reported, and the log is read and served as it is."""

from __future__ import annotations

import asyncio
import io
import logging
import random
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from topicpolicies_server.checkpoints import Refused, file
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.logs.sqlite import Compaction

from .server import NAMESPACE, Server, a_key, filled, loaded_from, ready, shown, started, view_of


def without(path: Path) -> None:
    """Deletes a file and the files beside it."""
    for beside in path.parent.glob(path.name + "*"):
        beside.unlink()


def copied(folder: Path, name: str, other: Path) -> None:
    """Copies a file and the files beside it to another folder."""
    for beside in folder.glob(name + "*"):
        shutil.copy(beside, other)


def edited(edit: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Returns a function that changes a file."""

    def trouble(path: Path) -> None:
        path.write_bytes(edit(path.read_bytes()))

    return trouble


def of_another_namespace(path: Path) -> None:
    """Puts a good checkpoint of another namespace in the place of the file."""
    data = path.read_bytes()
    restored = file.load(io.BytesIO(data), NAMESPACE, FoldContext(sole_writer=True))
    view = restored.view
    other = file.Checkpoint("acme/others", restored.place, view.context, 0, view.copy())
    with path.open("wb") as written:
        file.dump(other, written)


@pytest.mark.parametrize(
    "trouble",
    [
        edited(lambda data: b""),
        edited(lambda data: data[:10]),
        edited(lambda data: data[:100]),
        edited(lambda data: data[:-1]),
        edited(lambda data: data + b"x"),
        edited(lambda data: data.replace(b"checkpoint 1", b"checkpoint 2")),
        edited(lambda data: data.replace(b"topic-2", b"topic-3")),
        edited(lambda data: b"notes of somebody"),
        edited(lambda data: data[: len(file.MAGIC)] + b"\xff" * 8 + data[len(file.MAGIC) + 8 :]),
        of_another_namespace,
    ],
)
async def test_a_damaged_checkpoint_is_reported_and_not_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: Callable[[Path], None]
) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    assert (await started(server)) == ("checkpoint", before)
    trouble(server.file)
    assert not caplog.records
    assert (await started(server)) == ("log", before)
    assert sum("checkpoint can't be used" in record.getMessage() for record in caplog.records) == 1
    assert (await started(server)) == ("checkpoint", before), "a new checkpoint was made"


async def test_no_changed_byte_goes_unnoticed(tmp_path: Path) -> None:
    server = Server(tmp_path)
    await filled(server)
    data = server.file.read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        with pytest.raises(Refused):
            file.load(io.BytesIO(changed), NAMESPACE, FoldContext(sole_writer=True))
    file.load(io.BytesIO(data), NAMESPACE, FoldContext(sole_writer=True))


async def test_a_checkpoint_of_another_release_is_refused_before_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    with monkeypatch.context() as upgraded:
        upgraded.setattr(file, "maker", lambda: "a later release")
        assert (await started(server)) == ("log", before)
        assert (await started(server)) == ("checkpoint", before)
        server.file.write_bytes(server.file.read_bytes()[:-100])
    with pytest.raises(Refused, match="another release"):
        file.read(server.kept, NAMESPACE, FoldContext(sole_writer=True))


async def test_the_code_that_a_checkpoint_names_is_that_of_the_servers_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade replaces the source files of a running server, which still folds as before."""
    file.maker.cache_clear()
    try:
        async with Server(tmp_path).running():
            monkeypatch.setattr(file, "_MAKERS", ("checkpoints",))
            found = file.maker()
        file.maker.cache_clear()
        assert found != file.maker()
    finally:
        file.maker.cache_clear()


async def test_a_checkpoint_newer_than_a_restored_backup_of_the_log_is_not_used(tmp_path: Path) -> None:
    """The log is restored with its mark and its identity: only the event at the checkpoint's place shows the difference."""
    server = Server(tmp_path)
    await filled(server)
    backup, newer = tmp_path / "backup", tmp_path / "newer"
    backup.mkdir()
    copied(tmp_path, "policies.db", backup)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 77)
        await server.set(registry, a_key(9), 9)
    without(tmp_path / "policies.db")
    copied(backup, "policies.db", tmp_path)
    shutil.copy(server.file, newer)
    assert (await started(server))[0] == "log", "the checkpoint is ahead of the log"
    without(server.file)
    async with server.running() as registry:  # the log grows to the same position with other events
        await server.set(registry, a_key(1), 55)
        await server.set(registry, a_key(2), 66)
        before = shown(view_of(registry))
    shutil.copy(newer, server.file)
    assert (await started(server)) == ("log", before)


async def test_a_log_with_a_new_identity_gets_a_checkpoint_before_anything_is_written(tmp_path: Path) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    (tmp_path / "policies.db-mark").unlink()
    assert (await started(server)) == ("log", before), "the checkpoint has the former identity"
    assert (await started(server)) == ("checkpoint", before)


async def test_the_log_is_read_if_events_after_the_checkpoint_were_compacted_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = Server(tmp_path, compaction=Compaction(retention_ms=0, deletions_ms=-1, minimum=1, interval_seconds=3_600, pause_seconds=0))
    await filled(server)
    async with server.running(killed=True) as registry:
        await server.delete(registry, a_key(1))
        await server.set(registry, a_key(2), 22)
        server.now += 1_000
        await server.log.compact(NAMESPACE)
    async with server.running(killed=True) as registry:
        await ready(registry)
        assert loaded_from(registry) == "log"
        head = view_of(registry).head(a_key(1))
        assert head is None or head.document is None, "the log does not have the deletion any more"
    assert sum("it is read from its beginning" in record.getMessage() for record in caplog.records) == 1


async def test_the_log_is_read_if_the_history_lacks_events_of_the_checkpoint(tmp_path: Path) -> None:
    server = Server(tmp_path, history=True)
    await filled(server)
    assert (await started(server))[0] == "checkpoint"
    without(tmp_path / "history.db")
    assert (await started(server))[0] == "log"
    assert (await started(server))[0] == "checkpoint"


async def test_a_directory_that_can_not_be_written_is_reported_once_and_does_not_stop_updates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path)
    server.kept.write_text("this is a file")
    async with server.running() as registry:
        for number in range(3):
            await server.set(registry, a_key(number), number + 1)
            await server.keep()
        told = [record.getMessage() for record in caplog.records if "can't be" in record.getMessage()]
        assert len(told) == 2, "that it can't be read, and that it can't be written"
        server.kept.unlink()
        await server.keep()
        assert any("are written again" in record.getMessage() for record in caplog.records)
        before = shown(view_of(registry))
    assert (await started(server)) == ("checkpoint", before)


async def test_a_checkpoint_is_readable_for_its_owner_only(tmp_path: Path) -> None:
    server = Server(tmp_path)
    await filled(server)
    assert stat.S_IMODE(server.kept.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.file.stat().st_mode) == 0o600


WRITING = """
import os
import sys
from pathlib import Path
from topicpolicies_server.checkpoints import file
from topicpolicies_server.core.fold.fold import FoldContext

folder, pattern = Path(sys.argv[1]), Path(sys.argv[2])
restored = file.read(pattern, "acme/orders", FoldContext(sole_writer=True))
view = restored.view
while True:
    written = file.Checkpoint("acme/orders", restored.place, view.context, os.getpid(), view.copy())
    file.write(folder, written)
"""
"""A program that writes the checkpoint of a namespace again and again."""


def written_by(writers: Sequence[subprocess.Popen[bytes]], there: Path) -> bool:
    """Whether one of these programs wrote the checkpoint that is there."""
    try:
        return file.read(there, NAMESPACE, FoldContext(sole_writer=True)).unreadable in [each.pid for each in writers]
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_two_servers_with_one_directory_and_kills_at_any_moment_leave_a_whole_file(tmp_path: Path) -> None:
    server, chance, there = Server(tmp_path), random.Random(1), tmp_path / "there"
    asyncio.run(filled(server, keys=300))
    expected = file.read(server.kept, NAMESPACE, FoldContext(sole_writer=True)).view.copy()
    for _ in range(4):
        writers = [subprocess.Popen([sys.executable, "-c", WRITING, str(there), str(server.kept)]) for _ in range(2)]
        try:
            until = time.monotonic() + 100
            while not written_by(writers, there) and time.monotonic() < until:
                time.sleep(0.01)
            until = time.monotonic() + chance.uniform(0.1, 0.4)
            while time.monotonic() < until:
                assert file.read(there, NAMESPACE, FoldContext(sole_writer=True)).view.copy() == expected
        finally:
            for each in writers:
                each.kill()
                each.wait()
        assert file.read(there, NAMESPACE, FoldContext(sole_writer=True)).view.copy() == expected
        assert written_by(writers, there)
    (there / "acme%2Forders.checkpoint.abc.tmp").write_bytes(b"what a killed process left")
    file.clear(there)
    assert [each.name for each in there.iterdir()] == ["acme%2Forders.checkpoint"]
