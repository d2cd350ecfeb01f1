"""Editing a document: makes the smallest update that turns it into its edited copy, and applies only if no other writer was faster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Unpack

from .errors import PreconditionFailed
from .masks import paths_between
from .requests import EditOptions, update_request
from .v1 import service_pb2
from .v1.policies_pb2 import SCOPE_LOCAL, PolicyDocument, TopicPolicies

_MOST_ATTEMPTS = 16


class Edit:
    """One edit: what to send for a document, and how often. ``Client.edit`` documents the arguments."""

    def __init__(self, topic: str, change: Callable[[TopicPolicies], object], timeout: float, **options: Unpack[EditOptions]) -> None:
        self._topic = topic
        self._change = change
        self._until = time.monotonic() + timeout
        self._options = options
        self._attempts = 0
        self.scope = options.get("scope", SCOPE_LOCAL)
        self.at_least_version = ""
        """The version that the document of the next attempt must have reached; empty: any."""

    @property
    def left(self) -> float:
        """How long the next call may take, in seconds."""
        return max(self._until - time.monotonic(), 0.0)

    def request(self, document: PolicyDocument) -> service_pb2.UpdatePolicyRequest | service_pb2.ChangeResult:
        """Makes the update that turns a document into its edited copy; if there is nothing to send, the result."""
        self._attempts += 1
        outcome, paths, edited = service_pb2.CHANGE_OUTCOME_UNCHANGED, list[str](), TopicPolicies()
        if self._options.get("skip_if_absent") and not document.HasField("policies"):
            outcome = service_pb2.CHANGE_OUTCOME_SKIPPED
        else:
            edited.CopyFrom(document.policies)
            returned: Any = self._change(edited)
            if hasattr(returned, "__await__") or (isinstance(returned, TopicPolicies) and returned is not edited):
                raise TypeError("an edit changes the policies that it is called with; what it returns is neither sent nor awaited")
            paths = paths_between(document.policies, edited)
        if not paths:
            previous = document if self._options.get("include_previous") else None
            version = document.version
            return service_pb2.ChangeResult(
                document=document, previous=previous, version=version, previous_version=version, outcome=outcome
            )
        return update_request(self._topic, edited, mask=paths, version=document.version, **self._options)

    def pause(self, error: PreconditionFailed) -> float:
        """Returns how many seconds to wait before the next attempt, because another writer was faster.

        Raises:
            PreconditionFailed: ``error``: there is no next attempt.
        """
        pause: float = min(0.01 * (1 << self._attempts), 0.5) * random.uniform(0.5, 1)
        if self._attempts == _MOST_ATTEMPTS or pause >= self.left:
            raise error
        self.at_least_version = error.metadata.get("version", "")
        return pause
