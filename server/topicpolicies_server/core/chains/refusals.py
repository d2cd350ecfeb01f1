"""The errors that a chain answers with. Each message says what was not done, and what the caller can do about it."""

from __future__ import annotations

from ..errors import Kind, PolicyError, Violation, too_much
from ..policies import documents
from ..policies.events import Position
from ..reasons import Reason, ViolationReason
from .request import Request


def outcome_not_known(request: Request) -> PolicyError:
    """DEADLINE_EXCEEDED: the request may have been applied, or may yet be."""
    return PolicyError(
        Kind.DEADLINE_EXCEEDED,
        Reason.OUTCOME_UNKNOWN,
        "The update's place in the log is not known yet: repeat the request with the same id to learn what happened.",
        metadata={"request_id": request.request_id},
    )


def _not_applied(request: Request, sentence: str) -> PolicyError:
    return PolicyError(Kind.UNAVAILABLE, Reason.NOT_APPENDED, sentence, metadata={"request_id": request.request_id})


def not_appended(request: Request) -> PolicyError:
    """UNAVAILABLE: the request is certainly not applied, and it is not computed again."""
    return _not_applied(request, f"The change log did not accept this update of {request.key.topic}, and others have followed: try again.")


def not_in_time(request: Request) -> PolicyError:
    """UNAVAILABLE: the request's time is over, and it is certainly not applied."""
    return _not_applied(request, f"{request.key.topic} could not be changed in time, and nothing was changed: try again.")


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


def too_large(request: Request) -> Violation:
    """The document after the change would be larger than ``documents.MOST_BYTES``, for which its receivers have room."""
    problem = (
        f"The document of {request.key.topic} would have more than {documents.MOST_BYTES:,} bytes: name fewer subscriptions or clusters."
    )
    return Violation("policies", ViolationReason.DOCUMENT_TOO_LARGE, problem)


def too_many_elements(path: str, count: int) -> Violation:
    """A list or map of the document, named by its path, would have more elements than ``documents.MOST_ELEMENTS``."""
    problem = f"{path} would have {count:,} elements; at most {documents.MOST_ELEMENTS:,} are allowed: remove some first."
    return Violation(f"policies.{path}", ViolationReason.TOO_MANY_ELEMENTS, problem)


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
    problem = f"{queue} updates of {request.key.topic} already wait: send fewer at once, or raise max_waiting_per_key."
    return too_much("max_waiting_per_key", queue, problem)


def reused(request: Request) -> PolicyError:
    """INVALID_ARGUMENT: the request id was used before, with another body."""
    problem = (
        f"The request id {request.request_id} was used before for {request.key.topic} with another body: a new request needs a new id."
    )
    return PolicyError(Kind.INVALID_ARGUMENT, Reason.REQUEST_ID_REUSED, problem)
