"""Bugs that are planted on purpose, each a mistake that a developer could make, and the broken promise that reveals it.

A validator that no bug can make fire would check nothing. So each validator has a planted bug here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pytest

from tests import validators
from tests.validators import reads, updates, watches
from tests.validators.records import Broken
from topicpolicies_server.core.chains import computing, sequencer
from topicpolicies_server.core.chains import request as chain_request
from topicpolicies_server.core.chains.request import Outcome, Request, Result
from topicpolicies_server.core.chains.sequencer import Sequencer
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.fold import fold, inference, joining, keystate, operation
from topicpolicies_server.core.fold.fold import FoldContext, Folded
from topicpolicies_server.core.fold.keystate import KeyState
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.documents import Document, differing, family
from topicpolicies_server.core.policies.events import ABSENT, Event, Placed, Position, Stamp
from topicpolicies_server.core.reading import log_order, view
from topicpolicies_server.core.reading.cell import Head
from topicpolicies_server.core.reading.tokens import Token
from topicpolicies_server.core.reading.watch import Page, WatchHub
from topicpolicies_server.logs.pulsar.reader import PartitionReader
from topicpolicies_server.namespaces import repairs
from topicpolicies_server.namespaces.namespace import Namespace
from topicpolicies_server.namespaces.progress import Progress
from topicpolicies_server.namespaces.repairs import Repairs
from topicpolicies_server.rpc import requests
from topicpolicies_server.rpc.watching.policy_part import PolicyPart

from . import promises, world
from .run import run

pytestmark = pytest.mark.simulation

MOST_SEEDS = 300
"""The most seeds that are run to find a planted bug."""

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def whole_documents(patch: pytest.MonkeyPatch) -> None:
    """Updates are written as whole documents instead of operations, as brokers write them."""
    original = computing.event_of

    def planted(*arguments: Any) -> Event:
        event = original(*arguments)
        assert event.stamp is not None
        return event._replace(stamp=event.stamp._replace(mask=("*",), reads={}, operands={}))

    patch.setattr(sequencer, "event_of", planted)


def acknowledgements_in_any_order(patch: pytest.MonkeyPatch) -> None:
    """The view takes an acknowledged event at once, even if events before it in the log were not read."""
    original = log_order.LogOrder.__init__

    def planted(self: log_order.LogOrder, partitions: int, follows: object, start: Iterable[Position] = ()) -> None:
        del follows
        original(self, partitions, lambda earlier, later: True, tuple(start))

    patch.setattr(log_order.LogOrder, "__init__", planted)


def answers_before_the_log(patch: pytest.MonkeyPatch) -> None:
    """An update is answered as soon as it is sent to the log."""
    original = Namespace.update
    tasks: set[asyncio.Task[object]] = set()

    async def quietly(self: Namespace, request: Request) -> None:
        try:
            await original(self, request)
        except PolicyError:
            return

    async def planted(self: Namespace, request: Request) -> Result:
        if request.validate_only:
            return await original(self, request)
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(quietly(self, request))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await asyncio.wait((task,), timeout=0.001)
        version = self.view.version(request.key) if self.view is not None else ABSENT
        return Result(Outcome.APPLIED, None, version, version)

    patch.setattr(Namespace, "update", planted)


def lost_ones_are_written_later(patch: pytest.MonkeyPatch) -> None:
    """An update whose append was lost is written again, although later updates of its batch are in the log already."""
    patch.setattr(Request, "overtaken_in_batch", False)


def repeats_tell_the_present(patch: pytest.MonkeyPatch) -> None:
    """A repeat is answered with the present version."""
    original = chain_request.repeated

    def planted(request: Request, state: KeyState | None, remembered: Any) -> Any:
        answer = original(request, state, remembered)
        return answer._replace(version=state.version, document=state.document) if isinstance(answer, Result) and state else answer

    patch.setattr(sequencer, "repeated", planted)


def no_memory(patch: pytest.MonkeyPatch) -> None:
    """No request is remembered."""
    patch.setattr(KeyState, "remembers", lambda self, request_id: None)
    patch.setattr(Sequencer, "applied_before", lambda self, request, state: None)


def requests_do_not_travel(patch: pytest.MonkeyPatch) -> None:
    """Events do not carry earlier requests, which compaction then erases."""
    original = computing.event_of

    def planted(*arguments: Any) -> Event:
        event = original(*arguments)
        assert event.stamp is not None
        return event._replace(stamp=event.stamp._replace(remembered=()))

    patch.setattr(sequencer, "event_of", planted)


def deletions_forget(patch: pytest.MonkeyPatch) -> None:
    """The requests of a deleted key are not remembered, although the log still has them."""
    original = KeyState.remembers
    patch.setattr(KeyState, "remembers", lambda self, request_id: None if self.document is None else original(self, request_id))
    patch.setattr(Sequencer, "applied_before", lambda self, request, state: None)


def tombstones_carry_nothing(patch: pytest.MonkeyPatch) -> None:
    """A tombstone that restates a deletion does not carry earlier requests."""
    original = keystate.restatement

    def planted(key: PolicyKey, state: KeyState, event_id: str) -> Event:
        event = original(key, state, event_id)
        assert event.stamp is not None
        return event._replace(stamp=event.stamp._replace(remembered=())) if event.document is None else event

    for module in (sequencer, repairs):
        patch.setattr(module, "restatement", planted)


def doubt_is_failure(patch: pytest.MonkeyPatch) -> None:
    """A request whose event was not acknowledged is reported as failed."""
    original = Sequencer.failed

    def planted(self: Sequencer, event: Event, error: PolicyError, outcome_unknown: bool) -> None:
        del outcome_unknown
        original(self, event, error, False)

    patch.setattr(Sequencer, "failed", planted)


def preconditions_are_lost(patch: pytest.MonkeyPatch) -> None:
    """The conditions of a request are dropped."""
    original = requests.read_change

    def planted(*arguments: Any) -> tuple[str, Request]:
        namespace, request = original(*arguments)
        request.version, request.exists = "", None
        return namespace, request

    patch.setattr(requests, "read_change", planted)


def half_a_document(patch: pytest.MonkeyPatch) -> None:
    """Reads leave out one setting of a document."""
    original = Namespace.get

    async def planted(self: Namespace, key: PolicyKey, at_least: Position = "") -> Head | None:
        head = await original(self, key, at_least)
        if head is None or not head.document:
            return head
        less: Document = dict(sorted(head.document.items())[1:])
        return Head(key, less, head.version, head.previous, head.placed, head.number)

    patch.setattr(Namespace, "get", planted)


def stale_reads(patch: pytest.MonkeyPatch) -> None:
    """Every other read of a key is answered from a cache that is never refreshed."""
    original = Namespace.get
    cached: dict[tuple[Namespace, PolicyKey], Head | None] = {}
    turns: dict[PolicyKey, int] = {}

    async def planted(self: Namespace, key: PolicyKey, at_least: Position = "") -> Head | None:
        head = await original(self, key, at_least)
        turns[key] = turns.get(key, 0) + 1
        return cached.setdefault((self, key), head) if turns[key] % 2 else head

    patch.setattr(Namespace, "get", planted)


def nobody_waits_for_versions(patch: pytest.MonkeyPatch) -> None:
    """Reads do not wait for at_least_version."""

    async def planted(*_: object) -> None:
        return None

    patch.setattr(Progress, "reached", planted)


def no_repairs(patch: pytest.MonkeyPatch) -> None:
    """Nothing is ever repaired."""
    patch.setattr(Repairs, "consider", lambda self, key, state, cause=None: None)


def synced_again_and_again(patch: pytest.MonkeyPatch) -> None:
    """A watch sends SYNCED again with each batch of changes."""
    original = PolicyPart._take_changes

    def planted(self: PolicyPart) -> list[bytes]:
        if self._synced and self._watcher is not None and not self._watcher.has_all:
            self._synced = False
        return original(self)

    patch.setattr(PolicyPart, "_take_changes", planted)


def the_hub_skips(patch: pytest.MonkeyPatch) -> None:
    """The hub drops every fifth change."""
    original = WatchHub.publish

    def planted(self: WatchHub, change: Head, before: Head | None) -> None:
        if change.number % 5:
            original(self, change, before)

    patch.setattr(WatchHub, "publish", planted)


def resumes_begin_anew(patch: pytest.MonkeyPatch) -> None:
    """A watch that resumes sends all changes, also those before its token."""
    patch.setattr(Token, "is_before", lambda self, change: True)


def empty_snapshots(patch: pytest.MonkeyPatch) -> None:
    """Snapshots are empty."""
    patch.setattr(WatchHub, "page", lambda *_: Page([], None, {}))


def deaf_watchers(patch: pytest.MonkeyPatch) -> None:
    """After about a dozen changes the hub sends no changes and no progress to watchers any more."""
    published = WatchHub.publish

    def plant_publish(self: WatchHub, change: Head, before: Head | None) -> None:
        if self.view.number < 12:
            published(self, change, before)

    def plant_moved(self: WatchHub, token: Token) -> None:
        if "moved" not in vars(self) or self.view.number < 12:
            vars(self)["moved"] = token

    patch.setattr(WatchHub, "publish", plant_publish)
    patch.setattr(WatchHub, "token", property(lambda self: vars(self)["moved"], plant_moved), raising=False)


def answers_while_loading(patch: pytest.MonkeyPatch) -> None:
    """Reads are answered from a view that has not finished loading."""
    original = Namespace.get

    async def planted(self: Namespace, key: PolicyKey, at_least: Position = "") -> Head | None:
        if (reading := self.reading) is not None and reading.log is not None:
            return reading.view.head(key)
        return await original(self, key, at_least)

    patch.setattr(Namespace, "get", planted)


def answers_from_an_old_view(patch: pytest.MonkeyPatch) -> None:
    """Requests that write nothing are answered from the view without confirmation, however far it is behind."""
    patch.setattr(Sequencer, "require_confirmation", lambda self, request, version: False)


def ends_of_old_questions(patch: pytest.MonkeyPatch) -> None:
    """A request that comes while the log's end is being asked for is confirmed by that question instead of the next one."""
    original = Progress.confirm

    def planted(self: Progress, request: Request) -> None:
        asking = self._asking.get(self._log.partition_of(request.key)) if self._log is not None else None
        if asking is not None:
            asking[1].append(request)
        else:
            original(self, request)

    patch.setattr(Progress, "confirm", planted)


def time_makes_knowledge(patch: pytest.MonkeyPatch) -> None:
    """A sidecar that joined takes its guess for certain W after the first event of the key that it saw."""
    original = fold.fold

    def planted(state: KeyState, placed: Placed, context: FoldContext) -> Folded:
        if state.newest_event is not None and state.all_seen(placed.published_at, context.window_ms):
            state.since = ""
        return original(state, placed, context)

    patch.setattr(view, "fold", planted)


def nobody_has_seen_more(patch: pytest.MonkeyPatch) -> None:
    """No sidecar believes a writer that has seen more, until it was contradicted often enough."""
    patch.setattr(joining, "has_seen_more", lambda state, stamp: False)


def gaps_are_empty(patch: pytest.MonkeyPatch) -> None:
    """Gaps in the log are taken for empty."""
    patch.setattr(PartitionReader, "_follows", lambda self, place: True)


# -- bugs of the fold ----------------------------------------------------------------------------------------------------


def whole_fields(patch: pytest.MonkeyPatch) -> None:
    """Brokers' documents are compared by field, not by setting: what changes one entry of a map changes all."""

    def planted(raw: Document | None, document: Document, known: frozenset[str] | None) -> list[str] | None:
        changed = {family(name) for name in differing(raw, document) if inference.compares(name, known)}
        names = sorted({name for each in (raw, document) for name in each or () if family(name) in changed})
        return names if len(changed) <= 1 else None

    patch.setattr(inference, "one_apart", planted)


def newest_base(patch: pytest.MonkeyPatch) -> None:
    """A broker's document is always taken for a change of the newest one."""

    def planted(document: Document, live: Document | None, *_: object) -> inference.Inference:
        return inference.Inference(differing(live, document), live)

    patch.setattr(fold, "infer", planted)


def repairs_are_changes(patch: pytest.MonkeyPatch) -> None:
    """A repair is applied like an operation, on top of what came before it."""

    def planted(state: KeyState, placed: Placed, event: Event, stamp: Stamp, context: FoldContext, _: bool) -> Folded:
        folded = operation.apply(state, placed, stamp, event.document)
        state.advance(event.document, stamp.event_id, placed.published_at, context.window_ms, context.sole_writer)
        state.repair_due = False
        return folded

    patch.setattr(fold, "_restated", planted)


def short_window(patch: pytest.MonkeyPatch) -> None:
    """W is shorter than brokers are behind."""
    original = fold.fold
    for module in (view, world):
        patch.setattr(module, "fold", lambda state, placed, context: original(state, placed, context._replace(window_ms=20)))


def changes_in_place_are_unknown(patch: pytest.MonkeyPatch) -> None:
    """The documents of brokers that change them in place are read like those of others."""
    original = fold.fold
    for module in (view, world):
        patch.setattr(module, "fold", lambda state, placed, context: original(state, placed, context._replace(in_place=False)))


def every_setting_is_compared(patch: pytest.MonkeyPatch) -> None:
    """A broker's document is compared in settings, too, that its schema does not have."""
    for module in (fold, inference):
        patch.setattr(module, "compares", lambda name, known: True)


def reads_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """An operation is applied although a setting that it read has changed."""
    original = operation.operate

    def planted(state: KeyState, placed: Placed, event: Event, stamp: Stamp) -> Folded:
        return original(state, placed, event, stamp._replace(reads={}))

    patch.setattr(fold, "operate", planted)


def lists_are_replaced(patch: pytest.MonkeyPatch) -> None:
    """A list is taken from the event's document, instead of changing the head's."""
    original = operation.operated
    patch.setattr(operation, "operated", lambda head, document, stamp: original(head, document, stamp._replace(operands={})))


PLANTS: list[tuple[Plant, str, type[Broken]]] = [
    (whole_documents, "embedded", updates.LostUpdate),
    (acknowledgements_in_any_order, "shared", updates.WrongAnswer),
    (answers_before_the_log, "embedded", updates.OutOfOrder),
    (answers_from_an_old_view, "lagging", updates.StaleAnswer),
    (ends_of_old_questions, "lagging", updates.StaleAnswer),
    (lost_ones_are_written_later, "hot", updates.BatchOutOfOrder),
    (repeats_tell_the_present, "embedded", updates.RepeatDiffers),
    (no_memory, "embedded", updates.AppliedTwice),
    (requests_do_not_travel, "interrupted", updates.WrongAnswer),
    (deletions_forget, "forgetful", updates.AppliedTwice),
    (tombstones_carry_nothing, "interrupted", updates.RepeatDiffers),
    (doubt_is_failure, "embedded", updates.FailedButApplied),
    (preconditions_are_lost, "embedded", updates.ConditionIgnored),
    (half_a_document, "embedded", reads.TwoTruths),
    (stale_reads, "embedded", reads.WriteNotRead),
    (stale_reads, "idle", reads.WentBack),
    (answers_while_loading, "embedded", reads.WriteNotRead),
    (nobody_waits_for_versions, "shared", reads.NotReached),
    (no_repairs, "brokers", reads.NotConverged),
    (time_makes_knowledge, "late-guards", updates.LostUpdate),
    (nobody_has_seen_more, "late-guards", reads.NotConverged),
    (no_repairs, "late-orphans", promises.Divided),
    (whole_fields, "guard", updates.LostUpdate),
    (newest_base, "guard", updates.LostUpdate),
    (repairs_are_changes, "guard", updates.LostUpdate),
    (short_window, "guard", updates.LostUpdate),
    (changes_in_place_are_unknown, "late-in-place", promises.CallUndone),
    (every_setting_is_compared, "guard", updates.LostUpdate),
    (reads_are_not_compared, "shared", updates.LostUpdate),
    (lists_are_replaced, "shared", updates.LostUpdate),
    (gaps_are_empty, "compacted", reads.NotConverged),
    (synced_again_and_again, "embedded", watches.NotSyncedOnce),
    (the_hub_skips, "embedded", watches.Missed),
    (resumes_begin_anew, "embedded", watches.Repeated),
    (empty_snapshots, "embedded", watches.WatchBehind),
    (deaf_watchers, "embedded", watches.NotCovered),
]


FOUND_AT: dict[Plant, int] = {
    whole_documents: 14,
    answers_before_the_log: 51,
    ends_of_old_questions: 11,
    no_memory: 1,
    deletions_forget: 30,
    tombstones_carry_nothing: 407,
    changes_in_place_are_unknown: 11,
    reads_are_not_compared: 10,
    lists_are_replaced: 63,
    acknowledgements_in_any_order: 3,
    lost_ones_are_written_later: 3,
    requests_do_not_travel: 2,
    doubt_is_failure: 5,
    answers_while_loading: 6,
    nobody_waits_for_versions: 11,
    gaps_are_empty: 18,
    the_hub_skips: 4,
}
"""Seeds that found the bugs which take many seeds, or long runs. They are tried first, and all seeds after that."""


@pytest.mark.parametrize(("plant", "profile", "error"), PLANTS, ids=[f"{plant.__name__}-{error.__name__}" for plant, _, error in PLANTS])
def test_a_planted_bug_is_found(plant: Plant, profile: str, error: type[Broken], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    find(error, profile, FOUND_AT.get(plant, 0))


def find(error: type[Broken], profile: str, first: int) -> None:
    """Fails if no run breaks this promise: neither that of the seed ``first``, nor one of all others."""
    for seed in dict.fromkeys((first, *range(MOST_SEEDS))):
        try:
            broken = run(profile, seed).broken
        except (AssertionError, ExceptionGroup):
            continue  # the service's own assertions failed; another seed shows what clients see
        if any(type(each) is error for each in broken):
            return
    pytest.fail(f"{MOST_SEEDS} seeds of {profile} do not show {error.__name__}")


def test_every_validator_has_a_planted_bug() -> None:
    errors = {error for module in (updates, reads, watches) for error in vars(module).values() if _is_error(error)}
    assert {error for _, _, error in PLANTS} == {*errors, promises.CallUndone, promises.Divided}
    assert len(errors) == len(validators.VALIDATORS)


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Broken) and value is not Broken
