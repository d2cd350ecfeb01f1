"""The boundary to pulsar-client, a C++ library: the client, its readers and producers, its result codes, its threads and its log.

The library's public Python API blocks a thread per call, or wakes the event loop once per message. So this module uses the extension's own
asynchronous calls (``_pulsar``) one level below, which ``pulsar.asyncio`` wraps as well; ``tests/logs/pulsar/test_client.py`` checks that
the calls used here exist.

Rules that the library's threads impose:

- A callback must not raise: that ends the process. Callbacks here only hand their arguments to the event loop.
- A callback takes the interpreter's lock. Code that waits for the library's threads must not hold that lock, so clients are closed in
  threads that do nothing but wait, and before they are garbage-collected.
- A client does not survive ``fork``.

**Its log.** The library's own bridge to Python's logging calls back for every line, debug lines included, and takes the interpreter's lock
in threads that hold locks of the library: it costs a third of a reader's speed and can deadlock. So the library logs into a file instead,
which it filters by level, and that file is a pipe that a thread of this module reads. The library has one log per process, however many
clients there are.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import _pulsar

from ...core.errors import Kind
from ...core.names import SYSTEM_READER
from ...core.reasons import LogState, Reason
from ...tasks import DaemonThreads
from ..avro import Encoded
from ..change_log import LogError
from ..leadership import ProducerTaken
from .credentials import TlsOptions, TokenSource
from .ids import NOWHERE, MessageId

_log = logging.getLogger(__name__)
_library_log = logging.getLogger("topicpolicies_server.pulsar_client")
_CLOSING_SECONDS = 1.0
"""How long the closing of a client waits for readers and producers that are being closed."""
_being_closed: set[Future[None]] = set()
"""These readers and producers, of all clients of the process."""
_T = TypeVar("_T")

_OPERATION_SECONDS = 15
_CONNECT_SECONDS = 5
_EARLIEST = _pulsar.MessageId.earliest
_PIPES = Path("/dev/fd")
_LINE = re.compile(r"^[\d-]+ [\d:.]+ +[A-Z]+ +\[\d+\] ([^|]*)\| (.*)$")
_SECRETS = re.compile(r"(?i)\beyJ[\w-]+\.[\w-]+\.[\w-]*|(?<=bearer )\S+|(?<=token:)\S+")
_LONGEST_LINE = 2_000
_NOTHING_WRONG = "Cancel the pending reconnection due to the start timeout"
"""Logged for any connection that succeeded at once, when its connect timeout is over: the library starts that timer after it was
stopped."""
Result = _pulsar.Result
"""The library's result codes."""
OK = Result.Ok
SHARED = _pulsar.ProducerAccessMode.Shared
EXCLUSIVE = _pulsar.ProducerAccessMode.Exclusive
WAIT_FOR_EXCLUSIVE = _pulsar.ProducerAccessMode.WaitForExclusive
_PASSING = frozenset(
    {
        Result.BrokerMetadataError,
        Result.BrokerPersistenceError,
        Result.ConnectError,
        Result.LookupError,
        Result.NotConnected,
        Result.ReadError,
        Result.ServiceUnitNotReady,
        Result.Timeout,
        Result.TooManyLookupRequestException,
        Result.UnknownError,
    }
)
_MEANINGS: dict[Any, tuple[Reason | LogState, Kind, str]] = {
    Result.AuthenticationError: (LogState.ACCESS_DENIED, Kind.UNAVAILABLE, "the brokers do not know the sidecar"),
    Result.AuthorizationError: (LogState.ACCESS_DENIED, Kind.UNAVAILABLE, "the sidecar lacks the permission"),
    Result.ErrorGettingAuthenticationData: (LogState.ACCESS_DENIED, Kind.UNAVAILABLE, "the sidecar has no credentials"),
    Result.MemoryBufferIsFull: (
        Reason.LIMIT_REACHED,
        Kind.RESOURCE_EXHAUSTED,
        "more bytes are in flight than the client library allows, send fewer at once",
    ),
    Result.MessageTooBig: (Reason.NOT_EXPRESSIBLE, Kind.FAILED_PRECONDITION, "the event is larger than brokers accept"),
    Result.ProducerBusy: (LogState.FENCED, Kind.FAILED_PRECONDITION, "another client holds the exclusive producer"),
    Result.ProducerFenced: (LogState.FENCED, Kind.FAILED_PRECONDITION, "another client holds the exclusive producer"),
    Result.ProducerQueueIsFull: (Reason.LIMIT_REACHED, Kind.RESOURCE_EXHAUSTED, "too many events are in flight, send fewer at once"),
}
_TAKEN = frozenset({Result.ProducerFenced, Result.ProducerBusy})
"""Result codes with which a broker refuses an exclusive producer because there is another producer."""
_HOLDER = re.compile(r"existing exclusive producer: (.+)")
_SHARED = "existing shared producers"
_NOBODY = "null"


class Inbox(Generic[_T]):
    """A queue from any thread to the event loop, which is woken once however many items come until it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        """``wake`` is called on the loop when there may be items."""
        self.items: deque[_T] = deque()
        """What has come and was not taken yet, oldest first."""
        self._loop = loop
        self._wake = wake
        self._woken = False

    def put(self, item: _T) -> None:
        """Adds an item. Never raises and never waits; once the loop is closed, it is not woken any more."""
        self.items.append(item)
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed, so nothing is left to wake
                self._loop.call_soon_threadsafe(self._come)

    def _come(self) -> None:
        self._woken = False  # reset before the items are read: a later item is either seen now, or wakes the loop again
        self._wake()


def next_at_once(reader: Any) -> Any:
    """Returns the next message in a reader's queue; None if the queue is empty or the reader is closed."""
    try:
        return reader.read_next(0)
    except _pulsar.PulsarException:
        return None


class PulsarClient:
    """One connection pool to the brokers, with one thread for the sockets and one for callbacks of received messages.

    Requests raise ``LogError`` if the brokers refuse or do not answer in time, or if the client is closed.
    """

    def __init__(self, service_url: str, *, token: TokenSource | None = None, tls: TlsOptions | None = None) -> None:
        """Connects on first use. The arguments: as those of ``PulsarLog``; without a token, the certificate of ``tls`` authenticates."""
        configuration = _pulsar.ClientConfiguration()
        configuration.operation_timeout_seconds(_OPERATION_SECONDS)
        configuration.connection_timeout(_CONNECT_SECONDS * 1_000)
        configuration.io_threads(1)
        configuration.message_listener_threads(1)
        configuration.stats_interval_in_seconds(0)
        if (path := client_log_path()) is None:
            configuration.set_console_logger(_pulsar.LoggerLevel.Warn)
        else:
            configuration.set_file_logger(_pulsar.LoggerLevel.Warn, path)
        secure(configuration, service_url, token, tls or TlsOptions())
        self._client = _pulsar.Client(service_url, configuration)
        self._closed = False
        self._closing: Future[None] | None = None
        _open_clients.add(self)

    async def create_reader(self, topic: str, name: str, *, queue_size: int, first: MessageId = NOWHERE, compacted: bool = True) -> Any:
        """Returns a reader of a topic, not a partitioned one, under the brokers' own subscription prefix (``__system_reader``).

        The reader has no schema, so that it registers none. Connecting creates the topic if it does not exist.

        ``queue_size``: how many messages may have been received and not taken. ``first``: the message to begin with, or with the first
        after it if that one is gone; ``NOWHERE``: the earliest one. ``compacted``: whether the topic is read compacted, as brokers do.
        """
        configuration = _pulsar.ReaderConfiguration()
        configuration.reader_name(name)
        configuration.read_compacted(compacted)
        configuration.start_message_id_inclusive(True)
        configuration.subscription_role_prefix(SYSTEM_READER)
        configuration.receiver_queue_size(queue_size)
        # After a message that it can't decrypt, the library hands over nothing more, unless it may hand over that message as it is.
        configuration.crypto_failure_action(_pulsar.ConsumerCryptoFailureAction.CONSUME)
        start = _EARLIEST if first == NOWHERE else _pulsar.MessageId(-1, first.ledger, max(first.entry, 0), -1)
        refused = partial(refusal, f"Reading {topic}")
        return await self._ask(lambda done: self._client.create_reader_async_v2(topic, start, configuration, done), refused)

    async def create_producer(
        self, topic: str, schema: str, *, send_seconds: float, queue_size: int, access: Any = SHARED, name: str = ""
    ) -> Any:
        """Returns a producer without batching, like the brokers' own, whose messages are bytes that are encoded already.

        Connecting creates the topic if it does not exist, and registers the schema if it is not registered.

        ``topic`` is not a partitioned one. ``schema``: the Avro schema, verbatim. ``send_seconds``: after how long the library gives up an
        unacknowledged message; ``queue_size``: how many there may be. ``access``: ``EXCLUSIVE`` for the topic's only producer;
        ``WAIT_FOR_EXCLUSIVE`` to wait for some seconds until there is no other one. By default the broker chooses the name, which each
        message carries.

        Raises:
            ProducerTaken: the producer was to be exclusive, and there is another one.
        """
        configuration = _pulsar.ProducerConfiguration()
        configuration.schema(_pulsar.SchemaInfo(_pulsar.SchemaType.AVRO, "PulsarEvent", schema))
        configuration.batching_enabled(False)
        configuration.block_if_queue_full(False)
        configuration.max_pending_messages(queue_size)
        configuration.send_timeout_millis(int(send_seconds * 1_000))
        configuration.access_mode(access)
        if name:
            configuration.producer_name(name)

        def refused(result: Any, message: str = "") -> Exception:
            if access != SHARED and (result in _TAKEN or (access == WAIT_FOR_EXCLUSIVE and result == Result.Timeout)):
                return ProducerTaken(holder_of(message))
            return refusal("Opening the change log for writing", result, message)

        return await self._ask(lambda done: self._client.create_producer_async_v2(topic, configuration, done), refused)

    async def let_broker_lay_out(self, topic: str) -> int:
        """Requests a topic's partitions as any client does that connects: where topics are partitioned by default, that creates them.

        Returns how many partitions there are; 0 for a topic that is not partitioned, or would not be.
        """

        def unpack(done: Callable[[Any], None]) -> None:
            self._client.get_topic_partitions_async(topic, lambda result, names: done(names if result == OK else result))

        names = await self._ask(unpack, partial(refusal, "Opening the change log for writing"))
        return 0 if list(names) == [topic] else len(names)

    async def close(self, seconds: float) -> None:
        """Closes the client with all its readers and producers; returns after ``seconds`` at the latest, while the closing goes on."""
        if self._closed:
            return
        self._closed = True
        # The blocking call needs no Python callback, which could otherwise run while the interpreter shuts down.
        thread = DaemonThreads(1, "pulsar-client-close")
        self._closing = thread.submit(self._close_client)
        thread.shutdown(wait=False)
        try:
            await asyncio.wait_for(asyncio.wrap_future(self._closing), seconds)
        except TimeoutError:
            _log.warning("pulsar-client did not close within %g s", seconds)

    def end(self) -> None:
        """Closes the client, or waits for its closing, in bounded time; called when the process ends, after the event loop has ended."""
        if self._closing is None:
            self._close_client()
        else:
            wait([self._closing], _OPERATION_SECONDS + 1)

    def _close_client(self) -> None:
        wait(list(_being_closed), _CLOSING_SECONDS)  # the client would close them again, and warn of that
        try:
            self._client.close()
        except Exception as error:  # noqa: BLE001 (one class per result code, and none matters any more)
            _log.warning("pulsar-client did not close properly: %s", type(error).__name__)
        finally:
            _open_clients.discard(self)

    async def _ask(self, start: Callable[[Callable[[Any], None]], None], refused: Callable[..., Exception]) -> Any:
        if self._closed:
            raise LogError(Reason.LOG_UNAVAILABLE, "The change log is closed.")
        return await _answer(start, refused)


async def _answer(start: Callable[[Callable[[Any], None]], None], refused: Callable[..., Exception]) -> Any:
    """Starts an asynchronous call of the library and awaits its result. If cancelled, closes a handle that the call still returns.

    ``refused`` makes the error of a result code, and of the library's own message if there is one.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any) -> None:
        if answer.done():
            begin_closing(result)
        elif isinstance(result, Result):
            answer.set_exception(refused(result))
        elif isinstance(result, _pulsar.Error):
            answer.set_exception(refused(result.error, result.message))
        else:
            answer.set_result(result)

    start(_calling(loop, settle))
    try:
        return await answer
    except asyncio.CancelledError:
        if not answer.cancelled() and answer.exception() is None:  # the result came in the same turn of the loop as the cancellation
            begin_closing(answer.result())
        raise


def message_of(encoded: Encoded) -> Any:
    """Returns an event as a message to send."""
    builder = _pulsar.MessageBuilder()
    builder.partition_key(encoded.key)
    if encoded.payload is None:
        builder.set_null_value()
    else:
        builder.content(encoded.payload)
    if encoded.properties:
        builder.properties(encoded.properties)
    if encoded.replication_clusters is not None:
        builder.replication_clusters(list(encoded.replication_clusters))
    return builder.build()


async def send(handle: Any, message: Any, what: str) -> Any:
    """Sends one message, and returns its id once it is stored. ``what``: what that does, as the subject of a sentence.

    Raises:
        LogError: the message was not acknowledged.
    """

    def start(done: Callable[[Any], None]) -> None:
        handle.send_async(message, lambda result, ident: done(ident if result == OK else result))

    return await _answer(start, partial(refusal, what))


def begin_closing(handle: Any) -> None:
    """Starts closing a reader or producer, and ignores any other object; nothing waits for the result."""
    if hasattr(handle, "close_async"):
        closed: Future[None] = Future()
        _being_closed.add(closed)
        closed.add_done_callback(_being_closed.discard)
        handle.close_async(lambda _: closed.set_result(None))


def _calling(loop: asyncio.AbstractEventLoop, settle: Callable[..., None]) -> Callable[..., None]:
    """Returns a callback for threads of the library, which calls ``settle`` on the loop with what it gets."""

    def call(*arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing waits any more
            loop.call_soon_threadsafe(settle, *arguments)

    return call


def holder_of(message: str) -> str | None:
    """Returns which exclusive producer a broker names when it refuses another one; None if it does not say.

    It is "" if the message says that there is none, because other producers are there, or others wait for their end.
    """
    if (match := _HOLDER.search(message)) is not None:
        return "" if match[1] == _NOBODY else match[1]
    return "" if _SHARED in message else None


def refusal(what: str, result: Any, message: str = "", *, outcome_unknown: bool = False) -> LogError:
    """Returns a result code as an error of the log.

    ``what``: what failed, as the subject of a sentence; ``outcome_unknown``: for an append, whether it may have succeeded all the same.
    """
    default: tuple[Reason | LogState, str] = (
        (LogState.UNREACHABLE, "no answer in time") if result in _PASSING else (LogState.REFUSED, "the brokers refused it")
    )
    why, kind, meaning = _MEANINGS.get(result, (default[0], Kind.UNAVAILABLE, default[1]))
    said = f"{result.name}: {message}" if message else result.name
    return LogError(why, f"{what} failed, {meaning} ({said}).", kind=kind, outcome_unknown=outcome_unknown)


def secure(configuration: Any, service_url: str, token: TokenSource | None, tls: TlsOptions) -> None:
    """Configures authentication and TLS of a client.

    The library reads certificates, keys and authorities for each new connection, and requests the token then.
    """
    secured = service_url.startswith("pulsar+ssl")
    certified = tls.certificate is not None and tls.key is not None
    if token is not None:
        configuration.authentication(_pulsar.AuthenticationToken.create(_harmless(token)))
    elif secured and certified:
        configuration.authentication(_pulsar.AuthenticationTLS.create(str(tls.certificate), str(tls.key)))
    if secured:
        configuration.tls_allow_insecure_connection(False)
        configuration.tls_validate_hostname(tls.check_hostname)
        # The library's own path to the system's authorities is that of the machine it was built on.
        configuration.tls_trust_certs_file_path(str(tls.authorities))
    if secured and certified:
        configuration.tls_certificate_file_path(str(tls.certificate))
        configuration.tls_private_key_file_path(str(tls.key))


def _harmless(token: TokenSource) -> TokenSource:
    """Wraps a token source for threads of the library: if the token can't be read, it returns an empty one, which brokers refuse."""

    def read() -> str:
        try:
            return token()
        except Exception as error:  # noqa: BLE001 (raising here would end the process)
            _log.warning("The token for Pulsar can't be read: %s", getattr(error, "strerror", None) or type(error).__name__)
            return ""

    return read


@cache
def client_log_path() -> str | None:
    """Returns the path that pulsar-client logs to, the same for the whole process; None if the system can't name a pipe by a path."""
    if not _PIPES.is_dir():
        return None
    read_end, write_end = os.pipe()  # both stay open as long as the process: the client's log does too
    threading.Thread(target=_forward, args=(read_end,), name="pulsar-client-log", daemon=True).start()
    return str(_PIPES / str(write_end))


def _forward(read_end: int) -> None:
    with open(read_end, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            # An error to the library, such as one refused connection, is a warning here: a change log reports itself when it is lost.
            _library_log.log(logging.DEBUG if _NOTHING_WRONG in line else logging.WARNING, "%s", legible(line))


def legible(line: str) -> str:
    """Returns a line of the library's log without its own time, level and thread, and without anything that looks like a token."""
    text = line.rstrip()
    match = _LINE.match(text)
    if match is not None:
        text = f"{match[1].strip()}: {match[2].strip()}"
    return _SECRETS.sub("(secret)", text)[:_LONGEST_LINE]


_open_clients: weakref.WeakSet[PulsarClient] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes all clients: a library thread that calls into Python while the interpreter ends would crash the process."""
    for client in list(_open_clients):
        client.end()
