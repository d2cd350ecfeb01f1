"""The messages that this process was not given when it read a topic: they outlive an opening, so that the next one knows them.

A topic is remembered as long as there are some. What was handed over after all is forgotten at once, what compaction has gone beyond at
the topic's next opening (``continuity``), and of more topics than may be remembered the one whose last message was added longest ago.
A message that is forgotten too early costs its topic one opening more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableSet
from collections.abc import Set as AbstractSet

from ..ids import MessageId

MOST_TOPICS = 1_000
"""Topics of which messages are remembered."""


class NotHandedOver:
    """The messages of all topics."""

    def __init__(self, most_topics: int = MOST_TOPICS) -> None:
        """``most_topics``: of how many topics messages are remembered."""
        self._most = most_topics
        self._topics: OrderedDict[str, set[MessageId]] = OrderedDict()

    def __len__(self) -> int:
        """How many topics have any."""
        return len(self._topics)

    def of(self, topic: str) -> MutableSet[MessageId]:
        """Those of a topic, by its full name. Nothing is kept of the topic before one is added."""
        return _OfTopic(self, topic)

    def known(self, topic: str) -> AbstractSet[MessageId]:
        """Those of a topic. They change with what is added and discarded."""
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
    """The messages of one topic, in what is remembered of all."""

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
