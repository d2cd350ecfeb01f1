"""Updates that are submitted in one turn of the event loop: each has an answer of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from topicpolicies_server.core.chains.request import Result
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError

from .bench import KEY, OTHER, Bench, simulate

Submission = tuple[int, PolicyKey, dict[str, Any]]
Answers = list[tuple[str, str, Any]]
"""Each answer, in order: the request's id, the outcome or reason, and its details."""
REFUSED_VALUE = 7
"""A value that the log refuses to express."""


def in_words(answer: Result | PolicyError) -> tuple[str, Any]:
    if isinstance(answer, PolicyError):
        return str(answer.reason), answer.message
    return answer.outcome.name, (answer.version, answer.previous, answer.replayed, answer.document)


def outcomes(submissions: Sequence[Submission], **options: Any) -> tuple[Answers, list[Any]]:
    """Submits updates in one turn of the event loop; returns the answers, and the entries of the log."""
    answers: Answers = []
    logged: list[Any] = []

    async def scenario(bench: Bench) -> None:
        await bench.namespace.ready()
        original = bench.opened.append

        def append(event: Event) -> None:
            if event.stamp is not None and f"={REFUSED_VALUE}" in event.stamp.digest:
                raise LogError(Reason.NOT_EXPRESSIBLE, "It has no place for that.", kind=Kind.FAILED_PRECONDITION)
            original(event)

        bench.opened.append = append  # type: ignore[method-assign]
        order: dict[PolicyKey, int] = {}
        requests = [bench.request(value, key=key, **rest) for value, key, rest in submissions]
        for request in requests:
            request.batch = order
        for each in requests:
            bench.namespace.submit(each, lambda request, answer: answers.append((request.request_id, *in_words(answer))))
        while len(answers) < len(requests):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        entries = bench.storage.namespace("acme/orders").entries[0]
        logged.extend((each.position, each.event and (each.event.key, each.event.document, each.event.stamp)) for each in entries)
        assert (
            not bench.namespace.updates.sequencer.chains
        )  # a repair may be due, because one of the updates that were computed together was refused

    simulate(scenario, pause_repairs=True, **options)
    return answers, logged


def test_an_update_that_the_log_can_not_express_fails_alone_in_its_batch() -> None:
    submissions: list[Submission] = [(value, KEY, {}) for value in (1, REFUSED_VALUE, 2)]
    answers, logged = outcomes(submissions)
    assert sorted(what for _, what, _ in answers) == ["APPLIED", "APPLIED", "NOT_EXPRESSIBLE"]
    assert len(logged) == 2
    assert all("request-2" not in str(stamp.remembered) for _, (_, _, stamp) in logged), "later events do not mention the refused request"


def test_a_read_only_server_refuses_all_updates_of_a_batch_but_dry_runs() -> None:
    submissions: list[Submission] = [(1, KEY, {}), (2, KEY, {"validate_only": True}), (3, OTHER, {})]
    answers, logged = outcomes(submissions, read_only=True)
    assert [what for _, what, _ in answers] == ["READ_ONLY", "WOULD_APPLY", "READ_ONLY"]
    assert logged == []


def test_a_batch_that_arrives_during_a_load_waits_and_is_applied_in_order() -> None:
    answers: list[str] = []

    async def scenario(bench: Bench) -> None:
        bench.log.opening_seconds = 0.5
        for value in range(5):
            bench.namespace.submit(bench.request(value), lambda request, answer: answers.append(f"{request.digest} {in_words(answer)[0]}"))
        await asyncio.sleep(0.4)
        assert answers == []
        await asyncio.sleep(0.2)
        assert answers == [f"max_producer_per_topic={value} APPLIED" for value in range(5)]

    simulate(scenario)


def test_each_update_of_a_batch_is_answered_when_its_time_is_over() -> None:
    answers: list[str] = []

    async def scenario(bench: Bench) -> None:
        await bench.namespace.ready()
        bench.opened.append = lambda event: None  # type: ignore[method-assign]
        began = bench.loop.time()
        requests = [bench.request(value, validate_only=value == 0) for value in range(4)]
        for each in requests:
            bench.namespace.submit(each, lambda _, answer: answers.append(in_words(answer)[0]))
        bench.namespace.updates.give_up(requests[1])
        while len(answers) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert bench.loop.time() - began <= bench.limits.update_timeout_seconds * 1.2
        assert answers == ["WOULD_APPLY", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"]
        assert not bench.namespace.busy or bench.namespace.idle_since() >= began

    simulate(scenario)
