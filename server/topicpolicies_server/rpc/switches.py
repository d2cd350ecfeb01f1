"""Which topics of the watched namespaces have their policies disabled (``cluster/disabling``): watches leave them out, and so do listings.

What a watch has told of a namespace holds for one set of such topics. When a topic leaves or enters it, what was told of the topic's
namespace is reset, and a snapshot follows; and tokens name the set (``Board.mark``), so that nobody resumes where another one held.

Nobody tells when the property changes, so it is looked at again and again while somebody watches: as often as its facts are refreshed,
but at no more than ``_PER_SECOND`` topics a second in all namespaces together. A topic is told of only when it was looked at. Where there
are many, it is asked first which of them can have properties at all. The one exception are namespaces of so many such topics that their
first look takes longer than ``_PATIENCE_SECONDS``: those that are left count as the namespace says until their turn comes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from ..cluster.admission import Admission
from ..core.errors import PolicyError

_LOG = logging.getLogger(__name__)
_PATIENCE_SECONDS = 3.0
_FEW = 64
"""So many topics are asked about one by one."""
_AT_ONCE = 16
"""Topics that are asked about at the same time in a first look."""
_TICK_SECONDS = 0.5
_PER_SECOND = 50


class _Due(NamedTuple):
    at: float
    board: Board
    topic: str


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
        """Looks at a topic. Where nobody answers it goes on saying what it said."""
        try:
            said = await self._admission.said(topic)
        except PolicyError as error:
            _LOG.debug("%s: whether its policies are disabled can't be asked: %s", topic, error.message)
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
            self._say_all(await self._admission.namespace_disabled(self.namespace))
        except PolicyError as error:
            _LOG.debug("%s: whether its policies are disabled can't be asked: %s", self.namespace, error.message)
        if self._may_say is not None and asyncio.get_running_loop().time() >= self._list_at:
            await self._list()

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
        for wake in self.watching.values():
            wake()


class Switchboard:
    """The namespaces that are watched. It belongs to one event loop."""

    def __init__(self, admission: Admission) -> None:
        """``admission``: tells what the properties say."""
        self._admission = admission
        self._boards: dict[str, Board] = {}
        self._soon: deque[tuple[Board, str]] = deque()
        self._later: deque[_Due] = deque()
        """In the order of their times: all wait equally long."""
        self._looking: asyncio.Task[None] | None = None

    def join(self, namespace: str, watcher: object, wake: Callable[[], None]) -> Board:
        """Somebody watches a namespace, until ``leave``; ``wake`` is called when something was switched."""
        board = self._boards.get(namespace)
        if board is None:
            board = self._boards[namespace] = Board(namespace, self._admission, self._queue)
        board.watching[watcher] = wake
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="disabled topics")
        return board

    def leave(self, namespace: str, watcher: object) -> None:
        """Ends a ``join``. What nobody watches is not looked at."""
        board = self._boards[namespace]
        del board.watching[watcher]
        if not board.watching:
            del self._boards[namespace]
        if not self._boards and self._looking is not None:
            self._looking.cancel()
            self._looking = None
            self._soon.clear()
            self._later.clear()

    def _queue(self, board: Board, topic: str, soon: bool) -> None:
        if soon:
            self._soon.append((board, topic))
        else:
            self._later.append(_Due(asyncio.get_running_loop().time() + self._admission.topic_seconds / 4, board, topic))

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            boards = list(self._boards.values())
            turn = [board.ask_namespace() for board in boards]
            most = len(turn) + int(_PER_SECOND * _TICK_SECONDS)
            while len(turn) < most:
                if self._soon:
                    board, topic = self._soon.popleft()
                elif self._later and self._later[0].at <= loop.time():
                    _, board, topic = self._later.popleft()
                else:
                    break
                if self._boards.get(board.namespace) is board:  # those that nobody watches any more take nobody's turn
                    turn.append(board.ask(topic))
            await asyncio.gather(*turn)


class LeftOut(NamedTuple):
    """What a watch that begins now would leave out."""

    topics: frozenset[str]
    mark: str


async def left_out_of(admission: Admission, namespace: str, topics: Collection[str]) -> LeftOut:
    """Which of a namespace's topics are disabled.

    Raises:
        PolicyError: nobody can tell what the namespace says.
    """
    board = Board(namespace, admission, lambda _board, _topic, _soon: None)
    await board.look(topics)
    return LeftOut(frozenset(filter(board.disabled, topics)), board.mark(None))


def _mark(topics: Iterable[str]) -> str:
    names = sorted(topics)
    return hashlib.blake2b("\n".join(names).encode(), digest_size=8).hexdigest() if names else ""
