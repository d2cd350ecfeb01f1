"""Planned steps, as one stream of changes: all of them checked first, then made until one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from topicpolicies import (
    REDACTED,
    Client,
    DeleteOutcome,
    DeleteResult,
    Deletion,
    TopicPolicies,
    TopicPoliciesError,
    Update,
    UpdateOutcome,
    UpdateResult,
)
from topicpolicies.masks import parse_path

from ..showing.differences import Difference, between
from .planning import Key, Step

IN_FLIGHT = 100
"""Most changes on their way at once: as many may be made after one has failed."""


class Planned(NamedTuple):
    """A step that the server found valid."""

    step: Step
    after: TopicPolicies | None
    """The document as it will be; None: there will be none."""

    @property
    def differences(self) -> list[Difference]:
        """What will change. A secret that is replaced looks the same before and after."""
        found = between(self.step.document.policies, self.after)
        return found or [Difference(parse_path(path), REDACTED, REDACTED) for path in self.step.mask]

    def json(self) -> dict[str, Any]:
        """For programs."""
        document = self.step.document
        return {
            "topic": document.topic,
            "scope": document.scope.name,
            "version": document.version,
            "action": "delete" if self.step.deletes else "update",
            "update_mask": list(self.step.mask),
            "differences": [each.json() for each in self.differences],
        }


class Invalid(NamedTuple):
    """A step that the server refuses."""

    step: Step
    error: TopicPoliciesError


class Applied(NamedTuple):
    """What became of planned steps; what is in neither was not sent."""

    done: dict[Key, str]
    """The versions that were made."""
    failed: dict[Key, TopicPoliciesError]


def validated(client: Client, todo: Sequence[Step]) -> Iterator[Planned | Invalid]:
    """What the server says of each step; those that would change nothing are left out."""
    answers = {settled.sequence: settled for settled in client.update_many(_change(step, validate_only=True) for step in todo)}
    for number, step in enumerate(todo):
        settled = answers[number]
        if settled.error is not None:
            yield Invalid(step, settled.error)
        elif (result := settled.unwrap()).outcome not in (UpdateOutcome.UNCHANGED, DeleteOutcome.ABSENT):
            yield Planned(step, _after(result))


def make(
    client: Client, planned: Sequence[Planned], *, actor: str, reason: str, tell: Callable[[Planned, str], object] = lambda *_: None
) -> Applied:
    """Makes the changes: updates first, then deletions. Once one has failed, nothing more is sent.

    Args:
        client: how.
        planned: what.
        actor: who asks.
        reason: why.
        tell: called with each step that was done and the version that it made.
    """
    applied = Applied({}, {})
    for deletes in (False, True):
        _send(client, [each for each in planned if each.step.deletes is deletes], applied, actor, reason, tell)
    return applied


def _send(
    client: Client, planned: Iterable[Planned], applied: Applied, actor: str, reason: str, tell: Callable[[Planned, str], object]
) -> None:
    sent: list[Planned] = []

    def changes() -> Iterator[Update | Deletion]:
        for each in planned:
            if applied.failed:
                return
            sent.append(each)
            yield _change(each.step, actor=actor, reason=reason)

    try:
        for settled in client.update_many(changes(), max_in_flight=IN_FLIGHT):
            each = sent[settled.sequence]
            if settled.error is not None:
                applied.failed[each.step.key] = settled.error
            else:
                applied.done[each.step.key] = settled.unwrap().version
                tell(each, settled.unwrap().version)
    except TopicPoliciesError:
        if not applied.failed:  # else each that was on its way has its own error
            raise


def _change(step: Step, *, validate_only: bool = False, actor: str = "", reason: str = "") -> Update | Deletion:
    """A step, on the condition that the document is still as it was read."""
    document = step.document
    topic, scope, etag = document.topic, document.scope, document.version
    if step.deletes:
        return Deletion(topic, scope=scope, etag=etag, validate_only=validate_only, actor=actor, reason=reason)
    return Update(topic, step.values, mask=step.mask, scope=scope, etag=etag, validate_only=validate_only, actor=actor, reason=reason)


def _after(result: UpdateResult | DeleteResult) -> TopicPolicies | None:
    if isinstance(result, DeleteResult) or result.document is None:
        return None
    return result.document.policies
