"""Watch streams of a worker: every message becomes a record.

The service sends all watchers the same bytes for a change, so they are parsed once for all of them: a thousand watchers must not cost the
machine a thousand times the parsing.
"""

from __future__ import annotations

import asyncio
import random
from functools import lru_cache
from typing import NamedTuple

import grpc
from google.protobuf.duration_pb2 import Duration

from topicpolicies.errors import from_rpc_error
from topicpolicies.v1 import service_pb2

from .calls import Desk
from .records import Record

AUDITOR = "auditor"
"""Who follows every change: what it is told is the history that everything else is held against."""
_METHOD = "/topicpolicies.v1.TopicPoliciesService/WatchPolicies"
_PATIENCE_SECONDS = 60.0


@lru_cache(maxsize=4096)
def _parsed(message: bytes) -> Record:
    """A message as a record that lacks only who got it and when."""
    response = service_pb2.WatchPoliciesResponse.FromString(message)
    content = response.WhichOneof("content")
    if content == "change":
        change = response.change
        published = change.origin.publish_time
        return Record(
            "change", "", 0, "", 0.0, topic=change.topic, scope=int(change.scope), request_id=change.origin.request_id,
            version=change.version, previous=change.previous_version,
            document=change.policies.SerializeToString() if change.exists else None,
            partition=change.partition, position=change.position,
            published=published.seconds + published.nanos / 1e9 if change.origin.HasField("publish_time") else None,
        )  # fmt: skip
    if content == "bookmark":
        token = response.bookmark.token
        synced = response.bookmark.kind == service_pb2.BOOKMARK_KIND_SYNCED
        return Record("bookmark", "", 0, "", 0.0, log=token.log, positions=tuple(token.positions), synced=synced)
    failed = response.status.state == service_pb2.NAMESPACE_STATE_FAILED
    return Record("status", "", 0, "", 0.0, code="FAILED" if failed else "LOADING")


class Token(NamedTuple):
    """Where a watcher stands."""

    log: str
    positions: tuple[str, ...]

    def folded(self, change: Record) -> Token:
        """With a change that was delivered after SYNCED."""
        if not change.position or change.partition is None:
            return self
        positions = list(self.positions)
        positions[change.partition] = max(positions[change.partition], change.position)
        return Token(self.log, tuple(positions))


class Watcher:
    """Keeps one watch open until everything has come to rest, and resumes it when it ends before."""

    def __init__(self, desk: Desk, channel: grpc.aio.Channel, name: str, phase: str, chance: random.Random | None) -> None:
        """``chance``: decides when it cancels and resumes; None: never."""
        self._desk = desk
        self._open: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(_METHOD)
        self._name = name
        self._phase = phase
        self._chance = chance
        self._token: Token | None = None
        self._synced = False
        self._streams = 0
        self._rested = 0.0
        self.synced = asyncio.Event()
        """It has its first snapshot."""
        self.missed = False
        """Whether it could not go on where it was."""

    def rest(self) -> None:
        """Everything has come to rest: it waits for a bookmark that says what the one before it said.

        The first may have been on its way for long, where this process is busy; between two that are alike nothing was sent.
        """
        self._rested = self._desk.now()

    async def run(self) -> None:
        """Watches."""
        began = self._desk.now()
        while not await self._stream():
            if self._rested and self._desk.now() > max(began, self._rested) + _PATIENCE_SECONDS:
                return
            await asyncio.sleep(0.05)

    async def _stream(self) -> bool:
        """One stream; whether it was open to the end."""
        desk, token = self._desk, self._token
        self._streams += 1
        stream = f"{self._name}/{self._phase}/{self._streams}"
        opened = Record(
            "watch", self._phase, desk.worker, self._name, desk.now(), stream=stream, sequence=self._streams, every=self._name == AUDITOR,
            log=token.log if token is not None else None, positions=token.positions if token is not None else None, drained=False,
        )  # fmt: skip
        call = self._open(self._request().SerializeToString())
        drained = False
        self._synced = token is not None
        try:
            drained = await self._follow(call, stream)
        except grpc.aio.AioRpcError as error:
            said = from_rpc_error(error)
            opened = opened._replace(code=error.code().name, reason=said.reason)
            if error.code() is grpc.StatusCode.OUT_OF_RANGE:
                self._token = None
                self.missed = True
        finally:
            call.cancel()
        to_the_end = drained and not desk.plan.fill  # after filling, the run goes on
        desk.records.append(opened._replace(end=desk.now(), drained=to_the_end))
        return drained

    async def _follow(self, call: grpc.aio.UnaryStreamCall[bytes, bytes], stream: str) -> bool:
        desk, mine, name, phase, worker = self._desk, self._desk.plan.mine, self._name, self._phase, self._desk.worker
        restless = desk.plan.scenario.restless
        sequence = 0
        marked = False
        async for message in call:
            now = desk.now()
            parsed = _parsed(message)
            sequence += 1
            if parsed.kind == "change":
                marked = False
                if self._synced and self._token is not None:
                    self._token = self._token.folded(parsed)
                if parsed.topic is None or not parsed.topic.startswith(mine):
                    continue  # of somebody else who uses this namespace
            desk.records.append(parsed._replace(start=now, client=name, phase=phase, worker=worker, stream=stream, sequence=sequence))
            if parsed.kind == "bookmark":
                before, self._token = self._token, Token(parsed.log or "", tuple(parsed.positions or ()))
                marked, alike = True, marked and before == self._token
                self._synced = True
                self.synced.set()
                if self._rested and alike:
                    return True
            elif self._chance is not None and not self._rested and self._chance.random() < restless:
                return False
        return False

    def _request(self) -> service_pb2.WatchPoliciesRequest:
        plan = self._desk.plan
        request = service_pb2.WatchPoliciesRequest(
            namespaces=[plan.namespace],
            mode=service_pb2.WATCH_MODE_EVERY if self._name == AUDITOR else service_pb2.WATCH_MODE_LATEST,
            bookmark_interval=Duration(seconds=plan.scenario.bookmark_seconds if self._name != AUDITOR else 1),
        )
        if self._token is not None:
            request.resume[plan.namespace].log = self._token.log
            request.resume[plan.namespace].positions.extend(self._token.positions)
        return request
