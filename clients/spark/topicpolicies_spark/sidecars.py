"""How a sidecar is asked for its history, and which namespaces it is asked for."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

from .brokers import Brokers
from .options import Options

_SECONDS = 60
_TRIES = 6
_FIRST_PAUSE_SECONDS = 0.3


class Sidecar:
    """One connection. Blocking; what fails for a moment is tried again for some seconds."""

    def __init__(self, options: Options) -> None:
        self._options = options
        if options.ca_file:
            credentials = grpc.ssl_channel_credentials(Path(options.ca_file).read_bytes())
            self._channel = grpc.secure_channel(options.address, credentials)
        else:
            self._channel = grpc.insecure_channel(options.address)
        self._stub = TopicPoliciesServiceStub(self._channel)

    def question(self, namespace: str, order: service_pb2.HistoryOrder.ValueType) -> service_pb2.ListHistoryRequest:
        """What is asked of a namespace, by the options' times."""
        request = service_pb2.ListHistoryRequest(namespace=namespace, order=order)
        if self._options.since is not None:
            request.start_time.FromMicroseconds(self._options.since)
        if self._options.until is not None:
            request.end_time.FromMicroseconds(self._options.until)
        return request

    def ask(self, request: service_pb2.ListHistoryRequest) -> service_pb2.ListHistoryResponse:
        """A page.

        Raises:
            grpc.RpcError: the sidecar can't be reached, keeps no history, or refuses.
        """
        pause = _FIRST_PAUSE_SECONDS
        for left in reversed(range(_TRIES)):
            try:
                answer: service_pb2.ListHistoryResponse = self._stub.ListHistory(request, timeout=_SECONDS)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or not left:
                    raise
            else:
                return answer
            time.sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._channel.close()


def namespaces_of(options: Options) -> list[str]:
    """The namespaces that are asked for: those that are named, else, as brokers know them, those of the tenants.

    Raises:
        httpx.HTTPError: the brokers do not answer.
    """
    if options.namespaces:
        return sorted(name for name in options.namespaces if options.includes(name))
    with Brokers(options) as brokers:
        return brokers.namespaces()
