"""The cost of each stage of an update by itself, in one thread, to show what to improve next."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.chains.request import Request
from topicpolicies_server.core.chains.sequencer import Append, Effect, Sequencer, Settled
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.fold.fold import FoldContext, KeyState
from topicpolicies_server.core.fold.operation import Folded
from topicpolicies_server.core.policies import documents, secrets
from topicpolicies_server.core.policies.documents import Settings
from topicpolicies_server.core.policies.events import Event, Placed
from topicpolicies_server.core.reading.cell import Head
from topicpolicies_server.core.reading.readback import ReadBack
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.logs.avro import Codec
from topicpolicies_server.logs.sqlite import file as rows
from topicpolicies_server.rpc import answers, requests
from topicpolicies_server.rpc.watching import events

_BATCH = 32
"""Updates that are in flight at once, as under load."""
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Stage(NamedTuple):
    """One stage, and its cost."""

    name: str
    microseconds: float


def measure(updates: int) -> list[Stage]:
    """Measures the stages of an update, in their order, over this many updates of one key."""
    stages: dict[str, float] = {}
    wire, nobody = secrets.wire, requests.Author()

    def timed(name: str, work: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
        begin = time.perf_counter()
        results = [work(item) for item in items]
        stages[name] = stages.get(name, 0.0) + time.perf_counter() - begin
        return results

    messages = [_message(number) for number in range(updates)]
    parsed = timed("parse the request", service_pb2.UpdatePolicyRequest.FromString, messages)
    timed("  of reading it: compile the mask", lambda each: compile_change(each.policies, each.update_mask.paths, {}), parsed)
    read: list[Request] = timed("read the request", lambda each: requests.read_update(each, nobody)[1], parsed)
    view, context = None, FoldContext(sole_writer=True)
    view = View(context)
    sequencer = Sequencer("0" * 20, lambda: False)
    sequencer.view = view
    readback = ReadBack(1, rows.directly_follows)
    readback.read([Placed(0, rows.position_of(1), None, 0)])
    codec = Codec()
    places = itertools.count(2)
    settled: list[tuple[Request, Settled]] = []
    changes: list[Head] = []

    def take(placed: Placed) -> tuple[Event, Folded, Settings | None, KeyState | None]:
        assert placed.event is not None
        before = view.head(placed.event.key)
        folded, change, *_ = view.take(placed)
        assert folded is not None and change is not None
        changes.append(change)
        return placed.event, folded, None if before is None else before.document, view.state(placed.event.key)

    def effects_of(report: Callable[..., None], *about: object) -> list[Effect]:
        report(*about)
        effects = list(sequencer.effects)
        sequencer.effects.clear()
        return effects

    for batch in _batches(read, _BATCH):
        effects = timed("sequence: clone, mask, event", lambda each: effects_of(sequencer.submit, each, view.state(each.key)), batch)
        appended = [effect.event for each in effects for effect in each if isinstance(effect, Append)]
        timed("encode the event in Avro", codec.encode, appended)
        placed = [Placed(0, rows.position_of(next(places)), event, 0) for event in appended]
        taken = timed("read back by proof", lambda each: readback.acknowledged([each]), placed)
        folded = timed("fold, and put into the view", take, [one for each in taken for one in each])
        told: list[list[Effect]] = timed("settle", lambda each: effects_of(sequencer.folded, *each), folded)
        settled += [(effect.request, effect) for each in told for effect in each if isinstance(effect, Settled)]
    timed("answer", lambda each: answers.change_answer(each[0], each[1].answer, wire), settled)  # type: ignore[arg-type]
    timed(
        "serialize for watchers (once for all)",
        lambda each: events.change_record("public/default", each, wire, with_before=False),
        changes,
    )
    timed("  for comparison: parse and serialize", lambda each: documents.join(each.document or {}).SerializeToString(), changes)
    return [Stage(name, seconds / updates * 1e6) for name, seconds in stages.items()]


def _message(number: int) -> bytes:
    request = service_pb2.UpdatePolicyRequest(
        topic="persistent://public/default/bench-0",
        policies=TopicPolicies(max_producer_per_topic=number),
        request_id=uuid.uuid4().hex,
    )
    request.update_mask.paths.append("max_producer_per_topic")
    return request.SerializeToString()


def _batches(items: Sequence[_In], size: int) -> Iterable[Sequence[_In]]:
    return (items[start : start + size] for start in range(0, len(items), size))
