"""Watches whose permissions end, and come back: what is told meanwhile, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.rpc.callers import ROLES, Metadata, believe, guarded, of
from tests.rpc.conftest import Refusal
from tests.rpc.watching import Told, changes, kinds
from tests.stubs import AsyncStub, async_stub
from topicpolicies.secrets import REDACTED
from topicpolicies.v1 import errors_pb2, service_pb2
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1.service_pb2 import (
    NAMESPACE_STATE_FAILED,
    NAMESPACE_STATE_READY,
    WATCH_MODE_ENTRIES,
    WATCH_MODE_EVERY,
    WATCH_MODE_LATEST,
    UpdatePolicyRequest,
)
from topicpolicies_server.access import Caller, Permission, Way
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc import server as servers
from topicpolicies_server.rpc.permitting import Permitting
from topicpolicies_server.rpc.server import Server
from topicpolicies_server.rpc.watching import authorizations
from topicpolicies_server.rpc.watching import stream as streams

PATIENCE = 20.0
ONE, OTHER = "acme/orders", "acme/stock"
EVERYTHING = frozenset(Permission)
MODES = (WATCH_MODE_LATEST, WATCH_MODE_EVERY, WATCH_MODE_ENTRIES)


def topic(namespace: str = ONE) -> str:
    """A topic."""
    return f"persistent://{namespace}/t"


@dataclass
class Table:
    """What each role may do; what is not here is not known at once, and not told while ``silent``."""

    may_: dict[tuple[str, str], frozenset[Permission]] = field(default_factory=dict)
    silent: bool = False
    silent_in: set[str] = field(default_factory=set)
    """Namespaces of which nothing is known, and nothing told."""
    asked_in: set[str] = field(default_factory=set)
    """Those of them that somebody has asked for."""
    problem: PolicyError | None = None
    broken: bool = False
    on_basis = None

    def at_once(self, caller: Caller, namespace: str, permission: Permission) -> bool | None:
        """What is known."""
        if caller.principal == "admin":
            return True
        if self.broken:
            raise RuntimeError("nobody knows this one")
        if self.silent or self.problem is not None or namespace in self.silent_in:
            return None
        return permission in self.may_.get((caller.principal, namespace), frozenset())

    async def may(self, caller: Caller, namespace: str, permission: Permission) -> bool:
        """What is told."""
        if self.problem is not None:
            raise self.problem
        if self.silent:
            await asyncio.Event().wait()
        while namespace in self.silent_in:
            self.asked_in.add(namespace)
            await asyncio.sleep(0.01)
        return bool(self.at_once(caller, namespace, permission))

    def kept(self) -> dict[str, tuple[int, int]]:
        """It remembers no answers."""
        return {}

    async def close(self) -> None:
        """Nothing."""


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """Decides in the server; reader may do everything in two namespaces."""
    made = Table({("reader", namespace): EVERYTHING - {Permission.SECRETS} for namespace in (ONE, OTHER)})

    async def opened(*_: object) -> Table:
        return made

    monkeypatch.setattr(servers, "open_authority", opened)
    monkeypatch.setattr(authorizations, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(authorizations, "ASK_SECONDS", 0.2)
    return made


@pytest.fixture
async def server(table: Table, tmp_path: Path) -> AsyncIterator[Server]:
    """A server that asks it."""
    assert not table.silent
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), history=HistoryConfig(path=tmp_path / "history.db")
    )
    async with Server(config) as running:
        running.calls.doors = (believe,)
        yield running


@pytest.fixture
async def stub(server: Server) -> AsyncIterator[AsyncStub]:
    """The service."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield async_stub(channel)


async def update(stub: AsyncStub, value: int, namespace: str = ONE) -> None:
    """A change that anybody made."""
    policies = pb.TopicPolicies(max_producer_per_topic=value)
    await stub.UpdatePolicy(UpdatePolicyRequest(topic=topic(namespace), policies=policies), metadata=of("admin"))


def watching(stub: AsyncStub, caller: str = "reader", shown: Callable[[str], Metadata] = of, **selection: Any) -> Told:
    """A watch of a caller's, who shows what ``shown`` says."""
    return Told(stub, metadata=shown(caller), **selection)


async def ended(told: Told) -> tuple[list[service_pb2.WatchEvent], Refusal]:
    """What a watch tells until it ends with an error."""
    events = []
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while True:
            events.append(await told.next())
    return events, Refusal(caught.value)


def status_of(event: service_pb2.WatchEvent) -> tuple[int, str]:
    """A status of a namespace."""
    return event.status.state, errors_pb2.ErrorReason.Name(event.status.reason)


@pytest.mark.parametrize("mode", MODES)
async def test_a_watch_ends_when_its_permission_does(stub: AsyncStub, table: Table, mode: int) -> None:
    told = watching(stub, namespaces=[ONE], mode=mode)
    await told.until_synced()
    await update(stub, 1)
    if mode != WATCH_MODE_ENTRIES:
        assert (await told.change()).document.policies.max_producer_per_topic == 1
    table.may_.clear()
    events, refusal = await ended(told)
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
    assert dict(refusal.info.metadata) == {"permission": "watch", "namespace": ONE}
    assert not any(event.HasField("reset") for event in events), "what its reader has is not taken from him"


@pytest.mark.parametrize("mode", MODES[1:])
async def test_a_watch_of_every_change_ends_when_the_history_may_not_be_seen_any_more(stub: AsyncStub, table: Table, mode: int) -> None:
    told, latest = watching(stub, namespaces=[ONE], mode=mode), watching(stub, namespaces=[ONE])
    await told.until_synced()
    await latest.until_synced()
    table.may_["reader", ONE] -= {Permission.HISTORY}
    _, refusal = await ended(told)
    assert refusal.info.metadata["permission"] == "history"
    await update(stub, 1)
    assert (await latest.change()).document.policies.max_producer_per_topic == 1
    latest.cancel()


async def test_of_many_watches_exactly_those_end_whose_permission_does(stub: AsyncStub, table: Table) -> None:
    callers = [f"reader-{number}" for number in range(40)]
    table.may_ |= {(caller, ONE): EVERYTHING for caller in callers}
    watches = {caller: watching(stub, caller, namespaces=[ONE]) for caller in callers}
    await asyncio.gather(*(each.until_synced() for each in watches.values()))
    lost = set(callers[::3])
    for caller in lost:
        del table.may_[caller, ONE]
    for caller in lost:
        events, refusal = await ended(watches[caller])
        assert refusal.info.reason == "PERMISSION_DENIED"
        assert not changes(events)
    await update(stub, 7)
    kept = [await each.change() for caller, each in watches.items() if caller not in lost]
    assert len(kept) == 26 and {change.document.policies.max_producer_per_topic for change in kept} == {7}
    for each in watches.values():
        each.cancel()


@pytest.mark.parametrize("mode", MODES)
async def test_other_namespaces_of_a_stream_go_on_and_the_lost_one_does_when_it_may_again(stub: AsyncStub, table: Table, mode: int) -> None:
    told = watching(stub, namespaces=[ONE, OTHER], mode=mode)
    synced: set[str] = set()
    while synced != {ONE, OTHER}:
        synced.add((await told.until_synced())[-1].namespace)
    allowed = table.may_.pop(("reader", ONE))
    lost = (await told.until(lambda event: event.HasField("status")))[-1]
    assert lost.namespace == ONE and status_of(lost) == (NAMESPACE_STATE_FAILED, "ERROR_REASON_PERMISSION_DENIED")
    for value in (1, 2, 3):
        await update(stub, value)
    await update(stub, 9, OTHER)
    content = "entry" if mode == WATCH_MODE_ENTRIES else "change"
    meanwhile = await told.until(lambda event: event.WhichOneof("content") == content)
    assert {event.namespace for event in meanwhile} == {OTHER}
    table.may_["reader", ONE] = allowed
    back = await told.until(lambda event: event.namespace == ONE and event.WhichOneof("content") == content)
    assert "reset" not in kinds(back)
    assert status_of(next(event for event in back if event.HasField("status"))) == (NAMESPACE_STATE_READY, "ERROR_REASON_UNSPECIFIED")
    first = (back[-1].entry if mode == WATCH_MODE_ENTRIES else back[-1].change).document.policies.max_producer_per_topic
    assert first == (3 if mode == WATCH_MODE_LATEST else 1), "it goes on where it stood"
    told.cancel()


async def test_a_stream_ends_when_the_last_of_its_namespaces_is_lost(stub: AsyncStub, table: Table) -> None:
    told = watching(stub, namespaces=[ONE, OTHER])
    await told.until_synced()
    del table.may_["reader", ONE]
    await told.until(lambda event: event.status.state == NAMESPACE_STATE_FAILED)
    del table.may_["reader", OTHER]
    _, refusal = await ended(told)
    assert refusal.info.reason == "PERMISSION_DENIED"


@pytest.mark.parametrize("how", ["silent", "problem", "broken"])
async def test_nothing_is_told_while_nobody_knows_and_all_of_it_afterwards(stub: AsyncStub, table: Table, how: str) -> None:
    told = watching(stub, namespaces=[ONE])
    await told.until_synced()
    unknown = PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, "The brokers do not tell.")
    setattr(table, how, unknown if how == "problem" else True)
    lost = (await told.until(lambda event: event.HasField("status")))[-1]
    assert status_of(lost) == (NAMESPACE_STATE_FAILED, "ERROR_REASON_AUTHORIZATION_UNKNOWN")
    await update(stub, 5)
    table.silent, table.problem, table.broken = False, None, False
    events = await told.until(lambda event: event.HasField("change"))
    assert kinds(events) == ["status", "change"] and events[-1].change.document.policies.max_producer_per_topic == 5
    told.cancel()


async def test_a_permission_that_nobody_tells_of_keeps_no_other_from_being_looked_at(
    stub: AsyncStub, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorizations, "ASK_SECONDS", 3 * PATIENCE)
    slow, lost = watching(stub, namespaces=[OTHER]), watching(stub, namespaces=[ONE])
    await slow.until_synced()
    await lost.until_synced()
    table.silent_in.add(OTHER)
    await until(lambda: OTHER in table.asked_in)
    del table.may_["reader", ONE]
    async with asyncio.timeout(PATIENCE):
        _, refusal = await ended(lost)
    assert refusal.info.reason == "PERMISSION_DENIED"
    slow.cancel()


async def test_what_was_known_before_a_watch_waited_for_another_namespace_is_asked_again(stub: AsyncStub, table: Table) -> None:
    await update(stub, 1)
    table.silent_in.add(OTHER)
    told = watching(stub, namespaces=[ONE, OTHER])
    await until(lambda: OTHER in table.asked_in)
    del table.may_["reader", ONE]
    table.silent_in.clear()
    async with asyncio.timeout(PATIENCE):
        events, refusal = await ended(told)
    assert refusal.info.metadata["namespace"] == ONE and not events


async def until(holds: Callable[[], bool]) -> None:
    """Returns when something holds."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 (nobody tells of it)
            await asyncio.sleep(0.01)


async def test_who_may_not_see_secrets_any_more_is_told_the_next_change_without(stub: AsyncStub, table: Table) -> None:
    table.may_["reader", ONE] = EVERYTHING
    told = watching(stub, namespaces=[ONE])
    await told.until_synced()
    seen = []
    for number in range(2):
        made = pb.OffloadPolicies(
            managed_ledger_offload_driver="aws-s3",
            managed_ledger_offload_bucket="b",
            s3_managed_ledger_offload_credential_secret=f"hush {number}",
        )
        request = UpdatePolicyRequest(topic=topic(), policies=pb.TopicPolicies(offload_policies=made))
        await stub.UpdatePolicy(request, metadata=of("admin"))
        seen.append((await told.change()).document.policies.offload_policies.s3_managed_ledger_offload_credential_secret)
        table.may_["reader", ONE] = EVERYTHING - {Permission.SECRETS}
        await asyncio.sleep(10 * authorizations.LOOK_SECONDS)
    assert seen == ["hush 0", REDACTED]
    told.cancel()


async def test_what_nobody_watches_is_not_looked_at(stub: AsyncStub, server: Server) -> None:
    looked_at = server.authorizations
    assert looked_at is not None
    watches = [watching(stub, namespaces=[ONE, OTHER]) for _ in range(5)]
    await asyncio.gather(*(each.until_synced() for each in watches))
    assert len(looked_at) == 2, "a caller and a namespace are looked at once, however many watch"
    for each in watches:
        each.cancel()
    over = asyncio.get_running_loop().time() + PATIENCE
    while len(looked_at):
        assert asyncio.get_running_loop().time() < over
        await asyncio.sleep(0.01)


async def test_the_file_of_roles_ends_watches_within_seconds(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, channel, path):
        told, kept = (watching(async_stub(channel), caller, namespaces=[ONE]) for caller in ("watcher", "keeper"))
        await told.until_synced()
        await kept.until_synced()
        path.write_text(ROLES.replace('"watcher"', '"nobody"'))
        _, refusal = await ended(told)
        assert refusal.info.reason == "PERMISSION_DENIED"
        await update(async_stub(channel), 1)
        assert (await kept.change()).document.policies.max_producer_per_topic == 1
        kept.cancel()


# Those who do not read


COUNT = 150
"""Documents, of 20 KiB each: many messages."""


async def hide(stub: AsyncStub, name: str, secret: str, size: int) -> None:
    """A document of a size with a secret."""
    made = pb.OffloadPolicies(
        managed_ledger_offload_driver="aws-s3", managed_ledger_offload_bucket="b" * size, s3_managed_ledger_offload_credential_secret=secret
    )
    await stub.UpdatePolicy(UpdatePolicyRequest(topic=name, policies=pb.TopicPolicies(offload_policies=made)), metadata=of("admin"))


async def filled(stub: AsyncStub) -> None:
    """Large documents, each with a secret."""
    for number in range(COUNT):
        await hide(stub, f"{topic()}-{number}", "hush", 20_480)


@pytest.fixture
async def unread(server: Server, stub: AsyncStub, table: Table) -> AsyncIterator[Told]:
    """A watch of all that whose messages are not read for now: its connection takes in no more than it must."""
    table.may_["reader", ONE] = EVERYTHING
    await filled(stub)
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
    async with grpc.aio.insecure_channel(server.address, options=options) as channel:
        told = watching(async_stub(channel), namespaces=[ONE])
        await told.next()
        async with asyncio.timeout(PATIENCE):
            while not server.calls.unread_seconds() > 0.2:  # noqa: ASYNC110 (nobody tells of it)
                await asyncio.sleep(0.01)
        yield told


async def test_who_did_not_read_while_its_permission_ended_is_told_nothing_more(unread: Told, table: Table, stub: AsyncStub) -> None:
    witness = watching(stub, topics=[topic()])
    await witness.until_synced()
    table.may_.clear()
    await ended(witness)
    events, refusal = await ended(unread)
    assert refusal.info.reason == "PERMISSION_DENIED"
    told = len(changes(events))
    assert told < COUNT / 2, "what was on its way, and no more"


async def test_who_did_not_read_while_secrets_were_taken_from_it_is_told_no_more_of_them(
    unread: Told, table: Table, stub: AsyncStub
) -> None:
    witness = watching(stub, topics=[topic()])
    await witness.until_synced()
    table.may_["reader", ONE] = EVERYTHING - {Permission.SECRETS}
    shown, number = "", 0
    while shown != REDACTED:
        number += 1
        await hide(stub, topic(), f"hush {number}", 1)
        shown = (await witness.change()).document.policies.offload_policies.s3_managed_ledger_offload_credential_secret
    witness.cancel()
    events, refusal = await ended(unread)
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.UNAVAILABLE, "AUTHORIZATION_UNKNOWN")
    told = len(changes(events))
    assert told < COUNT / 2
    again = watching(stub, namespaces=[ONE])
    documents = [each.document.policies.offload_policies for each in changes(await again.until_synced())]
    assert [each.s3_managed_ledger_offload_credential_secret for each in documents] == [REDACTED] * (COUNT + 1)
    again.cancel()


async def test_who_never_reads_keeps_no_watch_open_for_which_he_has_no_permission(
    unread: Told, table: Table, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "UNREAD_SECONDS", 0.3)
    await asyncio.sleep(10 * authorizations.LOOK_SECONDS)
    assert len(server.calls) == 1, "who may watch may also be slow"
    table.may_.clear()
    async with asyncio.timeout(PATIENCE):
        while len(server.calls):  # noqa: ASYNC110 (nobody tells of it)
            await asyncio.sleep(0.01)
    unread.cancel()


@pytest.mark.parametrize("known", [True, False])
async def test_a_watch_of_very_many_namespaces_lets_others_have_their_turns_while_its_permissions_are_checked(known: bool) -> None:
    class Counted(Table):
        asked = 0

        def at_once(self, caller: Caller, namespace: str, permission: Permission) -> bool | None:
            self.asked += 1
            return super().at_once(caller, namespace, permission) if known else None

        async def may(self, caller: Caller, namespace: str, permission: Permission) -> bool:
            await asyncio.sleep(0.001)
            return namespace != "acme/4500"

    table = Counted(may_={("bob", f"acme/{number}"): EVERYTHING for number in range(10_000) if number != 4_500})
    held = authorizations.Authorizations(Permitting(table))
    bob = Caller("bob", Way.TOKEN)
    most = before = 0

    def look() -> None:
        nonlocal most, before, handle
        most, before = max(most, table.asked - before), table.asked
        handle = asyncio.get_running_loop().call_soon(look)

    handle = asyncio.get_running_loop().call_soon(look)
    names = [f"acme/{number}" for number in range(10_000)]
    async with held.joined(lambda: None, bob, [name for name in names if name != "acme/4500"], Permission.WATCH) as joined:
        assert len(joined) == len(held) == 9_999
    assert not len(held)
    assert most < 10_000, "of 20,000 and more"
    with pytest.raises(PolicyError, match="acme/4500"):
        async with held.joined(lambda: None, bob, names, Permission.WATCH):
            pass
    assert not len(held), "those before it are let go of"
    handle.cancel()
