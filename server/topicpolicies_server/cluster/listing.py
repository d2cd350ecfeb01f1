"""Facts of many topics at once: a namespace's lists in place of a request for each topic.

A client that changes the policies of thousands of topics in turn would wait for as many answers of brokers, which takes longer than the
changes. So once ``_MANY`` requests of one namespace have no answer, its topics are listed. The lists answer for topics that exist and have
no metadata of their own and, where topics need not exist, for those that do not; all others are requested one by one as before, because
they may have been created since. Where topics can't be listed, each is requested.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ..core.errors import PolicyError
from ..core.names import PERSISTENT
from .cache import Cache
from .source import TopicFacts

_LOG = logging.getLogger(__name__)
_MANY = 16
"""How many unanswered requests for topics of a namespace make it worth listing."""
_FRESH_SECONDS = 2.0
"""How long lists are used; in the second half of that time they are requested anew."""
_MOST = 8
"""How many namespaces' lists are kept; each can be long."""
_PLAIN, _MISSING = TopicFacts(True, {}), TopicFacts(False, {})


class Lists(NamedTuple):
    """A namespace's topics of the domain "persistent", by their full names; the lists have no others."""

    topics: frozenset[str]
    """The topics that exist and hold messages; of a partitioned topic, its partitions."""
    partitioned: frozenset[str]
    complete: bool = True
    """Whether these are all topics; if not, they could not be listed."""


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
        self._missing_topics = missing_topics
        self._unanswered: Counter[str] = Counter()
        self._lists = Cache(self._list, fresh_seconds=_FRESH_SECONDS, most=_MOST, now=now)

    async def topic(self, topic: str) -> TopicFacts:
        """Returns the facts of a topic.

        Raises:
            PolicyError: there is no answer.
        """
        namespace = topic.partition("://")[2].rpartition("/")[0]
        lists = await self._lists.get(namespace) if self._unanswered[namespace] >= _MANY else self._lists.peek(namespace)
        facts = self._listed(topic, lists) if lists is not None else None
        if facts is not None:
            return facts
        self._unanswered[namespace] += 1
        try:
            return await self._ask(topic)
        finally:
            self._unanswered[namespace] -= 1
            if not self._unanswered[namespace]:
                del self._unanswered[namespace]

    async def close(self) -> None:
        """Cancels listings that are under way."""
        await self._lists.close()

    def _listed(self, topic: str, lists: Lists) -> TopicFacts | None:
        """Returns what the lists say about a topic; None: the topic has to be requested."""
        if topic in lists.topics and topic not in lists.partitioned:
            return _PLAIN
        known = self._missing_topics and lists.complete and topic.startswith(PERSISTENT) and topic not in lists.partitioned
        return _MISSING if known else None

    async def _list(self, namespace: str) -> Lists:
        try:
            return await self._list_all(namespace)
        except PolicyError as error:
            _LOG.info("%s: its topics can't be listed, so each is requested alone: %s", namespace, error.message)
            return Lists(frozenset(), frozenset(), complete=False)
