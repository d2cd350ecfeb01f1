"""The board of one watched namespace: which of its topics have their policies disabled (``disabling``), as far as they were looked up.

A watch or listing includes a topic only after its property was looked up. If there are many topics, the board first asks which of them can
have properties at all. The one exception are namespaces with so many such topics that the first lookup takes longer than
``_PATIENCE_SECONDS``: the topics that remain count as their namespace says until their turn comes.

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


class Board:
    """One watched namespace and the state of its topics' properties."""

    def __init__(self, namespace: str, admission: Admission, queue: Callable[[Board, str, bool], None]) -> None:
        """Creates a board that knows nothing yet.

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
        self._disabled = False
        self._own: dict[str, bool | None] = {}
        """What the properties of topics say, by topic, as far as they were looked up; None: nothing."""
        self._off: set[str] = set()
        self._marked: str | None = None
        self._may_say: frozenset[str] | None = None
        """The topics that can have properties; None: they were not listed."""
        self._list_at = 0.0
        """When they are to be listed again, by the event loop's clock."""
        self._failing: set[str] = set()
        """The topics and namespaces whose last lookup failed unexpectedly; "": a lookup as a whole."""
        self.problem: PolicyError | None = None
        """The error for watchers while lookups fail unexpectedly; None: they do not."""

    def knows(self, topic: str) -> bool:
        """Whether a topic was looked up."""
        return topic in self._own

    def disabled(self, topic: str) -> bool:
        """Whether a topic's policies are disabled."""
        own = self._own.get(topic)
        return self._disabled if own is None else own

    def everything(self, topics: frozenset[str] | None) -> bool:
        """Whether all topics of a selection are disabled; None: the selection is the namespace."""
        return self._disabled if topics is None else all(map(self.disabled, topics))

    def mark(self, topics: frozenset[str] | None) -> str:
        """Returns a digest of the disabled topics of a selection; "": there are none. None: the selection is the namespace."""
        if topics is not None:
            return _mark(filter(self.disabled, topics))
        if self._marked is None:
            self._marked = _mark(self._off)
        return self._marked

    def concerns(self, since: int, topics: frozenset[str] | None) -> bool:
        """Whether a topic of a selection was switched after the first ``since`` entries of ``switched``."""
        for topic in self.switched[since:]:
            if topics is None or topic in topics or (topic is None and any(self._own.get(each) is None for each in topics)):
                return True
        return False

    async def look(self, topics: Iterable[str]) -> None:
        """Looks up the namespace, and topics that are not known yet, in bounded time. A topic without an answer counts as saying nothing.

        Raises:
            PolicyError: what the namespace's property says can't be found out.
        """
        self._say_all(await self._admission.namespace_said(self.namespace))
        unknown = [topic for topic in topics if topic not in self._own]
        if len(unknown) > _FEW:
            await self._list()
            if self._may_say is not None:
                self._own.update(dict.fromkeys(topic for topic in unknown if topic not in self._may_say))
                unknown = [topic for topic in unknown if topic in self._may_say]
        waiting = iter(unknown)

        async def some() -> None:
            for topic in waiting:
                await self.ask(topic)

        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await asyncio.gather(*(some() for _ in unknown[:_AT_ONCE]))
        except TimeoutError:
            late = [topic for topic in unknown if topic not in self._own]
            _LOG.warning(
                "%s: watches are sent %d topics before it is known whether the topics' policies are disabled", self.namespace, len(late)
            )
            for topic in late:
                self._own[topic] = None
                self._queue(self, topic, True)

    async def ask(self, topic: str) -> None:
        """Looks up a topic, and queues it for the next time. If there is no answer, the last one stays valid. Does not raise."""
        try:
            said = await self._attempt(topic, self._admission.said(topic), self._own.get(topic))
        except Exception as error:  # noqa: BLE001 (whoever watches is told, the log why)
            self.failed(topic, error)
            said = self._own.get(topic)
        known, before = topic in self._own, self.disabled(topic)
        self._own[topic] = said
        (self._off.add if said else self._off.discard)(topic)
        self._marked = None
        if known and before != self.disabled(topic):
            self._tell(topic)
        self._queue(self, topic, False)

    async def ask_namespace(self) -> None:
        """Looks up the namespace, like ``ask``."""
        try:
            self._say_all(await self._attempt(self.namespace, self._admission.namespace_said(self.namespace), self._disabled))
            if self._may_say is not None and asyncio.get_running_loop().time() >= self._list_at:
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

    def goes_on(self, *of: str) -> None:
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
        self.goes_on(of)
        return said

    async def _list(self) -> None:
        """Lists the topics that can have properties. Topics that could not before are looked up soon."""
        before = self._may_say
        try:
            self._may_say = await self._admission.may_say(self.namespace)
        except PolicyError as error:
            _LOG.debug("%s: its partitioned topics can't be requested: %s", self.namespace, error.message)
        self._list_at = asyncio.get_running_loop().time() + self._admission.topic_seconds / 2
        if before is not None and self._may_say is not None:
            for topic in self._may_say - before:
                if topic in self._own:
                    self._queue(self, topic, True)

    def _say_all(self, disabled: bool) -> None:
        if disabled != self._disabled:
            self._disabled = disabled
            self._tell(None)

    def _tell(self, topic: str | None) -> None:
        self.switched.append(topic)
        self._wake()

    def _wake(self) -> None:
        for wake in self.watching.values():
            wake()


def _mark(topics: Iterable[str]) -> str:
    names = sorted(topics)
    return hashlib.blake2b("\n".join(names).encode(), digest_size=8).hexdigest() if names else ""
