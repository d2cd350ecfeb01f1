"""Clients that watch: they read slowly, cancel, resume from their token, and start over after a reset."""

from __future__ import annotations

import asyncio
import random

from google.protobuf.duration_pb2 import Duration

from tests.validators.records import Bookmark, Change, Key, Status, Watch
from topicpolicies.v1 import policies_pb2, service_pb2
from topicpolicies.v1.errors_pb2 import ErrorReason
from topicpolicies_server.core.reading import tokens

from .calls import BROKEN, Refused
from .clients import Client
from .sidecar import Stream
from .traffic import flat
from .world import NAMESPACE, World, policy_key


class Watcher(Client):
    """Keeps one watch open, and opens it again whenever it ends."""

    def __init__(self, world: World, name: str, chance: random.Random) -> None:
        super().__init__(world, name, chance)
        self._every = chance.random() < 0.5
        topics = sorted({key.topic for key in world.keys})
        self._topics = frozenset(chance.sample(topics, chance.randint(1, len(topics)))) if chance.random() < 0.4 else None
        self._scopes = frozenset(chance.choice(((1, 2), (1, 2), (1,), (2,))))
        self._slow = chance.choice((0.0, 0.0, 0.02, 0.4))
        """Mean of the pauses between two messages, in seconds."""
        self._restless = chance.choice((0.0, 0.02, 0.1))
        """Probability that the watch is cancelled after a message."""
        self._token = ""
        self._watch: Watch

    async def run(self) -> None:
        """Watches until the end of the run."""
        world = self.world
        while not world.resting.is_set():
            await self._open()
            if not world.resting.is_set():
                await world.pause(0.05)

    async def _open(self) -> None:
        world = self.world
        sidecar = self.pick()
        token = None
        if self._token:
            token = self._mark(synced=False)
        try:
            stream = sidecar.watch(self._request(), self.chance.choice((1, 4)))
        except Refused:
            return
        self._begin(sidecar.name, token, world.now())
        world.counts["watches"] += 1
        try:
            await self._follow(stream)
        except Refused as refused:
            self._watch.failure = refused.failure
            if refused.failure is not BROKEN:
                world.counts[f"watches ended {refused.failure.reason}"] += 1
        finally:
            await stream.cancel()
            self._watch.ended = world.now()

    def _begin(self, sidecar: str, token: Bookmark | None, opened: float) -> None:
        """Records a new watch, which begins with a snapshot or resumes from a token. Its stream was opened at ``opened``."""
        self._watch = Watch(
            client=self.name,
            sidecar=sidecar,
            opened=opened,
            every=self._every,
            topics=self._topics,
            scopes=self._scopes,
            token=token,
        )
        self.world.history.watches.append(self._watch)

    async def _follow(self, stream: Stream) -> None:
        world, chance = self.world, self.chance
        resting = asyncio.ensure_future(world.resting.wait())
        try:
            while True:
                reading = asyncio.ensure_future(stream.next())
                await asyncio.wait((reading, resting), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    self._watch.drained = True
                    return
                message = reading.result()
                if message is None:
                    return
                for event in service_pb2.WatchPoliciesResponse.FromString(message).events:
                    self._note(event)
                if world.healed:
                    continue
                if chance.random() < self._restless:
                    world.counts["watches cancelled"] += 1
                    return
                if self._slow and chance.random() < 0.5:
                    await world.pause(self._slow)
        finally:
            resting.cancel()

    def _note(self, event: service_pb2.WatchEvent) -> None:
        now, counts, watch = self.world.now(), self.world.counts, self._watch
        kind = event.WhichOneof("content")
        if kind == "change":
            change, shown = event.change, event.change.document
            document = flat(shown.policies) if shown.HasField("policies") else None
            key = Key(shown.topic, int(shown.scope))
            position = self.world.journal.stated(policy_key(key), shown.version)
            watch.messages.append(Change(now, key, shown.version, change.previous_version, document, position))
        elif kind == "bookmark":
            counts["watches resumed"] += event.bookmark.synced and watch.token is not None
        elif kind == "reset":
            counts["watches started over"] += 1
            counts[f"watches reset {ErrorReason.Name(event.reset.reason).removeprefix('ERROR_REASON_')}"] += 1
            self._token = ""
            watch.ended = now
            self._begin(watch.sidecar, None, watch.opened)
        else:
            failed = event.status.state == service_pb2.NAMESPACE_STATE_FAILED
            watch.messages.append(Status(now, failed))
            counts["watch statuses"] += 1
        if event.resume_token:
            self._token = event.resume_token
            self._watch.messages.append(self._mark(synced=event.bookmark.synced))

    def _mark(self, *, synced: bool) -> Bookmark:
        token = tokens.read(self._token)
        return Bookmark(self.world.now(), synced, token.log, token.positions)

    def _request(self) -> service_pb2.WatchPoliciesRequest:
        request = service_pb2.WatchPoliciesRequest(
            topics=sorted(self._topics or ()),
            namespaces=[] if self._topics is not None else [NAMESPACE],
            scopes=[policies_pb2.Scope.ValueType(scope) for scope in sorted(self._scopes)],
            mode=service_pb2.WATCH_MODE_EVERY if self._every else service_pb2.WATCH_MODE_LATEST,
            bookmark_interval=Duration(seconds=1),
        )
        if self._token:
            request.resume_tokens[NAMESPACE] = self._token
        return request
