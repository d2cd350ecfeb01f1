"""Which role a client certificate has."""

from __future__ import annotations

import pytest

from topicpolicies_server.access import Caller, Way
from topicpolicies_server.access.identification import Identification, caller_of_certificate
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason

from .certificates import certificate
from .signing import NOW, at_once


def refused(pem: bytes) -> Reason:
    with pytest.raises(PolicyError) as caught:
        at_once(Identification(certificates=True).caller([], lambda: pem))
    assert caught.value.kind is Kind.UNAUTHENTICATED
    return Reason(caught.value.reason)


def test_the_role_is_the_common_name_of_several_the_most_specific_as_for_brokers() -> None:
    assert caller_of_certificate(certificate("orders")) == Caller("orders", Way.CERTIFICATE, expires_at=NOW + 3600)
    assert caller_of_certificate(certificate("services", "orders")).principal == "orders"


@pytest.mark.parametrize("names", [(), ("a\nb",), (" a",)])
def test_a_certificate_without_a_usable_common_name_is_refused(names: tuple[str, ...]) -> None:
    assert refused(certificate(*names)) is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("pem", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_bytes_that_are_not_a_certificate_are_refused(pem: bytes) -> None:
    assert refused(pem) is Reason.CREDENTIALS_INVALID


def test_a_comma_in_a_common_name_does_not_begin_another_name() -> None:
    assert caller_of_certificate(certificate("orders,CN=admin")).principal == "orders,CN=admin"


def test_a_certificate_that_was_read_before_expires_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pem = certificate("orders")
    assert caller_of_certificate(pem) is caller_of_certificate(pem)
    monkeypatch.setattr("time.time", lambda: NOW + 3600)
    assert refused(pem) is Reason.CREDENTIALS_EXPIRED
