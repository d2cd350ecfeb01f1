"""Damage to the embedded log's files: answers are correct or the damage is reported, but answers never just go back to an older state."""

from __future__ import annotations

import logging
import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, a_tombstone, an_update
from tests.logs.test_sqlite_crash import Nursery, nursery
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog
from topicpolicies_server.logs.sqlite.file import row_of
from topicpolicies_server.logs.sqlite.tail_guard import LEAP
from topicpolicies_server.sqlite_file import checksum

__all__ = ["nursery"]

NAMESPACE = "acme/orders"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "changes.db"


async def life(path: Path, *names: str, topic: str = "", compact: bool = False) -> tuple[str, Recorder]:
    """Opens the file, appends one event for each name, and closes it; returns the log's identity and the recorder."""
    change_log = SqliteLog(path, compaction=Compaction(retention_ms=-1, deletions_ms=-1, interval_seconds=3_600))
    recorder = Recorder()
    try:
        log = await change_log.open(NAMESPACE, recorder)
        await recorder.until_caught_up()
        for name in names:
            recorder.append(log, an_update(a_key(NAMESPACE, topic or name), event_id=name))
        await recorder.until_settled(len(names))
        if compact:
            await change_log.compact(NAMESPACE)
        return log.identity, recorder
    finally:
        await change_log.close()


def rows(recorder: Recorder) -> list[int]:
    return [row_of(placed.position) for placed in recorder.places]


def length(path: Path) -> int:
    return path.stat().st_size


def backup(path: Path, copy: Path) -> None:
    """Copies the file with SQLite's online backup, as the documentation recommends."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def execute(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
        connection.commit()


def put(path: Path, content: bytes | bytearray, mark: bytes) -> None:
    """Writes a file and its mark, and removes all other files of an earlier log."""
    for former in path.parent.glob(f"{path.name}*"):
        former.unlink()
    path.write_bytes(content)
    path.with_name(f"{path.name}-mark").write_bytes(mark)


async def refusal(path: Path) -> str:
    with pytest.raises(LogError) as refused:
        await SqliteLog(path).start()
    assert refused.value.reason == "LOG_FILE_UNUSABLE"
    return refused.value.message


async def loss(path: Path) -> str:
    """Opens the namespace; returns the message with which the log is lost."""
    change_log = SqliteLog(path)
    recorder = Recorder()
    await change_log.open(NAMESPACE, recorder)
    await recorder.until(lambda: bool(recorder.losses or recorder.caught_up_after))
    await change_log.close()
    assert recorder.losses, "the damage was not reported"
    assert recorder.losses[0].reason == "LOG_FILE_UNUSABLE"
    return recorder.losses[0].message


async def test_a_restored_backup_gets_another_identity_and_reuses_no_row_number(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    identity, _ = await life(path, "a", "b")
    backup(path, path.with_name("copy.db"))
    _, lost = await life(path, "c", "d")
    shutil.copy(path.with_name("copy.db"), path)
    with caplog.at_level(logging.ERROR):
        restored, recorder = await life(path, "e")
    assert restored != identity
    assert recorder.ids() == ["a", "b", "e"]
    change_log = SqliteLog(path)
    assert (await change_log.open(NAMESPACE, Recorder())).complete_after(0) == ""  # nothing of this log was compacted
    await change_log.close()
    assert rows(recorder)[0] > LEAP > max(rows(lost))
    assert "a backup was restored" in caplog.text
    again, _ = await life(path, "f")
    assert again == restored


async def test_after_a_restore_a_namespace_that_is_not_in_the_backup_reuses_no_row_number(path: Path) -> None:
    async def write_elsewhere(*names: str) -> Recorder:
        change_log, recorder = SqliteLog(path), Recorder()
        log = await change_log.open("acme/later", recorder)
        for name in names:
            recorder.append(log, an_update(a_key("acme/later", name), event_id=name))
        await recorder.until_settled(len(names))
        await change_log.close()
        return recorder

    await life(path, "a")
    backup(path, path.with_name("copy.db"))
    lost = await write_elsewhere("l1", "l2")
    shutil.copy(path.with_name("copy.db"), path)
    kept = await write_elsewhere("m1", "m2")
    assert min(rows(kept)) > max(rows(lost))
    assert (await life(path))[1].ids() == ["a"]


async def test_a_restored_backup_that_lacks_no_events_keeps_the_identity(path: Path) -> None:
    identity, _ = await life(path, "a", "b")
    backup(path, path.with_name("copy.db"))
    shutil.copy(path.with_name("copy.db"), path)
    assert (await life(path))[0] == identity


async def test_a_copy_without_its_mark_may_be_outdated_and_gets_another_identity(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    identity, _ = await life(path, "a")
    other = path.with_name("other.db")
    backup(path, other)
    with caplog.at_level(logging.ERROR):
        copied, recorder = await life(other, "b")
    assert copied != identity
    assert rows(recorder)[0] > LEAP
    assert "missing or damaged" in caplog.text
    assert (await life(path))[0] == identity


@pytest.mark.parametrize("damage", ["one slot", "both slots", "emptied", "another file's"])
async def test_a_damaged_mark_changes_the_identity_unless_one_of_its_slots_is_intact(path: Path, damage: str) -> None:
    identity, _ = await life(path, "a", "b")
    mark = path.with_name("changes.db-mark")
    content = bytearray(mark.read_bytes())
    if damage == "another file's":
        await life(path.with_name("other.db"), "x")
        content = bytearray(path.with_name("other.db-mark").read_bytes())
    if damage in ("one slot", "both slots"):
        content[20] ^= 1
    if damage == "both slots":
        content[4096 + 20] ^= 1
    mark.write_bytes(b"" if damage == "emptied" else content)
    assert ((await life(path))[0] == identity) is (damage == "one slot")
    second, recorder = await life(path, "c")
    assert recorder.ids() == ["a", "b", "c"]
    assert (await life(path))[0] == second


@pytest.mark.parametrize("damage", ["lost", "emptied", "broken header", "a flipped bit"])
async def test_a_lost_or_damaged_write_ahead_log_is_reported_and_no_row_number_is_reused(
    path: Path, nursery: Nursery, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = await nursery.live(path, kill_after=60)
    wal = path.with_name("changes.db-wal")
    content = bytearray(wal.read_bytes())
    path.with_name("changes.db-shm").unlink()
    match damage:
        case "lost":
            wal.unlink()
        case "emptied":
            wal.write_bytes(b"")
        case "broken header":
            wal.write_bytes(b"\x00" * 32 + content[32:])
        case _:
            content[len(content) // 3] ^= 4
            wal.write_bytes(content)
    with caplog.at_level(logging.ERROR):
        _, recorder = await life(path, "after")
    assert len(recorder.entries) < len(before.acknowledged)
    assert "are missing at its end" in caplog.text
    assert min(rows(recorder)) > len(before.appended)


async def test_a_file_that_lost_all_its_content_is_refused_and_not_served_as_an_empty_log(path: Path, nursery: Nursery) -> None:
    """Its write-ahead log, which SQLite would remove beside an empty file, stays as well: it may have what is needed for a rescue."""
    await nursery.live(path, kill_after=30)
    wal = path.with_name("changes.db-wal")
    left = wal.read_bytes()
    os.truncate(path, 0)
    for _ in range(2):
        with pytest.raises(LogError, match="is empty, but events were acknowledged from it") as refused:
            await SqliteLog(path).start()
        assert refused.value.reason == "LOG_FILE_UNUSABLE"
        assert length(path) == 0
        assert wal.read_bytes() == left
    path.with_name(path.name).unlink()
    _, recorder = await life(path, "b")
    assert recorder.ids() == ["b"]
    assert min(rows(recorder)) > LEAP


async def test_an_empty_file_from_which_nothing_was_acknowledged_begins_a_log(path: Path) -> None:
    await life(path)
    os.truncate(path, 0)
    assert (await life(path, "a"))[1].ids() == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        "schema = 99",
        "properties = 'no json'",
        "key = 'no topic'",
        "payload = x'00'",
        "payload = NULL",
        "published_at = 1",
        "place = place + 9",
    ],
)
async def test_a_damaged_event_fails_the_read_with_its_row_and_stops_compaction(
    path: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    await life(path, "a", "b", "c", topic="t")
    execute(path, f"UPDATE events SET {change} WHERE place & 0xff = 2")  # noqa: S608
    message = await loss(path)
    assert "damaged" in message and "row" in message
    assert "damaged" in caplog.text
    change_log = SqliteLog(path, compaction=Compaction(retention_ms=-1))
    with pytest.raises(LogError, match="could not be compacted"):  # otherwise a damaged key could supersede another key's only event
        await change_log.compact(NAMESPACE)
    await change_log.close()


async def test_damage_found_at_every_opening_is_logged_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await life(path, "a", "b")
    execute(path, "UPDATE events SET published_at = 7 WHERE place & 0xff = 1")
    change_log = SqliteLog(path)
    for _ in range(3):
        recorder = Recorder()
        log = await change_log.open(NAMESPACE, recorder)
        await recorder.until(lambda recorder=recorder: bool(recorder.losses))  # type: ignore[misc]
        await log.close()
    await change_log.close()
    assert caplog.text.count("is damaged") == 1


@pytest.mark.parametrize("change", ["schema = 99", "properties = 'no json'", "properties = '[]'", "key = 'no topic'", "payload = x'00'"])
async def test_an_entry_that_is_not_an_event_fails_the_read_even_if_its_checksum_is_right(path: Path, change: str) -> None:
    await life(path, "a", "b", "c", topic="t")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE events SET {change} WHERE place & 0xff = 2")  # noqa: S608
        ((place, *rest),) = connection.execute(
            "SELECT place, published_at, schema, key, properties, payload FROM events WHERE place & 0xff = 2"
        ).fetchall()
        connection.execute("UPDATE events SET checksum = ? WHERE place = ?", (checksum(place, *rest), place))
        connection.commit()
    assert "the event in row 2" in await loss(path)


@pytest.mark.parametrize("row", [1, 2, 3])
async def test_a_missing_event_above_or_below_the_floor_fails_the_read(path: Path, row: int) -> None:
    await life(path, "a", "b", "c")
    change_log = SqliteLog(path, compaction=Compaction(retention_ms=-1, deletions_ms=-1))
    recorder = Recorder()
    log = await change_log.open(NAMESPACE, recorder)
    recorder.append(log, a_tombstone(a_key(NAMESPACE, "a")))
    await recorder.until_settled(1)
    await change_log.compact(NAMESPACE)
    await change_log.close()
    await life(path, "d", "e")
    place = {1: 2, 2: 3, 3: 5}[row]
    execute(path, f"DELETE FROM events WHERE place & 0xff = {place}")  # noqa: S608
    assert "stand" in (message := await loss(path)) or "missing" in message


async def test_a_missing_event_is_found_also_where_a_new_life_begins(path: Path) -> None:
    await life(path, *map(str, range(10)))
    execute(path, "DELETE FROM events WHERE place & 0xff = 5")
    path.with_name(f"{path.name}-mark").unlink()
    assert "missing" in await loss(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE namespaces SET compacted = 1",
        "UPDATE namespaces SET name = 'acme/ordess'",
        "DELETE FROM namespaces",
    ],
)
async def test_a_damaged_namespace_is_refused_at_the_opening(path: Path, change: str) -> None:
    await life(path, "a", "b")
    execute(path, change)
    assert "damaged" in await refusal(path)


async def test_a_damaged_schema_is_not_used_for_reading(path: Path) -> None:
    await life(path, "a")
    execute(path, "UPDATE schemas SET definition = replace(definition, 'maxProducerPerTopic', 'maxProducerPerTopik')")
    assert "damaged" in await loss(path)


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.timeout(300)
async def test_no_flipped_bit_in_the_file_changes_what_is_read_without_a_report(
    tmp_path: Path, compacted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Two in three flipped bits are reported; the others are in unused parts of the file, or have no effect."""
    original = tmp_path / "original.db"
    await life(original, *(f"{turn}-{topic}" for turn in range(3) for topic in range(12)))
    if compacted:
        for turn in range(3):
            await life(original, *(f"again-{turn}-{topic}" for topic in range(4)), topic=f"hot-{turn}", compact=True)
    _, intact = await life(original)
    content, mark = original.read_bytes(), original.with_name("original.db-mark").read_bytes()
    chance = random.Random(4711)
    path = tmp_path / "changes.db"
    reported = 0
    for _ in range(int(os.environ.get("FLIPS", "100"))):
        damaged = bytearray(content)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        put(path, damaged, mark)
        caplog.clear()
        change_log, recorder = SqliteLog(path), Recorder()
        try:
            await change_log.open(NAMESPACE, recorder)
            await recorder.until(lambda recorder=recorder: bool(recorder.losses or recorder.caught_up_after))  # type: ignore[misc]
        except LogError:
            reported += 1
            continue
        finally:
            await change_log.close()
        if recorder.losses:
            reported += 1
            assert caplog.text
        elif [(placed.position, placed.event) for placed in recorder.entries] != [(e.position, e.event) for e in intact.entries]:
            raise AssertionError(f"the entries read differ, and nothing was reported: {recorder.ids()} {caplog.text}")
    assert reported > 30


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_no_flipped_bit_in_the_write_ahead_log_removes_an_acknowledged_event_without_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    original = tmp_path / "original.db"
    change_log, before = SqliteLog(original), Recorder()
    log = await change_log.open(NAMESPACE, before)
    for number in range(40):
        before.append(log, an_update(a_key(NAMESPACE, number % 7), event_id=f"{number}"))
        await before.until_settled(number + 1)
    content, wal, mark = (original.with_name(f"original.db{end}").read_bytes() for end in ("", "-wal", "-mark"))
    await change_log.close()
    chance = random.Random(4711)
    path = tmp_path / "changes.db"
    reported = 0
    for _ in range(int(os.environ.get("FLIPS", "100"))):
        damaged = bytearray(wal)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        put(path, content, mark)
        path.with_name("changes.db-wal").write_bytes(damaged)
        caplog.clear()
        try:
            identity, recorder = await life(path)
        except (LogError, AssertionError):
            reported += 1
            continue
        if recorder.ids() != before.ids():
            reported += 1
            assert "are missing at its end" in caplog.text
            assert identity != log.identity
    assert reported > 50
