"""Reads one range of one change log, in an executor.

Brokers compact these logs continuously, and delete ledgers whose entries were compacted. So a range is read twice if need be: first from
the ledgers that are left, then from the compacted log, of which only entries that the first reading lacks are taken. The second reading
finds every entry that the first one missed, unless a newer event of its key superseded it. But if an administrator truncates a log, ledgers
are deleted that were not compacted. So before the first reading, and behind it, the ledgers that are left tell whether that happened here.

An entry is one message, or a batch of messages by a producer that batches. Ranges end behind entries, so a batch lies within one range.
Message ids don't say how many messages a batch has: a batch ends where the library has no more, or where the next entry begins.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from typing import Any

from topicpolicies_server.core.names import SYSTEM_READER
from topicpolicies_server.logs.avro import Codec, UnsupportedSchema
from topicpolicies_server.logs.pulsar.ids import NOWHERE, MessageId
from topicpolicies_server.logs.stamps import ANNOUNCEMENT

from . import NAME
from .brokers import Brokers, Ledgers, Place
from .offsets import DataLossError, Range
from .options import Options
from .rows import Change, change_of

_WAIT_MS = 500
_PATIENCE_SECONDS = 60.0
"""How many seconds may pass without a message while the broker has more to send."""
_ASK_AFTER = 2
"""After how many waits of ``_WAIT_MS`` without a message the broker is asked whether it has sent everything."""
_QUEUE = 2_000
_NO_SCHEMA = -1


class ReadStalled(Exception):
    """The broker reports that it has more messages, and does not send them. Spark runs the task again."""


class EntryIntervals:
    """The set of the entries that were read, kept as intervals of consecutive entries."""

    def __init__(self) -> None:
        self._firsts: list[Place] = []
        self._lasts: list[Place] = []

    def add(self, place: Place) -> None:
        """Adds an entry, or one more message of the last entry. Entries must come in the log's order."""
        if self._lasts and place == self._lasts[-1]:
            return
        if self._lasts and place == Place(self._lasts[-1].ledger, self._lasts[-1].entry + 1):
            self._lasts[-1] = place
        else:
            self._firsts.append(place)
            self._lasts.append(place)

    def __contains__(self, place: Place) -> bool:
        at = bisect_right(self._firsts, place) - 1
        return at >= 0 and place <= self._lasts[at]

    def covers(self, start: Place | None, end: Place) -> bool:
        """Returns whether it is certain that no entry of a range is missing."""
        if start is None or len(self._lasts) != 1:
            return False
        return self._firsts[0] == Place(start.ledger, start.entry + 1) and self._lasts[0] == end


def read(options: Options, part: Range) -> Iterator[Change]:
    """Yields the rows of a range that the options select. Events that compaction left of deleted ledgers may come after newer ones.

    Raises:
        ReadStalled: the broker sent nothing more for too long.
        DataLossError: the log, or a part of the range, is gone, and the query is to fail then.
        LogError: the admin API did not answer.
        pulsar.PulsarException: the broker could not be read from.
    """
    import pulsar  # noqa: PLC0415 - only in the process that reads: its threads do not survive a fork

    with Brokers(options) as brokers:
        held = brokers.ledgers(part.log)
        if options.fail_on_data_loss and (held is None or held.has_lost(part.start or part.first, part.end)):
            raise DataLossError([part.described])
        if held is None or (held.is_before_all(part.end) and not held.compacted):
            return  # nothing is left; and a reader of a topic that does not exist creates it
        client = _client(pulsar, options)
        try:
            codec_of = _codecs(brokers, part.log.namespace)
            for at, message in _messages(pulsar, client, brokers, options, part, held):
                change = _row(at, message, part, codec_of)
                if change is not None and options.published(change.published) and (not options.topics or change.topic in options.topics):
                    yield change
        finally:
            client.close()


def _client(pulsar: Any, options: Options) -> Any:
    token, tls = options.token_source(), options.tls()
    return pulsar.Client(
        options.service_url,
        authentication=None if token is None else pulsar.AuthenticationToken(token()),
        tls_trust_certs_file_path=str(tls.authorities),
        tls_validate_hostname=tls.check_hostname,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


def _messages(pulsar: Any, client: Any, brokers: Brokers, options: Options, part: Range, held: Ledgers) -> Iterator[tuple[MessageId, Any]]:
    """Reads a range, and yields its messages. ``held``: the log's ledgers before.

    Raises:
        ReadStalled: the broker sent nothing more for too long.
        DataLossError: a part of the range was deleted meanwhile, and the query is to fail then.
    """
    seen = EntryIntervals()
    if not options.compacted:
        for at, message in _drain(pulsar, client, brokers, part, compacted=False):
            seen.add(_entry(at))
            yield at, message
        if seen.covers(part.start, part.end):
            return
        ledgers = brokers.ledgers(part.log)
        if options.fail_on_data_loss and _missed(part, seen, held, ledgers):
            raise DataLossError([part.described])
        if ledgers is None or not ledgers.compacted:
            return
        if ledgers.horizon is not None:  # entries behind the horizon are not compacted yet, so none is deleted
            part = part._replace(end=min(part.end, ledgers.horizon))
    for at, message in _drain(pulsar, client, brokers, part, compacted=True):
        if _entry(at) not in seen:
            yield at, message


def _missed(part: Range, seen: EntryIntervals, before: Ledgers, after: Ledgers | None) -> bool:
    """Returns whether a ledger was deleted before it was read to its end, or to the end of the range, and was not compacted so far."""
    for ledger, entries in before.ledgers:
        last = min(Place(ledger, entries - 1), part.end)
        if last.ledger != ledger or last.entry < 0 or (part.start is not None and last <= part.start) or last in seen:
            continue
        if after is None or (after.is_before_all(last) and not after.kept(last)):
            return True
    return False


def _drain(pulsar: Any, client: Any, brokers: Brokers, part: Range, *, compacted: bool) -> Iterator[tuple[MessageId, Any]]:
    """Reads a range once, and yields its messages. ``compacted``: reads the compacted log.

    Raises:
        ReadStalled: the broker sent nothing more for too long.
    """
    start = pulsar.MessageId.earliest if part.start is None else pulsar.MessageId(-1, part.start.ledger, part.start.entry, -1)
    name = f"{NAME}-{uuid.uuid4().hex}"
    reader = client.create_reader(
        part.log.topic,
        start,
        receiver_queue_size=_QUEUE,
        reader_name=name,
        subscription_role_prefix=SYSTEM_READER,
        is_read_compacted=compacted,
    )
    try:
        last, quiet, sent, since = NOWHERE, 0, False, 0.0
        while _entry(last) < part.end or last.batch_index >= 0:
            message = _next(pulsar, reader) if quiet or reader.has_message_available() else None
            if message is None:
                if sent or not reader.has_message_available():
                    return
                if not quiet:  # counts from here: the consumer of the rows may have been slow before
                    since = time.monotonic()
                quiet += 1
                if time.monotonic() - since > _PATIENCE_SECONDS:
                    raise ReadStalled(f"{part.log.topic} was read up to {_entry(last)}; what follows up to {part.end} does not arrive")
                # One more wait follows: messages may have been on their way while the broker answered.
                sent = quiet >= _ASK_AFTER and brokers.all_sent(part.log, name, part.end)
                continue
            quiet, sent = 0, False
            ident = message.message_id()
            at = MessageId(ident.ledger_id(), ident.entry_id(), ident.batch_index())
            if _entry(at) > part.end:
                return
            if at > last and (part.start is None or _entry(at) > part.start):  # a reconnected reader receives some messages again
                last = at
                yield at, message
    finally:
        with contextlib.suppress(pulsar.PulsarException):
            reader.close()


def _entry(at: MessageId) -> Place:
    return Place(at.ledger, at.entry)


def _next(pulsar: Any, reader: Any) -> Any:
    """Returns the next message; None: none came within ``_WAIT_MS``."""
    try:
        return reader.read_next(_WAIT_MS)
    except pulsar.Timeout:
        return None


def _codecs(brokers: Brokers, namespace: str) -> Any:
    @cache
    def codec_of(version: int) -> Codec | None:
        if version == _NO_SCHEMA:
            return Codec()
        definition = brokers.schema(namespace, version)
        try:
            return None if definition is None else Codec(definition)
        except UnsupportedSchema:
            return None

    return codec_of


def _row(at: MessageId, message: Any, part: Range, codec_of: Any) -> Change | None:
    inner = message._message  # noqa: SLF001 - the public class hides what tells a tombstone and the schema
    properties = message.properties()
    if ANNOUNCEMENT in properties:
        return None
    version = inner.int_schema_version()
    codec = codec_of(version)
    event, problem = None, f"its schema, version {version}, is not one of policy events"
    if codec is not None:
        event, problem = codec.read(message.partition_key(), None if inner.has_null_value() else message.data(), properties)
    return change_of(part.log.namespace, part.log.partition, at, message.publish_timestamp(), message.producer_name(), event, problem)
