"""Watches whose permissions are withdrawn and granted again: what is sent meanwhile, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.eventually import eventually
from tests.rpc.callers import Metadata, believe, of
from tests.rpc.conftest import Refusal
from tests.rpc.watching import HistoryReader, WatchReader, changes, kinds
from tests.stubs import AsyncStub, async_stub
from topicpolicies.secrets import REDACTED
from topicpolicies.v1 import errors_pb2, service_pb2
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1.service_pb2 import (
    NAMESPACE_STATE_FAILED,
    NAMESPACE_STATE_READY,
    WATCH_MODE_EVERY,
    WATCH_MODE_LATEST,
    UpdatePolicyRequest,
)
from topicpolicies_server.access import Granted, Permission
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc import server as servers
from topicpolicies_server.rpc.server import Server
from topicpolicies_server.rpc.watching import stream as streams

PATIENCE = 100.0
ONE, OTHER = "acme/orders", "acme/stock"
EVERYTHING = frozenset(Permission)
MODES = (WATCH_MODE_LATEST, WATCH_MODE_EVERY)


def topic(namespace: str = ONE) -> str:
    """Returns the name of a topic in a namespace."""
    return f"persistent://{namespace}/t"


@dataclass
class Table:
    """A table of the permissions of each role. It knows all at once, unless one of its fields prevents that."""

    may_: dict[tuple[str, str], frozenset[Permission]] = field(default_factory=dict)
    silent: bool = False
    silent_in: set[str] = field(default_factory=set)
    """Namespaces in which no permission is known, and for which questions have no answer."""
    asked_in: set[str] = field(default_factory=set)
    """Those of ``silent_in`` that were asked for."""
    problem: PolicyError | None = None
    broken: bool = False

    def granted(self, role: str, namespace: str) -> Granted | Awaitable[Granted]:
        """Returns what the role is granted, or an awaitable that finds out."""
        if role == "admin":
            return EVERYTHING
        if self.broken:
            raise RuntimeError("unexpected")
        if self.silent or self.problem is not None or namespace in self.silent_in:
            return self._ask(role, namespace)
        return self.may_.get((role, namespace), frozenset())

    async def _ask(self, role: str, namespace: str) -> Granted:
        if self.problem is not None:
            raise self.problem
        if self.silent:
            await asyncio.Event().wait()
        while namespace in self.silent_in:
            self.asked_in.add(namespace)
            await asyncio.sleep(0.01)
        return self.may_.get((role, namespace), frozenset())


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """Replaces what grants permissions; ``reader`` has every permission but ``secrets`` in two namespaces; rechecks are frequent."""
    made = Table({("reader", namespace): EVERYTHING - {Permission.SECRETS} for namespace in (ONE, OTHER)})

    monkeypatch.setattr(servers, "open_roles", lambda *_: made.granted)
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(streams, "ASK_SECONDS", 0.2)
    return made


@pytest.fixture
async def server(table: Table, tmp_path: Path) -> AsyncIterator[Server]:
    """Yields a server that asks the table."""
    assert not table.silent
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), history=HistoryConfig(path=tmp_path / "history.db")
    )
    async with Server(config) as running:
        running.calls.identify = believe
        yield running


async def update(stub: AsyncStub, value: int, namespace: str = ONE) -> None:
    """Changes the topic of a namespace as the superuser."""
    policies = pb.TopicPolicies(max_producer_per_topic=value)
    await stub.UpdatePolicy(UpdatePolicyRequest(topic=topic(namespace), policies=policies), metadata=of("admin"))


def watching(stub: AsyncStub, caller: str = "reader", shown: Callable[[str], Metadata] = of, **selection: Any) -> WatchReader:
    """Opens a watch of a caller, whose credentials ``shown`` returns."""
    return WatchReader(stub, metadata=shown(caller), **selection)


async def ended(watch: WatchReader | HistoryReader) -> tuple[list[Any], Refusal]:
    """Returns the events of a watch until it ends with an error, and the error."""
    events = []
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while True:
            events.append(await watch.next())
    return events, Refusal(caught.value)


def status_of(event: service_pb2.WatchEvent) -> tuple[int, str]:
    """Returns the state and the reason of a status event."""
    return event.status.state, errors_pb2.ErrorReason.Name(event.status.reason)


async def test_watches_of_every_change_and_of_the_history_end_when_the_permission_for_the_history_is_withdrawn(
    stub: AsyncStub, table: Table
) -> None:
    every, latest = watching(stub, namespaces=[ONE], mode=WATCH_MODE_EVERY), watching(stub, namespaces=[ONE])
    copy = HistoryReader(stub, metadata=of("reader"), namespaces=[ONE])
    for watch in (every, latest, copy):
        await watch.until_synced()
    table.may_["reader", ONE] -= {Permission.HISTORY}
    for watch in (every, copy):
        _, refusal = await ended(watch)
        assert refusal.info.metadata["permission"] == "history"
    await update(stub, 1)
    assert (await latest.change()).document.policies.max_producer_per_topic == 1
    latest.cancel()


@pytest.mark.parametrize("mode", MODES)
async def test_a_denied_namespace_pauses_alone_and_resumes_where_it_stopped_when_it_is_permitted_again(
    stub: AsyncStub, table: Table, mode: int
) -> None:
    watch = watching(stub, namespaces=[ONE, OTHER], mode=mode)
    synced: set[str] = set()
    while synced != {ONE, OTHER}:
        synced.add((await watch.until_synced())[-1].namespace)
    allowed = table.may_.pop(("reader", ONE))
    lost = (await watch.until(lambda event: event.HasField("status")))[-1]
    assert lost.namespace == ONE and status_of(lost) == (NAMESPACE_STATE_FAILED, "ERROR_REASON_PERMISSION_DENIED")
    for value in (1, 2, 3):
        await update(stub, value)
    await update(stub, 9, OTHER)
    meanwhile = await watch.until(lambda event: event.HasField("change"))
    assert {event.namespace for event in meanwhile} == {OTHER}
    table.may_["reader", ONE] = allowed
    back = await watch.until(lambda event: event.namespace == ONE and event.HasField("change"))
    assert "reset" not in kinds(back)
    assert status_of(next(event for event in back if event.HasField("status"))) == (NAMESPACE_STATE_READY, "ERROR_REASON_UNSPECIFIED")
    first = back[-1].change.document.policies.max_producer_per_topic
    assert first == (3 if mode == WATCH_MODE_LATEST else 1), "it resumes at the first change that was not sent"
    watch.cancel()


@pytest.mark.parametrize("how", ["silent", "problem", "broken"])
async def test_nothing_is_sent_while_permissions_are_unknown_and_missed_changes_are_sent_afterwards(
    stub: AsyncStub, table: Table, how: str
) -> None:
    watch = watching(stub, namespaces=[ONE])
    await watch.until_synced()
    unknown = PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, "The brokers do not tell.")
    setattr(table, how, unknown if how == "problem" else True)
    lost = (await watch.until(lambda event: event.HasField("status")))[-1]
    assert status_of(lost) == (NAMESPACE_STATE_FAILED, "ERROR_REASON_AUTHORIZATION_UNKNOWN")
    await update(stub, 5)
    table.silent, table.problem, table.broken = False, None, False
    events = await watch.until(lambda event: event.HasField("change"))
    assert kinds(events) == ["status", "change"] and events[-1].change.document.policies.max_producer_per_topic == 5
    watch.cancel()


async def test_an_authority_that_does_not_answer_for_one_namespace_does_not_delay_checks_of_others(
    stub: AsyncStub, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "ASK_SECONDS", 3 * PATIENCE)
    slow, lost = watching(stub, namespaces=[OTHER]), watching(stub, namespaces=[ONE])
    await slow.until_synced()
    await lost.until_synced()
    table.silent_in.add(OTHER)
    await eventually(lambda: OTHER in table.asked_in)
    del table.may_["reader", ONE]
    async with asyncio.timeout(PATIENCE):
        _, refusal = await ended(lost)
    assert refusal.info.reason == "PERMISSION_DENIED"
    slow.cancel()


async def test_a_watch_whose_permission_for_secrets_is_withdrawn_gets_the_next_change_without_secrets(
    stub: AsyncStub, table: Table
) -> None:
    table.may_["reader", ONE] = EVERYTHING
    watch = watching(stub, namespaces=[ONE])
    await watch.until_synced()
    seen = []
    for number in range(2):
        made = pb.OffloadPolicies(
            managed_ledger_offload_driver="aws-s3",
            managed_ledger_offload_bucket="b",
            s3_managed_ledger_offload_credential_secret=f"hush {number}",
        )
        request = UpdatePolicyRequest(topic=topic(), policies=pb.TopicPolicies(offload_policies=made))
        await stub.UpdatePolicy(request, metadata=of("admin"))
        seen.append((await watch.change()).document.policies.offload_policies.s3_managed_ledger_offload_credential_secret)
        table.may_["reader", ONE] = EVERYTHING - {Permission.SECRETS}
        await asyncio.sleep(10 * streams.LOOK_SECONDS)
    assert seen == ["hush 0", REDACTED]
    watch.cancel()


# Readers that do not read


COUNT = 150
"""Documents of 20 KiB each: their snapshot takes many messages."""


async def hide(stub: AsyncStub, name: str, secret: str, size: int) -> None:
    """Stores a document of a size with a secret."""
    made = pb.OffloadPolicies(
        managed_ledger_offload_driver="aws-s3", managed_ledger_offload_bucket="b" * size, s3_managed_ledger_offload_credential_secret=secret
    )
    await stub.UpdatePolicy(UpdatePolicyRequest(topic=name, policies=pb.TopicPolicies(offload_policies=made)), metadata=of("admin"))


async def filled(stub: AsyncStub) -> None:
    """Stores ``COUNT`` large documents, each with a secret."""
    for number in range(COUNT):
        await hide(stub, f"{topic()}-{number}", "hush", 20_480)


@pytest.fixture
async def unread(server: Server, stub: AsyncStub, table: Table) -> AsyncIterator[WatchReader]:
    """Yields a watch of these documents that does not read for now; its connection buffers as little as gRPC permits."""
    table.may_["reader", ONE] = EVERYTHING
    await filled(stub)
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
    async with grpc.aio.insecure_channel(server.address, options=options) as channel:
        watch = watching(async_stub(channel), namespaces=[ONE])
        await watch.next()
        async with asyncio.timeout(PATIENCE):
            while not server.calls.unread_seconds() > 0.2:  # noqa: ASYNC110 (nothing signals it)
                await asyncio.sleep(0.01)
        yield watch


async def test_a_reader_that_did_not_read_while_its_permission_was_withdrawn_gets_nothing_more(
    unread: WatchReader, table: Table, stub: AsyncStub
) -> None:
    witness = watching(stub, topics=[topic()])
    await witness.until_synced()
    table.may_.clear()
    await ended(witness)
    events, refusal = await ended(unread)
    assert refusal.info.reason == "PERMISSION_DENIED"
    sent = len(changes(events))
    assert sent < COUNT / 2, "more was sent than the buffers hold"


async def test_a_reader_that_did_not_read_while_its_permission_for_secrets_was_withdrawn_gets_no_more_secrets(
    unread: WatchReader, table: Table, stub: AsyncStub
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
    documents = [each.document.policies.offload_policies for each in changes(await unread.until_synced())]
    secrets = [each.s3_managed_ledger_offload_credential_secret for each in documents]
    sent = secrets.index(REDACTED)
    assert sent < COUNT / 2, "more was sent than the buffers hold"
    assert secrets[sent:] == [REDACTED] * (len(secrets) - sent) and len(secrets) >= COUNT
    unread.cancel()


async def test_a_watch_whose_permission_was_withdrawn_is_closed_even_if_its_peer_never_reads(
    unread: WatchReader, table: Table, server: Server
) -> None:
    await asyncio.sleep(10 * streams.LOOK_SECONDS)
    assert len(server.calls) == 1, "a permitted watch stays open although it does not read"
    table.may_.clear()
    async with asyncio.timeout(PATIENCE):
        while len(server.calls):  # noqa: ASYNC110 (nothing signals it)
            await asyncio.sleep(0.01)
    unread.cancel()
