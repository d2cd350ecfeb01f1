"""Which topics of the watched namespaces have their policies disabled: watches leave them out, and so do listings.

What a watch has sent of a namespace is valid for one set of disabled topics. When a topic leaves or enters the set, the watch sends a reset
of the topic's namespace, and a snapshot; and tokens name the set (``Board.mark``), so that no watch resumes where another set was valid.

Pulsar does not notify anyone when the property changes, so it is looked up again and again while its namespace is watched: as often as its
facts are refreshed, but at most ``_PER_SECOND`` topics a second in all namespaces together, and at most as many namespaces, in turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from ..tasks import Kept
from .admission import Admission
from .board import Board

_TICK_SECONDS = 0.5
_PER_SECOND = 50


class _Due(NamedTuple):
    at: float
    board: Board
    topic: str


class Switchboard:
    """The boards of the watched namespaces. It is bound to one event loop."""

    def __init__(self, admission: Admission) -> None:
        """``admission``: looks up what the properties say."""
        self._admission = admission
        self._boards: dict[str, Board] = {}
        self._soon: deque[tuple[Board, str]] = deque()
        self._later: deque[_Due] = deque()
        """Lookups in the order of their times: all wait equally long."""
        self._next = 0
        """The index of the board whose turn is next."""
        self._looking = Kept("the looking for disabled topics", self._look, failed=self._failed)

    def join(self, namespace: str, watcher: object, wake: Callable[[], None]) -> Board:
        """Adds a watcher to a namespace, until ``leave``. ``wake`` is called when something was switched, or when lookups fail."""
        board = self._boards.get(namespace)
        if board is None:
            board = self._boards[namespace] = Board(namespace, self._admission, self._queue)
        board.watching[watcher] = wake
        self._looking.start()
        return board

    def leave(self, namespace: str, watcher: object) -> None:
        """Removes a watcher. Namespaces without watchers are not looked up."""
        board = self._boards[namespace]
        del board.watching[watcher]
        if not board.watching:
            del self._boards[namespace]
        if not self._boards:
            self._looking.cancel()
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
            most = int(_PER_SECOND * _TICK_SECONDS)
            first = self._next % len(boards) if boards else 0
            turn = [board.ask_namespace() for board in [*boards[first:], *boards[:first]][:most]]
            self._next, most = first + most, len(turn) + most
            while len(turn) < most:
                if self._soon:
                    board, topic = self._soon.popleft()
                elif self._later and self._later[0].at <= loop.time():
                    _, board, topic = self._later.popleft()
                else:
                    break
                if self._boards.get(board.namespace) is board:  # a board without watchers must not take the turn of another one
                    turn.append(board.ask(topic))
            await asyncio.gather(*turn)
            for board in boards:
                board.goes_on("")

    def _failed(self, error: BaseException) -> None:
        """Reports a failure of the lookups as a whole to all watchers, until they succeed again."""
        for board in self._boards.values():
            board.failed("", error)


class LeftOut(NamedTuple):
    """What a watch that begins now would leave out."""

    topics: frozenset[str]
    mark: str


async def left_out_of(admission: Admission, namespace: str, topics: Collection[str]) -> LeftOut:
    """Returns which of a namespace's topics are disabled.

    Raises:
        PolicyError: what the namespace's property says can't be found out.
    """
    board = Board(namespace, admission, lambda _board, _topic, _soon: None)
    await board.look(topics)
    return LeftOut(frozenset(filter(board.disabled, topics)), board.mark(None))
