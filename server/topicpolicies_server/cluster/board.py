"""One watched namespace: which of its topics have their policies disabled (``disabling``), as far as was looked.

A topic is told of only when it was looked at. Where there are many, it is asked first which of them can have properties at all. The one
exception are namespaces of so many such topics that their first look takes longer than ``_PATIENCE_SECONDS``: those that are left count
as the namespace says until their turn comes.

A look that fails in a way that nobody foresaw is told of as ``problem``, to whoever watches; the next one that does not ends it.
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
"""So many topics are asked about one by one; more are not worth as many requests, where one lists those that can have properties."""
_AT_ONCE = 16
"""Topics that are asked about at the same time in a first look."""
_T = TypeVar("_T")


class Board:
    """One watched namespace."""

    def __init__(self, namespace: str, admission: Admission, queue: Callable[[Board, str, bool], None]) -> None:
        """Nothing is known yet.

        Args:
            namespace: ``tenant/namespace``.
            admission: tells what the properties say.
            queue: has a topic looked at again; at once, or when its turn comes.
        """
        self.namespace = namespace
        self.switched: list[str | None] = []
        """The topics whose policies were disabled or enabled since somebody watches; None: the namespace's."""
        self.watching: dict[object, Callable[[], None]] = {}
        """How to wake who watches."""
        self._admission = admission
        self._queue = queue
        self._disabled = False
        self._own: dict[str, bool | None] = {}
        """What the topics that were looked at say themselves."""
        self._off: set[str] = set()
        self._marked: str | None = None
        self._may_say: frozenset[str] | None = None
        """The topics that can have properties; None: it was not asked."""
        self._list_at = 0.0
        """When that is to be asked again."""
        self._failing: set[str] = set()
        """What can't be looked at, because that failed in a way that nobody foresaw."""
        self.problem: PolicyError | None = None
        """Why it can't be looked at, if that failed in a way that nobody foresaw."""

    def knows(self, topic: str) -> bool:
        """Whether a topic was looked at."""
        return topic in self._own

    def disabled(self, topic: str) -> bool:
        """Whether a topic is left out."""
        own = self._own.get(topic)
        return self._disabled if own is None else own

    def everything(self, topics: frozenset[str] | None) -> bool:
        """Whether all of a selection is disabled; None is the namespace."""
        return self._disabled if topics is None else all(map(self.disabled, topics))

    def mark(self, topics: frozenset[str] | None) -> str:
        """Names the disabled topics of a selection; "" if there are none."""
        if topics is not None:
            return _mark(filter(self.disabled, topics))
        if self._marked is None:
            self._marked = _mark(self._off)
        return self._marked

    def concerns(self, since: int, topics: frozenset[str] | None) -> bool:
        """Whether anything of a selection was switched after the first ``since`` of ``switched``."""
        for topic in self.switched[since:]:
            if topics is None or topic in topics or (topic is None and any(self._own.get(each) is None for each in topics)):
                return True
        return False

    async def look(self, topics: Iterable[str]) -> None:
        """Looks at topics, and at the namespace, for the first time. Returns in bounded time; whoever has not answered says nothing.

        Raises:
            PolicyError: nobody can tell what the namespace says.
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
            _LOG.warning("%s: %d topics are told of before it is known whether their policies are disabled", self.namespace, len(late))
            for topic in late:
                self._own[topic] = None
                self._queue(self, topic, True)

    async def ask(self, topic: str) -> None:
        """Looks at a topic. Where nobody answers it goes on saying what it said. Whatever goes wrong, it is looked at again."""
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
        """Looks at the namespace, as above."""
        try:
            self._say_all(await self._attempt(self.namespace, self._admission.namespace_disabled(self.namespace), self._disabled))
            if self._may_say is not None and asyncio.get_running_loop().time() >= self._list_at:
                await self._list()
        except Exception as error:  # noqa: BLE001 (as above)
            self.failed(self.namespace, error)

    def failed(self, of: str, error: BaseException) -> None:
        """A look failed in a way that nobody foresaw: whoever watches is told, until it succeeds.

        Args:
            of: the topic or the namespace that was looked at; "" is all that are watched.
            error: why.
        """
        level = logging.DEBUG if of in self._failing else logging.ERROR
        about = of or "what is watched"
        _LOG.log(level, "%s: whether policies of %s are disabled can't be told: %r", self.namespace, about, error, exc_info=error)
        self._failing.add(of)
        if self.problem is None:
            problem = f"Whether topic policies of {self.namespace} are disabled can't be told, for a reason that this server's own log has."
            self.problem = PolicyError(Kind.INTERNAL, Reason.INTERNAL, problem)
            self._wake()

    def goes_on(self, *of: str) -> None:
        """What had failed did not fail this time."""
        if self._failing:
            self._failing.difference_update(of)
            if not self._failing:
                self.problem = None
                self._wake()

    async def _attempt(self, of: str, answer: Awaitable[_T], known: _T) -> _T:
        """What is answered of a topic or the namespace; where nobody answers, what is known."""
        try:
            said = await answer
        except PolicyError as error:
            _LOG.debug("%s: whether its policies are disabled can't be asked: %s", of, error.message)
            said = known
        self.goes_on(of)
        return said

    async def _list(self) -> None:
        """Asks which topics can have properties. Those that could not before are looked at soon."""
        before = self._may_say
        try:
            self._may_say = await self._admission.may_say(self.namespace)
        except PolicyError as error:
            _LOG.debug("%s: its partitioned topics can't be asked for: %s", self.namespace, error.message)
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
