"""A file of checkpoints is recognized although its beginning is damaged, and a foreign file is never changed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from topicpolicies_server.checkpoints import file
from topicpolicies_server.checkpoints.place import FileOwner, owner_of
from topicpolicies_server.checkpoints.store import Store

from .server import Server, a_key
from .test_trouble import filled, started

Damage = Callable[[bytes], bytes]


def no_header(found: bytes) -> bytes:
    return bytes(file.HEADER_BYTES) + found[file.HEADER_BYTES :]


def no_id(found: bytes) -> bytes:
    return found[:68] + bytes(4) + found[72:]


def garbled(found: bytes) -> bytes:
    return b"\x5a" * 200 + found[200:]


def no_page(found: bytes) -> bytes:
    return bytes(file.PAGE_BYTES) + found[file.PAGE_BYTES :]


def cut(found: bytes) -> bytes:
    return found[:60]


def damage(path: Path, how: Damage) -> bytes:
    """Damages a file; returns its new content."""
    found = how(path.read_bytes())
    path.write_bytes(found)
    return found


@pytest.mark.parametrize("named_here", [False, True])
@pytest.mark.parametrize("how", [no_header, no_id, garbled])
async def test_a_file_whose_beginning_is_damaged_is_replaced(tmp_path: Path, how: Damage, named_here: bool) -> None:
    server = Server(tmp_path)
    server.named_here = named_here
    before = await filled(server)
    damage(server.file, how)
    assert (await started(server)) == ("log", before)
    assert (await started(server)) == ("checkpoint", before)


@pytest.mark.parametrize("how", [no_page, cut])
async def test_a_file_without_a_beginning_is_replaced_only_if_the_server_named_it(tmp_path: Path, how: Damage) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    found = damage(server.file, how)
    assert (await started(server)) == ("log", before)
    assert server.file.read_bytes() == found, "an operator named the file: it may be foreign"
    server.named_here = True
    assert (await started(server)) == ("log", before)
    assert (await started(server)) == ("checkpoint", before)


async def test_a_write_ahead_log_left_without_its_file_does_not_prevent_new_checkpoints(tmp_path: Path) -> None:
    server = Server(tmp_path)
    await filled(server)
    left = server.file.with_name(server.file.name + "-wal")
    async with server.running() as registry:
        await server.set(registry, a_key(1), 7)
        await server.keep()
        shutil.copy(left, tmp_path / "left")
    server.file.unlink()
    shutil.copy(tmp_path / "left", left)
    came, before = await started(server)
    assert (await started(server)) == ("checkpoint", before), came


def blank(path: Path) -> bytes:
    """Makes an SQLite file without a table, as a creation leaves it for whose tables the disk has no room; its content."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA user_version = 0")
    return path.read_bytes()


@pytest.mark.parametrize("named_here", [False, True])
async def test_a_creation_that_the_disk_had_no_room_for_is_gone_on_with_when_there_is_room(tmp_path: Path, named_here: bool) -> None:
    server = Server(tmp_path)
    server.named_here = named_here
    before = await filled(server)
    server.file.unlink()
    blank(server.file)
    assert (await started(server)) == ("log", before)
    assert (await started(server)) == ("checkpoint", before)


def our_page(tmp_path: Path) -> bytes:
    store = Store(tmp_path / "ours.db")
    store.open()
    store.close()
    return (tmp_path / "ours.db").read_bytes()[: file.PAGE_BYTES]


def test_a_file_is_ours_foreign_or_free_by_its_first_page_and_by_who_named_it(tmp_path: Path) -> None:
    ours = our_page(tmp_path)
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    other = (tmp_path / "other.db").read_bytes()[: file.PAGE_BYTES]
    tables = "\n".join(file._TABLES).encode()
    empty = blank(tmp_path / "blank.db")
    with_id, with_version, with_journal = (empty[:at] + b"\2" + empty[at + 1 :] for at in (71, 63, 18))
    shifted = (b"x" * 512 + ours)[: file.PAGE_BYTES]
    for named_here in (False, True):
        assert owner_of(b"", named_here=named_here) is FileOwner.FREE
        assert owner_of(empty, named_here=named_here) is FileOwner.FREE
        assert owner_of(ours, named_here=named_here) is FileOwner.OURS
        assert owner_of(no_header(ours), named_here=named_here) is FileOwner.OURS
        for foreign in (
            with_id,
            with_version,
            with_journal,
            other,
            no_id(other),
            b"notes",
            tables,
            b"head" + tables + bytes(5_000),
            shifted,
            b"\1" + bytes(4_095),
        ):
            assert owner_of(foreign, named_here=named_here) is FileOwner.FOREIGN
    for lost in (bytes(file.PAGE_BYTES), bytes(3), ours[:60]):
        assert owner_of(lost, named_here=True) is FileOwner.OURS
        assert owner_of(lost, named_here=False) is FileOwner.FOREIGN
