"""The answers that need no event: the document already decides them, an earlier request with the same id has them, or it is an error.

Each error says what was not done, and what the caller can do about it.
"""

from __future__ import annotations

from collections.abc import Iterator

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..changes import constraints, rules
from ..errors import Kind, PolicyError, Violation, too_much
from ..fold.fold import KeyState
from ..policies import documents
from ..policies.documents import LISTS, MAPS, MOST_ELEMENTS, Settings, elements, family
from ..policies.events import Position, Remembered
from ..policies.secrets import SETTING as OFFLOAD
from ..reasons import Reason, ViolationReason
from .request import Outcome, Request, Result

_CONFIGURATIONS = "managed_ledger_extra_configurations"


def judge_request(request: Request, before: Settings | None, version: Position) -> tuple[Result | PolicyError | None, Settings | None]:
    """Judges a request against the document before it.

    Returns:
        The answer, if the request needs no event, else None; and the document that its event must carry (None deletes).
    """
    if (request.version and request.version != version) or (request.exists is not None and request.exists is (before is None)):
        return conflict(request, version), None
    if request.change is None:
        return (Result(Outcome.UNCHANGED, None, version, version) if before is None else None), None
    if before is None and request.skip_if_absent:
        return Result(Outcome.SKIPPED, None, version, version), None
    violations: list[Violation] = []
    after = request.change.applied(before, violations)
    size = documents.size(after)
    if size > documents.MOST_BYTES:
        most = f"{documents.MOST_BYTES:,} bytes"
        problem = f"The document of {request.key.topic} would have more than {most}: name fewer subscriptions or clusters."
        violations.append(Violation("policies", ViolationReason.DOCUMENT_TOO_LARGE, problem))
    elif size > MOST_ELEMENTS:  # an element has at least one byte
        for path, count in crowded(before, after):
            problem = f"{path} would have {count:,} elements; at most {MOST_ELEMENTS:,} are allowed: remove some first."
            violations.append(Violation(f"policies.{path}", ViolationReason.TOO_MANY_ELEMENTS, problem))
    if request.constraints:
        violations += constraints.violations(request.constraints, before, after)
    found = rules.judge(request.key, request.change.plan, before, after, request.facts)
    if violations or found:
        return rules.refused(found, violations), None
    if (after or None) == (before or None):
        return Result(Outcome.UNCHANGED, before, version, version, before=before), after
    return None, after


def crowded(before: Settings | None, after: Settings) -> Iterator[tuple[str, int]]:
    """Yields the path of each list or map with more than ``MOST_ELEMENTS``, and their number, if a change has made it longer.

    A list that others have made too long can still be made shorter, and other settings can be changed beside it.
    """
    old: Settings = before or {}
    if len(after) > MOST_ELEMENTS:
        for name in sorted(MAPS.intersection(map(family, after.keys() - old.keys()))):
            count = _entries(name, after)
            if count > MOST_ELEMENTS and count > _entries(name, old):
                yield name, count
    for name in sorted(LISTS):
        value = after.get(name, b"")
        if len(value) > MOST_ELEMENTS and value != old.get(name):
            count = len(elements(value))
            if count > MOST_ELEMENTS and count > len(elements(old.get(name, b""))):
                yield name, count
    offload = after.get(OFFLOAD, b"")
    if len(offload) > MOST_ELEMENTS and offload != old.get(OFFLOAD):
        count = _configurations(offload)
        if count > MOST_ELEMENTS and count > _configurations(old.get(OFFLOAD, b"")):
            yield f"{OFFLOAD}.{_CONFIGURATIONS}", count


def _entries(name: str, settings: Settings) -> int:
    return sum(family(setting) == name for setting in settings)


def _configurations(offload: bytes) -> int:
    return len(TopicPolicies.FromString(offload).offload_policies.managed_ledger_extra_configurations)


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
