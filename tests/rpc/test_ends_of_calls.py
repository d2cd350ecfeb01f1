"""A call ends with one status, even if another end arrives while that is being sent, and leaves nothing in memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from tests.stubs import AsyncStub, batch
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import Precondition, UpdatePolicyRequest
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc.batches import ChangeBatch
from topicpolicies_server.rpc.calls import Call, _end
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC

REFUSED = PolicyError(Kind.INVALID_ARGUMENT, Reason.INVALID_REQUEST, "99 is no scope.")
LATE = PolicyError(Kind.DEADLINE_EXCEEDED, Reason.OUTCOME_UNKNOWN, "late")


class Context:
    """A context that sends a status until a test lets it finish; as in gRPC, a second ``abort`` fails."""

    def __init__(self) -> None:
        self.sent: list[grpc.StatusCode] = []
        self.sending = asyncio.Event()

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, *_: Any) -> None:
        if self.sent:
            raise RuntimeError("Abort already called!")
        self.sent.append(code)
        await self.sending.wait()
        raise grpc.aio.AbortError


@pytest.mark.parametrize("refused", [True, False])
async def test_while_the_status_of_a_call_is_being_sent_a_second_end_sends_no_other_status(refused: bool) -> None:
    context = Context()

    async def answer() -> None:
        call = calls[0]
        try:
            if refused:
                await call.refuse(REFUSED)
            await asyncio.sleep(60)
        except asyncio.CancelledError as cancelled:
            context.sending.set()
            await _end(call, cancelled)

    async def begin() -> None:
        calls.append(Call("ListHistory", context))
        await answer()

    calls: list[Call] = []
    task = asyncio.create_task(begin())
    await asyncio.sleep(0.01)
    calls[0].end(LATE)
    with pytest.raises(asyncio.CancelledError) if refused else contextlib.nullcontext():
        await task
    assert context.sent == [grpc.StatusCode.INVALID_ARGUMENT if refused else grpc.StatusCode.DEADLINE_EXCEEDED]


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Disables the garbage collector for the test."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
async def test_a_batch_whose_call_has_ended_is_freed_at_once(server: Server, stub: AsyncStub, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server._servicer is not None
    made, run = list[weakref.ref[ChangeBatch]](), ChangeBatch.run

    async def noted(made_: ChangeBatch) -> bytes:
        made.append(weakref.ref(made_))
        return await run(made_)

    monkeypatch.setattr(ChangeBatch, "run", noted)
    conflict = UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1), precondition=Precondition(exists=True))
    await stub.BatchUpdatePolicies(batch(*[conflict] * 100))
    cut_off = stub.BatchUpdatePolicies(batch(*[conflict] * 100))
    await asyncio.sleep(0.01)
    cut_off.cancel()
    async with asyncio.timeout(20):
        while any(each() is not None for each in made):  # noqa: ASYNC110 (nothing signals it)
            await asyncio.sleep(0.01)
    assert made and not server._servicer._batches
