"""Watches, as docs/watch.md defines them: complete, in order, without loss or repetition, however a reader reads."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import GLOBAL, LOCAL, MALFORMED_TOKENS, Api, Document, Event, Refused
from .conftest import Serving
from .watching import Copy, Watching, documents, kinds, whole

MODES = ("LATEST", "EVERY")


async def put(api: Api, topic: str, value: int | None, **options: Any) -> Document:
    """Sets a value, or deletes the document; returns what is there then."""
    if value is None:
        answer = await api.delete(topic, **options)
    else:
        answer = await api.update(topic, {"max_producer_per_topic": value}, **options)
    assert answer.document is not None
    return answer.document


# A snapshot, SYNCED, and changes


@pytest.mark.parametrize("mode", MODES)
async def test_a_watch_begins_with_every_document_then_synced_then_changes(api: Api, namespace: str, topic: str, mode: str) -> None:
    there = [await put(api, f"{topic}-{number:03}", number) for number in range(400)]
    await put(api, f"{topic}-000", None)
    async with Watching(api, [namespace], mode=mode) as watch:
        first = await watch.synced()
        assert kinds(first) == ["change"] * 399 + ["synced"]
        assert sorted(documents(first), key=lambda each: each.topic) == there[1:]
        assert [event.token for event in first[:-1]] == [None] * 399 and first[-1].token
        made = [await put(api, topic, 1), await put(api, topic, 2), await put(api, topic, None)]
        if mode == "EVERY":
            assert [(await watch.change()).document for _ in made] == made
        else:
            assert (await watch.until(lambda event: event.document == made[-1]))[-1].document == made[-1]


async def test_named_topics_without_a_document_are_shown_as_absent(api: Api, namespace: str, topic: str) -> None:
    there, gone = await put(api, topic, 1), await put(api, f"{topic}-gone", 1)
    gone = await put(api, f"{topic}-gone", None)
    events = await whole(api, topics=[topic, f"{topic}-gone", f"{topic}-never"], scopes=[LOCAL])
    assert {each.topic: (each.policies, each.version) for each in documents(events)} == {
        topic: (there.policies, there.version),
        gone.topic: (None, gone.version),
        f"{topic}-never": (None, "0"),
    }
    assert documents(await whole(api, [namespace], [f"{topic}-never"])) == [there], "not if the namespace is watched as a whole"


async def test_changes_name_the_versions_before_them_and_who_made_them(api: Api, topic: str) -> None:
    async with (
        Watching(api, topics=[topic], scopes=[LOCAL], mode="EVERY", with_previous=True) as watch,
        Watching(api, topics=[topic], scopes=[LOCAL], mode="EVERY") as plain,
    ):
        await watch.synced()
        await plain.synced()
        first = await put(api, topic, 1, actor="ann")
        second = await put(api, topic, 2)
        gone = await put(api, topic, None)
        seen = [await watch.change() for _ in range(3)]
        assert [event.document for event in seen] == [first, second, gone]
        assert [event.previous_version for event in seen] == ["0", first.version, second.version]
        assert [event.previous and event.previous.policies for event in seen] == [None, first.policies, second.policies]
        assert seen[0].actor == "ann"
        assert [(await plain.change()).previous for _ in range(3)] == [None] * 3


async def test_only_the_topics_and_scopes_that_were_asked_for_are_sent(api: Api, namespace: str, topic: str) -> None:
    async with (
        Watching(api, topics=[topic], scopes=[GLOBAL], mode="EVERY") as one,
        Watching(api, [namespace], scopes=[LOCAL], mode="EVERY") as all_,
    ):
        token = (await one.synced())[-1].token
        await all_.synced()
        local = await put(api, topic, 1)
        other = await put(api, f"{topic}-2", 1)
        far = await put(api, topic, 2, scope=GLOBAL)
        last = await put(api, topic, 3)
        assert (await one.change()).document == far
        assert [(await all_.change()).document for _ in range(3)] == [local, other, last]
    for mode in MODES:
        resumed: dict[str, Any] = {"resume": {namespace: token}}
        for resume in ({}, resumed):
            assert documents(await whole(api, topics=[topic], scopes=[GLOBAL], mode=mode, **resume)) == [far]
            assert documents(await whole(api, [namespace], scopes=[GLOBAL], mode=mode, **resume)) == [far]
            assert last in documents(await whole(api, topics=[topic], scopes=[LOCAL], mode=mode, **resume))


async def test_a_watch_that_ends_when_synced_ends_with_ok(api: Api, namespace: str, topic: str) -> None:
    document = await put(api, topic, 1)
    events = await whole(api, [namespace, f"{namespace}-empty"])
    assert sorted(kinds(events)) == ["change", "synced", "synced"]
    assert documents(events) == [document]
    assert {event.namespace for event in events if event.kind == "synced"} == {namespace, f"{namespace}-empty"}


# Under load: complete, in order, versions grow, and bookmarks are true


class Load:
    """Writers that change and delete documents of one namespace, and what they were answered."""

    def __init__(self, namespace: str, seed: int) -> None:
        self.topics = [f"persistent://{namespace}/t-{number}" for number in range(8)]
        self.chance = random.Random(seed)
        self.stopping = False
        self.made: list[tuple[float, Document]] = []
        """The time of each answer, and its document."""

    async def writer(self, api: Api) -> None:
        while not self.stopping:
            value = None if self.chance.random() < 0.25 else self.chance.randrange(1_000_000)
            topic, scope = self.chance.choice(self.topics), self.chance.choice([LOCAL, GLOBAL])
            document = await put(api, topic, value, scope=scope)
            self.made.append((time.time(), document))
            await asyncio.sleep(self.chance.uniform(0, 0.01))

    def versions(self, since: str = "") -> list[str]:
        """Returns the versions of all changes, in the order of the log: on the embedded log they are one sequence."""
        return sorted({document.version for _, document in self.made if document.version > since})


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_under_load_nothing_is_missed_repeated_or_goes_back(api: Api, namespace: str, mode: str) -> None:
    load, copy = Load(namespace, 3), Copy()
    seen: list[str] = []
    late: list[Any] = []
    last: list[Document] = []
    bookmarks: list[Event] = []
    writers = [asyncio.create_task(load.writer(api)) for _ in range(6)]
    while len(load.made) < 50:  # noqa: ASYNC110 (each answer counts)
        await asyncio.sleep(0.01)
    async with Watching(api, [namespace], mode=mode, bookmark_seconds=1) as watch:

        async def read() -> None:
            while not last or copy.documents.get((last[0].topic, LOCAL)) != last[0]:
                event = await watch.next()
                copy.take(event)
                if event.kind == "bookmark":
                    bookmarks.append(event)
                if event.kind in ("synced", "bookmark"):
                    newest = {(each.topic, each.scope): each.version for at, each in load.made if at < event.confirmed - 0.001}
                    late.extend(key for key, version in newest.items() if key in copy.documents and copy.documents[key].version < version)
                if event.kind == "change" and copy.synced and event.document is not None:
                    seen.append(event.document.version)

        async def end() -> None:
            while len(bookmarks) < 3:  # noqa: ASYNC110 (each second one comes)
                await asyncio.sleep(0.01)
            load.stopping = True
            await asyncio.gather(*writers)
            last.append(await put(api, f"persistent://{namespace}/last", 7))

        await asyncio.gather(read(), end())
    assert copy.present == await state(api, namespace)
    assert copy.resets == 0 and not copy.repeated
    assert not late, "a bookmark confirmed a time whose changes were not sent"
    assert seen == sorted(set(seen)), "changes came in the order of the log"
    if mode == "EVERY":
        assert set(load.versions(seen[0])) <= set(seen), "a change was not sent"


async def state(api: Api, namespace: str) -> dict[Any, Document]:
    """Returns the documents of a namespace, as lists have them."""
    return {(each.topic, each.scope): each for each in await api.documents(namespace)}


async def test_at_synced_the_snapshot_is_complete_while_others_write(api: Api, namespace: str) -> None:
    """What was acknowledged before the watch was opened is in it, at that version or a later one, before SYNCED."""
    for number in range(300):
        await put(api, f"persistent://{namespace}/still-{number}", number)
    load = Load(namespace, 4)
    writers = [asyncio.create_task(load.writer(api)) for _ in range(4)]
    for _ in range(20):
        await asyncio.sleep(0.03)
        before = await state(api, namespace)
        copy = Copy()
        for event in await whole(api, [namespace]):
            copy.take(event)
        after = await state(api, namespace)
        for key, document in before.items():
            if after.get(key) == document:
                assert copy.documents.get(key) == document, "it did not change meanwhile"
            elif key in copy.documents:
                assert copy.documents[key].version >= document.version
        assert len([key for key in copy.documents if "/still-" in key[0]]) == 300
    load.stopping = True
    await asyncio.gather(*writers)


# Resuming


@pytest.mark.parametrize("mode", MODES)
async def test_a_watch_cut_and_resumed_all_the_time_misses_and_repeats_nothing(api: Api, namespace: str, mode: str) -> None:
    load, copy, chance, seen = Load(namespace, 5), Copy(), random.Random(5), []
    await put(api, load.topics[0], 1)
    for event in await whole(api, [namespace], mode=mode):
        copy.take(event)
    begun = (await put(api, load.topics[0], 2)).version
    writers = [asyncio.create_task(load.writer(api)) for _ in range(4)]
    for _ in range(25):
        copy.connect()
        async with Watching(api, [namespace], mode=mode, resume={namespace: copy.token}) as watch:
            left = chance.randrange(1, 40)
            while left > 0 or not event.own_token:
                event = await watch.next()
                copy.take(event)
                seen += [event.document.version] if event.document is not None else []
                left -= 1
        await asyncio.sleep(chance.uniform(0, 0.05))
    load.stopping = True
    await asyncio.gather(*writers)
    for event in await whole(api, [namespace], mode=mode, resume={namespace: copy.token}):
        copy.take(event)
        seen += [event.document.version] if event.document is not None else []
    assert copy.resets == 0 and not copy.repeated
    assert copy.present == await state(api, namespace), "deletions that were missed are sent too"
    assert len(set(seen)) == len(seen)
    if mode == "EVERY":
        assert seen == [begun, *load.versions(begun)]


@pytest.mark.parametrize("mode", MODES)
async def test_a_watch_resumes_after_kill_9_with_the_deletions_it_missed(serving: Serving, namespace: str, mode: str) -> None:
    server = await serving()
    topics = [f"persistent://{namespace}/t-{number}" for number in range(4)]
    async with Api(server.address) as api:
        copy = Copy()
        for topic in topics:
            await put(api, topic, 1)
        for event in await whole(api, [namespace], mode=mode):
            copy.take(event)
        made = [await put(api, topics[0], 2), await put(api, topics[0], 3), await put(api, topics[1], None)]
        made += [await put(api, topics[2], None), await put(api, topics[2], 4)]
        server.kill()
        await server.start()
        made.append(await put(api, topics[3], None))
        events = await whole(api, [namespace], mode=mode, resume={namespace: copy.token})
        for event in events:
            copy.take(event)
        assert copy.resets == 0 and not copy.repeated
        assert copy.present == await state(api, namespace)
        assert set(copy.present) == {(topics[0], LOCAL), (topics[2], LOCAL)}
        if mode == "EVERY":
            assert documents(events) == made
        assert {each.topic for each in documents(events)} == set(topics), "each deletion is explicit"


async def test_a_watch_from_the_token_of_a_list_misses_nothing(api: Api, namespace: str, topic: str) -> None:
    for number in range(5):
        await put(api, f"{topic}-{number}", 1)
    page = await api.page(namespace, size=2)
    made = [await put(api, f"{topic}-{number}", None if number % 2 else 2) for number in range(5)]
    events = await whole(api, [namespace], mode="EVERY", resume={namespace: page.token})
    assert documents(events) == made and "reset" not in kinds(events)
    empty = await api.page(f"{namespace}-empty")
    first = await put(api, f"persistent://{namespace}-empty/one", 1)
    assert documents(await whole(api, [f"{namespace}-empty"], resume={f"{namespace}-empty": empty.token})) == [first]


async def test_a_token_of_another_log_resets_its_namespace_and_no_other(api: Api, serving: Serving, namespace: str, topic: str) -> None:
    other = f"{namespace}-2"
    mine, also = await put(api, topic, 1), await put(api, f"persistent://{other}/one", 2)
    here = (await whole(api, [other]))[-1].token
    server = await serving()
    async with Api(server.address) as elsewhere:
        await put(elsewhere, topic, 3)
        foreign = (await whole(elsewhere, [namespace]))[-1].token
    for mode in MODES:
        events = await whole(api, [namespace, other], mode=mode, resume={namespace: foreign, other: here})
        reset = [event for event in events if event.namespace == namespace]
        assert kinds(reset) == ["reset", "change", "synced"] and reset[0].reason == "TOKEN_OUT_OF_RANGE"
        assert documents(reset) == [mine]
        assert kinds(event for event in events if event.namespace == other) == ["synced"]
    assert also.version


async def test_a_token_whose_events_are_gone_resets_a_watch_of_every_change(serving: Serving, namespace: str, topic: str) -> None:
    server = await serving("--no-history", "--max-every-backlog-changes", "16")
    async with Api(server.address) as api:
        await put(api, topic, 0)
        token = (await whole(api, [namespace]))[-1].token
        for value in range(1, 60):
            await put(api, topic, value)
        last = await put(api, topic, 60)
        events = await whole(api, [namespace], mode="EVERY", resume={namespace: token})
        assert kinds(events) == ["reset", "change", "synced"]
        assert events[0].reason == "EVENTS_GONE" and documents(events) == [last]
        latest = await whole(api, [namespace], resume={namespace: token})
        assert kinds(latest) == ["change", "synced"] and documents(latest) == [last]


async def test_changes_that_memory_has_dropped_come_from_the_history(serving: Serving, namespace: str, topic: str) -> None:
    server = await serving("--max-every-backlog-changes", "16")
    async with Api(server.address) as api:
        await put(api, topic, 0)
        token = (await whole(api, [namespace]))[-1].token
        made = [await put(api, topic, value) for value in range(1, 61)]
        assert documents(await whole(api, [namespace], mode="EVERY", resume={namespace: token})) == made
        begun = [event.document for event in await whole(api, [namespace], mode="ENTRIES") if event.kind == "entry"]
        assert [each and each.policies and each.policies.max_producer_per_topic for each in begun] == list(range(61))


@pytest.mark.parametrize("token", MALFORMED_TOKENS, ids=range(len(MALFORMED_TOKENS)))
async def test_a_malformed_token_is_refused(api: Api, namespace: str, token: str) -> None:
    with pytest.raises(Refused) as refused:
        await whole(api, [namespace], resume={namespace: token})
    assert refused.value.code == "INVALID_ARGUMENT" and refused.value.violations


@pytest.mark.parametrize(
    ("selection", "field"),
    [
        ({}, "topics"),
        ({"topics": ["nowhere"]}, "topics[0]"),
        ({"namespaces": ["nowhere"]}, "namespaces[0]"),
        ({"namespaces": ["a/b"], "bookmark_seconds": 0.1}, "bookmark_interval"),
        ({"namespaces": ["a/b"], "scopes": [LOCAL, LOCAL]}, "scopes[1]"),
        ({"namespaces": ["a/b"], "resume": {"a/c": ""}}, "resume_tokens"),
    ],
)
async def test_a_malformed_watch_is_refused_with_the_field(api: Api, selection: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refused:
        await whole(api, **selection)
    assert refused.value.code == "INVALID_ARGUMENT"
    assert [each.field for each in refused.value.violations] == [field]


# Bookmarks


async def test_bookmarks_come_on_a_timer_and_their_time_and_place_go_on(api: Api, topic: str) -> None:
    async with Watching(api, topics=[f"{topic}-quiet"], bookmark_seconds=1, scopes=[LOCAL]) as watch:
        *_, synced = await watch.synced()
        other = await put(api, topic, 1)
        marks = [await watch.next() for _ in range(3)]
        assert kinds(marks) == ["bookmark"] * 3
        times = [synced.confirmed, *(mark.confirmed for mark in marks)]
        assert times == sorted(times) and len(set(times)) == 4
        assert 0 <= time.time() - times[-1] < 5
    namespace = marks[-1].namespace
    events = await whole(api, topics=[topic], scopes=[LOCAL], resume={namespace: marks[-1].token})
    assert not documents(events), "the place of the bookmark is behind the change of another topic"
    assert other.version


# A slow watch


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_a_watch_that_is_not_read_delays_nobody_and_costs_nothing(serving: Serving, namespace: str, topic: str, mode: str) -> None:
    server = await serving()
    big = {"entry_filters": {"entry_filter_names": "x" * 50_000}}
    async with Api(server.address) as api, Api(server.address) as other:
        await put(api, topic, 0)
        stuck = [Watching(api, [namespace], mode=mode, bookmark_seconds=1, timeout=None) for _ in range(20)]
        for each in stuck:
            await each.synced()
        async with Watching(other, [namespace], mode=mode) as reader:
            await reader.synced()
            resident = memory(server.pid)
            begun = time.monotonic()
            answered: dict[int, float] = {}
            for value in range(1, 401):
                await other.update(topic, {"max_producer_per_topic": value, **big})
                answered[value] = time.time()
                if value % 100 == 0:
                    await reader.until(lambda event, value=value: has(event, value))  # type: ignore[misc]
            assert time.monotonic() - begun < 60
            assert memory(server.pid) - resident < 120 << 20, "20 watches of 20 MB each are not kept for them"
        events = await stuck[0].until(lambda event: has(event, 400))
        values = [value_of(event) or 0 for event in events if event.kind == "change"]
        assert values == [*range(1, 401)] if mode == "EVERY" else values == sorted(values)
        for at, event in enumerate(events):
            later = [answered[value_of(each) or 0] for each in events[at:] if each.kind == "change"]
            assert min(later) > event.confirmed - 0.001, "a bookmark confirmed a time before what came behind it"
        for each in stuck:
            await each.__aexit__(None, None, None)


def value_of(event: Any) -> int | None:
    return event.document.policies.max_producer_per_topic if event.document is not None and event.document.policies is not None else None


def has(event: Any, value: int) -> bool:
    return value_of(event) == value


def memory(pid: int) -> int:
    """Returns the resident bytes of a process."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) << 10


# Entries: the history as a stream


async def test_entries_come_from_the_beginning_or_a_token_and_then_follow(api: Api, namespace: str, topic: str) -> None:
    made = [await put(api, topic, value) for value in range(1, 31)]
    events = await whole(api, [namespace], mode="ENTRIES")
    entries = [event for event in events if event.kind == "entry"]
    assert [event.document for event in entries] == made and kinds(events)[-1] == "synced"
    async with Watching(api, [namespace], mode="ENTRIES", resume={namespace: entries[14].token}) as watch:
        assert [event.document for event in await watch.synced() if event.kind == "entry"] == made[15:]
        gone = await put(api, topic, None)
        followed = await watch.until(lambda event: event.kind == "entry")
        assert followed[-1].document == gone and followed[-1].entry is not None and followed[-1].entry.kind == "DELETE"


async def test_entries_of_another_log_come_behind_a_gap(serving: Serving, namespace: str, topic: str, tmp_path: Path) -> None:
    options = ("--history", str(tmp_path / "kept.db"), "--data")
    first = await serving(*options, str(tmp_path / "first.db"))
    async with Api(first.address) as api:
        for value in (1, 2, 3):
            await put(api, topic, value)
        await api.history(topic)
    assert first.stop() == 0
    second = await serving(*options, str(tmp_path / "second.db"))
    async with Api(second.address) as api:
        await put(api, topic, 4)
        events = await whole(api, [namespace], mode="ENTRIES")
        assert kinds(events) == ["entry", "entry", "entry", "gap", "entry", "synced"]
        resumed = await whole(api, [namespace], mode="ENTRIES", resume={namespace: events[2].token})
        assert kinds(resumed) == kinds(events)[3:]
        assert (await api.get(topic)).policies == TopicPolicies(max_producer_per_topic=4)
