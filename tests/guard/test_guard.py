"""Which namespaces a guard keeps loaded, and what it logs."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.namespaces.bench import KEY, Bench, document, simulate
from topicpolicies.v1.policies_pb2 import EntryFilters, OffloadPolicies, TopicPolicies
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.guard import tell_of_healing
from topicpolicies_server.logs.avro import Codec, Dialect
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.activity import Repair

from .told import Told


def test_namespaces_that_are_found_are_kept_loaded_and_those_that_are_gone_are_released() -> None:
    async def scenario(bench: Bench) -> None:
        guard = Told(bench.registry, "acme/a", "acme/b")
        guard.start()
        await asyncio.sleep(60)
        assert {each.name for each in bench.registry.namespaces()} == {"acme/a", "acme/b"} and guard.guarded == 2
        guard.tell("acme/c", gone=("acme/a", "acme/never"))
        await asyncio.sleep(60)
        assert {each.name for each in bench.registry.namespaces()} == {"acme/b", "acme/c"} and guard.guarded == 2
        await guard.stop()
        assert guard.guarded == 0
        await asyncio.sleep(60)
        assert len(bench.registry) == 0

    simulate(scenario, sole_writer=False, namespace_idle_seconds=5.0)


def test_namespaces_beyond_the_limit_are_logged_and_guarded_when_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        guard = Told(bench.registry, *(f"acme/{number}" for number in range(5)))
        guard.start()
        await asyncio.sleep(1)
        assert guard.guarded == 3
        await asyncio.sleep(300)
        assert guard.guarded == 3
        guard.tell(gone=("acme/0", "acme/3"))
        await asyncio.sleep(20)
        assert guard.guarded == 3 and {each.name for each in bench.registry.namespaces()} == {"acme/1", "acme/2", "acme/4"}
        await guard.stop()

    simulate(scenario, sole_writer=False, max_loaded_namespaces=3, namespace_idle_seconds=2.0)
    logged = [record.getMessage() for record in caplog.records if "can't be guarded" in record.getMessage()]
    assert logged[0].startswith("acme/3 and 1 others can't be guarded yet: 3 namespaces are loaded")
    assert 5 <= len(logged) <= 7, "at the beginning, and once a minute"


@pytest.mark.parametrize(("scope", "written"), [(Scope.LOCAL, True), (Scope.GLOBAL, False)])
def test_where_both_scopes_share_a_key_only_local_documents_are_healed(scope: Scope, written: bool) -> None:
    codec = Codec(dialect=Dialect.SHARED_KEY)
    stamp = Stamp("an id", StampKind.REPAIR, head_version="0007")
    repair = Event(KEY._replace(scope=scope), Action.UPDATE, document(max_producer_per_topic=3), stamp)
    if written:
        assert codec.encode(repair).payload
    else:  # compaction would keep it in place of the LOCAL one
        with pytest.raises(LogError, match="GLOBAL document without") as caught:
            codec.encode(repair)
        assert caught.value.kind is Kind.FAILED_PRECONDITION


def placed(producer: str) -> Placed:
    event = Event(KEY, Action.UPDATE, document(max_producer_per_topic=3))
    return Placed(0, "0007", event, 1_700_000_000_123, producer)


@pytest.mark.parametrize(("published", "verb"), [(True, "healed"), (False, "would heal")])
def test_a_healing_is_logged_as_one_line_with_before_after_and_the_event_that_caused_it(
    published: bool, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = document(max_producer_per_topic=3), document(max_producer_per_topic=3, message_ttl_in_seconds=60)
    with caplog.at_level(logging.INFO):
        tell_of_healing(Repair("acme/orders", KEY, "0007", before, after, placed("standalone-0-23")), published)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{verb} persistent://acme/orders/one (LOCAL): message_ttl_in_seconds: unset -> 60; because of persistent://acme/orders/one"
        " (LOCAL), 0007 of a broker (standalone-0-23) at 2023-11-14T22:13:20.123+00:00"
    )


def test_the_line_of_a_healing_of_the_version_alone_says_that_no_setting_changed(caplog: pytest.LogCaptureFixture) -> None:
    same = document(max_producer_per_topic=3)
    with caplog.at_level(logging.INFO):
        tell_of_healing(Repair("acme/orders", KEY, "0006", same, dict(same), placed("standalone-0-23")), True)
    (record,) = caplog.records
    assert record.getMessage() == (
        "healed persistent://acme/orders/one (LOCAL): no setting, but the log's newest event does not name version 0006 with all its"
        " requests; because of persistent://acme/orders/one (LOCAL), 0007 of a broker (standalone-0-23) at 2023-11-14T22:13:20.123+00:00"
    )


def test_the_line_of_a_healing_is_bounded_and_has_no_credentials(caplog: pytest.LogCaptureFixture) -> None:
    offload = OffloadPolicies(s3_managed_ledger_offload_credential_secret="SECRET")
    secret = split(TopicPolicies(offload_policies=offload, entry_filters=EntryFilters(entry_filter_names="f" * 10_000)))
    with caplog.at_level(logging.INFO):
        tell_of_healing(Repair("acme/orders", KEY, "0007", None, secret, None), True)
    (record,) = caplog.records
    assert "SECRET" not in record.getMessage() and len(record.getMessage()) < 3_000
    assert "it was so when the log was opened" in record.getMessage()
