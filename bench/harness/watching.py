"""Watches of a worker: every event becomes a record.

The service sends all watchers the same bytes, so most messages are parsed once for all of them: a thousand watchers must not cost the
machine a thousand times the parsing.
"""

from __future__ import annotations

import asyncio
import random
import time
from functools import lru_cache
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from bench.load import SERVICE
from topicpolicies.errors import from_rpc_error
from topicpolicies.v1 import service_pb2
from topicpolicies_server.core.reading import tokens

from .calls import WorkerContext, policies_of
from .records import Record

AUDITOR = "auditor"
"""The client that follows every change: its events are the history with which everything else is compared."""


@lru_cache(maxsize=4096)
def _recorded(message: bytes) -> tuple[Record, ...]:
    """Returns the events of a message as records that lack only their receiver and the time."""
    return tuple(map(_record_of, service_pb2.WatchPoliciesResponse.FromString(message).events))


def _record_of(event: service_pb2.WatchEvent) -> Record:
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
        return Record("reset", "", 0, "", 0.0, reason=event.reset.message)
    state = service_pb2.NamespaceState.Name(event.status.state).removeprefix("NAMESPACE_STATE_")
    return Record("status", "", 0, "", 0.0, code=state)


def _place(token: str) -> dict[str, Any]:
    """Returns what a resume token says to the server: the log, and the position in each partition. Clients can't know, the proof has to."""
    if not token:
        return {}
    place = tokens.read(token)
    return {"log": place.log, "positions": place.positions}


class Watcher:
    """Keeps one watch open until the load has ended, and resumes it if it ends before."""

    def __init__(self, context: WorkerContext, name: str, *, restless: bool = False) -> None:
        """``restless``: whether it now and then cancels its stream and resumes."""
        plan = context.plan
        self._context = context
        self._open: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = context.channel.unary_stream(f"{SERVICE}WatchPolicies")
        self._name = name
        self._every = name == AUDITOR
        self._chance = random.Random(f"{plan.seed} {name}")
        self._restless = plan.scenario.restless if restless else 0.0
        self._token = ""
        self._streams = 0
        self._received = 0
        """Events of the open stream."""
        self._draining = False
        self.synced = asyncio.Event()
        """It has its first snapshot."""

    def drain(self) -> None:
        """Makes the watch end with the next bookmark that equals the one before it; the load must have ended.

        The first may have been on its way for long, where this process is busy; between two that are equal nothing was sent.
        """
        self._draining = True

    async def run(self) -> None:
        """Watches.

        Raises:
            RuntimeError: the auditor was reset: it may have missed changes, so nothing can be proven.
        """
        drained = False
        while not drained:
            drained = await self._watch()
            await asyncio.sleep(0.05)

    async def _watch(self) -> bool:
        """Follows one stream. Returns whether it was open to the end."""
        self._streams += 1
        self._received = 0
        stream = Record(
            "watch", "load", self._context.worker, self._name, time.time(), stream=f"{self._name}/{self._streams}",
            sequence=self._streams, every=self._every, **_place(self._token),
        )  # fmt: skip
        call = self._open(self._request().SerializeToString())
        drained = False
        try:
            drained = await self._follow(call, stream)
        except grpc.aio.AioRpcError as error:
            stream = stream._replace(code=error.code().name, reason=from_rpc_error(error).reason)
        finally:
            call.cancel()
            self._context.records.append(stream._replace(end=time.time(), drained=drained))
        return drained

    async def _follow(self, call: grpc.aio.UnaryStreamCall[bytes, bytes], stream: Record) -> bool:
        """Records what comes. Returns whether everything has come to rest; otherwise the client cancels, or the stream was reset."""
        marked = False
        async for message in call:
            now, changed = time.time(), False
            for each in _recorded(message):
                if each.kind == "reset":
                    if self._every:
                        raise RuntimeError(f"The auditor may have missed changes, so nothing can be proven: {each.reason}")
                    self._token = ""  # the next stream begins with a snapshot, as this one would
                    return False
                unmoved = each.token == self._token
                self._record(each, stream, now)
                if each.kind == "bookmark":
                    if self._draining and marked and unmoved:
                        return True
                    marked = True
                elif each.kind == "change":
                    marked, changed = False, True
            if changed and not self._draining and self._chance.random() < self._restless:
                return False
        return False

    def _record(self, event: Record, stream: Record, now: float) -> None:
        context = self._context
        self._received += 1
        self._token = event.token or self._token
        if event.kind == "bookmark":
            self.synced.set()
        if event.kind != "change" or event.topic.startswith(context.plan.mine):  # others may use this namespace
            context.records.append(
                event._replace(
                    start=now, client=self._name, phase="load", worker=context.worker, stream=stream.stream, sequence=self._received
                )
            )

    def _request(self) -> service_pb2.WatchPoliciesRequest:
        plan = self._context.plan
        request = service_pb2.WatchPoliciesRequest(
            namespaces=[plan.namespace],
            mode=service_pb2.WATCH_MODE_EVERY if self._every else service_pb2.WATCH_MODE_LATEST,
            bookmark_interval=Duration(seconds=1 if self._every else plan.scenario.bookmark_seconds),
        )
        if self._token:
            request.resume_tokens[plan.namespace] = self._token
        return request
