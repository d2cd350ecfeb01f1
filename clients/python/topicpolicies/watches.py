"""Watches that outlive their streams: iterators over events, which connect again and resume from the last tokens."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Generic, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message

from .errors import TopicPoliciesError, Unavailable, from_rpc_error
from .names import namespace_of
from .requests import duration, several
from .v1 import service_pb2
from .v1.history_pb2 import WatchHistoryEvent, WatchHistoryRequest
from .v1.policies_pb2 import Scope
from .v1.service_pb2 import WatchEvent, WatchReset

_Event = TypeVar("_Event", bound=Message)
_LOG = logging.getLogger(__name__)
_FINAL = frozenset(
    grpc.StatusCode[name] for name in ("INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "FAILED_PRECONDITION")
)
"""The codes of a stream's end after which another stream is pointless."""
_STREAM_ENDED = "The service has ended the stream."
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0
_JOIN_SECONDS = 5.0


class Progress(Generic[_Event]):
    """The state of a watch of either kind, without I/O: what was yielded, where to resume, and how long to pause before that.

    Of a namespace without a token, a broken stream leaves a part of a snapshot behind, which begins again: the watch yields a reset first.
    """

    def __init__(self, request: Any, tokens: str, namespaces: Iterable[str], *, until_synced: bool, patience: float | None) -> None:
        """``tokens``: the field of the request that has the tokens."""
        self.request = request
        self._tokens: MutableMapping[str, str] = getattr(request, tokens)
        self._token_field = tokens.removesuffix("s")
        self.namespaces = tuple(namespaces)
        self._unsynced = set(namespaces)
        self._until_synced = until_synced
        self._patience = patience
        self._partial: set[str] = set()
        """Namespaces that have sent documents, but no token."""
        self._arrived: deque[Any] = deque()
        self._began = False
        """Whether the stream has sent anything."""
        self._failures = 0
        """Streams that ended since the last SYNCED."""
        self._down_since: float | None = None
        """When the last stream ended; None: there is one, or none was tried."""
        self.pause = 0.0
        """Seconds to wait before the next stream."""

    @property
    def tokens(self) -> dict[str, str]:
        """Where the watch stands behind the events that were taken, by namespace."""
        return dict(self._tokens)

    @property
    def complete(self) -> bool:
        """Whether every namespace is synced, all events were taken, and nothing else was wanted."""
        return self._until_synced and bool(self.namespaces) and not self._unsynced and not self._arrived

    def begin(self) -> Any:
        """Begins a stream; returns its request."""
        self._began = False
        for name in sorted(self._partial):
            reset = WatchReset(message=f"The snapshot of {name} broke off, and begins again.")
            self._arrived.append(WatchEvent(namespace=name, reset=reset))
        return self.request

    def received(self, events: Iterable[_Event]) -> None:
        """Takes a message of the stream."""
        self._began = True
        self._down_since = None
        self._arrived.extend(events)

    def next(self) -> _Event | None:
        """Takes the next event; None: none is at hand."""
        if not self._arrived:
            return None
        event = self._arrived.popleft()
        name: str = event.namespace
        match event.WhichOneof("content"):
            case "change" if name not in self._tokens:
                self._partial.add(name)
            case "bookmark" if event.bookmark.synced:
                self._unsynced.discard(name)
                self._failures = 0
            case "reset":
                self._tokens.pop(name, None)
                self._partial.discard(name)
                self._unsynced.add(name)
        token = getattr(event, self._token_field)
        if token:
            self._tokens[name] = token
            self._partial.discard(name)
        return cast("_Event", event)

    def ended(self, error: TopicPoliciesError) -> None:
        """Decides how long to pause before the next stream. All events of the stream must have been taken.

        Raises:
            TopicPoliciesError: ``error``: another stream is pointless, or patience is over.
        """
        self._failures += 1
        now = time.monotonic()
        self._down_since = now if self._down_since is None else self._down_since
        renewable = error.reason == "CREDENTIALS_EXPIRED" and self._began  # there may be a newer token
        if error.code in _FINAL and not renewable:
            raise error
        crowded = error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        most = _LONGEST_PAUSE if crowded else min(_FIRST_PAUSE * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE)
        self.pause = max(most * random.uniform(0.5, 1), error.retry_seconds)
        if self._patience is not None and now + self.pause - self._down_since > self._patience:
            raise error
        _LOG.info("the watch of %s goes on in %.1f s: %s", ", ".join(self.namespaces), self.pause, error)


def policy_progress(  # noqa: PLR0913 - options, by keyword
    *,
    topics: Iterable[str] = (),
    namespaces: Iterable[str] = (),
    scopes: Iterable[Scope.ValueType] = (),
    mode: service_pb2.WatchMode.ValueType = service_pb2.WATCH_MODE_LATEST,
    resume_tokens: Mapping[str, str] | None = None,
    include_previous: bool = False,
    bookmark_interval: float | None = None,
    until_synced: bool = False,
    patience: float | None = None,
) -> Progress[WatchEvent]:
    """Begins a watch of policies; ``Selection`` documents the arguments."""
    request = service_pb2.WatchPoliciesRequest(
        topics=several(topics, "topics"),
        namespaces=several(namespaces, "namespaces"),
        scopes=scopes,
        mode=mode,
        resume_tokens=resume_tokens,
        bookmark_interval=duration(bookmark_interval),
        include_previous=include_previous,
    )
    names = {*request.namespaces, *map(namespace_of, request.topics)}
    return Progress(request, "resume_tokens", names, until_synced=until_synced, patience=patience)


def history_progress(
    namespaces: Iterable[str],
    positions: Mapping[str, str] | None,
    *,
    bookmark_interval: float | None = None,
    until_synced: bool = False,
    patience: float | None = None,
    bookmark_every: int = 0,
) -> Progress[WatchHistoryEvent]:
    """Begins a watch of the history; ``HistoryWatchOptions`` documents the arguments."""
    names = several(namespaces, "namespaces")
    interval = duration(bookmark_interval)
    request = WatchHistoryRequest(namespaces=names, positions=positions, bookmark_interval=interval, bookmark_every=bookmark_every)
    return Progress(request, "positions", names, until_synced=until_synced, patience=patience)


class _BaseWatch(Generic[_Event]):
    """The common part of ``Watch`` and ``AsyncWatch``."""

    def __init__(self, method: Callable[..., Any], progress: Progress[_Event]) -> None:
        self._method = method
        self._progress = progress
        self._call: Any = None
        """The open stream; None: there is none."""
        self._closed = False
        self.namespaces = progress.namespaces
        """The namespaces that are watched, and those of watched topics."""

    @property
    def resume_tokens(self) -> dict[str, str]:
        """Where the watch stands behind the events that it has yielded, by namespace: save it after you have processed them."""
        return self._progress.tokens

    @property
    def positions(self) -> dict[str, str]:
        """The same, for a watch of the history."""
        return self._progress.tokens

    def _begin(self) -> None:
        self._call = self._method(self._progress.begin())
        if self._closed:  # another thread closed the watch when there was no call to cancel
            self._call.cancel()

    def _ended(self, error: TopicPoliciesError) -> None:
        self._call = None
        if self._closed:
            return
        try:
            self._progress.ended(error)
        except TopicPoliciesError:
            self._closed = True
            raise


class Watch(_BaseWatch[_Event], Iterator[_Event]):
    """An open watch: an iterator over its events. One thread may iterate; any thread may call ``close``."""

    def __init__(self, method: Callable[..., Any], progress: Progress[_Event]) -> None:
        super().__init__(method, progress)
        self._closing = threading.Event()
        self._stream_over = threading.Event()
        self._stream_over.set()
        self._stream_thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the watch; a thread that waits for its next event gets StopIteration, after what has arrived already."""
        self._closed = True
        self._closing.set()
        if self._call is not None:
            self._call.cancel()

    def _begin(self) -> None:
        super()._begin()
        self._stream_over.clear()
        if not self._call.add_callback(self._note_end):
            self._stream_over.set()

    def _note_end(self) -> None:
        self._stream_thread = threading.current_thread()
        self._stream_over.set()

    def join(self) -> None:
        """Waits for gRPC's thread that ends the stream: if it were stopped by the interpreter's exit, the stream's finalizer would hang."""
        if self._stream_over.wait(_JOIN_SECONDS) and self._stream_thread is not None:
            self._stream_thread.join(_JOIN_SECONDS)

    def __next__(self) -> _Event:
        while (event := self._progress.next()) is None and not self._closed:
            if self._progress.complete:
                self.close()
                break
            try:
                if self._call is not None:
                    self._progress.received(next(self._call).events)
                elif not self._closing.wait(self._progress.pause):
                    self._begin()
            except StopIteration:
                self._ended(Unavailable(_STREAM_ENDED, code=grpc.StatusCode.UNAVAILABLE))
            except grpc.RpcError as error:
                self._ended(from_rpc_error(error))
            except TopicPoliciesError as error:
                self._ended(error)
        if event is None:
            raise StopIteration
        return event


class AsyncWatch(_BaseWatch[_Event], AsyncIterator[_Event]):
    """An open watch: an async iterator over its events, for one task.

    A task that waits for the next event may be cancelled: the watch resumes, and no event is lost.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the watch; a task that waits for its next event gets StopAsyncIteration, after what has arrived already."""
        self._closed = True
        if self._call is not None:
            self._call.cancel()

    async def __anext__(self) -> _Event:
        while (event := self._progress.next()) is None and not self._closed:
            if self._progress.complete:
                await self.close()
                break
            try:
                if self._call is not None:
                    await self._receive()
                else:
                    await asyncio.sleep(self._progress.pause)
                    self._begin()
            except grpc.RpcError as error:
                self._ended(from_rpc_error(error))
            except TopicPoliciesError as error:
                self._ended(error)
        if event is None:
            raise StopAsyncIteration
        return event

    async def _receive(self) -> None:
        try:
            response = await self._call.read()
        except asyncio.CancelledError:
            self._call = None  # gRPC cancels the stream with the task
            if self._closed:
                return
            raise
        if response is grpc.aio.EOF:
            raise Unavailable(_STREAM_ENDED, code=grpc.StatusCode.UNAVAILABLE)
        self._progress.received(response.events)
