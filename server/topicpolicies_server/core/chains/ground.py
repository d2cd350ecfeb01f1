"""What the chains of one namespace stand on: what is known outside of them, and the effects that they have there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ..errors import PolicyError
from ..fold.fold import Folded, KeyState
from ..names import PolicyKey
from ..policies.documents import Settings
from ..policies.events import Event, Position, Remembered
from .request import Request, Result

DEPTH = 64
"""Events of one key that may be in flight, unless told otherwise."""
QUEUE = 10_000
"""Updates of one key that may wait to be computed, unless told otherwise."""


class Told(NamedTuple):
    """What the log told of an event."""

    folded: Folded
    before: Settings | None
    """The document that it met."""
    after: Settings | None
    """The document after it."""


class Append(NamedTuple):
    """Effect: hand an event to the log."""

    event: Event
    request: Request | None = None
    """Whose it is, if it is handed to the log for the first time; None: it is a repetition, or nobody's."""


class Confirm(NamedTuple):
    """Effect: tell ``confirmed`` when the view has come to where the log ends, asked from now on."""

    request: Request


class Settled(NamedTuple):
    """Effect: a request has its answer."""

    request: Request
    answer: Result | PolicyError


Effect: TypeAlias = Append | Confirm | Settled


class Ground:
    """Shared by the chains of one namespace."""

    __slots__ = ("_applied", "_effects", "_shared", "depth", "new_id", "queue", "state")

    def __init__(
        self,
        state: Callable[[PolicyKey], KeyState | None],
        new_id: Callable[[], str],
        applied: Callable[[PolicyKey, str], Remembered | None],
        shared: Callable[[], bool],
        depth: int,
        queue: int,
    ) -> None:
        """The arguments are those of ``Sequencer``."""
        self.state = state
        self.new_id = new_id
        self.depth = depth
        self.queue = queue
        self._applied = applied
        self._shared = shared
        self._effects: list[Effect] = []

    def known(self, request: Request, state: KeyState | None) -> Remembered | None:
        """What is known of an earlier attempt of a request that was applied."""
        remembered = state.remembers(request.request_id) if state is not None else None
        return remembered or self._applied(request.key, request.request_id)

    def append(self, event: Event, request: Request | None = None) -> None:
        """An event is to be handed to the log; ``request``: for the first time, and whose it is."""
        self._effects.append(Append(event, request))

    def doubts(self, request: Request, version: Position) -> bool:
        """Whether an answer that writes nothing, found at this version, has to be confirmed. If so, that is asked for."""
        left_behind = "" < request.etag < version  # for good: the key has gone past the demanded version
        if request.confirmed or left_behind or not self._shared():
            return False
        request.doubted = True
        self._effects.append(Confirm(request))
        return True

    def settle(self, request: Request, answer: Result | PolicyError) -> None:
        """A request has its answer, and with it its repeats."""
        self._effects.append(Settled(request, answer))
        if request.stream is not None:
            request.leave_stream()
        if request.repeats:
            replayed = answer._replace(replayed=True) if isinstance(answer, Result) else answer
            self._effects.extend(Settled(repeat, replayed) for repeat in request.repeats)
            request.repeats = []

    def take_effects(self) -> list[Effect]:
        """The effects since the last time, in order."""
        effects, self._effects = self._effects, []
        return effects
