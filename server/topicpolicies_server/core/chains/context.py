"""What the chains of one namespace share: lookups of what is known outside of them, their limits, and the effects that they ask for."""

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
"""Default limit: events of one key that may be in flight."""
QUEUE = 10_000
"""Default limit: updates of one key that may wait to be computed or confirmed."""


class FoundEvent(NamedTuple):
    """What the fold made of an event that was read back while the log was opened anew (``Sequencer.reopened``)."""

    folded: Folded
    before: Settings | None
    """The document before the event."""
    after: Settings | None
    """The document after the event."""


class Append(NamedTuple):
    """Effect: hand an event to the log."""

    event: Event
    request: Request | None = None
    """The request of the event, if this is its first append; None: the event is appended once more, or is of no request (a restatement)."""


class Confirm(NamedTuple):
    """Effect: look up where the log ends, not before now; call ``Sequencer.confirmed`` once the view has come there."""

    request: Request


class Settled(NamedTuple):
    """Effect: a request has its answer."""

    request: Request
    answer: Result | PolicyError


Effect: TypeAlias = Append | Confirm | Settled


class ChainContext:
    """The lookups, limits and effects that the chains of one namespace share."""

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
        """Returns the record of an applied request with the same id; None: none is known."""
        remembered = state.remembers(request.request_id) if state is not None else None
        return remembered or self._applied(request.key, request.request_id)

    def append(self, event: Event, request: Request | None = None) -> None:
        """Adds the effect that hands an event to the log. ``request``: the event's request, if this is the first append."""
        self._effects.append(Append(event, request))

    def require_confirmation(self, request: Request, version: Position) -> bool:
        """Returns whether an answer that writes nothing, found at this version, must be confirmed; if so, adds the effect ``Confirm``."""
        left_behind = "" < request.version < version  # versions only grow: the demanded one never comes back
        if request.confirmed or left_behind or not self._shared():
            return False
        request.needs_confirmation = True
        self._effects.append(Confirm(request))
        return True

    def settle(self, request: Request, answer: Result | PolicyError) -> None:
        """Adds the effects that answer a request and its repeats."""
        self._effects.append(Settled(request, answer))
        if request.batch is not None:
            request.leave_batch()
        if request.repeats:
            replayed = answer._replace(replayed=True) if isinstance(answer, Result) else answer
            self._effects.extend(Settled(repeat, replayed) for repeat in request.repeats)
            request.repeats = []

    def take_effects(self) -> list[Effect]:
        """Returns the effects added since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects
