"""Watches of a worker: every event becomes a record.

The service sends all watchers the same bytes for a change, so each event is parsed once for all of them: a thousand watchers must not cost
the machine a thousand times the parsing. The distribution of events over messages differs between watchers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from bench.framing import records
from topicpolicies.errors import from_rpc_error
from topicpolicies.v1 import service_pb2
from topicpolicies_server.rpc import resume_tokens

from .calls import WorkerContext, policies_of
from .records import Record

AUDITOR = "auditor"
"""The client that follows every change: its events are the history with which everything else is compared."""
METHOD = "/topicpolicies.v1.TopicPoliciesService/WatchPolicies"
_PATIENCE_SECONDS = 60.0


def events_of(message: bytes) -> Iterator[bytes]:
    """Yields the serialized events of a ``WatchPoliciesResponse``, which consists only of records of its one field."""
    return (message[begin:end] for begin, end in records(message))


@lru_cache(maxsize=4096)
def _parsed(message: bytes) -> Record:
    """Returns an event as a record that lacks only its receiver and the time."""
    event = service_pb2.WatchEvent.FromString(message)
    content = event.WhichOneof("content")
    if content == "change":
        change, origin = event.change, event.change.origin
        published = origin.publish_time
        return Record(
            "change", "", 0, "", 0.0, topic=change.document.topic, scope=int(change.document.scope), request_id=origin.request_id,
            version=change.document.version, previous=change.previous_version, document=policies_of(change.document),
            token=event.resume_token, published=published.seconds + published.nanos / 1e9 if origin.HasField("publish_time") else None,
        )  # fmt: skip
    if content == "bookmark":
        return Record("bookmark", "", 0, "", 0.0, token=event.resume_token, synced=event.bookmark.synced, **_place(event.resume_token))
    if content == "reset":
        return Record("reset", "", 0, "", 0.0)
    state = service_pb2.NamespaceState.Name(event.status.state).removeprefix("NAMESPACE_STATE_")
    return Record("status", "", 0, "", 0.0, code=state)


def _place(token: str) -> dict[str, Any]:
    """Returns what a resume token says to the server: the log, and the position in each partition. Clients can't know, the proof has to."""
    if not token:
        return {}
    place = resume_tokens.read(token)
    return {"log": place.log, "positions": place.positions}


class Watcher:
    """Keeps one watch open until the load has ended, and resumes it if it ends before."""

    def __init__(self, context: WorkerContext, channel: grpc.aio.Channel, name: str, phase: str, chance: random.Random | None) -> None:
        """``chance``: decides when it cancels and resumes; None: never."""
        self._context = context
        self._open: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(METHOD)
        self._name = name
        self._phase = phase
        self._chance = chance
        self._token = ""
        self._streams = 0
        self._stream: Record | None = None
        """The open stream. After a reset it counts as another stream, which began with a snapshot."""
        self._told = 0
        """Events of it."""
        self._draining_since = 0.0
        self.synced = asyncio.Event()
        """It has its first snapshot."""
        self.was_reset = False
        """Whether the service has reset it, so that it may have missed changes."""

    def drain(self) -> None:
        """Makes the watch end with the next bookmark that equals the one before it; the load must have ended.

        The first may have been on its way for long, where this process is busy; between two that are equal nothing was sent.
        """
        self._draining_since = self._context.now()

    async def run(self) -> None:
        """Watches."""
        began = self._context.now()
        while not await self._watch():
            if self._draining_since and self._context.now() > max(began, self._draining_since) + _PATIENCE_SECONDS:
                return
            await asyncio.sleep(0.05)

    async def _watch(self) -> bool:
        """Follows one stream. Returns whether it was open to the end."""
        self._begin()
        call = self._open(self._request().SerializeToString())
        drained = False
        try:
            drained = await self._follow(call)
        except grpc.aio.AioRpcError as error:
            said = from_rpc_error(error)
            assert self._stream is not None, "it has begun"
            self._stream = self._stream._replace(code=error.code().name, reason=said.reason)
        finally:
            call.cancel()
            self._end(drained=drained and not self._context.plan.fill)  # after filling, the run goes on
        return drained

    def _begin(self) -> None:
        context, token = self._context, self._token
        self._streams += 1
        self._told = 0
        self._stream = Record(
            "watch", self._phase, context.worker, self._name, context.now(), stream=f"{self._name}/{self._phase}/{self._streams}",
            sequence=self._streams, every=self._name == AUDITOR, **_place(token), drained=False,
        )  # fmt: skip

    def _end(self, *, drained: bool) -> None:
        assert self._stream is not None, "it has begun"
        self._context.records.append(self._stream._replace(end=self._context.now(), drained=drained))

    async def _follow(self, call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> bool:
        """Records what comes; whether everything has come to rest."""
        restless = self._context.plan.scenario.restless
        marked = False
        async for message in call:
            now = self._context.now()
            changed = False
            for event in events_of(message):
                told = _parsed(event)
                if told.kind == "reset":
                    self._end(drained=False)
                    self._token, self.was_reset = "", True
                    self._begin()
                    continue
                before = self._token
                self._take(told, now)
                if told.kind == "bookmark":
                    marked, alike = True, marked and before == self._token
                    if self._draining_since and alike:
                        return True
                elif told.kind == "change":
                    marked, changed = False, True
            if changed and self._chance is not None and not self._draining_since and self._chance.random() < restless:
                return False
        return False

    def _take(self, told: Record, now: float) -> None:
        """Records an event, and what it says of the place."""
        context, stream = self._context, self._stream
        assert stream is not None, "it has begun"
        self._told += 1
        self._token = told.token or self._token
        if told.kind == "change" and not (told.topic or "").startswith(context.plan.mine):
            return  # of somebody else who uses this namespace
        told = told._replace(
            start=now, client=self._name, phase=self._phase, worker=context.worker, stream=stream.stream, sequence=self._told
        )
        context.records.append(told)
        if told.kind == "bookmark":
            self.synced.set()

    def _request(self) -> service_pb2.WatchPoliciesRequest:
        plan = self._context.plan
        request = service_pb2.WatchPoliciesRequest(
            namespaces=[plan.namespace],
            mode=service_pb2.WATCH_MODE_EVERY if self._name == AUDITOR else service_pb2.WATCH_MODE_LATEST,
            bookmark_interval=Duration(seconds=plan.scenario.bookmark_seconds if self._name != AUDITOR else 1),
        )
        if self._token:
            request.resume_tokens[plan.namespace] = self._token
        return request
