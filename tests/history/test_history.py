"""A history in its file: order, pages, restarts, bounds, kills, and tens of thousands of events."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from topicpolicies.v1.policies_pb2 import OffloadPolicies, TopicPolicies
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents, secrets
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.history import Bounds, History, file, open_history
from topicpolicies_server.history.entries import Entry, EntryPlace, GapReason
from topicpolicies_server.history.file import Query

from .conftest import BEGIN, BOUNDS, NAMESPACE, Log, position, reader_of, topic, trim, update

ROOT = Path(__file__).parents[2]


def rows(entries: list[Entry]) -> list[int]:
    return [int(entry.position) for entry in entries]


async def everything(history: History, query: Query) -> list[Entry]:
    """Returns the entries of all pages, each read from the last entry of the page before."""
    found: list[Entry] = []
    after: EntryPlace | None = None
    while True:
        page = await history.page(query._replace(after=after))
        found += page.entries
        if not page.more:
            return found
        after = page.entries[-1].place


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("scopes", [frozenset(Scope), frozenset({Scope.LOCAL}), frozenset({Scope.GLOBAL})])
async def test_pages_have_the_entries_that_filtering_all_events_gives(
    history: History, newest_first: bool, scopes: frozenset[Scope]
) -> None:
    chance = random.Random(7)
    reader = await reader_of(history)
    written = [
        update(
            row,
            row,
            name=chance.choice("ab"),
            scope=chance.choice(list(Scope)),
            actor=chance.choice(["ann", "bob", ""]),
            at=BEGIN + chance.randrange(50) * 1000,
        )
        for row in range(1, 121)
    ]
    reader.read(*written)
    at = {int(placed.position): max(each.published_at for each in written[: index + 1]) for index, placed in enumerate(written)}
    met = 0
    for name in ("", "a"):
        for actor in (None, "ann", ""):
            for start, end in ((0, 2**62), (BEGIN + 20_000, BEGIN + 49_000)):
                expected = [
                    int(placed.position)
                    for placed in written
                    if placed.event is not None
                    and placed.event.stamp is not None
                    and (not name or placed.event.key.topic == topic(name))
                    and placed.event.key.scope in scopes
                    and actor in (None, placed.event.stamp.actor)
                    and start <= at[int(placed.position)] < end
                ]
                query = Query(NAMESPACE, topic(name) if name else "", scopes, start, end, actor, newest_first, None, 7)
                found = rows(await everything(history, query))
                assert found == (expected[::-1] if newest_first else expected)
                met += len(found) > 7
    assert met >= 6  # so many queries had several pages


async def test_a_page_has_the_gaps_of_its_time_with_their_reasons(path: Path, now: list[int]) -> None:
    first = open_history(path, BOUNDS, now=lambda: BEGIN + 3_500)
    reader = await reader_of(first)
    reader.read(*(update(row, row) for row in range(1, 4)))
    reader.recorder.caught_up()
    reader.recorder.closed()
    await first.close()
    second = open_history(path, BOUNDS, now=lambda: now[0])
    reader = await reader_of(second, Log(complete=position(8)))
    reader.read(update(8, 8), update(9, 9))
    reader.recorder.caught_up()
    page = await second.page(Query(NAMESPACE))
    assert rows(page.entries) == [9, 8, 3, 2, 1]
    assert [(gap.since, gap.until, gap.reason) for gap in page.gaps] == [(BEGIN + 3_500, now[0], GapReason.COMPACTED)]
    assert (await second.page(Query(NAMESPACE, start=now[0] + 1))).gaps == []
    assert (await second.page(Query(NAMESPACE, end=BEGIN + 3_000))).gaps == []
    await second.close()


async def test_events_that_are_too_old_are_trimmed_and_leave_a_gap(path: Path, history: History) -> None:
    reader = await reader_of(history)
    reader.read(*(update(row, row) for row in range(1, 11)))
    await history.page(Query(NAMESPACE))
    trim(path, Bounds(4.5, 1 << 30), BEGIN + 10_000)
    page = await history.page(Query(NAMESPACE))
    assert rows(page.entries) == [10, 9, 8, 7, 6]
    assert [(gap.since, gap.until, gap.reason) for gap in page.gaps] == [(None, BEGIN + 5_000, GapReason.TRIMMED)]
    key = update(1, 1).event
    assert key is not None
    past = await history.past(NAMESPACE, key.key, None, at=BEGIN + 5_000)
    assert past.version == position(5)  # the state before the first event that is kept
    with pytest.raises(PolicyError, match="can't tell for certain"):
        await history.past(NAMESPACE, key.key, None, at=BEGIN + 4_999)


async def test_a_file_that_is_too_large_is_trimmed_from_its_oldest_events(path: Path, history: History) -> None:
    reader = await reader_of(history)
    reader.read(*(update(row, row) for row in range(1, 6_001)))
    await history.page(Query(NAMESPACE))
    trim(path, BOUNDS._replace(bytes=1 << 20), BEGIN)
    left = rows(await everything(history, Query(NAMESPACE, newest_first=False, most=1_000)))
    assert 500 < len(left) < 5_000
    assert left == list(range(6_001 - len(left), 6_001))


async def test_a_text_that_can_not_be_encoded_is_written_as_far_as_it_can(history: History) -> None:
    reader = await reader_of(history)
    reader.read(*(update(row, row, actor="a\ud800b" if row in (2, 9) else "ann") for row in range(1, 21)))
    page = await history.page(Query(NAMESPACE))
    assert rows(page.entries) == list(range(20, 0, -1)) and not page.gaps
    assert [entry.actor for entry in page.entries] == ["a?b" if row in (2, 9) else "ann" for row in range(20, 0, -1)]


def test_a_backup_to_which_a_link_leads_is_for_its_owner_only_once_it_is_opened_and_so_are_the_files_beside_it(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "disk").mkdir()
    path.symlink_to(tmp_path / "disk" / path.name)
    file.open_file(path).close()
    path.chmod(0o664)
    opened = file.open_file(path)
    opened.extents()
    modes = {found.name: found.stat().st_mode & 0o777 for found in (tmp_path / "disk").iterdir()}
    assert modes == dict.fromkeys((path.name, *(path.name + end for end in ("-wal", "-shm"))), 0o600)
    opened.close()


async def test_an_entry_has_the_document_and_the_clusters_of_its_own_event(history: History) -> None:
    log = Log()
    reader = await reader_of(history, log)
    first = update(1, 1)
    assert first.event is not None and first.event.stamp is not None
    refused = first.event.stamp._replace(event_id="refused", etag=position(7))
    secret = documents.split(TopicPolicies(offload_policies=OffloadPolicies(s3_managed_ledger_offload_credential_secret="s3cret")))
    gone = Event(first.event.key, Action.DELETE, None)
    of_others = Event(PolicyKey(topic("others"), Scope.GLOBAL), Action.UPDATE, secret, clusters=("eu", "asia"))
    events = [
        first,
        update(2, 2, scope=Scope.GLOBAL),
        Placed(0, position(3), first.event._replace(document=secret, stamp=refused), BEGIN),
        Placed(0, position(4), gone, BEGIN),
        Placed(0, position(5), of_others, BEGIN),
        Placed(0, position(6), None, BEGIN, problem="unreadable"),
    ]
    reader.read(*events)
    entries = (await history.page(Query(NAMESPACE, newest_first=False))).entries
    by_row = {int(entry.position): entry for entry in entries}
    redacted = secrets.wire(secret)
    assert b"s3cret" not in redacted
    assert [by_row[row].action for row in range(1, 7)] == [*[Action.UPDATE] * 3, Action.DELETE, Action.UPDATE, 0]
    assert [by_row[row].clusters for row in range(1, 7)] == [["us"], [], ["us"], [], ["eu", "asia"], []]
    assert [by_row[row].written for row in range(1, 7)] == [by_row[1].after, by_row[2].after, redacted, None, redacted, None]
    assert by_row[3].own_document == redacted and by_row[3].after == by_row[1].after != redacted
    assert [by_row[row].own_document for row in (1, 2, 4, 5, 6)] == [None] * 5, "a document that is the one after the event is kept once"


async def test_another_sqlite_file_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE something (x)")
    with pytest.raises(PolicyError, match="not a history") as caught:
        open_history(path, BOUNDS)
    assert caught.value.reason == "HISTORY_UNAVAILABLE"
    await open_history(path.with_name("another.db"), BOUNDS).close()
