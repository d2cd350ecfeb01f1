"""The file of checkpoints gets shorter when what it held is gone."""

from __future__ import annotations

from pathlib import Path

from topicpolicies_server.checkpoints import Pace, file
from topicpolicies_server.checkpoints.store import Store
from topicpolicies_server.sqlite_file import JOURNAL_BYTES, unused_pages

from .server import Server, a_key, ready
from .test_late import until
from .test_restarts import shown, view_of
from .test_trouble import filled, started

GONE = [file.Row(f"key-{number}", 0, bytes(3_000)) for number in range(3_000)]
"""The keys of a large namespace that has gone: some 12 MB."""


def enlarge(store: Store) -> None:
    """Writes the cells of a large namespace, and removes them."""
    connection = store._writer()
    connection.execute("BEGIN")
    file.put_cells(connection, 77, GONE)
    connection.execute("COMMIT")
    file.remove_cells(connection, 77, [row.name for row in GONE])


async def test_the_space_of_what_is_gone_is_given_back_while_the_server_runs(tmp_path: Path) -> None:
    server = Server(tmp_path, Pace(seconds=0.02, looks_seconds=0.01))
    before = await filled(server)
    store = Store(server.file)
    store.open()
    enlarge(store)
    store.close()
    assert server.file.stat().st_size > 10_000_000
    async with server.running() as registry:
        await ready(registry)
        await until(lambda: server.file.stat().st_size < 2_000_000)
        await server.set(registry, a_key(9), 9)
        before = shown(view_of(registry))
    assert (await started(server)) == ("checkpoint", before)


async def test_the_file_is_shortened_a_step_at_a_time_and_keeps_some_pages(tmp_path: Path) -> None:
    store = Store(tmp_path / "policies.checkpoints.db")
    store.open()
    try:
        enlarge(store)
        unused = unused_pages(store._writer())
        assert store.shrink(100, 256)
        assert unused_pages(store._writer()) == unused - 100
        while store.shrink(100, 256):
            pass
        assert unused_pages(store._writer()) == 256
        assert store.path.stat().st_size < 300 * 4_096, "the file itself is shorter, not only what its write-ahead log says of it"
    finally:
        store.close()


async def test_a_checkpoint_that_is_being_written_is_not_committed_by_shortening_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "policies.checkpoints.db")
    store.open()
    try:
        enlarge(store)
        store.begin("acme/orders", "")
        assert not store.shrink(100, 0)
        assert store._writer().in_transaction
        store.give_up()
    finally:
        store.close()


async def test_a_large_checkpoint_does_not_leave_a_large_write_ahead_log(tmp_path: Path) -> None:
    store = Store(tmp_path / "policies.checkpoints.db")
    store.open()
    try:
        connection = store._writer()
        connection.execute("BEGIN")
        for number in range(4):
            file.put_cells(connection, number, GONE)
        connection.execute("COMMIT")
        for number in range(2):  # the first of these begins the write-ahead log anew
            file.put_cells(connection, 5, GONE[number : number + 1])
        assert store.path.stat().st_size > 2 * JOURNAL_BYTES
        assert store.path.with_name(store.path.name + "-wal").stat().st_size <= JOURNAL_BYTES
    finally:
        store.close()
