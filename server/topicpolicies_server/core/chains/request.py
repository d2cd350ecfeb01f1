"""What is asked of a chain, and what is answered."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..changes.change import Change
from ..errors import PolicyError
from ..names import PolicyKey
from ..policies.documents import Settings
from ..policies.events import Position
from ..policies.facts import Facts
from ..traces import NO_TRACE, TraceContext, Trail


class Outcome(enum.Enum):
    """What became of a request that did not fail."""

    __hash__ = object.__hash__  # its own goes by way of the name, and is slow

    APPLIED = 1
    UNCHANGED = 2
    SKIPPED = 3
    WOULD_APPLY = 4
    """Of a dry run: it would be applied."""


class Result(NamedTuple):
    """The answer to a request that did not fail."""

    outcome: Outcome
    document: Settings | None
    version: Position
    previous: Position
    """The version that it was applied to."""
    replayed: bool = False
    """Whether it is the answer to an earlier request of the same id, given again."""
    known: bool = True
    """Whether ``document`` is the one after the change; a repeat may come too late for that."""
    before: Settings | None = None
    """The document that it was applied to."""
    before_known: bool = True
    """Whether ``before`` is that document; a repeat comes too late for that."""


def _nobody(request: Request, answer: Result | PolicyError) -> None:
    """Nobody is told."""


@dataclass(eq=False, slots=True)
class Request:
    """An update or a delete, once it is validated. Compared by identity."""

    key: PolicyKey
    change: Change | None
    """What to change; None deletes."""
    request_id: str
    digest: str
    """Of the request's body."""
    actor: str = ""
    """For whom the principal calls; if there is none, who the caller says that it is."""
    reason: str = ""
    """Why, in the requester's words."""
    etag: Position = ""
    """The version that the document, or its absence, must have; "" is any."""
    must_not_exist: bool = False
    include_previous: bool = False
    """Whether its answer shows the document before."""
    skip_if_absent: bool = False
    validate_only: bool = False
    principal: str = ""
    """Whose credentials the caller has; empty: nobody's were asked for."""
    claimed: str = ""
    """Who the caller says that it is, where that is not the actor."""
    trace: TraceContext = NO_TRACE
    """In which trace it was asked for."""
    facts: Facts | None = None
    """What is known of the cluster, as of its arrival; None: nothing."""
    tell: Callable[[Request, Result | PolicyError], None] = _nobody
    """Whom to tell; called with the effect ``Settled``, not by the sequencer."""
    came: float = 0.0
    """When it came, by the clock of whoever handed it in; nothing here depends on it."""
    sequence: int = 0
    """If it came on a stream, its caller's number of it."""
    repeats: list[Request] = field(default_factory=list)
    """Requests of the same id that wait for this one's answer."""
    stream: dict[PolicyKey, list[Request]] | None = None
    """If it came on a stream, which keeps its order: by key, the stream's last request that has an event, and those that wait behind it."""
    followed: bool = False
    """Whether a later one of its stream and key has an event: it is not computed again."""
    attempts: int = 0
    trail: Trail | None = None
    """Where its stages are noted, if it is followed."""
    began: float = 0.0
    """When it was handed to its namespace, by the clock of whoever measures; 0: nobody does."""
    submitted_at: Position = ""
    """The key's version when it was submitted."""
    doubted: bool = False
    """Whether it was found that nothing is to be written for it, by a view that may have been behind the log."""
    confirmed: bool = False
    """Whether the view has since come to where the log ended after its arrival."""
    given_up: bool = False
    """Its caller does not wait for it any more."""
    answered: bool = False
    """Whether its caller has been told."""

    @property
    def submitted(self) -> bool:
        """Whether somebody is to be told its answer."""
        return self.tell is not _nobody

    @property
    def conditional(self) -> bool:
        """Whether the version before it must be known before it is computed."""
        return self.etag != "" or self.must_not_exist

    @property
    def unsure(self) -> bool:
        """Whether it waits to be confirmed."""
        return self.doubted and not self.confirmed

    @property
    def abandoned(self) -> bool:
        """Nobody waits for it, nor for a repeat of it: if its event is lost, it is not appended once more."""
        return self.given_up and all(repeat.given_up for repeat in self.repeats)

    @property
    def earlier_is_unsure(self) -> bool:
        """Whether one that came before it on its stream may still have to be written, and then first."""
        if self.stream is not None:
            for earlier in self.stream.get(self.key, ()):
                if earlier.doubted and not earlier.confirmed:
                    return True
        return False

    def wait_in_stream(self) -> None:
        """Notes that it waits without an event."""
        if self.stream is not None and self not in (waiting := self.stream.setdefault(self.key, [])):
            waiting.append(self)

    def follow_in_stream(self) -> None:
        """Notes that it has an event: those before it on its stream are not computed again, those behind it still wait."""
        if self.stream is None:
            return
        waiting = self.stream.get(self.key)
        if waiting is None:
            self.stream[self.key] = [self]
            return
        at = waiting.index(self) if self in waiting else len(waiting)
        for earlier in waiting[:at]:
            earlier.followed = True
        waiting[: at + 1] = [self]

    def leave_stream(self) -> None:
        """Notes that it has its answer."""
        if self.stream is None:
            return
        waiting = self.stream.get(self.key)
        if waiting is not None and self in waiting:
            if len(waiting) == 1:
                del self.stream[self.key]
            else:
                waiting.remove(self)
