"""Remembers messages that were not handed over when this process read a topic, beyond one opening, so that the next opening knows them.

A topic is remembered as long as it has such messages. A message is forgotten at once if it is handed over after all, and at the topic's
next opening if compaction has gone beyond it (``continuity``). If there are too many topics, the one is forgotten whose last message was
added longest ago. Forgetting a message too early costs its topic one more opening.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableSet
from collections.abc import Set as AbstractSet

from ..ids import MessageId

MOST_TOPICS = 1_000
"""For how many topics messages are remembered."""


class NotHandedOver:
    """The messages of all topics."""

    def __init__(self, most_topics: int = MOST_TOPICS) -> None:
        """``most_topics``: for how many topics messages are remembered."""
        self._most = most_topics
        self._topics: OrderedDict[str, set[MessageId]] = OrderedDict()

    def __len__(self) -> int:
        """How many topics have such messages."""
        return len(self._topics)

    def of(self, topic: str) -> MutableSet[MessageId]:
        """Returns the messages of a topic, by its full name; the set writes through. Nothing is kept of the topic until one is added."""
        return _OfTopic(self, topic)

    def known(self, topic: str) -> AbstractSet[MessageId]:
        """Returns the messages of a topic; the set may change as messages are added and discarded."""
        return self._topics.get(topic, frozenset())

    def add(self, topic: str, message: MessageId) -> None:
        """Remembers a message of a topic."""
        self._topics.setdefault(topic, set()).add(message)
        self._topics.move_to_end(topic)
        while len(self._topics) > self._most:
            self._topics.popitem(last=False)

    def discard(self, topic: str, message: MessageId) -> None:
        """Forgets a message of a topic."""
        messages = self._topics.get(topic)
        if messages is not None:
            messages.discard(message)
            if not messages:
                del self._topics[topic]


class _OfTopic(MutableSet[MessageId]):
    """A view of one topic's messages that writes through to ``NotHandedOver``."""

    def __init__(self, all_topics: NotHandedOver, topic: str) -> None:
        self._all = all_topics
        self._topic = topic

    def __contains__(self, message: object) -> bool:
        return message in self._all.known(self._topic)

    def __iter__(self) -> Iterator[MessageId]:
        return iter(frozenset(self._all.known(self._topic)))

    def __len__(self) -> int:
        return len(self._all.known(self._topic))

    def add(self, value: MessageId) -> None:
        """Remembers a message."""
        self._all.add(self._topic, value)

    def discard(self, value: MessageId) -> None:
        """Forgets a message."""
        self._all.discard(self._topic, value)
