"""The history, as docs/history.md defines it: who changed what and when, from what to what, and what a document was."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import GLOBAL, LOCAL, Api, Entry, Refused, Update
from .conftest import Serving
from .documents import REDACTED, only, whole
from .server_process import run

MILLISECOND = timedelta(milliseconds=1)


def limit(value: int) -> dict[str, Any]:
    return {"max_producer_per_topic": value}


def now() -> datetime:
    """Returns the present time as the API gives times: UTC, without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


async def series(api: Api, topic: str, count: int, **options: Any) -> list[str]:
    """Makes changes, some milliseconds apart; returns their versions."""
    versions = []
    for value in range(1, count + 1):
        versions.append((await api.update(topic, limit(value), **options)).version)
        await asyncio.sleep(0.004)
    return versions


def values(entries: list[Entry]) -> list[int]:
    return [each.document.policies.max_producer_per_topic for each in entries if each.document.policies is not None]


# What is kept


async def test_an_entry_has_who_what_when_why_and_both_documents(api: Api, topic: str) -> None:
    begun = now()
    first = await api.update(topic, limit(1) | {"message_ttl_in_seconds": 9}, actor="ann", reason="more are coming")
    second = await api.update(topic, limit(2), mask=["max_producer_per_topic", "message_ttl_in_seconds"])
    oldest, newest = await api.history(topic)
    assert (oldest.document, newest.document, newest.previous) == (first.document, second.document, first.document)
    assert oldest.previous is not None and (oldest.previous.policies, oldest.previous.version) == (None, "0")
    assert (oldest.kind, oldest.outcome) == ("UPDATE", "APPLIED")
    assert (oldest.actor, oldest.actor_standing, oldest.principal) == ("ann", "UNAUTHENTICATED", "")
    assert (oldest.reason, oldest.request_id) == ("more are coming", first.request_id)
    assert (newest.actor, newest.actor_standing, newest.reason) == ("", "UNKNOWN", "")
    assert newest.changed == sorted(newest.mask) == ["max_producer_per_topic", "message_ttl_in_seconds"]
    assert begun - timedelta(seconds=1) <= oldest.time <= newest.time <= now()
    assert not [each for each in (oldest, newest) if each.stale or each.unexplained or each.ambiguous]


async def test_changed_names_what_differs_not_what_was_asked(api: Api, topic: str) -> None:
    await api.update(topic, limit(1))
    await api.update(topic, limit(1) | {"message_ttl_in_seconds": 9}, mask=["*"])
    sent = Update(topic, mask=["subscription_policies.one", "max_producer_per_topic"], policies=TopicPolicies(**limit(1)))
    sent.policies.subscription_policies["one"].dispatch_rate.dispatch_throttling_rate_in_msg = 5
    await api.send(sent)
    entries = await api.history(topic)
    assert [each.changed for each in entries[1:]] == [["message_ttl_in_seconds"], ["subscription_policies.one"]]


async def test_a_deletion_is_an_entry_and_its_tombstone_has_no_actor(api: Api, topic: str) -> None:
    first = await api.update(topic, limit(1))
    gone = await api.delete(topic, actor="ann", reason="moved")
    await api.update(topic, limit(2))
    entries = [each for each in await api.history(topic) if each.kind != "TOMBSTONE"]
    assert [each.kind for each in entries] == ["UPDATE", "DELETE", "UPDATE"]
    deletion = entries[1]
    assert (deletion.document, deletion.previous, deletion.actor, deletion.reason) == (gone.document, first.document, "ann", "moved")
    assert deletion.changed == ["max_producer_per_topic"]
    assert all(each.actor == "" for each in await api.history(topic) if each.kind == "TOMBSTONE")


async def test_what_writes_nothing_leaves_no_entry(api: Api, topic: str) -> None:
    await api.update(topic, limit(1))
    await api.update(topic, limit(1))
    await api.update(topic, limit(2), dry_run=True)
    await api.update(f"{topic}-2", limit(2), skip_if_absent=True)
    with pytest.raises(Refused):
        await api.update(topic, limit(-2))
    with pytest.raises(Refused):
        await api.update(topic, limit(2), version="0")
    assert values(await api.history(topic)) == [1]
    assert not await api.history(f"{topic}-2")


async def test_secrets_are_in_no_history_but_their_change_is(serving: Serving, topic: str, tmp_path: Path) -> None:
    server = await serving("--show-secrets")
    async with Api(server.address) as api:
        policies = only(whole(1), "offload_policies")
        for secret in ("hush-hush-1", "hush-hush-2"):
            policies.offload_policies.s3_managed_ledger_offload_credential_secret = secret
            await api.update(topic, policies)
        assert "hush-hush-2" in str(await api.get(topic)), "this server shows secrets, and says so"
        assert "show_secrets" in server.printed
        _, newest = await api.history(topic)
        assert newest.changed == ["offload_policies"] and newest.previous is not None
        assert newest.document.policies == newest.previous.policies
        shown = newest.document.policies
        assert shown is not None and shown.offload_policies.s3_managed_ledger_offload_credential_secret == REDACTED
        then = await api.as_of(topic, newest.document.version)
        assert then.policies is not None and then.policies.offload_policies.s3_managed_ledger_offload_credential_secret == REDACTED
    server.stop()
    assert b"hush-hush" in (tmp_path / "policies.db").read_bytes(), "the log has it"
    assert b"hush-hush" not in (tmp_path / "policies.history.db").read_bytes()


# Reading it


async def test_the_history_is_filtered_by_topic_scope_actor_and_time(api: Api, namespace: str, topic: str) -> None:
    for value in range(1, 8):
        await api.update(topic, limit(value), actor="ann" if value % 2 else "bob")
        await asyncio.sleep(0.004)
    await api.update(f"{topic}-2", limit(100))
    await api.update(topic, limit(200), scope=GLOBAL, actor="ann")
    assert values(await api.history(topic)) == [*range(1, 8), 200]
    assert values(await api.history(topic, scopes=[LOCAL])) == [*range(1, 8)]
    assert values(await api.history(topic, scopes=[GLOBAL])) == [200]
    assert values(await api.history(namespace=namespace)) == [*range(1, 8), 100, 200]
    assert values(await api.history(topic, newest_first=True)) == [200, *range(7, 0, -1)]
    assert values(await api.history(topic, actor="bob")) == [2, 4, 6]
    assert values(await api.history(namespace=namespace, actor="ann")) == [1, 3, 5, 7, 200]
    assert values(await api.history(namespace=namespace, actor="")) == [100]
    times = [each.time for each in await api.history(topic, scopes=[LOCAL])]
    assert times == sorted(times)
    assert values(await api.history(topic, since=times[2], until=times[4])) == [3, 4], "from this time on, before that one"
    assert values(await api.history(topic, since=times[5] + MILLISECOND, scopes=[LOCAL])) == [7]
    assert values(await api.history(topic, until=times[1])) == [1]


async def test_pages_neither_repeat_nor_hide_what_comes_between_them(api: Api, namespace: str, topic: str) -> None:
    await series(api, topic, 10)
    extra = itertools.count(100)
    for newest_first in (True, False):
        found, after = [], ""
        while True:
            page = await api.history_page(topic, size=3, after=after, newest_first=newest_first)
            found += values(page.entries)
            after = page.next
            if not after or len(found) > 12:
                break
            await api.update(topic, limit(next(extra)))
        expected = [*range(1, 11)]
        assert [each for each in found if each <= 10] == (expected[::-1] if newest_first else expected)
        assert len(set(found)) == len(found)
    page = await api.history_page(namespace=namespace, size=1)
    others: list[dict[str, Any]] = [
        {"namespace": f"{namespace}-2"},
        {"topic": topic},
        {"namespace": namespace, "actor": "bob"},
    ]
    for other in others:
        with pytest.raises(Refused) as refused:
            await api.history_page(**other, after=page.next)
        assert [each.field for each in refused.value.violations] == ["page_token"]


async def test_everything_wrong_with_a_question_is_named_at_once(api: Api, namespace: str, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.history(topic="x", size=-1, actor="a" * 257)
    assert {each.field for each in refused.value.violations} == {"topic", "page_size", "actor"}
    with pytest.raises(Refused) as refused:
        await api.history(topic, namespace)
    assert refused.value.code == "INVALID_ARGUMENT"


# As of


async def test_as_of_a_time_is_the_last_document_of_that_time_or_before(api: Api, topic: str) -> None:
    versions = await series(api, topic, 6)
    entries = await api.history(topic)
    for before, entry in itertools.pairwise(entries):
        assert await api.as_of(topic, entry.time) == entry.document, "the event of that very time counts"
        assert await api.as_of(topic, entry.time - MILLISECOND) == before.document, "the next event does not count yet"
        assert await api.as_of(topic, entry.time + MILLISECOND) == entry.document
    assert (await api.as_of(topic, entries[0].time - MILLISECOND)).policies is None
    assert await api.as_of(topic, now()) == await api.get(topic)
    assert (await api.get(topic)).version == versions[-1]


async def test_as_of_a_version_is_the_document_with_that_version(api: Api, topic: str) -> None:
    versions = await series(api, topic, 5)
    gone = (await api.delete(topic)).version
    await api.update(topic, limit(9))
    for value, version in enumerate(versions, start=1):
        then = await api.as_of(topic, version)
        assert (then.version, then.policies) == (version, TopicPolicies(**limit(value)))
    assert (await api.as_of(topic, gone)).policies is None
    assert (await api.as_of(topic, "0")).policies is None
    with pytest.raises(Refused) as refused:
        await api.as_of(topic, "r9")
    assert (refused.value.code, refused.value.reason) == ("OUT_OF_RANGE", "NOT_IN_HISTORY")


async def test_as_of_the_time_of_a_deletion_there_is_no_document(api: Api, topic: str) -> None:
    await series(api, topic, 1)
    await api.delete(topic)
    await asyncio.sleep(0.01)
    await api.update(topic, limit(2))
    entries = await api.history(topic)
    (deletion,) = [each for each in entries if each.kind == "DELETE"]
    assert (await api.as_of(topic, deletion.time)).policies is None
    assert (await api.as_of(topic, deletion.time - MILLISECOND)).policies == TopicPolicies(**limit(1))


async def test_scopes_have_a_past_of_their_own(api: Api, topic: str) -> None:
    await series(api, topic, 1)
    await series(api, topic, 2, scope=GLOBAL)
    then = (await api.history(topic, scopes=[GLOBAL]))[0].time
    assert (await api.as_of(topic, then, LOCAL)).policies == TopicPolicies(**limit(1))
    assert (await api.as_of(topic, then, GLOBAL)).policies == TopicPolicies(**limit(1))
    assert (await api.as_of(topic, now(), GLOBAL)).policies == TopicPolicies(**limit(2))


async def test_the_future_is_refused(api: Api, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.as_of(topic, now() + timedelta(hours=1))
    assert [(each.field, each.reason) for each in refused.value.violations] == [("time", "IN_THE_FUTURE")]


# The file


@pytest.mark.slow
async def test_the_history_outlives_kills_without_gaps_or_repeats(serving: Serving, topic: str) -> None:
    server = await serving()
    expected = []
    for life in range(3):
        async with Api(server.address) as api:
            for value in range(life * 100, life * 100 + 30):
                await api.update(topic, limit(value))
                expected.append(value)
        server.kill()
        await server.start()
    async with Api(server.address) as api:
        page = await api.history_page(topic, size=1_000)
        assert values(page.entries) == expected
        assert not page.gaps
        assert [each.previous and each.previous.version for each in page.entries[1:]] == [
            each.document.version for each in page.entries[:-1]
        ]
        assert await api.as_of(topic, page.entries[40].time - MILLISECOND) in [each.document for each in page.entries[35:40]]


async def test_a_history_goes_on_over_another_log_with_a_gap(serving: Serving, topic: str, tmp_path: Path) -> None:
    kept = ("--history", str(tmp_path / "kept.db"), "--data")
    first = await serving(*kept, str(tmp_path / "first.db"))
    async with Api(first.address) as api:
        await api.update(topic, limit(1))
        assert values(await api.history(topic)) == [1]
    taken = run("serve", *kept, str(tmp_path / "second.db"), "--listen", "127.0.0.1:0")
    assert taken.returncode == 9 and "in use" in taken.stderr, "it belongs to one server at a time"
    first.stop()
    second = await serving(*kept, str(tmp_path / "second.db"))
    async with Api(second.address) as api:
        await api.update(topic, limit(2))
        page = await api.history_page(topic)
        assert (values(page.entries), page.gaps) == ([1, 2], ["LOG_REPLACED"])


async def test_without_a_history_questions_about_the_past_are_refused(serving: Serving, topic: str) -> None:
    server = await serving("--no-history")
    async with Api(server.address) as api:
        await api.update(topic, limit(1))
        for call in (api.history(topic), api.as_of(topic, now()), api.as_of(topic, "0")):
            with pytest.raises(Refused) as refused:
                await call
            assert (refused.value.code, refused.value.reason) == ("FAILED_PRECONDITION", "HISTORY_OFF")
