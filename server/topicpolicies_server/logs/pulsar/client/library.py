"""The client, its readers and its producers; no other module of the sidecar calls pulsar-client, but for ``security``.

The library's public Python API blocks a thread per call, or wakes the event loop once per message. So this module uses the extension's own
asynchronous calls (``_pulsar``) one level below, which ``pulsar.asyncio`` wraps as well; ``tests/logs/pulsar/test_client.py`` checks that
the calls used here exist.

Rules that the library's threads impose:

- A callback must not raise: that ends the process. Callbacks here only put their arguments into an ``Inbox``.
- A callback takes the interpreter's lock. Code that waits for the library's threads must not hold that lock, so clients are closed in
  threads that do nothing but wait, and before they are garbage-collected.
- A client does not survive ``fork``.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import _pulsar

from ....core.names import SYSTEM_READER
from ....core.reasons import Reason
from ...avro import Encoded
from ...change_log import LogError
from ..credentials import Identity, TlsOptions
from ..ids import NOWHERE, MessageId
from .inbox import Inbox
from .log_lines import client_log_path
from .security import secure

_log = logging.getLogger(__name__)

_OPERATION_SECONDS = 15
_CONNECT_SECONDS = 5
_EARLIEST = _pulsar.MessageId.earliest
Result = _pulsar.Result
"""The library's result codes."""
OK = Result.Ok
SHARED = _pulsar.ProducerAccessMode.Shared
EXCLUSIVE = _pulsar.ProducerAccessMode.Exclusive
WAIT_FOR_EXCLUSIVE = _pulsar.ProducerAccessMode.WaitForExclusive


class PulsarClientError(Exception):
    """The library refused an operation.

    Attributes:
        result: the library's result code.
        message: the library's own message, if there is one.
    """

    def __init__(self, result: Any, message: str = "") -> None:
        super().__init__(f"{result.name}: {message}" if message else result.name)
        self.result = result
        self.message = message


def next_at_once(reader: Any) -> Any:
    """Returns the next message in a reader's queue; None if the queue is empty or the reader is closed."""
    try:
        return reader.read_next(0)
    except _pulsar.PulsarException:
        return None


class PulsarClient:
    """One connection pool to the brokers, with one thread for the sockets and one for callbacks of received messages."""

    def __init__(self, service_url: str, *, token: Identity | None = None, tls: TlsOptions | None = None) -> None:
        """Connects on first use.

        Args:
            service_url: ``pulsar://host:port`` or ``pulsar+ssl://host:port``, the hosts separated by commas.
            token: authenticates each new connection; None: a certificate does, if ``tls`` has one.
            tls: how to verify brokers' certificates, for ``pulsar+ssl``; as strictly as possible by default.
        """
        configuration = _pulsar.ClientConfiguration()
        configuration.operation_timeout_seconds(_OPERATION_SECONDS)
        configuration.connection_timeout(_CONNECT_SECONDS * 1_000)
        configuration.io_threads(1)
        configuration.message_listener_threads(1)
        configuration.stats_interval_in_seconds(0)
        _log_into_pipe(configuration)
        secure(configuration, service_url, token, tls or TlsOptions())
        self._client = _pulsar.Client(service_url, configuration)
        self._process = os.getpid()
        self._closed = False
        self._closing: threading.Thread | None = None
        _open_clients.add(self)

    async def create_reader(self, topic: str, name: str, *, queue_size: int, first: MessageId = NOWHERE, compacted: bool = True) -> Any:
        """Returns a reader of a topic, not a partitioned one, under the brokers' own subscription prefix (``__system_reader``).

        The reader has no schema, so that it registers none. Connecting creates the topic if it does not exist.

        Args:
            topic: the topic's full name.
            name: the reader's name.
            queue_size: how many messages may have been received and not taken.
            first: the message to begin with, or with the first after it if that one is gone; ``NOWHERE``: the earliest one.
            compacted: whether the topic is read compacted, as brokers do.

        Raises:
            PulsarClientError: the reader could not be created in time.
            LogError: the client is closed.
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
        return await self._ask(lambda done: self._client.create_reader_async_v2(topic, start, configuration, done))

    async def create_producer(
        self, topic: str, schema: str, *, send_seconds: float, queue_size: int, access: Any = SHARED, name: str = ""
    ) -> Any:
        """Returns a producer without batching, like the brokers' own, whose messages are bytes that are encoded already.

        Connecting creates the topic if it does not exist, and registers the schema if it is not registered.

        Args:
            topic: the topic's full name; not a partitioned topic.
            schema: the Avro schema, verbatim, that the bytes are written with.
            send_seconds: after how long the library gives up an unacknowledged message.
            queue_size: how many messages may be unacknowledged.
            access: ``SHARED``; ``EXCLUSIVE`` for the topic's only producer, refused (``ProducerFenced``, ``ProducerBusy``) if there is
                another one; ``WAIT_FOR_EXCLUSIVE`` to wait until there is no other one, which ends with ``Timeout`` after some seconds.
            name: the producer's name, which each message carries; by default the broker chooses one.

        Raises:
            PulsarClientError: the producer could not be created in time.
            LogError: the client is closed.
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
        return await self._ask(lambda done: self._client.create_producer_async_v2(topic, configuration, done))

    async def let_broker_lay_out(self, topic: str) -> int:
        """Requests a topic's partitions as any client does that connects: where topics are partitioned by default, that creates them.

        Returns:
            How many partitions there are; 0 for a topic that is not partitioned, or would not be.

        Raises:
            PulsarClientError: the broker refused.
            LogError: the client is closed.
        """

        def unpack(done: Callable[[Any], None]) -> None:
            self._client.get_topic_partitions_async(topic, lambda result, names: done(_Failed(result) if result != OK else names))

        names = await self._ask(unpack)
        return 0 if list(names) == [topic] else len(names)

    async def close(self, seconds: float) -> None:
        """Closes the client with all its readers and producers; returns after ``seconds`` at the latest, while the closing goes on."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        finished = asyncio.Event()

        def close() -> None:
            self._close_client()
            with suppress(RuntimeError):  # the loop is closed, so nothing waits any more
                loop.call_soon_threadsafe(finished.set)

        # The blocking call needs no Python callback, which could otherwise run while the interpreter shuts down.
        self._closing = threading.Thread(target=close, name="pulsar-client-close", daemon=True)
        self._closing.start()
        try:
            await asyncio.wait_for(finished.wait(), seconds)
        except TimeoutError:
            _log.warning("pulsar-client did not close within %g s", seconds)

    def end(self) -> None:
        """Closes the client, or waits for its closing, in bounded time; called when the process ends, after the event loop has ended."""
        if self._closing is None:
            self._close_client()
        else:
            self._closing.join(_OPERATION_SECONDS + 1)

    def _close_client(self) -> None:
        try:
            self._client.close()
        except Exception as error:  # noqa: BLE001 (one class per result code, and none matters any more)
            _log.warning("pulsar-client did not close properly: %s", type(error).__name__)
        finally:
            _open_clients.discard(self)

    async def _ask(self, start: Callable[[Callable[[Any], None]], None]) -> Any:
        """Starts an asynchronous call of the library and awaits its result. If cancelled, closes a handle that the call still returns."""
        if self._closed:
            raise LogError(Reason.LOG_UNAVAILABLE, "The change log is closed.")
        if os.getpid() != self._process:
            raise LogError(
                Reason.LOG_UNAVAILABLE, "A Pulsar client does not work after a fork: open the change log in the process that uses it."
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def settle() -> None:
            result = inbox.items.popleft()
            if answer.done():
                close_quietly(result)
            elif isinstance(result, _Failed):
                answer.set_exception(PulsarClientError(result.code))
            elif isinstance(result, _pulsar.Error):
                answer.set_exception(PulsarClientError(result.error, result.message))
            else:
                answer.set_result(result)

        inbox: Inbox[Any] = Inbox(loop, settle)
        start(inbox.put)
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancelled() and answer.exception() is None:  # the result came in the same turn of the loop as the cancellation
                close_quietly(answer.result())
            raise


class _Failed:
    def __init__(self, code: Any) -> None:
        self.code = code


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


async def send(handle: Any, message: Any) -> Any:
    """Sends one message, and returns its id once it is stored.

    Raises:
        PulsarClientError: the message was not acknowledged.
    """
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle() -> None:
        result, ident = inbox.items.popleft()
        if not answer.done():
            if result == OK:
                answer.set_result(ident)
            else:
                answer.set_exception(PulsarClientError(result))

    inbox: Inbox[tuple[Any, Any]] = Inbox(asyncio.get_running_loop(), settle)
    handle.send_async(message, lambda result, ident: inbox.put((result, ident)))
    return await answer


async def close_handle(handle: Any) -> None:
    """Closes a reader or producer, and waits until that is done."""
    closed = asyncio.Event()
    handle.close_async(Inbox[Any](asyncio.get_running_loop(), closed.set).put)
    await closed.wait()


def close_quietly(handle: Any) -> None:
    """Starts closing a reader or producer, and ignores any other object; nothing waits for the result."""
    if hasattr(handle, "close_async"):
        handle.close_async(_ignore)


def _ignore(result: Any) -> None:
    del result


def _log_into_pipe(configuration: Any) -> None:
    path = client_log_path()
    if path is None:
        configuration.set_console_logger(_pulsar.LoggerLevel.Warn)
    else:
        configuration.set_file_logger(_pulsar.LoggerLevel.Warn, path)


_open_clients: weakref.WeakSet[PulsarClient] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes all clients: a library thread that calls into Python while the interpreter ends would crash the process."""
    for client in list(_open_clients):
        client.end()
