"""Sends planned steps over one stream of changes: first all of them to be checked, then to be made, until one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from grpc import StatusCode

from topicpolicies import (
    REDACTED,
    Client,
    DeleteOutcome,
    DeleteResult,
    Deletion,
    OutcomeUnknown,
    TopicPolicies,
    TopicPoliciesError,
    Update,
    UpdateOutcome,
    UpdateResult,
)
from topicpolicies.errors import outcome_unknown
from topicpolicies.masks import parse_path
from topicpolicies.options import ChangeOptions
from topicpolicies.requests import new_request_id

from ..interrupts import interruptible, winding_up
from ..showing.differences import Difference, between
from .planning import Key, Step

IN_FLIGHT = 100
"""The most changes in flight. Up to this many may still be made after one has failed."""


class Planned(NamedTuple):
    """A step that the server accepts."""

    step: Step
    after: TopicPolicies | None
    """The document after the step; None: the step deletes it."""

    @property
    def differences(self) -> list[Difference]:
        """The leaves that the step changes. A secret that is replaced looks the same before and after."""
        found = between(self.step.document.policies, self.after)
        return found or [Difference(parse_path(path), REDACTED, REDACTED) for path in self.step.mask]

    def json(self) -> dict[str, Any]:
        """Returns the step for programs."""
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
    """The outcome of planned steps. A step that is in neither dictionary was not sent."""

    done: dict[Key, str]
    """The versions of the documents that were changed."""
    failed: dict[Key, TopicPoliciesError]
    interrupted: bool = False
    """Whether an interrupt kept steps from being sent or answered."""


def validated(client: Client, todo: Sequence[Step]) -> Iterator[Planned | Invalid]:
    """Yields the server's answer to each step. Steps that would change nothing are left out."""
    answers = {settled.sequence: settled for settled in client.update_many(_change(step, validate_only=True) for step in todo)}
    for number, step in enumerate(todo):
        settled = answers[number]
        if settled.error is not None:
            yield Invalid(step, settled.error)
        elif (result := settled.unwrap()).outcome not in (UpdateOutcome.UNCHANGED, DeleteOutcome.ABSENT):
            yield Planned(step, _after(result))


def make(
    client: Client, planned: Sequence[Planned], *, actor: str, reason: str, report: Callable[[Planned, str], object] = lambda *_: None
) -> Applied:
    """Sends the changes: updates first, then deletions. Nothing more is sent once a change has failed, or after an interrupt.

    After an interrupt the changes in flight may still be answered for a moment (``winding_up``). Those that are not answered have failed
    with ``OutcomeUnknown``.

    Args:
        client: the client to send with.
        planned: the steps.
        actor: who requests the changes, for the log.
        reason: why, for the log.
        report: called with each step that was made, and the version of its document.
    """
    applied = Applied({}, {})
    sent: dict[Key, str] = {}
    ended = False
    try:
        with interruptible(), winding_up() as asked:
            for deletes in (False, True):
                _send(client, [each for each in planned if each.step.deletes is deletes], applied, sent, asked, actor, reason, report)
            ended = asked()
    except KeyboardInterrupt:
        ended = True
        for key, request_id in sent.items():
            if key not in applied.done and key not in applied.failed:
                applied.failed[key] = _unanswered(request_id)
    return applied._replace(interrupted=ended and len(applied.done) < len(planned))


def _unanswered(request_id: str) -> OutcomeUnknown:
    return outcome_unknown(TopicPoliciesError("The command was interrupted before the answer came.", code=StatusCode.CANCELLED), request_id)


def _send(
    client: Client,
    planned: Iterable[Planned],
    applied: Applied,
    sent: dict[Key, str],
    asked: Callable[[], bool],
    actor: str,
    reason: str,
    report: Callable[[Planned, str], object],
) -> None:
    here: list[Planned] = []

    def changes() -> Iterator[Update | Deletion]:
        for each in planned:
            if applied.failed or asked():
                return
            here.append(each)
            sent[each.step.key] = new_request_id()
            yield _change(each.step, actor=actor, reason=reason, request_id=sent[each.step.key])

    try:
        for settled in client.update_many(changes(), max_in_flight=IN_FLIGHT):
            each = here[settled.sequence]
            if settled.error is not None:
                applied.failed[each.step.key] = settled.error
            else:
                applied.done[each.step.key] = settled.unwrap().version
                report(each, settled.unwrap().version)
    except TopicPoliciesError:
        if not applied.failed:  # else each change in flight has an error of its own
            raise


def _change(step: Step, *, validate_only: bool = False, actor: str = "", reason: str = "", request_id: str = "") -> Update | Deletion:
    """Returns the request of a step, with the version that was read as its etag."""
    document = step.document
    options = ChangeOptions(
        scope=document.scope, etag=document.version, validate_only=validate_only, actor=actor, reason=reason, request_id=request_id
    )
    if step.deletes:
        return Deletion(document.topic, **options)
    return Update(document.topic, step.values, mask=step.mask, **options)


def _after(result: UpdateResult | DeleteResult) -> TopicPolicies | None:
    if isinstance(result, DeleteResult) or result.document is None:
        return None
    return result.document.policies
