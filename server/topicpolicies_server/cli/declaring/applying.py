"""Sends planned steps in batches: first all of them to be checked, then to be made, until one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from grpc import StatusCode

from topicpolicies import (
    CHANGE_OUTCOME_UNCHANGED,
    REDACTED,
    Client,
    OutcomeUnknown,
    TopicPolicies,
    TopicPoliciesError,
    delete_request,
    update_request,
)
from topicpolicies.masks import parse_path
from topicpolicies.requests import ChangeOptions
from topicpolicies.v1.service_pb2 import DeletePolicyRequest, UpdatePolicyRequest

from ..interrupts import interruptible, winding_up
from ..showing.rendering import Difference, between, policies_of, scope_name
from .planning import Key, Step

if TYPE_CHECKING:
    from ..broker_client import BrokerClient

BATCH = 100
"""The changes of one batch. Up to this many may still be made after one has failed."""


class Planned(NamedTuple):
    """A step that the server accepts."""

    step: Step
    after: TopicPolicies | None
    """The document after the step; None: the step deletes it."""

    @property
    def differences(self) -> list[Difference]:
        """The leaves that the step changes. A secret that is replaced looks the same before and after."""
        found = between(policies_of(self.step.document), self.after)
        return found or [Difference(parse_path(path), REDACTED, REDACTED) for path in self.step.mask]

    def json(self) -> dict[str, Any]:
        """Returns the step for programs."""
        document = self.step.document
        return {
            "topic": document.topic,
            "scope": scope_name(document),
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


def validated(client: Client | BrokerClient, todo: Sequence[Step]) -> Iterator[Planned | Invalid]:
    """Yields the server's answer to each step. Steps that would change nothing are left out."""
    for step, (change, outcome) in zip(todo, client.batch(_change(step, validate_only=True) for step in todo), strict=True):
        answer = outcome
        if not isinstance(answer, TopicPoliciesError) and not answer.HasField("document"):
            _, answer = next(iter(client.batch([change])))  # the answer to the batch had no room for the document
        if isinstance(answer, TopicPoliciesError):
            yield Invalid(step, answer)
        elif answer.outcome != CHANGE_OUTCOME_UNCHANGED:
            yield Planned(step, policies_of(answer.document) if not step.deletes else None)


def make(
    client: Client | BrokerClient,
    planned: Sequence[Planned],
    *,
    actor: str,
    reason: str,
    report: Callable[[Planned, str], object] = lambda *_: None,
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
            in_order = sorted(planned, key=lambda each: each.step.deletes)
            while in_order and not applied.failed and not asked():
                deletes = in_order[0].step.deletes
                batch = [each for each in in_order[:BATCH] if each.step.deletes is deletes]
                in_order = in_order[len(batch) :]
                changes = [_change(each.step, actor=actor, reason=reason) for each in batch]
                sent |= {each.step.key: change.request_id for each, change in zip(batch, changes, strict=True)}
                for each, (_, outcome) in zip(batch, client.batch(changes), strict=True):
                    if isinstance(outcome, TopicPoliciesError):
                        applied.failed[each.step.key] = outcome
                    else:
                        applied.done[each.step.key] = outcome.version
                        report(each, outcome.version)
            ended = asked()
    except KeyboardInterrupt:
        ended = True
        for key, request_id in sent.items():
            if key not in applied.done and key not in applied.failed:
                told = "The command was interrupted before the answer came."
                applied.failed[key] = OutcomeUnknown(told, code=StatusCode.CANCELLED, request_id=request_id)
    return applied._replace(interrupted=ended and len(applied.done) < len(planned))


def _change(step: Step, *, validate_only: bool = False, actor: str = "", reason: str = "") -> UpdatePolicyRequest | DeletePolicyRequest:
    """Returns the request of a step, on condition that the document still has the version that was read."""
    document = step.document
    options = ChangeOptions(scope=document.scope, version=document.version, validate_only=validate_only, actor=actor, reason=reason)
    if step.deletes:
        return delete_request(document.topic, **options)
    return update_request(document.topic, step.values, mask=step.mask, **options)
