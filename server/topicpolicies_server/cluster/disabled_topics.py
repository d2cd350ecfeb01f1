"""Which topics of one watched namespace have their policies disabled (``disabled_property``), as far as they were looked up.

A watch or listing includes a topic only after its property was looked up. If there are many topics, those that can have properties at all
are listed first. The one exception are namespaces with so many such topics that the first lookup takes longer than ``_PATIENCE_SECONDS``:
the topics that remain count as their namespace says until their turn comes.

If a lookup fails unexpectedly, all watchers of the namespace get ``problem``; the next lookup that succeeds ends it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from .admission import Admission

_LOG = logging.getLogger(__name__)
_PATIENCE_SECONDS = 3.0
_FEW = 8
"""Up to so many topics are looked up one by one; for more, it costs fewer requests to list the topics that can have properties first."""
_AT_ONCE = 16
"""How many topics are looked up at the same time at first."""
_T = TypeVar("_T")


class DisabledTopics:
    """The disabled topics of one watched namespace."""

    def __init__(self, namespace: str, admission: Admission, queue: Callable[[DisabledTopics, str, bool], None]) -> None:
        """Nothing was looked up yet.

        Args:
            namespace: ``tenant/namespace``.
            admission: looks up what the properties say.
            queue: has a topic looked up again: soon if its last argument is true, else when its turn comes.
        """
        self.namespace = namespace
        self.switched: list[str | None] = []
        """The topics whose policies were disabled or enabled since the first watch, in order; None: the namespace's property changed."""
        self.watching: dict[object, Callable[[], None]] = {}
        """The callback that wakes each watcher."""
        self._admission = admission
        self._queue = queue
        self._namespace_disabled = False
        self._property_of: dict[str, bool | None] = {}
        """What the properties of topics say, by topic, as far as they were looked up; None: nothing."""
        self._disabled_topics: set[str] = set()
        self._digest: str | None = None
        self._topics_with_properties: frozenset[str] | None = None
        """The topics that can have properties; None: they were not listed."""
        self._list_at = 0.0
        """When they are to be listed again, by the event loop's clock."""
        self._failing: set[str] = set()
        """The topics and namespaces whose last lookup failed unexpectedly; "": a lookup as a whole."""
        self.problem: PolicyError | None = None
        """The error for watchers while lookups fail unexpectedly; None: they do not."""

    def knows(self, topic: str) -> bool:
        """Whether a topic was looked up."""
        return topic in self._property_of

    def includes(self, topic: str) -> bool:
        """Whether a topic's policies are disabled."""
        own = self._property_of.get(topic)
        return self._namespace_disabled if own is None else own

    def all_disabled(self, topics: frozenset[str] | None) -> bool:
        """Whether all topics of a selection are disabled; None: the selection is the namespace."""
        return self._namespace_disabled if topics is None else all(map(self.includes, topics))

    def digest(self, topics: frozenset[str] | None) -> str:
        """Returns a digest of the disabled topics of a selection; "": there are none. None: the selection is the namespace."""
        if topics is not None:
            return _digest_of(filter(self.includes, topics))
        if self._digest is None:
            self._digest = _digest_of(self._disabled_topics)
        return self._digest

    def concerns(self, since: int, topics: frozenset[str] | None) -> bool:
        """Whether a topic of a selection was switched after the first ``since`` entries of ``switched``."""
        for topic in self.switched[since:]:
            if topics is None or topic in topics or (topic is None and any(self._property_of.get(each) is None for each in topics)):
                return True
        return False

    async def look_up_all(self, topics: Iterable[str]) -> None:
        """Looks up the namespace, and topics that are not known yet, in bounded time. A topic without an answer counts as saying nothing.

        Raises:
            PolicyError: what the namespace's property says can't be found out.
        """
        self._set_namespace_disabled(await self._admission.newest_namespace_disabled(self.namespace))
        unknown = [topic for topic in topics if topic not in self._property_of]
        not_listed = self._topics_with_properties is None and len(self._property_of) + len(unknown) > _FEW
        if len(unknown) > _FEW or (unknown and not_listed and asyncio.get_running_loop().time() >= self._list_at):
            await self._list()
        if len(unknown) > _FEW and self._topics_with_properties is not None:
            self._property_of.update(dict.fromkeys(topic for topic in unknown if topic not in self._topics_with_properties))
            unknown = [topic for topic in unknown if topic in self._topics_with_properties]
        waiting = iter(unknown)

        async def some() -> None:
            for topic in waiting:
                await self.look_up(topic)

        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await asyncio.gather(*(some() for _ in unknown[:_AT_ONCE]))
        except TimeoutError:
            late = [topic for topic in unknown if topic not in self._property_of]
            _LOG.warning(
                "%s: watches are sent %d topics before it is known whether the topics' policies are disabled", self.namespace, len(late)
            )
            for topic in late:
                self._property_of[topic] = None
                self._queue(self, topic, True)

    async def look_up(self, topic: str) -> None:
        """Looks up a topic, and queues it for the next time if it can have properties. If there is no answer, the last one stays valid.

        Does not raise.
        """
        try:
            said = await self._attempt(topic, self._admission.newest_topic_disabled(topic), self._property_of.get(topic))
        except Exception as error:  # noqa: BLE001 (whoever watches is told, the log why)
            self.failed(topic, error)
            said = self._property_of.get(topic)
        known, before = topic in self._property_of, self.includes(topic)
        self._property_of[topic] = said
        (self._disabled_topics.add if said else self._disabled_topics.discard)(topic)
        self._digest = None
        if known and before != self.includes(topic):
            self._tell(topic)
        listed = self._topics_with_properties
        if listed is None or topic in listed or said is not None:  # else the first list that has the topic queues it
            self._queue(self, topic, False)

    async def look_up_namespace(self) -> None:
        """Looks up the namespace, like ``look_up``."""
        try:
            self._set_namespace_disabled(
                await self._attempt(self.namespace, self._admission.newest_namespace_disabled(self.namespace), self._namespace_disabled)
            )
            if self._topics_with_properties is not None and asyncio.get_running_loop().time() >= self._list_at:
                await self._list()
        except Exception as error:  # noqa: BLE001 (as above)
            self.failed(self.namespace, error)

    def failed(self, of: str, error: BaseException) -> None:
        """Notes that a lookup failed unexpectedly: watchers get an error until it succeeds.

        Args:
            of: the topic or the namespace that was looked up; "": all that are watched.
            error: the cause.
        """
        level = logging.DEBUG if of in self._failing else logging.ERROR
        about = of or "what is watched"
        _LOG.log(level, "%s: it can't be found out whether policies of %s are disabled: %r", self.namespace, about, error, exc_info=error)
        self._failing.add(of)
        if self.problem is None:
            problem = f"Whether topic policies of {self.namespace} are disabled is not known; this server's log has the reason."
            self.problem = PolicyError(Kind.INTERNAL, Reason.INTERNAL, problem)
            self._wake()

    def succeeded(self, *of: str) -> None:
        """Notes that lookups of these topics or namespaces succeeded."""
        if self._failing:
            self._failing.difference_update(of)
            if not self._failing:
                self.problem = None
                self._wake()

    async def _attempt(self, of: str, answer: Awaitable[_T], known: _T) -> _T:
        """Returns the answer about a topic or the namespace; where there is none, what is known."""
        try:
            said = await answer
        except PolicyError as error:
            _LOG.debug("%s: brokers do not answer whether its policies are disabled: %s", of, error.message)
            said = known
        self.succeeded(of)
        return said

    async def _list(self) -> None:
        """Lists the topics that can have properties. Topics that could not before are looked up soon."""
        before = self._topics_with_properties
        try:
            self._topics_with_properties = await self._admission.topics_with_properties(self.namespace)
        except PolicyError as error:
            _LOG.debug("%s: its partitioned topics can't be requested: %s", self.namespace, error.message)
        self._list_at = asyncio.get_running_loop().time() + self._admission.topic_seconds / 2
        if before is not None and self._topics_with_properties is not None:
            for topic in self._topics_with_properties - before:
                if self._property_of.get(topic, True) is None:  # others are queued already, or are not known
                    self._queue(self, topic, True)

    def _set_namespace_disabled(self, disabled: bool) -> None:
        if disabled != self._namespace_disabled:
            self._namespace_disabled = disabled
            self._tell(None)

    def _tell(self, topic: str | None) -> None:
        self.switched.append(topic)
        self._wake()

    def _wake(self) -> None:
        for wake in self.watching.values():
            wake()


def _digest_of(topics: Iterable[str]) -> str:
    names = sorted(topics)
    return hashlib.blake2b("\n".join(names).encode(), digest_size=8).hexdigest() if names else ""
