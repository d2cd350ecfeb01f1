"""Which topics of the watched namespaces have their policies disabled: watches leave them out, and so do listings.

What a watch has sent of a namespace is valid for one set of disabled topics. When a topic leaves or enters the set, the watch sends a reset
of the topic's namespace, and a snapshot; and tokens name the set (``DisabledTopics.digest``), so that no watch resumes where another set
was valid.

Pulsar does not notify anyone when the property changes, so it is looked up again and again while its namespace is watched: as often as its
facts are refreshed, but at most ``_PER_SECOND`` topics a second in all namespaces together, and at most as many namespaces, in turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from ..tasks import RestartedTask
from .admission import Admission
from .disabled_topics import DisabledTopics

_TICK_SECONDS = 0.5
_PER_SECOND = 50


class _Due(NamedTuple):
    at: float
    disabled: DisabledTopics
    topic: str


class WatchedNamespaces:
    """The watched namespaces, each with its disabled topics. It is bound to one event loop."""

    def __init__(self, admission: Admission) -> None:
        """``admission``: looks up what the properties say."""
        self._admission = admission
        self._watched: dict[str, DisabledTopics] = {}
        self._soon: deque[tuple[DisabledTopics, str]] = deque()
        self._later: deque[_Due] = deque()
        """Lookups in the order of their times: all wait equally long."""
        self._next = 0
        """The index of the namespace whose turn is next."""
        self._looking = RestartedTask("the looking for disabled topics", self._look, failed=self._failed)

    def join(self, namespace: str, watcher: object, wake: Callable[[], None]) -> DisabledTopics:
        """Adds a watcher to a namespace, until ``leave``. ``wake`` is called when something was switched, or when lookups fail."""
        disabled = self._watched.get(namespace)
        if disabled is None:
            disabled = self._watched[namespace] = DisabledTopics(namespace, self._admission, self._queue)
        disabled.watching[watcher] = wake
        self._looking.start()
        return disabled

    def leave(self, namespace: str, watcher: object) -> None:
        """Removes a watcher. Namespaces without watchers are not looked up."""
        disabled = self._watched[namespace]
        del disabled.watching[watcher]
        if not disabled.watching:
            del self._watched[namespace]
        if not self._watched:
            self._looking.cancel()
            self._soon.clear()
            self._later.clear()

    def _queue(self, disabled: DisabledTopics, topic: str, soon: bool) -> None:
        if soon:
            self._soon.append((disabled, topic))
        else:
            self._later.append(_Due(asyncio.get_running_loop().time() + self._admission.topic_seconds / 4, disabled, topic))

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            watched = list(self._watched.values())
            most = int(_PER_SECOND * _TICK_SECONDS)
            first = self._next % len(watched) if watched else 0
            turn = [disabled.look_up_namespace() for disabled in [*watched[first:], *watched[:first]][:most]]
            self._next, most = first + most, len(turn) + most
            while len(turn) < most:
                if self._soon:
                    disabled, topic = self._soon.popleft()
                elif self._later and self._later[0].at <= loop.time():
                    _, disabled, topic = self._later.popleft()
                else:
                    break
                if self._watched.get(disabled.namespace) is disabled:  # one without watchers must not take the turn of another
                    turn.append(disabled.look_up(topic))
            await asyncio.gather(*turn)
            for disabled in watched:
                disabled.succeeded("")

    def _failed(self, error: BaseException) -> None:
        """Reports a failure of the lookups as a whole to all watchers, until they succeed again."""
        for disabled in self._watched.values():
            disabled.failed("", error)


class LeftOut(NamedTuple):
    """What a watch that begins now would leave out."""

    topics: frozenset[str]
    digest: str


async def left_out_of(admission: Admission, namespace: str, topics: Collection[str]) -> LeftOut:
    """Returns which of a namespace's topics are disabled.

    Raises:
        PolicyError: what the namespace's property says can't be found out.
    """
    disabled = DisabledTopics(namespace, admission, lambda _disabled, _topic, _soon: None)
    await disabled.look_up_all(topics)
    return LeftOut(frozenset(filter(disabled.includes, topics)), disabled.digest(None))
