"""Updates over UpdatePolicies: one stream a client, a window of requests on it."""

from __future__ import annotations

import asyncio

import grpc

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

from .calls import Desk, Wish, answered_update
from .progress import Teller
from .records import Record
from .traffic import edit_json

WINDOW = 64
"""Requests of one stream that wait for their answers."""
_NAMES = {status.value[0]: status.name for status in grpc.StatusCode}


async def pipeline(desk: Desk, channel: grpc.aio.Channel, name: str, wishes: list[Wish], phase: str, teller: Teller) -> None:
    """Sends updates over one stream, in their order, and records each with its answer.

    Raises:
        grpc.aio.AioRpcError: the stream broke.
    """
    call = TopicPoliciesServiceStub(channel).UpdatePolicies()
    slots = asyncio.Semaphore(WINDOW)
    waiting: dict[int, Record] = {}

    async def send() -> None:
        for sequence, wish in enumerate(wishes, start=1):
            await slots.acquire()
            waiting[sequence] = Record(
                "update", phase, desk.worker, name, desk.now(), topic=wish.topic, scope=1, mask=wish.draft.mask,
                edit=edit_json(wish.draft.edit), request_id=wish.request_id, stream=name, sequence=sequence,
            )  # fmt: skip
            await call.write(service_pb2.UpdatePoliciesRequest(update=wish.update(), sequence=sequence))
        await call.done_writing()

    sending = asyncio.create_task(send())
    try:
        async for answer in call:
            record = waiting.pop(answer.sequence)
            slots.release()
            if answer.HasField("error"):
                desk.records.append(record._replace(end=desk.now(), code=_NAMES[answer.error.code], reason="IN_RESULT"))
            else:
                desk.records.append(answered_update(record, answer.response, desk.now()))
            teller.advance()
        await sending
    finally:
        sending.cancel()
    desk.records.extend(waiting.values())
