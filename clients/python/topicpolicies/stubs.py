"""The generated stub, with the client's own metadata on every call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Metadata: TypeAlias = tuple[tuple[str, str], ...]


class Told:
    """A method of a stub of either gRPC API that adds metadata to each of its calls."""

    def __init__(self, method: Any, metadata: Callable[[], Metadata]) -> None:
        self._method = method
        self._metadata = metadata

    def __call__(self, request: Any, timeout: float | None = None, metadata: Iterable[Any] | None = None, **options: Any) -> Any:
        """Makes the call."""
        return self._method(request, timeout=timeout, metadata=self._whole(metadata), **options)

    def with_call(self, request: Any, timeout: float | None = None, metadata: Iterable[Any] | None = None, **options: Any) -> Any:
        """See ``grpc.UnaryUnaryMultiCallable``."""
        return self._method.with_call(request, timeout=timeout, metadata=self._whole(metadata), **options)

    def future(self, request: Any, timeout: float | None = None, metadata: Iterable[Any] | None = None, **options: Any) -> Any:
        """See ``grpc.UnaryUnaryMultiCallable``."""
        return self._method.future(request, timeout=timeout, metadata=self._whole(metadata), **options)

    def _whole(self, metadata: Iterable[Any] | None) -> tuple[Any, ...]:
        return (*self._metadata(), *(metadata or ()))


class TellingChannel:
    """What a stub needs of a channel of either gRPC API."""

    def __init__(self, channel: Any, metadata: Callable[[], Metadata]) -> None:
        """``metadata``: what every call says; asked for each call."""
        self._channel = channel
        self._metadata = metadata

    def unary_unary(self, *arguments: Any, **options: Any) -> Told:
        """A method."""
        return Told(self._channel.unary_unary(*arguments, **options), self._metadata)

    def unary_stream(self, *arguments: Any, **options: Any) -> Told:
        """A method."""
        return Told(self._channel.unary_stream(*arguments, **options), self._metadata)

    def stream_stream(self, *arguments: Any, **options: Any) -> Told:
        """A method."""
        return Told(self._channel.stream_stream(*arguments, **options), self._metadata)
