"""Checks a change, reading it back, and its removal, in a topic that has no policies: the whole way to the log and back, once.

The document is removed in any case, also when the command is interrupted. Whether an interrupted change was made is learned by repeating
the request with its id. A document that another writer has made there is never touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import TYPE_CHECKING

from topicpolicies import OutcomeUnknown, PreconditionFailed, TopicPoliciesError

from .checks import Check, Finding, failed, ok
from .sidecar import REMEDIES

if TYPE_CHECKING:
    from topicpolicies import AsyncClient

_CALL_SECONDS = 15.0
_VALUE = 1_000_000
"""The value of ``max_producer_per_topic``, so high that the setting restricts no producer."""
_REASON = "topicpolicies doctor: removed again at once"


def topic_in(place: str) -> str:
    """Returns the topic to change: the place itself, or a new topic if the place is a namespace."""
    topic = "://" in place or place.count("/") > 1
    return place if topic else f"persistent://{place}/topicpolicies-doctor-{uuid.uuid4().hex[:12]}"


class Scratch:
    """Changes one topic, and reverts the change."""

    def __init__(self, client: AsyncClient, place: str) -> None:
        """Begins without a change; ``place``: a namespace, or a topic without policies."""
        self.topic = topic_in(place)
        self._client = client
        self._request = str(uuid.uuid4())
        self._sent = self._removed = False
        self._version = ""

    def checks(self) -> list[Check]:
        """Returns the checks, in their order."""
        return [
            Check(
                name="scratch.change",
                holds=f"a change of {self.topic} is acknowledged",
                why="Changes are what the server is for.",
                run=self._change,
                remedy="Check the reason, and the server's log.",
                needs=("server.service",),
                seconds=20,
            ),
            Check(
                name="scratch.readback",
                holds="what was written is read back",
                why="A server that acknowledges a change and does not read it back has lost its place in the log.",
                run=self._read,
                remedy="Check whether the server reads its change log: its log lines, and topicpolicies_events_total of its metrics.",
                needs=("scratch.change",),
                seconds=20,
            ),
            Check(
                name="scratch.removal",
                holds="the change is removed again",
                why="A check must leave nothing behind.",
                run=self._remove,
                remedy=f"Remove it: topicpolicies delete {self.topic}",
                needs=("scratch.change",),
                seconds=20,
            ),
        ]

    async def clean(self) -> None:
        """Removes the document that the change made, if it is still there.

        Raises:
            TopicPoliciesError: the document could not be removed, or it is not known whether the change was made.
        """
        if self._sent and not self._removed:
            if not self._version:
                try:
                    await self._update()  # the same request id: the answer is that of the first attempt
                except PreconditionFailed:
                    return
            await self._delete()

    async def _change(self) -> Finding:
        began = time.monotonic()
        try:
            await self._update()
        except PreconditionFailed:
            return failed(f"{self.topic} has policies", "Name a topic without policies, or a namespace: --scratch TENANT/NAMESPACE.")
        except TopicPoliciesError as error:
            self._sent = isinstance(error, OutcomeUnknown)  # any other error says that nothing was written
            return failed(f"{error.reason or error.code.name}: {error.message}", self._remedy(error))
        return ok(f"{1000 * (time.monotonic() - began):.0f} ms")

    def _remedy(self, error: TopicPoliciesError) -> str:
        match error.reason:
            case "TOPIC_NOT_FOUND":
                return "Create a topic for it (pulsar-admin topics create), name it with --scratch TOPIC, and delete it afterwards."
            case "NAMESPACE_NOT_FOUND":
                return "Create the namespace (pulsar-admin namespaces create), or correct its name in --scratch."
            case "READ_ONLY":
                return "The server's options let it write nothing (--read-only): name another server."
        return REMEDIES.get(error.reason, "")

    async def _update(self) -> None:
        self._sent = True
        made = await self._client.update(
            self.topic,
            max_producer_per_topic=_VALUE,
            exists=False,
            request_id=self._request,
            reason=_REASON,
            timeout=_CALL_SECONDS,
        )
        self._version = made.version

    async def _read(self) -> Finding:
        read = await self._client.get(self.topic, at_least_version=self._version, timeout=_CALL_SECONDS)
        if read.policies.max_producer_per_topic != _VALUE:
            return failed("it is not there")
        return ok()

    async def _remove(self) -> Finding:
        await self._delete()
        return ok()

    async def _delete(self) -> None:
        with contextlib.suppress(PreconditionFailed):  # another writer has changed the document since, and keeps it
            await self._client.delete(self.topic, version=self._version, reason=_REASON, timeout=_CALL_SECONDS)
        self._removed = True


async def cleaned(scratch: Scratch) -> str:
    """Removes the document of a scratch change, even if the caller is cancelled meanwhile. Returns what went wrong; empty: nothing."""
    removing = asyncio.ensure_future(scratch.clean())
    while True:
        try:
            await asyncio.shield(removing)
        except asyncio.CancelledError:
            if removing.done():
                return ""
            continue
        except TopicPoliciesError as error:
            return f"{scratch.topic} may still have policies ({error.message}) Remove them: topicpolicies delete {scratch.topic}"
        return ""
