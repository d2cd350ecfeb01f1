"""Updates over BatchUpdatePolicies: each client has several batches in flight, over topics of their own."""

from __future__ import annotations

import asyncio
import zlib

import grpc

from topicpolicies.errors import from_status
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

from .calls import TIMEOUT, Wish, WorkerContext, answered, refused
from .progress import ProgressSender
from .records import Record
from .traffic import edit_json

IN_FLIGHT = 4
_SIZE = 64


async def make(
    context: WorkerContext, channel: grpc.aio.Channel, name: str, wishes: list[Wish], phase: str, progress: ProgressSender
) -> None:
    """Makes updates, those of a topic in their order, and records each with its answer."""
    stub = TopicPoliciesServiceStub(channel)

    async def one_after_the_other(mine: list[Wish], lane: str) -> None:
        for first in range(0, len(mine), _SIZE):
            request, records = service_pb2.BatchUpdatePoliciesRequest(), list[Record]()
            for sequence, wish in enumerate(mine[first : first + _SIZE], first + 1):
                request.changes.add(update=wish.update())
                records.append(
                    Record(
                        "update", phase, context.worker, name, context.now(), topic=wish.topic, scope=1, mask=wish.draft.mask,
                        edit=edit_json(wish.draft.edit), request_id=wish.request_id, stream=lane, sequence=sequence,
                    )
                )  # fmt: skip
            try:
                response = await stub.BatchUpdatePolicies(request, timeout=TIMEOUT)
            except grpc.aio.AioRpcError as error:
                context.records += [refused(record, error, context.now()) for record in records]
                continue
            for record, result in zip(records, response.results, strict=True):
                if result.HasField("error"):
                    failure = from_status(result.error.code, result.error.message, result.error.details)
                    context.records.append(record._replace(end=context.now(), code=failure.code.name, reason=failure.reason))
                else:
                    context.records.append(answered(record, result.success, context.now()))
                progress.advance()

    lanes: list[list[Wish]] = [[] for _ in range(IN_FLIGHT)]
    for wish in wishes:
        lanes[zlib.crc32(wish.topic.encode()) % IN_FLIGHT].append(wish)
    await asyncio.gather(*(one_after_the_other(mine, f"{name}.{number}") for number, mine in enumerate(lanes)))
