"""A range of a log is read completely, whatever its entries consist of; a missing log, or a missing part of one, is an error."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pulsar
import pytest

from tests.client.certificates import Authority
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.avro import Codec, Encoded
from topicpolicies_server.logs.pulsar.credentials import TlsOptions
from topicpolicies_server.logs.pulsar.ids import MessageId, position_of
from topicpolicies_spark import reading
from topicpolicies_spark.brokers import Brokers, Log, Place
from topicpolicies_spark.offsets import DataLossError, Range
from topicpolicies_spark.options import OptionError, Options, read_options
from topicpolicies_spark.reading import read

from .admin_api import AdminApi, admin_api

LOG = Log("acme/orders", 0, "persistent://acme/orders/__change_events")
STATS = "persistent/acme/orders/__change_events/internalStats"


class Message(NamedTuple):
    """A fake of the library's message, as far as it is used."""

    at: MessageId
    encoded: Encoded

    @property
    def _message(self) -> Message:
        return self

    def message_id(self) -> Any:
        at = self.at

        class Ident:
            ledger_id = staticmethod(lambda: at.ledger)
            entry_id = staticmethod(lambda: at.entry)
            batch_index = staticmethod(lambda: at.batch_index)

        return Ident()

    def properties(self) -> dict[str, str]:
        return dict(self.encoded.properties)

    def partition_key(self) -> str:
        return self.encoded.key

    def data(self) -> bytes | None:
        return self.encoded.payload

    def has_null_value(self) -> bool:
        return self.encoded.payload is None

    def int_schema_version(self) -> int:
        return -1

    def publish_timestamp(self) -> int:
        return 1_000

    def producer_name(self) -> str:
        return "standalone-0-1"


class Library:
    """A fake of the library's client with given messages: those of the ledgers, and those that compaction left."""

    def __init__(self, stands: list[Message], compacted: list[Message] | None = None) -> None:
        self.made: list[bool] = []
        """For each reader that was created, whether it reads compacted."""
        self.opened: Callable[[], None] = lambda: None
        """Called when a reader was created."""
        self._stands = stands
        self._compacted = compacted or []

    def create_reader(self, topic: str, start: Any, *, is_read_compacted: bool, **_: Any) -> Reader:
        assert topic == LOG.topic
        self.made.append(is_read_compacted)
        behind = (start.ledger_id(), start.entry_id())
        found = self._compacted if is_read_compacted else self._stands
        self.opened()
        return Reader([each for each in found if behind == (-1, -1) or each.at[:2] > behind])

    def close(self) -> None:
        """Does nothing."""


class Reader:
    """A fake of the library's reader, which returns one message after the other."""

    def __init__(self, messages: list[Message]) -> None:
        self._left = messages

    def has_message_available(self) -> bool:
        return bool(self._left)

    def read_next(self, _: int) -> Message:
        if not self._left:
            raise pulsar.Timeout
        return self._left.pop(0)

    def close(self) -> None:
        """Does nothing."""


@pytest.fixture
def broker() -> Iterator[AdminApi]:
    """A broker with a log that ends at 7:9 and was never compacted."""
    with admin_api({STATS: _stats(end="7:9")}) as api:
        yield api


def _stats(*, end: str, first: int = 7, horizon: str = "") -> dict[str, Any]:
    compaction = {"compactedLedger": {"ledgerId": 2}, "cursors": {"__compaction": {"markDeletePosition": horizon}}} if horizon else {}
    return {"lastConfirmedEntry": end, "ledgers": [{"ledgerId": first, "entries": 10}], **compaction}


def _message(entry: int, index: int, value: int, ledger: int = 7) -> Message:
    event = Event(PolicyKey("persistent://acme/orders/t", Scope.LOCAL), Action.UPDATE, split(TopicPolicies(max_producer_per_topic=value)))
    return Message(MessageId(ledger, entry, index), Codec().encode(event))


def _options(broker: AdminApi, **more: str) -> Options:
    return read_options({"serviceUrl": "pulsar://broker:6650", "adminUrl": broker.url} | more)


def _read(monkeypatch: pytest.MonkeyPatch, broker: AdminApi, library: Library, part: Range, **more: str) -> list[tuple[str, Any]]:
    monkeypatch.setattr(pulsar, "Client", lambda *_, **__: library)
    return [(row.position, row.policies and row.policies["max_producer_per_topic"]) for row in read(_options(broker, **more), part)]


def _row(entry: int, index: int, value: int, ledger: int = 7) -> tuple[str, int]:
    return position_of(MessageId(ledger, entry, index)), value


def test_every_message_of_a_batch_is_a_row_with_its_own_position(monkeypatch: pytest.MonkeyPatch, broker: AdminApi) -> None:
    library = Library([_message(3, -1, 1), _message(4, 0, 2), _message(4, 1, 3), _message(4, 2, 4), _message(5, 0, 5), _message(5, 1, 6)])
    first = _read(monkeypatch, broker, library, Range(LOG, Place(7, 2), Place(7, 4)))
    assert first == [_row(3, -1, 1), _row(4, 0, 2), _row(4, 1, 3), _row(4, 2, 4)]
    assert library.made == [False], "a range without gaps is read only once"
    assert _read(monkeypatch, broker, library, Range(LOG, Place(7, 4), Place(7, 5))) == [_row(5, 0, 5), _row(5, 1, 6)]
    everything = _read(monkeypatch, broker, library, Range(LOG, None, Place(7, 5)))
    assert everything == [*first, _row(5, 0, 5), _row(5, 1, 6)]


def test_messages_of_compacted_batches_are_read_unless_the_ledgers_had_them(monkeypatch: pytest.MonkeyPatch, broker: AdminApi) -> None:
    broker.answers[STATS] = _stats(end="7:9", first=6, horizon="7:6")
    left = [_message(1, 0, 1), _message(1, 2, 2), _message(4, 0, 3), _message(4, 1, 4)]
    library = Library([_message(4, 0, 3), _message(4, 1, 4), _message(5, -1, 5)], left)
    found = _read(monkeypatch, broker, library, Range(LOG, None, Place(7, 5)))
    assert found == [_row(4, 0, 3), _row(4, 1, 4), _row(5, -1, 5), _row(1, 0, 1), _row(1, 2, 2)]
    assert library.made == [False, True]


def test_a_message_that_is_delivered_again_after_a_reconnection_is_one_row(monkeypatch: pytest.MonkeyPatch, broker: AdminApi) -> None:
    messages = [_message(4, 0, 2), _message(4, 1, 3), _message(4, 0, 2), _message(4, 1, 3), _message(4, 2, 4)]
    found = _read(monkeypatch, broker, Library(messages), Range(LOG, Place(7, 3), Place(7, 4)))
    assert found == [_row(4, 0, 2), _row(4, 1, 3), _row(4, 2, 4)]


def test_the_client_uses_the_token_and_the_authorities_of_the_options(
    monkeypatch: pytest.MonkeyPatch, broker: AdminApi, tmp_path: Path
) -> None:
    made: list[dict[str, Any]] = []

    def client(url: str, **how: Any) -> Library:
        made.append({"url": url, **how})
        return Library([])

    authority = Authority(tmp_path, "authority").certificate
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setattr(pulsar, "Client", client)
    options = _options(broker, tlsTrustCertsFile=str(authority), tokenFile=str(tmp_path / "token"), serviceUrl="pulsar+ssl://broker:6651")
    assert list(read(options, Range(LOG, None, Place(7, 4)))) == []
    (how,) = made
    assert (how["url"], how["tls_trust_certs_file_path"], how["tls_validate_hostname"]) == (options.service_url, str(authority), True)
    assert broker.asked[0].authorization == "Bearer secret"


def test_the_systems_authorities_are_used_if_none_are_named(monkeypatch: pytest.MonkeyPatch, broker: AdminApi) -> None:
    made: list[str] = []

    def client(_: str, *, tls_trust_certs_file_path: str, **__: Any) -> Library:
        made.append(tls_trust_certs_file_path)
        return Library([])

    monkeypatch.setattr(pulsar, "Client", client)
    assert list(read(_options(broker), Range(LOG, None, Place(7, 4)))) == []
    assert made == [str(TlsOptions().authorities)]
    system = ssl.get_default_verify_paths().cafile
    if system:
        assert made == [system]


def test_the_error_names_a_missing_file_of_authorities(broker: AdminApi) -> None:
    with pytest.raises(OptionError, match=r"tlsTrustCertsFile.*/nowhere/authorities\.pem"):
        Brokers(_options(broker, tlsTrustCertsFile="/nowhere/authorities.pem"))


def test_a_task_fails_if_a_broker_does_not_deliver_the_entries_that_it_has(monkeypatch: pytest.MonkeyPatch, broker: AdminApi) -> None:
    class Endless(Reader):
        def has_message_available(self) -> bool:
            return True

    library = Library([])
    monkeypatch.setattr(library, "create_reader", lambda *_, **__: Endless([_message(4, -1, 2)]))
    monkeypatch.setattr(reading, "_PATIENCE_SECONDS", 0.2)
    broker.answers[f"{STATS.removesuffix('internalStats')}stats"] = 403  # the broker does not show the reader's position either
    with pytest.raises(reading.ReadStalled, match=r"up to 7:4; what follows up to 7:9 does not arrive"):
        _read(monkeypatch, broker, library, Range(LOG, Place(7, 3), Place(7, 9)))


@pytest.mark.parametrize("gone", [404, _stats(end="9:3", first=9)], ids=["deleted", "replaced by another one"])
def test_a_log_that_is_deleted_or_replaced_before_it_is_read_fails_the_task(
    monkeypatch: pytest.MonkeyPatch, broker: AdminApi, gone: Any
) -> None:
    broker.answers[STATS] = gone
    library, part = Library([]), Range(LOG, Place(7, 3), Place(7, 4))
    with pytest.raises(DataLossError, match=r"acme/orders/0.*failOnDataLoss"):
        _read(monkeypatch, broker, library, part)
    assert library.made == [], "a reader would create the topic"
    assert _read(monkeypatch, broker, library, part, failOnDataLoss="false") == []
    assert library.made == []


TRUNCATED = _stats(end="9:3", first=9, horizon="9:3")
TRUNCATED["cursors"]["__compaction"]["properties"] = {}
COMPACTED = _stats(end="9:3", first=9, horizon="9:-1")
COMPACTED["cursors"]["__compaction"]["properties"] = {"CompactedTopicLedger": 2}
CUT = Range(LOG, Place(7, 3), Place(9, 3))


@pytest.mark.parametrize(
    ("part", "stats"),
    [
        (CUT, _stats(end="9:3", first=9)),
        (CUT, _stats(end="9:3", first=9, horizon="7:2")),
        (CUT._replace(end=Place(7, 8)), _stats(end="9:3", first=9, horizon="7:5")),
        (CUT, TRUNCATED),
        (CUT._replace(end=Place(7, 8)), {"lastConfirmedEntry": "7:9", "ledgers": [{"ledgerId": 9, "entries": 0}]}),
        (CUT._replace(end=Place(9, -1)), {"lastConfirmedEntry": "9:-1", "ledgers": [{"ledgerId": 9, "entries": 0}]}),
        (CUT._replace(start=Place(7, -1), end=Place(7, 8)), _stats(end="9:3", first=9)),
        (CUT._replace(start=None, first=Place(7, 0)), _stats(end="9:3", first=9)),
    ],
    ids=["never compacted", "not so far", "not to the end", "truncated", "nothing newer", "empty", "behind an empty ledger", "beginning"],
)
def test_a_part_that_was_deleted_before_it_was_compacted_fails_the_task(
    monkeypatch: pytest.MonkeyPatch, broker: AdminApi, part: Range, stats: dict[str, Any]
) -> None:
    broker.answers[STATS] = stats
    library = Library([_message(0, -1, 1, ledger=9)])
    with pytest.raises(DataLossError, match=r"acme/orders/0 \(.*up to .*failOnDataLoss"):
        _read(monkeypatch, broker, library, part)
    expected = [_row(0, -1, 1, ledger=9)] if part.end >= Place(9, 0) else []
    assert _read(monkeypatch, broker, library, part, failOnDataLoss="false") == expected


@pytest.mark.parametrize(
    ("part", "stats"),
    [
        (CUT, COMPACTED),
        (CUT, _stats(end="9:3", first=9, horizon="7:3")),
        (CUT._replace(start=Place(8, -1)), _stats(end="9:3", first=9)),
        (CUT._replace(start=Place(9, -1)), _stats(end="9:3", first=9)),
        (CUT._replace(start=None), _stats(end="9:3", first=9)),
        (CUT._replace(start=None, first=Place(7, 0)), COMPACTED),
    ],
    ids=["compacted", "compacted so far", "an empty ledger", "the same ledger", "a log's beginning", "a compacted beginning"],
)
def test_deleted_ledgers_that_were_compacted_or_empty_are_no_loss(
    monkeypatch: pytest.MonkeyPatch, broker: AdminApi, part: Range, stats: dict[str, Any]
) -> None:
    broker.answers[STATS] = stats
    library = Library([_message(0, -1, 1, ledger=9), _message(2, 0, 3, ledger=9)])
    assert _read(monkeypatch, broker, library, part) == [_row(0, -1, 1, ledger=9), _row(2, 0, 3, ledger=9)]


@pytest.mark.parametrize("then", [404, _stats(end="9:3", first=9), TRUNCATED], ids=["deleted", "never compacted", "truncated"])
def test_a_ledger_that_is_deleted_while_it_is_read_fails_the_task_unless_it_was_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch, broker: AdminApi, then: Any
) -> None:
    before = _stats(end="9:0")
    before["ledgers"].append({"ledgerId": 9, "entries": 0})
    broker.answers[STATS] = before
    part = Range(LOG, Place(7, 7), Place(9, 0))
    whole = Library([_message(8, -1, 1), _message(9, -1, 2), _message(0, -1, 3, ledger=9)])
    cut = Library([_message(8, -1, 1), *([] if then == 404 else [_message(0, -1, 3, ledger=9)])])
    for library in (whole, cut):
        library.opened = lambda: broker.answers.update({STATS: then})
    assert [value for _, value in _read(monkeypatch, broker, whole, part)] == [1, 2, 3]
    broker.answers[STATS] = before
    with pytest.raises(DataLossError, match=r"behind 7:7, up to 9:0"):
        _read(monkeypatch, broker, cut, part)
    broker.answers[STATS] = before
    assert [value for _, value in _read(monkeypatch, broker, cut, part, failOnDataLoss="false")][:1] == [1]
