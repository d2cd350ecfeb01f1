"""What an answer to a change promises: nothing is lost, repeats are made once, a failure stays alone, and what is answered is on disk."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import Any

import pytest

from tests.validators.links import Link, chain
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import GLOBAL, LOCAL, Api, Change, Delete, Document, Refused, Update, refusal
from .conftest import Serving

CONTRADICTION = "CONTRADICTION"


def limit(value: int) -> dict[str, Any]:
    """Returns policies with one setting."""
    return {"max_producer_per_topic": value}


# No update is lost


async def test_the_answers_of_a_topic_form_one_chain_of_versions(api: Api, topic: str) -> None:
    answers = await asyncio.gather(*(api.update(topic, limit(value)) for value in range(1, 101)))
    found = chain(Link(each.request_id, each.previous_version, each.version) for each in answers)
    assert not found.broken and len(found.links) == 100
    assert (await api.get(topic)).version == found.links[-1].version


async def test_changes_of_different_fields_at_once_are_all_in_the_document(api: Api, topic: str) -> None:
    names = [each.name for each in TopicPolicies.DESCRIPTOR.fields if each.cpp_type == each.CPPTYPE_INT32 and not each.is_repeated]
    values: dict[str, Any] = {name: number for number, name in enumerate(names, 1)}
    await asyncio.gather(*(api.update(topic, {name: value}) for name, value in values.items() for _ in range(3)))
    assert (await api.get(topic)).policies == TopicPolicies(**values)


async def test_an_answer_has_the_document_and_the_one_before_it(api: Api, topic: str) -> None:
    first = await api.update(topic, limit(1), with_previous=True)
    assert first.previous is not None and (first.previous.policies, first.previous.version) == (None, first.previous_version)
    second = await api.update(topic, {"message_ttl_in_seconds": 60}, with_previous=True)
    assert (second.previous, second.previous_version) == (first.document, first.version)
    assert second.document == await api.get(topic)
    gone = await api.delete(topic, with_previous=True)
    assert (gone.outcome, gone.previous, gone.previous_version) == ("DELETED", second.document, second.version)
    assert gone.document == await api.get(topic) == Document(topic, LOCAL, gone.version, None)
    assert first.version < second.version < gone.version, "of one key, string order is log order"
    assert (await api.update(topic, limit(2))).previous is None, "it was not asked for"


# You read your writes


async def test_reads_lists_and_watches_after_an_answer_include_the_change(api: Api, namespace: str, topic: str) -> None:
    for value in range(1, 11):
        answer = await api.update(topic, limit(value))
        assert await api.get(topic) == answer.document
        assert await api.documents(namespace) == [answer.document]
        assert [event.document async for event in api.watch([namespace], until_synced=True) if event.kind == "change"] == [answer.document]
        assert (await api.history(topic, newest_first=True, size=1))[0].document == answer.document


async def test_a_read_of_at_least_a_version_waits_for_it_or_its_deadline(api: Api, topic: str) -> None:
    answer = await api.update(topic, limit(1))
    assert await api.get(topic, at_least_version=answer.version) == answer.document
    refused = await refusal(api.get(topic, at_least_version="zzzz", timeout=0.5))
    assert refused.code == "DEADLINE_EXCEEDED"
    assert refused.reason in ("VERSION_NOT_REACHED", "")  # gRPC's own, if the answer and the deadline meet


# Requests can be repeated


async def test_a_repeated_request_is_made_once_and_gets_the_first_answer(api: Api, topic: str) -> None:
    first, second = Update(topic, TopicPolicies(**limit(1))), Update(topic, TopicPolicies(message_ttl_in_seconds=60))
    answers = [await api.send(each) for each in (first, second)]
    for sent, answer in zip((first, second), answers, strict=True):
        again = await api.send(sent)
        assert again.replayed and not answer.replayed
        assert (again.outcome, again.version, again.previous_version) == (answer.outcome, answer.version, answer.previous_version)
        assert again.document in (answer.document, None)
    assert len(await api.history(topic)) == 2
    deletion = Delete(topic)
    gone = await api.send(deletion)
    await api.update(topic, limit(2))
    again = await api.send(deletion)
    assert again.replayed and (again.outcome, again.version) == (gone.outcome, gone.version)
    assert (await api.get(topic)).policies == TopicPolicies(**limit(2))


async def test_a_request_that_is_sent_many_times_at_once_is_made_once(api: Api, topic: str) -> None:
    sent = Update(topic, TopicPolicies(**limit(1)))
    answers = await asyncio.gather(*(api.send(sent) for _ in range(50)))
    assert len({each.version for each in answers}) == 1
    assert sum(not each.replayed for each in answers) == 1
    assert len(await api.history(topic)) == 1


async def test_a_repeat_is_recognized_behind_fifteen_later_changes(api: Api, topic: str) -> None:
    sent = Update(topic, TopicPolicies(**limit(1)))
    first = await api.send(sent)
    for value in range(2, 17):
        await api.update(topic, limit(value))
    again = await api.send(sent)
    assert again.replayed and again.version == first.version
    assert (await api.get(topic)).policies == TopicPolicies(**limit(16))


async def test_the_same_id_with_another_change_is_refused(api: Api, topic: str) -> None:
    sent = Update(topic, TopicPolicies(**limit(1)))
    first = await api.send(sent)
    others = (Update(topic, TopicPolicies(**limit(2)), request_id=sent.request_id), Delete(topic, request_id=sent.request_id))
    for other in others:
        refused = await refusal(api.send(other))
        assert (refused.code, refused.reason) == ("INVALID_ARGUMENT", "REQUEST_ID_REUSED")
    assert await api.get(topic) == first.document


async def test_the_same_id_for_another_topic_or_scope_is_another_request(api: Api, topic: str) -> None:
    number = str(uuid.uuid4())
    for name, scope in ((topic, LOCAL), (topic, GLOBAL), (f"{topic}-2", LOCAL)):
        answer = await api.update(name, limit(1), scope=scope, request_id=number)
        assert (answer.outcome, answer.replayed) == ("APPLIED", False)


async def test_an_id_has_one_form_in_answers_however_it_was_written(api: Api, topic: str) -> None:
    number = uuid.uuid4()
    first = await api.update(topic, limit(1), request_id=str(number).upper())
    again = await api.update(topic, limit(1), request_id=number.hex)
    assert again.replayed and {first.request_id, again.request_id} == {number.hex}
    assert [each.request_id for each in await api.history(topic)] == [number.hex]
    refused = await refusal(api.update(topic, limit(1), request_id="seven"))
    assert (refused.code, refused.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST_ID")


async def test_a_request_that_wrote_nothing_is_computed_again(api: Api, topic: str) -> None:
    sent = Update(topic, TopicPolicies(**limit(1)))
    await api.send(Update(topic, TopicPolicies(**limit(1)), request_id=sent.request_id, dry_run=True))
    assert not (await api.send(sent)).replayed, "the id of a dry run is not kept"
    same = Update(topic, TopicPolicies(**limit(1)))
    assert (await api.send(same)).outcome == "UNCHANGED"
    await api.update(topic, limit(2))
    assert (await api.send(same)).outcome == "APPLIED"


async def test_a_repeat_after_sigkill_gets_the_first_answer(serving: Serving, topic: str) -> None:
    server = await serving()
    sent = [Update(topic, TopicPolicies(**limit(value))) for value in range(1, 4)]
    deletion = Delete(f"{topic}-deleted")
    requests: list[Update | Delete] = [*sent, deletion]
    async with Api(server.address) as api:
        await api.update(deletion.topic, limit(1))
        answers = [await api.send(each) for each in requests]
        server.kill()
        await server.start()
        again = [await api.send(each) for each in requests]
        assert [(each.version, each.previous_version) for each in again] == [(each.version, each.previous_version) for each in answers]
        assert all(each.replayed for each in again)
        assert (await api.get(topic)).policies == TopicPolicies(**limit(3))
        assert len(await api.history(topic)) == 3


# What is answered is on disk


@pytest.mark.slow
async def test_what_was_answered_is_there_after_kill_9_at_once(serving: Serving, namespace: str) -> None:
    """The server is killed in the moment of an answer, while further changes are on their way."""
    server = await serving()
    answered: dict[str, Change] = {}
    for life, most in enumerate((1, 2, 1, 3, 60)):
        enough = asyncio.Event()

        async def change(number: int, life: int = life, enough: asyncio.Event = enough, most: int = most) -> None:
            topic = f"persistent://{namespace}/t-{life}-{number}"
            try:
                answered[topic] = await api.update(topic, limit(number), timeout=10)
            except Refused:
                return
            if len([each for each in answered if f"/t-{life}-" in each]) == most:
                server.kill()  # in the same turn of the loop: nothing is read in between
                enough.set()

        async with Api(server.address) as api:
            await api.get(f"persistent://{namespace}/first")  # the namespace is loaded, and the connection is open
            await asyncio.gather(*(change(number) for number in range(3 * most)))
        assert enough.is_set()
        await server.start()
        async with Api(server.address) as api:
            found = {each.topic: each for each in await api.documents(namespace, size=1_000)}
        lost = [topic for topic, change in answered.items() if found.get(topic) != change.document]
        assert not lost, f"{len(lost)} of {len(answered)} answered changes are lost"


# A failed update fails alone


async def test_an_error_names_everything_that_is_wrong_and_changes_nothing(api: Api, topic: str) -> None:
    before = await api.update(topic, limit(7))
    refused = await refusal(
        api.update(
            topic,
            limit(-1) | {"compaction_threshold": -5, "message_ttl_in_seconds": -1, "replication_clusters": ["eu"]},
            mask=["max_producer_per_topic", "compaction_threshold", "message_ttl_in_seconds", "replication_clusters"],
        )
    )
    assert refused.code == "INVALID_ARGUMENT"
    assert {each.field: each.reason for each in refused.violations} == {
        "policies.max_producer_per_topic": "NEGATIVE",
        "policies.compaction_threshold": "NEGATIVE",
        "policies.message_ttl_in_seconds": "NEGATIVE",
        "policies.replication_clusters": "LOCAL_CLUSTER_MISSING",
    }
    refused = await refusal(api.update("nowhere", limit(1), scope=9, mask=["no_such"], request_id="seven"))
    assert (refused.code, refused.reason) == ("INVALID_ARGUMENT", "INVALID_REQUEST")
    assert {each.field: each.reason for each in refused.violations} == {
        "topic": "MALFORMED_NAME",
        "scope": "UNKNOWN_SCOPE",
        "update_mask.paths[0]": "UNKNOWN_PATH",
        "request_id": "MALFORMED_REQUEST_ID",
    }
    assert await api.get(topic) == before.document
    assert len(await api.history(topic)) == 1


async def test_failures_between_other_changes_of_a_topic_do_not_touch_them(api: Api, topic: str) -> None:
    changes = [limit(value if value % 3 else -value) for value in range(1, 61)]
    outcomes = await asyncio.gather(*(api.update(topic, each) for each in changes), return_exceptions=True)
    links = [Link(each.request_id, each.previous_version, each.version) for each in outcomes if isinstance(each, Change)]
    assert [isinstance(each, Refused) for each in outcomes] == [value % 3 == 0 for value in range(1, 61)]
    assert not chain(links).broken and len(links) == 40


# Preconditions


async def test_an_update_with_the_present_version_is_made_and_with_another_aborted(api: Api, topic: str) -> None:
    first = await api.update(topic, limit(1), version="0")
    second = await api.update(topic, limit(2), version=first.version)
    for wrong in (first.version, "0", "zzzz"):
        for call in (api.update(topic, limit(3), version=wrong), api.delete(topic, version=wrong)):
            refused = await refusal(call)
            assert (refused.code, refused.reason) == ("ABORTED", "PRECONDITION_FAILED")
            assert refused.metadata["version"] == second.version
    assert await api.get(topic) == second.document
    gone = await api.delete(topic, version=second.version)
    assert (await refusal(api.update(topic, limit(3), version="0"))).reason == "PRECONDITION_FAILED", "the absence has a version of its own"
    assert (await api.update(topic, limit(3), version=gone.version)).outcome == "APPLIED"


async def test_of_many_updates_with_one_version_exactly_one_is_made(api: Api, topic: str) -> None:
    first = await api.update(topic, limit(0))
    calls = (api.update(topic, limit(value), version=first.version) for value in range(1, 41))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    made = [each for each in outcomes if isinstance(each, Change)]
    assert len(made) == 1 and await api.get(topic) == made[0].document
    assert {each.reason for each in outcomes if isinstance(each, Refused)} == {"PRECONDITION_FAILED"}


async def test_must_not_exist_holds_for_any_absence_and_no_document(api: Api, topic: str) -> None:
    first = await api.update(topic, limit(1), absent=True)
    refused = await refusal(api.update(topic, limit(2), absent=True))
    assert (refused.code, refused.reason, refused.metadata["version"]) == ("ABORTED", "PRECONDITION_FAILED", first.version)
    await api.delete(topic)
    assert (await api.update(topic, limit(3), absent=True)).outcome == "APPLIED"
    racing = await asyncio.gather(*(api.update(f"{topic}-2", limit(n), absent=True) for n in range(20)), return_exceptions=True)
    assert sum(isinstance(each, Change) for each in racing) == 1


async def test_skip_if_absent_skips_where_there_is_no_document(api: Api, topic: str) -> None:
    skipped = await api.update(topic, limit(1), skip_if_absent=True)
    assert (skipped.outcome, skipped.version) == ("SKIPPED", "0")
    assert (await api.get(topic)).policies is None
    await api.update(topic, limit(1))
    assert (await api.update(topic, limit(2), skip_if_absent=True)).outcome == "APPLIED"
    await api.delete(topic)
    assert (await api.update(topic, limit(3), skip_if_absent=True)).outcome == "SKIPPED"
    assert (await api.get(topic)).policies is None


async def test_preconditions_that_contradict_each_other_are_refused(api: Api, topic: str) -> None:
    refused = await refusal(api.update(topic, limit(1), absent=True, skip_if_absent=True))
    assert (refused.code, refused.reason) == ("INVALID_ARGUMENT", CONTRADICTION)


async def test_what_is_already_so_is_unchanged_and_writes_nothing(api: Api, topic: str) -> None:
    first = await api.update(topic, limit(1))
    same = await api.update(topic, limit(1))
    assert (same.outcome, same.version, same.document) == ("UNCHANGED", first.version, first.document)
    cleared = await api.update(topic, mask=["max_producer_per_topic"])
    assert (cleared.outcome, cleared.document and cleared.document.policies) == ("APPLIED", TopicPolicies())
    assert (await api.delete(topic)).outcome == "DELETED"
    absent = await api.delete(topic)
    assert (absent.outcome, absent.version) == ("ABSENT", (await api.get(topic)).version)
    assert len([each for each in await api.history(topic) if each.kind in ("UPDATE", "DELETE")]) == 3


async def test_a_dry_run_says_what_would_be_and_writes_nothing(api: Api, topic: str) -> None:
    would = await api.update(topic, limit(1), dry_run=True)
    assert would.outcome == "WOULD_APPLY" and would.document is not None
    assert (would.document.policies, would.document.version) == (TopicPolicies(**limit(1)), "0")
    assert (await api.get(topic)).policies is None
    assert (await refusal(api.update(topic, limit(-1), dry_run=True))).violations[0].reason == "NEGATIVE"
    first = await api.update(topic, limit(1))
    assert (await api.update(topic, limit(1), dry_run=True)).outcome == "UNCHANGED"
    assert (await refusal(api.update(topic, limit(2), dry_run=True, version="0"))).reason == "PRECONDITION_FAILED"
    assert (await api.delete(topic, dry_run=True)).outcome == "WOULD_DELETE"
    assert (await api.delete(f"{topic}-absent", dry_run=True)).outcome == "ABSENT"
    assert await api.get(topic) == first.document
    assert len(await api.history(topic)) == 1


# Batches


async def test_each_change_of_a_batch_has_its_own_result_in_order_of_its_key(api: Api, topic: str) -> None:
    def change(number: int) -> Update | Delete:
        if number % 10 == 9:
            return Update("nowhere", TopicPolicies(**limit(number)))
        if number % 10 == 4:
            return Delete(f"{topic}-{number % 3}")
        return Update(f"{topic}-{number % 3}", TopicPolicies(**limit(number)))

    sent = [change(number) for number in range(200)]
    results = await api.batch(sent)
    assert [isinstance(each, Refused) for each in results] == [number % 10 == 9 for number in range(200)]
    assert {each.code for each in results if isinstance(each, Refused)} == {"INVALID_ARGUMENT"}
    for which in range(3):
        made = [each for item, each in zip(sent, results, strict=True) if item.topic == f"{topic}-{which}" and isinstance(each, Change)]
        assert all(later.previous_version == earlier.version for earlier, later in itertools.pairwise(made) if later.outcome != "ABSENT")
        assert (await api.get(f"{topic}-{which}")).version == made[-1].version


async def test_a_batch_takes_preconditions_and_repeats_change_by_change(api: Api, topic: str) -> None:
    sent = [
        Update(topic, TopicPolicies(**limit(1)), absent=True),
        Update(topic, TopicPolicies(**limit(2)), absent=True),
        Update(topic, TopicPolicies(**limit(3)), version="0"),
        Update(f"{topic}-2", TopicPolicies(**limit(4)), dry_run=True),
    ]
    first, again = await api.batch(sent), await api.batch(sent)
    assert [each.reason if isinstance(each, Refused) else each.outcome for each in first] == [
        "APPLIED",
        "PRECONDITION_FAILED",
        "PRECONDITION_FAILED",
        "WOULD_APPLY",
    ]
    made, repeated = first[0], again[0]
    assert isinstance(made, Change) and isinstance(repeated, Change)
    assert repeated.replayed and repeated.version == made.version
    assert await api.get(topic) == made.document


async def test_a_batch_of_too_many_changes_is_refused_as_a_whole(api: Api, namespace: str, topic: str) -> None:
    refused = await refusal(api.batch([Update(f"{topic}-{number}", TopicPolicies(**limit(1))) for number in range(1_001)]))
    assert [(each.field, each.reason) for each in refused.violations] == [("changes", "TOO_MANY_ELEMENTS")]
    assert not await api.documents(namespace)
