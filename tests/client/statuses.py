"""Statuses of failed calls, as the service sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2

from topicpolicies.errors import DOMAIN, TopicPoliciesError, from_status

Code = grpc.StatusCode


class Refusal(NamedTuple):
    """A status with its details."""

    code: grpc.StatusCode
    message: str = "It does not work."
    reason: str = ""
    """The reason in ``google.rpc.ErrorInfo``; empty: there is none."""
    metadata: Mapping[str, str] = {}
    violations: Sequence[tuple[str, str, str]] = ()
    domain: str = DOMAIN
    retry_seconds: float | None = None
    """The delay in ``google.rpc.RetryInfo``; None: there is none."""

    @property
    def details(self) -> list[AnyMessage]:
        packed = []
        if self.reason:
            info = error_details_pb2.ErrorInfo(reason=self.reason, domain=self.domain, metadata=self.metadata)
            packed.append(_packed(info))
        if self.violations:
            request = error_details_pb2.BadRequest()
            for field, reason, description in self.violations:
                request.field_violations.add(field=field, reason=reason, description=description)
            packed.append(_packed(request))
        if self.retry_seconds is not None:
            again = error_details_pb2.RetryInfo()
            again.retry_delay.FromNanoseconds(int(self.retry_seconds * 1e9))
            packed.append(_packed(again))
        return packed

    @property
    def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        if not self.details:
            return (("x-other", "1"),)
        status = status_pb2.Status(code=self.code.value[0], message=self.message, details=self.details)
        return (("x-other", "1"), ("grpc-status-details-bin", status.SerializeToString()))

    @property
    def error(self) -> TopicPoliciesError:
        """The exception that the client raises for it."""
        return from_status(self.code.value[0], self.message, self.details)


BROKEN = Refusal(Code.UNAVAILABLE, "Socket closed")
"""The status of a call whose connection breaks."""


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.BadRequest | error_details_pb2.RetryInfo) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed
