"""Which namespaces a guard keeps, and what it tells."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.namespaces.bench import KEY, Bench, document, simulate
from topicpolicies.v1.policies_pb2 import EntryFilters, OffloadPolicies, TopicPolicies
from topicpolicies_server.core.documents import split
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.names import Scope
from topicpolicies_server.guard import Guard, tell_of_healing
from topicpolicies_server.guard.discovery import find
from topicpolicies_server.guard.patterns import Pattern
from topicpolicies_server.logs.avro import Codec, Dialect
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.activity import Repair


class Brokers:
    """An admin API with some tenants, which notes what it was asked."""

    def __init__(self, namespaces: dict[str, list[str]]) -> None:
        self.namespaces = namespaces
        self.asked: list[tuple[str, ...]] = []

    async def get(self, *path: str) -> object:
        self.asked.append(path)
        if path == ("tenants",):
            return list(self.namespaces)
        return self.namespaces.get(path[1])


BROKERS = {"acme": ["acme/orders", "acme/orders-eu", "acme/stock"], "beta": ["beta/orders"], "public": ["public/default"]}


@pytest.mark.parametrize(
    ("patterns", "found", "questions"),
    [
        (("acme/orders",), {"acme/orders"}, 0),
        (("acme/not-there",), {"acme/not-there"}, 0),
        (("acme/*",), {"acme/orders", "acme/orders-eu", "acme/stock"}, 1),
        (("acme/orders*", "acme/stock"), {"acme/orders", "acme/orders-eu", "acme/stock"}, 1),
        (("*/orders",), {"acme/orders", "beta/orders"}, 4),
        (("b*/*",), {"beta/orders"}, 2),
        (("*/*",), {"acme/orders", "acme/orders-eu", "acme/stock", "beta/orders", "public/default"}, 4),
        (("nobody/*",), set(), 1),
        (("acme/or.ers", "acme/.*"), {"acme/or.ers"}, 1),
    ],
)
async def test_patterns_name_namespaces_and_the_brokers_list_them(patterns: tuple[str, ...], found: set[str], questions: int) -> None:
    brokers = Brokers(BROKERS)
    assert await find(brokers, Pattern.of(patterns)) == found
    assert len(brokers.asked) == questions


def test_what_matches_is_kept_loaded_and_what_is_gone_is_let_go() -> None:
    async def scenario(bench: Bench) -> None:
        wanted = {"acme/a", "acme/b"}

        async def look() -> set[str]:
            return set(wanted)

        guard = Guard(bench.registry, look, 5.0)
        guard.start()
        await asyncio.sleep(60)
        assert {each.name for each in bench.registry.namespaces()} == {"acme/a", "acme/b"} and guard.guarded == 2
        wanted ^= {"acme/a", "acme/c"}
        await asyncio.sleep(60)
        assert {each.name for each in bench.registry.namespaces()} == {"acme/b", "acme/c"} and guard.guarded == 2
        await guard.stop()
        assert guard.guarded == 0
        await asyncio.sleep(60)
        assert len(bench.registry) == 0

    simulate(scenario, sole_writer=False, namespace_idle_seconds=5.0)


def test_while_brokers_do_not_answer_what_is_guarded_stays_guarded(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        answers: list[set[str] | None] = [{"acme/a"}, None, None, {"acme/a", "acme/b"}]

        async def look() -> set[str]:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if answer is None:
                raise LogError("PULSAR_ADMIN_UNREACHABLE", "No answer.")
            return answer

        guard = Guard(bench.registry, look, 5.0)
        guard.start()
        await asyncio.sleep(12)
        assert guard.guarded == 1
        await asyncio.sleep(5)
        assert guard.guarded == 2
        await guard.stop()

    simulate(scenario, sole_writer=False)
    assert sum("can't be told which namespaces" in record.getMessage() for record in caplog.records) == 2


def test_more_namespaces_than_fit_into_memory_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        async def look() -> set[str]:
            return {f"acme/{number}" for number in range(5)}

        guard = Guard(bench.registry, look, 5.0)
        guard.start()
        await asyncio.sleep(1)
        assert guard.guarded == 3
        await guard.stop()

    simulate(scenario, sole_writer=False, max_loaded_namespaces=3)
    assert any("acme/3 can't be guarded" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(("scope", "written"), [(Scope.LOCAL, True), (Scope.GLOBAL, False)])
def test_where_both_scopes_share_a_key_only_local_documents_are_healed(scope: Scope, written: bool) -> None:
    codec = Codec(dialect=Dialect.SHARED_KEY)
    stamp = Stamp("an id", StampKind.REPAIR, head_version="0007")
    repair = Event(KEY._replace(scope=scope), Action.UPDATE, document(max_producer_per_topic=3), stamp)
    if written:
        assert codec.encode(repair).payload
    else:  # compaction would keep it in place of the LOCAL one
        with pytest.raises(LogError, match="no way to repair a GLOBAL document") as caught:
            codec.encode(repair)
        assert caught.value.kind is Kind.FAILED_PRECONDITION


def placed(producer: str) -> Placed:
    event = Event(KEY, Action.UPDATE, document(max_producer_per_topic=3))
    return Placed(0, "0007", event, 1_700_000_000_123, producer)


@pytest.mark.parametrize(("published", "verb"), [(True, "healed"), (False, "would heal")])
def test_a_healing_is_one_line_with_before_after_and_the_event_that_caused_it(
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


def test_a_healing_of_the_version_alone_says_so(caplog: pytest.LogCaptureFixture) -> None:
    same = document(max_producer_per_topic=3)
    with caplog.at_level(logging.INFO):
        tell_of_healing(Repair("acme/orders", KEY, "0006", same, dict(same), placed("standalone-0-23")), True)
    (record,) = caplog.records
    assert record.getMessage() == (
        "healed persistent://acme/orders/one (LOCAL): no setting, but the log's newest event does not tell of version 0006; because of"
        " persistent://acme/orders/one (LOCAL), 0007 of a broker (standalone-0-23) at 2023-11-14T22:13:20.123+00:00"
    )


def test_a_line_is_bounded_and_tells_no_credentials(caplog: pytest.LogCaptureFixture) -> None:
    offload = OffloadPolicies(s3_managed_ledger_offload_credential_secret="SECRET")
    secret = split(TopicPolicies(offload_policies=offload, entry_filters=EntryFilters(entry_filter_names="f" * 10_000)))
    with caplog.at_level(logging.INFO):
        tell_of_healing(Repair("acme/orders", KEY, "0007", None, secret, None), True)
    (record,) = caplog.records
    assert "SECRET" not in record.getMessage() and len(record.getMessage()) < 3_000
    assert "it was so when the log was opened" in record.getMessage()
