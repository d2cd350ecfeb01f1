"""Editing a document: from a copy that was changed to the smallest update that says so.

The update carries the version that the copy was made of, so it counts only if nobody else changed the document meanwhile. The mask
names what differs: leaves of objects that are in both, single entries of maps, lists as a whole.
"""

from __future__ import annotations

from .documents import Document
from .errors import Conflict, Violation, invalid
from .masks import paths_between
from .requests import update_request
from .results import UpdateOutcome, UpdateResult
from .retries import RetryPolicy
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies

_MOST_RUNS = 16
"""How often an edit is tried at most when others are faster each time."""
_PAUSES = RetryPolicy(first_delay_seconds=0.01, longest_delay_seconds=0.5)
"""The pauses between these tries: short at first, since whoever was faster is done already."""


def copy_of(document: Document) -> TopicPolicies:
    """A copy to be edited; of an absent document, an empty one."""
    copy = TopicPolicies()
    if document.policies is not None:
        copy.CopyFrom(document.policies)
    return copy


def check_returned(returned: object, policies: TopicPolicies) -> None:
    """Refuses an edit that gives other policies back instead of changing the copy: they would be dropped without a word.

    Raises:
        InvalidArgument: it does.
    """
    if isinstance(returned, TopicPolicies) and returned is not policies:
        problem = "An edit changes the policies that it is given; those that it returned instead are not sent."
        raise invalid("RETURNED_POLICIES", Violation("change", "RETURNED_POLICIES", problem))


def edit_request(document: Document, edited: TopicPolicies, *, actor: str = "", reason: str = "") -> service_pb2.UpdatePolicyRequest | None:
    """The update that makes a document what its edited copy is, on the condition that it has not changed since; None if they agree."""
    paths = paths_between(document.policies or TopicPolicies(), edited)
    if not paths:
        return None
    return update_request(document.topic, edited, mask=paths, scope=document.scope, etag=document.version, actor=actor, reason=reason)


class Runs:
    """The runs of one edit, until nobody else was faster, or its time is over."""

    def __init__(self, deadline: float) -> None:
        """``deadline``: on the clock whose ``now`` is given to the methods."""
        self._deadline = deadline
        self._late = 0
        self.at_least = ""
        """The version that the next run's document must have reached; empty: any."""

    def left(self, now: float) -> float:
        """How long the next call may take, in seconds."""
        return max(self._deadline - now, 0.0)

    def late(self, conflict: Conflict, now: float, chance: float) -> float:
        """Somebody else was faster.

        Returns:
            Seconds to wait before the next run.

        Raises:
            Conflict: this one; there is no next run.
        """
        self._late += 1
        pause = _PAUSES.delay(self._late, chance)
        if self._late == _MOST_RUNS or now + pause >= self._deadline:
            raise conflict
        self.at_least = conflict.metadata.get("version", "")
        return pause


def unchanged(document: Document) -> UpdateResult:
    """The result of an edit that changed nothing, for which nothing was sent."""
    return UpdateResult(document, document.version, document.version, None, UpdateOutcome.UNCHANGED, "")
