"""The request to a chain, an update or a delete, and its answer: a result, or an error.

Each error says what was not done, and what the caller can do about it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..changes.change import Change
from ..changes.constraints import Constraint
from ..errors import Kind, PolicyError, too_much
from ..fold.fold import KeyState
from ..names import PolicyKey
from ..policies.documents import Document
from ..policies.events import Position, Remembered
from ..policies.facts import Facts
from ..reasons import Reason
from ..traces import NO_TRACE, TraceContext


class Outcome(enum.IntEnum):
    """How a request ended that did not fail. The numbers are those of ``ChangeOutcome``."""

    APPLIED = 1
    UNCHANGED = 2
    SKIPPED = 3
    WOULD_APPLY = 4
    """The request is a dry run, and would be applied."""


class Result(NamedTuple):
    """The answer to a request that did not fail."""

    outcome: Outcome
    document: Document | None
    version: Position
    previous: Position
    """The version that the request was applied to."""
    replayed: bool = False
    """Whether this is the answer to an earlier request with the same id, given again."""
    known: bool = True
    """Whether ``document`` is the one after the change. It may be no longer known when a repeat is answered."""
    before: Document | None = None
    """The document that the request was applied to."""
    before_known: bool = True
    """Whether ``before`` is that document. It is no longer known when a repeat of an applied request is answered."""


@dataclass(eq=False, slots=True)
class Request:
    """A validated update or delete. Requests are compared by identity."""

    key: PolicyKey
    change: Change | None
    """The change to apply; None deletes the document."""
    request_id: str
    digest: str
    """The digest of the request's body."""
    actor: str = ""
    """On whose behalf the principal calls: itself, or the caller of a proxy. Without a principal, the name that the caller gave."""
    reason: str = ""
    """The reason that the caller gave."""
    version: Position = ""
    """The version that the document, or its absence, must have; "": any."""
    exists: bool | None = None
    """Whether there must be a document (True), or must be none (False); None: either."""
    include_previous: bool = False
    """Whether the answer shows the document before the change."""
    skip_if_absent: bool = False
    validate_only: bool = False
    principal: str = ""
    """The principal whose credentials were verified; empty: no credentials were asked for."""
    claimed: str = ""
    """The name that the caller gave, where it is not the actor's."""
    owner: str = ""
    """The owner of the declaration that the request carries out; empty: it carries out none."""
    trace: TraceContext = NO_TRACE
    """The trace of the call."""
    facts: Facts | None = None
    """What was known of the cluster when the request arrived; None: nothing."""
    constraints: Sequence[Constraint] = ()
    """What an operator allows the document to become."""
    on_answer: Callable[[Request, Result | PolicyError], None] | None = None
    """Called with the answer by the namespace that the request was handed to, which sets it."""
    repeats: list[Request] = field(default_factory=list)
    """Later requests with the same id, which get the same answer."""
    batch: dict[PolicyKey, int] | None = None
    """In a batch, the same for all its requests: by key, the ``number`` of the last one that has had an event."""
    number: int = 0
    """Counts the requests of a sequencer in the order in which they came; 0: it did not come to one."""
    attempts: int = 0
    began: float = 0.0
    """When the request was handed to its namespace, in seconds by the clock that stages are measured with."""
    appended_at: float = 0.0
    """When its event was handed to the log for the first time, by the same clock; 0: it was not."""
    checked_version: Position = ""
    """The key's version when the request was known not to be the repeat of an applied one: while the key has it, it is none."""
    asked_number: int = 0
    """The number of the last request that had come when an answer was found that writes nothing, on a view that may have been behind the
    log; 0: none was."""
    confirmed: bool = False
    """Whether the view has since come to where the log ended after the request had arrived."""
    given_up: bool = False
    """Whether the caller has stopped waiting for the answer."""

    @property
    def submitted(self) -> bool:
        """Whether the request was handed to a namespace."""
        return self.on_answer is not None

    @property
    def conditional(self) -> bool:
        """Whether the request can be computed only when the version before it is known."""
        return self.version != "" or self.exists is False

    @property
    def abandoned(self) -> bool:
        """Whether no caller waits for this request or for a repeat of it. If so, it is not computed or appended again."""
        return self.given_up and all(repeat.given_up for repeat in self.repeats)

    @property
    def overtaken_in_batch(self) -> bool:
        """Whether a later request of the same batch and key has had an event. If so, this one is not written any more: it fails instead."""
        return self.batch is not None and self.batch.get(self.key, 0) > self.number


def repeated(request: Request, state: KeyState | None, remembered: Remembered) -> Result | PolicyError:
    """Returns the answer to the repeat of a request that was applied; an error if the repeat has another body.

    The document is known only while it is still the head.
    """
    if remembered.digest != request.digest:
        return reused(request)
    document, known = (state.document, True) if state is not None and state.version == remembered.version else (None, False)
    return Result(Outcome.APPLIED, document, remembered.version, remembered.previous, replayed=True, known=known, before_known=False)


def unknown_outcome(request_id: str, last: PolicyError | None = None) -> PolicyError:
    """DEADLINE_EXCEEDED: the change may have been made, or may yet be. ``request_id`` "": it is not known.

    ``last``: the error of the last attempt at it, if an earlier one may have made it.
    """
    message = "The change may have been made: repeat the request with the same id to learn what happened."
    if last is not None:
        message += f" The last attempt was refused: {last.message}"
    metadata = {"request_id": request_id} if request_id else {}
    return PolicyError(Kind.DEADLINE_EXCEEDED, Reason.OUTCOME_UNKNOWN, message, metadata=metadata)


def _not_applied(request: Request, sentence: str) -> PolicyError:
    return PolicyError(Kind.UNAVAILABLE, Reason.NOT_APPENDED, sentence, metadata={"request_id": request.request_id})


def not_appended(request: Request) -> PolicyError:
    """UNAVAILABLE: the request is certainly not applied, and it is not computed again."""
    return _not_applied(request, f"The change log did not accept this update of {request.key.topic}, and others have followed: try again.")


def not_in_time(request: Request, *, read: bool = True) -> PolicyError:
    """UNAVAILABLE: the request's time is over, and it is certainly not applied. ``read``: its namespace has been read."""
    why = "" if read else ", because its namespace has not been read yet"
    return _not_applied(request, f"{request.key.topic} could not be changed in time{why}, and nothing was changed: try again.")


def not_confirmed(request: Request, why: str) -> PolicyError:
    """UNAVAILABLE: it is not known whether there is something to write, and nothing was written."""
    problem = f"it is not known whether anything must change: {why.rstrip('.')}. Nothing was done: try again."
    return _not_applied(request, f"{request.key.topic}: {problem}")


def nothing_is_written(namespace: str) -> PolicyError:
    """FAILED_PRECONDITION: this server is read-only."""
    return PolicyError(
        Kind.FAILED_PRECONDITION,
        Reason.READ_ONLY,
        f"This server writes nothing, so {namespace} can't be changed here: use a server that writes.",
        metadata={"namespace": namespace},
    )


def conflict(request: Request, version: Position) -> PolicyError:
    """ABORTED: the precondition of the request does not hold. ``version``: that of the document, or of its absence."""
    of = f"{request.key.topic} ({request.key.scope.name})"
    if request.version:
        problem = f"{of} is at version {version}, not at {request.version}: read it again and decide anew."
    elif request.exists:
        problem = f"{of} has no document, and its absence has the version {version}: read it again and decide anew."
    else:
        problem = f"{of} already has a document, of version {version}: read it and decide anew."
    metadata = {"topic": request.key.topic, "scope": request.key.scope.name, "version": version}
    return PolicyError(Kind.ABORTED, Reason.PRECONDITION_FAILED, problem, metadata=metadata)


def contention(request: Request, attempts: int) -> PolicyError:
    """ABORTED: other writers changed what the update reads, each time it was computed."""
    return PolicyError(
        Kind.ABORTED,
        Reason.CONTENTION,
        f"Other writers changed what this update of {request.key.topic} reads {attempts} times in a row: try again later.",
        metadata={"topic": request.key.topic, "scope": request.key.scope.name},
    )


def too_many(request: Request, queue: int) -> PolicyError:
    """RESOURCE_EXHAUSTED: as many updates wait as may (``queue``)."""
    problem = f"{queue} updates of {request.key.topic} already wait: send fewer at once."
    return too_much("max_waiting_per_key", queue, problem)


def reused(request: Request) -> PolicyError:
    """INVALID_ARGUMENT: the request id was used before, with another body."""
    problem = (
        f"The request id {request.request_id} was used before for {request.key.topic} with another body: a new request needs a new id."
    )
    return PolicyError(Kind.INVALID_ARGUMENT, Reason.REQUEST_ID_REUSED, problem)
