"""The generated stub, with the client's own metadata on every call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Metadata: TypeAlias = tuple[tuple[str, str], ...]


class MethodWithMetadata:
    """A method of a stub, of either gRPC API, which adds the client's metadata to each of its calls."""

    def __init__(self, method: Any, metadata: Callable[[], Metadata]) -> None:
        self._method = method
        self._metadata = metadata

    def __call__(self, request: Any, timeout: float | None = None, metadata: Iterable[Any] | None = None, **options: Any) -> Any:
        """Makes the call; ``metadata`` is sent after the client's own."""
        return self._method(request, timeout=timeout, metadata=self._combined(metadata), **options)

    def with_call(self, request: Any, timeout: float | None = None, metadata: Iterable[Any] | None = None, **options: Any) -> Any:
        """See ``grpc.UnaryUnaryMultiCallable``."""
        return self._method.with_call(request, timeout=timeout, metadata=self._combined(metadata), **options)

    def future(self, request: Any, timeout: float | None = None, metadata: Iterable[Any] | None = None, **options: Any) -> Any:
        """See ``grpc.UnaryUnaryMultiCallable``."""
        return self._method.future(request, timeout=timeout, metadata=self._combined(metadata), **options)

    def _combined(self, metadata: Iterable[Any] | None) -> tuple[Any, ...]:
        return (*self._metadata(), *(metadata or ()))


class ChannelWithMetadata:
    """The part of a channel, of either gRPC API, that a stub needs; its methods add the client's metadata."""

    def __init__(self, channel: Any, metadata: Callable[[], Metadata]) -> None:
        """``metadata``: returns the metadata to add; called for each call."""
        self._channel = channel
        self._metadata = metadata

    def unary_unary(self, *arguments: Any, **options: Any) -> MethodWithMetadata:
        """See ``grpc.Channel``."""
        return MethodWithMetadata(self._channel.unary_unary(*arguments, **options), self._metadata)

    def unary_stream(self, *arguments: Any, **options: Any) -> MethodWithMetadata:
        """See ``grpc.Channel``."""
        return MethodWithMetadata(self._channel.unary_stream(*arguments, **options), self._metadata)

    def stream_stream(self, *arguments: Any, **options: Any) -> MethodWithMetadata:
        """See ``grpc.Channel``."""
        return MethodWithMetadata(self._channel.stream_stream(*arguments, **options), self._metadata)
