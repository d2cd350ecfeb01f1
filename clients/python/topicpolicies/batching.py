"""Batches of changes: divides any number of changes into requests, and reads their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import grpc

from .errors import TopicPoliciesError, from_rpc_error, from_status
from .requests import ChangeRequest, complete
from .v1 import service_pb2

Outcome: TypeAlias = tuple[ChangeRequest, service_pb2.ChangeResult | TopicPoliciesError]
"""A change of a batch, and its result or its error."""

_MOST_CHANGES = 1_000
_MOST_BYTES = 3_000_000
"""How large a request may be: servers accept messages of 4 MiB."""


class Batch:
    """One request of a batch."""

    def __init__(self) -> None:
        self.request = service_pb2.BatchUpdatePoliciesRequest()
        self._changes: list[ChangeRequest] = []
        self._bytes = 0

    def add(self, change: ChangeRequest, actor: str) -> bool:
        """Adds a change, if there is room for it; returns whether there is."""
        sent = service_pb2.PolicyChangeRequest()
        own = sent.update if isinstance(change, service_pb2.UpdatePolicyRequest) else sent.delete
        own.CopyFrom(change)  # type: ignore[arg-type]
        complete(own, actor)
        size = sent.ByteSize() + 8
        if self._changes and (len(self._changes) == _MOST_CHANGES or self._bytes + size > _MOST_BYTES):
            return False
        self.request.changes.append(sent)
        self._changes.append(change)
        self._bytes += size
        return True

    def outcomes(self, response: service_pb2.BatchUpdatePoliciesResponse) -> Iterator[Outcome]:
        """Returns the outcome of each change."""
        for change, request_id, result in zip(self._changes, self._ids(), response.results, strict=True):
            error = result.error
            failed = result.WhichOneof("result") == "error"
            yield change, from_status(error.code, error.message, error.details, request_id) if failed else result.success

    def failed(self, error: grpc.RpcError) -> Iterator[Outcome]:
        """Returns the outcome of each change of a request that failed as a whole."""
        for change, request_id in zip(self._changes, self._ids(), strict=True):
            yield change, from_rpc_error(error, request_id)

    def _ids(self) -> Iterator[str]:
        for sent in self.request.changes:
            own = sent.update if sent.HasField("update") else sent.delete
            yield "" if own.validate_only else own.request_id


def batches(changes: Iterable[ChangeRequest], actor: str) -> Iterator[Batch]:
    """Divides changes into requests. ``actor``: that of changes that name none."""
    batch = Batch()
    for change in changes:
        if not batch.add(change, actor):
            yield batch
            batch = Batch()
            batch.add(change, actor)
    if batch.request.changes:
        yield batch
