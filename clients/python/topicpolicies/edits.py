"""Editing a document: makes the smallest update that turns a document into its edited copy.

The update carries the version of the document as its etag, so it applies only if no other writer changed the document meanwhile. Its mask
names what differs: leaves of objects that both have, single entries of maps, lists as a whole.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from inspect import isawaitable

from .arguments import instance
from .documents import Document, Scope
from .errors import Conflict, Violation, invalid
from .masks import paths_between
from .requests import update_request
from .results import UpdateOutcome, UpdateResult
from .retries import RetryPolicy
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies

_MOST_ATTEMPTS = 16
"""How often an edit is attempted at most, when another writer changes the document during each attempt."""
_PAUSES = RetryPolicy(first_delay_seconds=0.01, longest_delay_seconds=0.5)
"""The pauses between these attempts: short at first, because the other writer's change is made already."""


def copy_of(document: Document) -> TopicPolicies:
    """Returns a copy of a document's policies, to be edited; an empty one if the document is absent."""
    copy = TopicPolicies()
    if document.policies is not None:
        copy.CopyFrom(document.policies)
    return copy


def check_returned(returned: object, policies: TopicPolicies) -> None:
    """Checks what an edit returned: other policies, or a coroutine that is not awaited, would be dropped silently.

    Args:
        returned: what the caller's function returned.
        policies: the copy that the function was called with.

    Raises:
        InvalidArgument: the function returned other policies, or a coroutine.
    """
    if isawaitable(returned):
        if isinstance(returned, Coroutine):
            returned.close()  # or else Python warns that it was never awaited
        problem = "Client does not await the function of an edit: give it one that is no coroutine function, or use AsyncClient."
        raise invalid("RETURNED_COROUTINE", Violation("change", "RETURNED_COROUTINE", problem))
    if isinstance(returned, TopicPolicies) and returned is not policies:
        problem = "An edit changes the policies that it receives; the policies that it returned are not sent."
        raise invalid("RETURNED_POLICIES", Violation("change", "RETURNED_POLICIES", problem))


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """What to edit, and how: the topic, and the options of ``EditOptions``."""

    topic: str
    scope: Scope = Scope.LOCAL
    actor: str = ""
    reason: str = ""
    validate_only: bool = False
    include_previous: bool = False
    skip_if_absent: bool = False
    start: Document | None = None

    def __post_init__(self) -> None:
        """Checks that ``start`` is a document."""
        if self.start is not None:
            instance(self.start, Document, "start")

    def skips(self, document: Document) -> bool:
        """Returns whether there is nothing to edit."""
        return self.skip_if_absent and not document.exists

    def request(self, document: Document, edited: TopicPolicies) -> service_pb2.UpdatePolicyRequest | None:
        """Makes the update that turns a document into its edited copy, provided that it has not changed since; None: nothing to send."""
        paths = paths_between(document.policies or TopicPolicies(), edited)
        if not paths or self.skips(document):
            return None
        return update_request(
            self.topic,
            edited,
            mask=paths,
            scope=self.scope,
            etag=document.version,
            actor=self.actor,
            reason=self.reason,
            validate_only=self.validate_only,
            include_previous=self.include_previous,
        )

    def unsent(self, document: Document) -> UpdateResult:
        """Returns the result of an edit for which nothing was sent."""
        outcome = UpdateOutcome.SKIPPED if self.skips(document) else UpdateOutcome.UNCHANGED
        previous = document if self.include_previous else None
        return UpdateResult(document, document.version, document.version, previous, outcome, "")


class EditAttempts:
    """Bounds the attempts of one edit, in number and in time."""

    def __init__(self, deadline: float) -> None:
        """``deadline``: when the edit's time is over, by the clock whose ``now`` the methods take."""
        self._deadline = deadline
        self._conflicts = 0
        self.at_least = ""
        """The version that the document of the next attempt must have reached; empty: any."""

    def left(self, now: float) -> float:
        """Returns how long the next call may take, in seconds."""
        return max(self._deadline - now, 0.0)

    def after_conflict(self, conflict: Conflict, now: float, chance: float) -> float:
        """Returns how many seconds to wait before the next attempt, because another writer was faster.

        Raises:
            Conflict: the given one; there is no next attempt.
        """
        self._conflicts += 1
        pause = _PAUSES.delay(self._conflicts, chance)
        if self._conflicts == _MOST_ATTEMPTS or now + pause >= self._deadline:
            raise conflict
        self.at_least = conflict.metadata.get("version", "")
        return pause
