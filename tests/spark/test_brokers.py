"""Requests to brokers about the change logs, with redirects and with the token and the authorities of the options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.client.certificates import Authority
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_spark.brokers import Brokers, Ledgers, Log, Place
from topicpolicies_spark.options import Options, read_options

from .admin_api import Elsewhere, admin_api

LOG = "persistent/acme/orders/__change_events"
STATS = {"lastConfirmedEntry": "7:4", "ledgers": [{"ledgerId": 5, "entries": 3}, {"ledgerId": 7, "entries": 0}]}
ANSWERS: dict[str, Any] = {
    "tenants": ["acme"],
    "namespaces/acme": ["acme/orders"],
    f"{LOG}/partitions": {"partitions": 0},
    f"{LOG}/internalStats": STATS,
    "schemas/acme/orders/__change_events/schema/3": {"type": "AVRO", "data": "the schema"},
}
WHOLE = Log("acme/orders", 0, "persistent://acme/orders/__change_events")


def _options(url: str, **more: str) -> Options:
    return read_options({"serviceUrl": "pulsar://broker:6650", "adminUrl": url, **more})


def test_a_redirect_to_another_broker_is_followed_with_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with admin_api(ANSWERS) as owner, admin_api(dict.fromkeys(ANSWERS, Elsewhere(owner.url))) as other:
        with Brokers(_options(other.url, tokenFile=str(token))) as brokers:
            (log,) = brokers.logs()
            assert log == WHOLE
            assert brokers.ledgers(log) == Ledgers(Place(7, 4), [(5, 3), (7, 5)], compacted=False, horizon=None)
            assert brokers.schema("acme/orders", 3) == "the schema"
        assert {each.path for each in owner.asked} == set(ANSWERS)
        assert {each.authorization for each in owner.asked} == {"Bearer secret"}


def test_the_certificate_of_a_broker_is_verified_with_the_authorities_of_the_options(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    with admin_api(ANSWERS, ours.identity("broker", "127.0.0.1")) as broker:
        with Brokers(_options(broker.url, tlsTrustCertsFile=str(ours.certificate))) as brokers:
            assert brokers.logs() == [WHOLE]
        with Brokers(_options(broker.url, tlsTrustCertsFile=str(other.certificate)), seconds=1) as brokers:
            with pytest.raises(LogError) as raised:
                brokers.logs()
            assert raised.value.reason == Reason.CLUSTER_UNAVAILABLE
            assert "certificate" in raised.value.message.lower()


def test_a_request_that_is_answered_with_status_503_is_repeated() -> None:
    with admin_api({**ANSWERS, f"{LOG}/partitions": 503}) as broker, Brokers(_options(broker.url)) as brokers:
        first = len(broker.asked)

        def recovers(path: str, authorization: str) -> Any:
            if path.endswith("/partitions") and len(broker.asked) > first + 3:
                broker.answers.update(ANSWERS)
            return answer(path, authorization)

        answer, broker.answer = broker.answer, recovers  # type: ignore[method-assign]
        assert brokers.logs() == [WHOLE]


def test_every_partition_of_a_partitioned_log_is_a_log() -> None:
    with admin_api({**ANSWERS, f"{LOG}/partitions": {"partitions": 2}}) as broker, Brokers(_options(broker.url)) as brokers:
        assert brokers.logs() == [Log("acme/orders", n, f"{WHOLE.topic}-partition-{n}") for n in range(2)]


def test_a_missing_log_has_no_ledgers() -> None:
    with admin_api({**ANSWERS, f"{LOG}/internalStats": 404}) as broker, Brokers(_options(broker.url)) as brokers:
        assert brokers.ledgers(WHOLE) is None


def test_a_broker_confirms_that_it_has_sent_everything_to_a_waiting_reader_only() -> None:
    waiting = {"readPosition": "7:5", "waitingReadOp": True}
    answers = {
        f"{LOG}/stats": {"subscriptions": {"reader-x": {"consumers": [{"consumerName": "mine"}]}}},
        f"{LOG}/internalStats": {**STATS, "cursors": {"reader-x": waiting}},
    }
    with admin_api(answers) as broker, Brokers(_options(broker.url)) as brokers:
        assert brokers.all_sent(WHOLE, "mine", Place(7, 4))
        assert not brokers.all_sent(WHOLE, "mine", Place(7, 5))
        assert not brokers.all_sent(WHOLE, "another", Place(7, 4))
        waiting["waitingReadOp"] = False
        assert not brokers.all_sent(WHOLE, "mine", Place(7, 4))
        waiting["waitingReadOp"] = True
        broker.answers[f"{LOG}/stats"] = 403
        assert not brokers.all_sent(WHOLE, "mine", Place(7, 4)), "without an answer this is not known"


@pytest.mark.parametrize("bad", ["<html>A proxy's page</html>", [["acme/orders"]], {"partitions": "many"}], ids=["text", "lists", "words"])
def test_an_answer_of_a_wrong_form_is_an_error_that_names_the_tenant(bad: Any) -> None:
    answers = {**ANSWERS, f"{LOG}/partitions": bad, f"{LOG}/internalStats": {**STATS, "ledgers": bad}, "namespaces/acme": bad}
    with (
        admin_api(answers) as broker,
        Brokers(_options(broker.url)) as brokers,
        Brokers(_options(broker.url, namespaces="acme/orders")) as one,
    ):
        for ask in (brokers.namespaces, one.logs, lambda: brokers.ledgers(WHOLE)):
            with pytest.raises(LogError, match=r"acme") as raised:
                ask()
            assert raised.value.reason == Reason.CLUSTER_UNAVAILABLE
