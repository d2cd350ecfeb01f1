"""One writer at a time: planted bugs that the simulation must find, and the watches of followers during changes of leader."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.memory_log import Channel, MemoryNamespaceLog, Sent
from tests.memory_log.led import LedNamespaceLog
from tests.validators import updates
from tests.validators.links import Link, chain
from tests.validators.records import Answer, Broken, Change, Key
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.chains.sequencer import Sequencer
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.policies.events import Event, Placed, Position
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import Leadership, LogError, NotLeader
from topicpolicies_server.logs.leadership import Candidate
from topicpolicies_server.logs.sqlite import file as rows

from . import promises
from .calls import Refused
from .clients import Writer
from .loop import SimulatedLoop
from .profile import PROFILES
from .run import run
from .sidecar import Sidecar
from .test_planted_bugs import Plant, find
from .watchers import Watcher
from .world import NAMESPACE, World

pytestmark = pytest.mark.simulation


def leaders_that_read_nothing_first(patch: pytest.MonkeyPatch) -> None:
    """A leader writes as soon as it has announced itself, before it has read the log up to there."""
    original = Candidate.__init__

    def planted(self: Candidate[Any], *arguments: Any) -> None:
        original(self, *arguments)
        self._read = ["~"] * len(self._read)

    def deaf(self: Candidate[Any], partition: int, position: Position) -> None:
        del self, partition, position

    patch.setattr(Candidate, "__init__", planted)
    patch.setattr(Candidate, "read_up_to", deaf)


def leaders_that_do_not_wait_for_a_partition(patch: pytest.MonkeyPatch) -> None:
    """A leader waits until it has read partition 0 only."""
    original = Candidate.__init__

    def planted(self: Candidate[Any], *arguments: Any) -> None:
        original(self, *arguments)
        self._read[1:] = ["~"] * (len(self._read) - 1)

    def half_deaf(self: Candidate[Any], partition: int, position: Position) -> None:
        if partition == 0:
            self._read[0] = position
            self._came.set()

    patch.setattr(Candidate, "__init__", planted)
    patch.setattr(Candidate, "read_up_to", half_deaf)


def a_log_that_fences_nobody(patch: pytest.MonkeyPatch) -> None:
    """The log stores the events of a leader whose seat another leader holds."""
    original = LedNamespaceLog._store

    def planted(self: LedNamespaceLog, sent: Sent) -> None:
        seat = self._stored.seats[sent.partition]
        holder, seat.holder = seat.holder, sent.producer
        original(self, sent)
        seat.holder = holder

    patch.setattr(LedNamespaceLog, "_store", planted)


def fenced_leaders_that_go_on_answering(patch: pytest.MonkeyPatch) -> None:
    """A leader takes an event that was refused because it is fenced for stored, at the next position."""
    original = MemoryNamespaceLog._fail

    def planted(self: MemoryNamespaceLog, event: Event, error: LogError) -> None:
        if error.state is not LogState.FENCED:
            original(self, event, error)
            return
        partition = self.partition_of(event.key)
        last = self._owner.storage.namespace(NAMESPACE).entries[partition][-1]
        place = rows.position_of(rows.row_of(last.position) + 1)
        self._sink.acknowledged([Placed(partition, place, event, self._owner.storage.now(), last.producer)])

    patch.setattr(MemoryNamespaceLog, "_fail", planted)


def leaders_that_do_not_see_that_they_are_none(patch: pytest.MonkeyPatch) -> None:
    """A fenced leader never steps down."""
    patch.setattr(Candidate, "step_down", lambda self, error: None)


def turned_away_after_all(patch: pytest.MonkeyPatch) -> None:
    """A fenced leader refuses the requests whose outcome it does not know with NOT_LEADER."""
    original = Sequencer.failed

    def planted(self: Sequencer, event: Event, error: PolicyError, outcome_unknown: bool) -> None:
        if error.state is LogState.FENCED:
            error, outcome_unknown = NotLeader(NAMESPACE, Leadership(False)), False
        original(self, event, error, outcome_unknown)

    patch.setattr(Sequencer, "failed", planted)


PLANTS: list[tuple[Plant, str, type[Broken]]] = [
    (leaders_that_read_nothing_first, "exclusive", promises.Stale),
    (leaders_that_do_not_wait_for_a_partition, "exclusive-partitioned", promises.Stale),
    (a_log_that_fences_nobody, "exclusive", promises.Intruded),
    (fenced_leaders_that_go_on_answering, "exclusive", updates.WrongAnswer),
    (leaders_that_do_not_see_that_they_are_none, "exclusive", promises.Unled),
    (turned_away_after_all, "exclusive", promises.TurnedAwayButApplied),
]
FOUND_AT: dict[Plant, int] = {
    leaders_that_read_nothing_first: 24,
    a_log_that_fences_nobody: 4,
    fenced_leaders_that_go_on_answering: 3,
    leaders_that_do_not_see_that_they_are_none: 13,
    turned_away_after_all: 61,
}
"""Seeds that found the bugs which take many seeds. They are tried first, and all seeds after that."""


@pytest.mark.parametrize(("plant", "profile", "error"), [pytest.param(*each, id=each[0].__name__) for each in PLANTS])
def test_a_planted_bug_of_leaders_is_found(plant: Plant, profile: str, error: type[Broken], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    find(error, profile, FOUND_AT.get(plant, 0))


def test_every_promise_about_leaders_has_a_planted_bug() -> None:
    errors = {value for value in vars(promises).values() if isinstance(value, type) and issubclass(value, Broken) and value is not Broken}
    assert errors - {promises.Forgotten, promises.Divided, promises.CallUndone} <= {error for _, _, error in PLANTS}


def test_a_leader_that_knows_nothing_of_an_erased_deletion_may_delete_the_key_and_make_it_again() -> None:
    assert run("exclusive-partitioned", 20282).broken == [], "the documents of both are the right ones"


class Steady(Watcher):
    """Watches every change on one sidecar, and never cancels."""

    def __init__(self, world: World, sidecar: Sidecar, chance: random.Random) -> None:
        super().__init__(world, f"watcher-of-{sidecar.name}", chance)
        self._sidecar = sidecar
        self._every, self._topics, self._scopes = True, None, frozenset((1, 2))
        self._slow = self._restless = 0.0

    def pick(self) -> Sidecar:
        return self._sidecar


async def written_through_failovers(chance: random.Random) -> World:
    """Kills two leaders under load, which start again, and fences a third one; every sidecar is watched."""
    world = World(replace(PROFILES["exclusive"], lost_acknowledgement=0.0, vanished=0.0), chance)
    watching = []
    for sidecar in world.sidecars:
        sidecar._limits = replace(sidecar._limits, max_every_backlog_changes=1_000)  # no watch falls behind
        sidecar.start()
        watching.append(asyncio.create_task(Steady(world, sidecar, random.Random(chance.getrandbits(64))).run()))
    await asyncio.sleep(1.0)  # all are synced

    async def leaders_go() -> None:
        for _ in range(2):
            await asyncio.sleep(chance.uniform(0.1, 0.3))
            while (leader := world.leader) is None or not leader.in_flight:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.001)
            await leader.crash()
            await asyncio.sleep(0.5)
            leader.start()
        while (leader := world.leader) is None or (log := leader.led_log(NAMESPACE)) is None or not log.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        log.cut(answers=True)

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(Writer(world, f"writer-{number}", random.Random(chance.getrandbits(64))).run(40))
        group.create_task(leaders_go())
    world.heal()
    await asyncio.sleep(4.0)
    world.resting.set()
    await asyncio.gather(*watching)
    for sidecar in world.sidecars:
        await sidecar.stop()
    world.history.heads = world.journal.heads
    return world


@pytest.mark.parametrize("seed", range(10))
def test_a_followers_watch_streams_every_change_of_every_leader_in_order(seed: int) -> None:
    chance = random.Random(seed)
    random.seed(seed)
    world = SimulatedLoop(random.Random(seed)).run(written_through_failovers(chance))
    streams: dict[str, list[Sequence[object]]] = defaultdict(list)
    for watch in world.history.watches:
        streams[watch.sidecar].append(watch.messages)
    through = {sidecar: messages for sidecar, (messages, *more) in streams.items() if not more}
    assert through, "at least one sidecar was never killed"
    counts = promises.counts_of(world.history, [placed for _, placed in world.journal.entries])
    assert counts["terms"] >= 4
    assert counts["changes told by followers"] > 20
    for messages in through.values():
        shown: dict[Key, list[tuple[str, str]]] = {key: [] for key in world.keys}
        for message in messages:
            if isinstance(message, Change):
                shown[message.key].append((message.previous, message.version))
        assert shown == {key: [(head.previous, head.version) for head in world.journal.heads if head.key == key] for key in world.keys}
    for key in world.keys:
        answers = [(each.request_id, each.answer) for each in world.history.updates if each.key == key and isinstance(each.answer, Answer)]
        found = chain(Link(name, answer.previous, answer.version) for name, answer in answers if answer.version != answer.previous)
        assert not (found.forks or found.twice), "one update follows another"


def setting(topic: str, seconds: int, version: str = "") -> service_pb2.UpdatePolicyRequest:
    """Returns a request that sets a topic's TTL."""
    precondition = service_pb2.Precondition(version=version) if version else None
    policies = TopicPolicies(message_ttl_in_seconds=seconds)
    return service_pb2.UpdatePolicyRequest(topic=topic, policies=policies, precondition=precondition)


async def refusal(sidecar: Sidecar, request: service_pb2.UpdatePolicyRequest) -> tuple[str, str]:
    """Returns the reason why an update is refused, and the leader that the refusal names."""
    with pytest.raises(Refused) as caught:
        await sidecar.change(request)
    return caught.value.failure.reason, caught.value.leader


async def taken(world: World, request: service_pb2.UpdatePolicyRequest, sidecars: Sequence[Sidecar]) -> service_pb2.ChangeResult:
    """Sends a request to one sidecar after the other until one accepts it."""
    while True:
        for sidecar in sidecars:
            try:
                return await sidecar.change(request)
            except Refused:
                await world.pause(0.05)


def loop_ms() -> int:
    """Returns the time of the log's clock."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop.milliseconds()


async def asked_while_cut_off(chance: random.Random) -> None:
    """Sends requests to a leader that does not know that another one has taken its place."""
    world = World(replace(PROFILES["exclusive"], lost_acknowledgement=0.0, vanished=0.0, late=0.0), chance)
    former, *others = world.sidecars
    topic = world.keys[0].topic
    for sidecar in world.sidecars:
        sidecar._limits = replace(sidecar._limits, namespace_idle_seconds=60.0)  # no sidecar gives up its seat by itself
        sidecar.start()
    first = await former.change(setting(topic, 1))
    for other in others:
        assert await refusal(other, setting(topic, 2)) == ("NOT_LEADER", former.name)
    log, watched = former.led_log(NAMESPACE), former.registry.get(NAMESPACE)
    assert log is not None
    watched.observe(world, lambda: None)
    await asyncio.sleep(10.0)
    assert watched.complete_as_of_ms > loop_ms() - 6_000, "bookmarks have this time"
    cut_at = loop_ms()
    channels: list[Channel[Any]] = [*log.appends, *log.answers, *log.reads]
    for channel in channels:
        channel.hold()
    log.cut()
    second = await taken(world, setting(topic, 2), others)
    assert second.previous_version == first.version
    await asyncio.sleep(10.0)
    assert former.leads(NAMESPACE), "it does not know yet"
    assert watched.complete_as_of_ms <= cut_at, "it has not read what the other leader wrote"
    stale = await former.change(setting(topic, 1))
    assert (stale.outcome, stale.version) == (service_pb2.CHANGE_OUTCOME_UNCHANGED, first.version), "no event is needed"
    assert await refusal(former, setting(topic, 1, second.version)) == ("NOT_APPENDED", ""), "it has not read that version"
    assert await refusal(former, setting(topic, 3)) == ("OUTCOME_UNKNOWN", "")
    for channel in channels:
        channel.release()
    await asyncio.sleep(0.2)
    leader = world.leader
    assert leader in others
    await asyncio.sleep(10.0)
    assert watched.complete_as_of_ms > cut_at
    watched.unobserve(world)
    assert await refusal(former, setting(topic, 1)) == ("NOT_LEADER", leader.name)
    version, document = await former.read(world.keys[0], second.version)
    assert (version, document) == (second.version, {"message_ttl_in_seconds": 2}), "no update of the cut-off leader was stored"
    for sidecar in world.sidecars:
        await sidecar.stop()


def test_a_cut_off_leader_writes_nothing_and_answers_only_from_what_it_has_read() -> None:
    random.seed(5)
    loop = SimulatedLoop(random.Random(5))
    loop.run(asked_while_cut_off(random.Random(5)))
    assert loop.failures == []
