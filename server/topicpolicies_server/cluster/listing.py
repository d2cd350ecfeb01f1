"""Facts of many topics at once: a namespace's lists in place of a request for each topic.

A client that changes the policies of thousands of topics in turn would wait for as many answers of brokers, which takes longer than the
changes. So unanswered requests are counted: once there are ``_MANY`` for one namespace, its topics are listed, and the lists answer in
place of further requests. The lists answer for topics that exist and have no metadata of their own and, where topics need not exist, for
those that do not; all others are requested one by one as before, because they may have been created since.

A list that can't be had, because brokers refuse it or are too slow, is not tried again for ``_TRY_AGAIN_SECONDS``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ..core.errors import PolicyError
from ..core.names import PERSISTENT
from ..tasks import asked_to_end
from .source import TopicFacts

_LOG = logging.getLogger(__name__)
_MANY = 16
"""How many unanswered requests for topics of a namespace make it worth listing."""
_HOLDS_SECONDS = 1.0
"""How long lists are used, since they came: as long as a fact that a topic exists (``admission``)."""
_TRY_AGAIN_SECONDS = 60.0
_KEPT = 8
"""How many namespaces' lists are kept; each can be long."""
_PLAIN, _MISSING = TopicFacts(True, {}), TopicFacts(False, {})
_LISTED = PERSISTENT
"""The domain of the listed topics: the lists have no others."""


class Lists(NamedTuple):
    """A namespace's topics, by their full names."""

    topics: frozenset[str]
    """The topics that exist and hold messages; of a partitioned topic, its partitions."""
    partitioned: frozenset[str]


class _Listed(NamedTuple):
    at: float
    lists: Lists | None
    """The lists; None: they can't be had."""


class TopicLookups:
    """Answers requests for facts of topics. It is bound to one event loop."""

    def __init__(
        self,
        ask: Callable[[str], Awaitable[TopicFacts]],
        list_all: Callable[[str], Awaitable[Lists]],
        now: Callable[[], float],
        *,
        missing_topics: bool = False,
    ) -> None:
        """Creates an object that has no lists; sends no request yet.

        Args:
            ask: requests the facts of one topic.
            list_all: requests the lists of a namespace, ``tenant/namespace``.
            now: returns monotonic seconds.
            missing_topics: whether topics that do not exist (yet) are accepted.
        """
        self._ask = ask
        self._list_all = list_all
        self._now = now
        self._missing_topics = missing_topics
        self._unanswered: Counter[str] = Counter()
        self._listed: OrderedDict[str, _Listed] = OrderedDict()
        self._listing: dict[str, asyncio.Task[None]] = {}

    async def topic(self, topic: str) -> TopicFacts:
        """Returns the facts of a topic.

        Raises:
            PolicyError: there is no answer.
        """
        namespace = topic.partition("://")[2].rpartition("/")[0]
        if self._unanswered[namespace] >= _MANY and not self._known(namespace):
            await asyncio.shield(self._listing.get(namespace) or self._begin(namespace))
        listed = self._known(namespace)
        told = self._told(topic, listed.lists) if listed is not None and listed.lists is not None else None
        if told is not None:
            return told
        self._unanswered[namespace] += 1
        try:
            return await self._ask(topic)
        finally:
            self._unanswered[namespace] -= 1
            if not self._unanswered[namespace]:
                del self._unanswered[namespace]

    async def close(self) -> None:
        """Cancels listings that are under way."""
        listing = list(self._listing.values())
        for task in listing:
            task.cancel()
        await asyncio.gather(*listing, return_exceptions=True)

    def _told(self, topic: str, lists: Lists) -> TopicFacts | None:
        """Returns what the lists say about a topic; None: the topic has to be requested."""
        if topic in lists.partitioned:
            return None
        if topic in lists.topics:
            return _PLAIN
        return _MISSING if self._missing_topics and topic.startswith(_LISTED) else None

    def _known(self, namespace: str) -> _Listed | None:
        listed = self._listed.get(namespace)
        if listed is None or self._now() - listed.at > (_TRY_AGAIN_SECONDS if listed.lists is None else _HOLDS_SECONDS):
            return None
        return listed

    def _begin(self, namespace: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._list(namespace), name=f"topics of {namespace}")
        self._listing[namespace] = task
        task.add_done_callback(lambda _: self._listing.pop(namespace, None))
        return task

    async def _list(self, namespace: str) -> None:
        try:
            lists = await self._list_all(namespace)
            listed = _Listed(self._now(), lists)
        except PolicyError as error:
            _LOG.info("%s: its topics can't be listed, so each is requested alone: %s", namespace, error.message)
            listed = _Listed(self._now(), None)
        except (Exception, asyncio.CancelledError) as error:
            if asked_to_end(error):
                raise
            _LOG.exception("%s: listing its topics failed, so each is requested alone", namespace)
            listed = _Listed(self._now(), None)
        self._listed.pop(namespace, None)
        self._listed[namespace] = listed
        while len(self._listed) > _KEPT:
            self._listed.popitem(last=False)
