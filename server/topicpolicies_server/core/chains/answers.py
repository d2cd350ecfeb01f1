"""Answers that need no event: the document already decides them, or an earlier request with the same id has them."""

from __future__ import annotations

from collections.abc import Iterator

from topicpolicies.v1.policies_pb2 import TopicPolicies

from .. import rules
from ..errors import PolicyError, Violation
from ..fold.fold import KeyState
from ..policies import documents
from ..policies.documents import LISTS, MAPS, MOST_ELEMENTS, Settings, elements, family
from ..policies.events import Position, Remembered
from ..policies.secrets import SETTING as OFFLOAD
from .refusals import conflict, reused, too_large, too_many_elements
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
        violations.append(too_large(request))
    elif size > MOST_ELEMENTS:  # an element has at least one byte
        violations += [too_many_elements(path, count) for path, count in crowded(before, after)]
    found = rules.judge(request.key, request.change, before, after, request.facts)
    if violations or found:
        return rules.refused(found, violations), None
    if (after or None) == (before or None):
        return Result(Outcome.UNCHANGED, before, version, version, before=before), after
    return None, after


def crowded(before: Settings | None, after: Settings) -> Iterator[tuple[str, int]]:
    """Yields the path of each list or map with more than ``MOST_ELEMENTS``, and their number, if a change has made it longer.

    A list that others have made too long can still be made shorter, and other settings can be changed beside it.

    Args:
        before: the document before the change.
        after: the document after the change.
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


def repeat_answer(state: KeyState | None, remembered: Remembered) -> Result:
    """Returns the answer to the repeat of a request that was applied. The document is known only while it is still the head."""
    known = state is not None and state.version == remembered.version
    document = state.document if known and state is not None else None
    return replay(document, remembered.version, remembered.previous, known=known)


def replay(document: Settings | None, version: Position, previous: Position, *, known: bool) -> Result:
    """Returns the answer to a repeat. ``known``: whether ``document`` is known to be the one after the first request."""
    return Result(Outcome.APPLIED, document, version, previous, replayed=True, known=known, before_known=False)


def repeated(request: Request, state: KeyState | None, remembered: Remembered) -> Result | PolicyError:
    """Returns the answer to the repeat of a request that was applied; an error if the repeat has another body."""
    return repeat_answer(state, remembered) if remembered.digest == request.digest else reused(request)
