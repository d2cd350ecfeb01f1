"""Updates over UpdatePolicies: one stream per client, with a window of changes, and as many changes per message as the window allows."""

from __future__ import annotations

import asyncio
from itertools import islice

import grpc

from topicpolicies.errors import from_status
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

from .calls import Wish, WorkerContext, answered_update
from .progress import ProgressSender
from .records import Record
from .traffic import edit_json

WINDOW = 256
"""Changes of one stream that may wait for their results."""


async def pipeline(
    context: WorkerContext, channel: grpc.aio.Channel, name: str, wishes: list[Wish], phase: str, progress: ProgressSender
) -> None:
    """Sends updates over one stream, in their order, and records each with its answer.

    Raises:
        grpc.aio.AioRpcError: the stream broke.
    """
    call = TopicPoliciesServiceStub(channel).UpdatePolicies()
    room = asyncio.Event()
    waiting: dict[int, Record] = {}

    async def send() -> None:
        left = enumerate(wishes, start=1)
        while batch := list(islice(left, WINDOW - len(waiting))):
            request = service_pb2.UpdatePoliciesRequest()
            for sequence, wish in batch:
                request.changes.add(sequence=sequence, update=wish.update())
                waiting[sequence] = Record(
                    "update", phase, context.worker, name, context.now(), topic=wish.topic, scope=1, mask=wish.draft.mask,
                    edit=edit_json(wish.draft.edit), request_id=wish.request_id, stream=name, sequence=sequence,
                )  # fmt: skip
            await call.write(request)
            while len(waiting) == WINDOW:
                room.clear()
                await room.wait()
        await call.done_writing()

    sending = asyncio.create_task(send())
    try:
        async for answer in call:
            for result in answer.results:
                record = waiting.pop(result.sequence)
                if result.HasField("error"):
                    error = from_status(result.error.code, result.error.message, result.error.details)
                    context.records.append(record._replace(end=context.now(), code=error.code.name, reason=error.reason))
                else:
                    context.records.append(answered_update(record, result.updated, context.now()))
                progress.advance()
            room.set()
        await sending
    finally:
        sending.cancel()
    context.records.extend(waiting.values())
