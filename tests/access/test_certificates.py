"""Which role a client certificate has by each rule."""

from __future__ import annotations

import pytest
from cryptography import x509

from topicpolicies_server.access import Caller, Way
from topicpolicies_server.access.identification import _ROLES, Certificates
from topicpolicies_server.config.callers import CERTIFICATE_ROLES
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason

from .certificates import certificate, with_names
from .signing import NOW

NAMES: list[x509.GeneralName] = [
    x509.DNSName("orders.acme.example"),
    x509.UniformResourceIdentifier("spiffe://acme/orders"),
    x509.RFC822Name("orders@acme.example"),
]


def refused(rule: str, pem: bytes, now: float = NOW) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        Certificates(rule).caller(pem, now)
    assert caught.value.kind is Kind.UNAUTHENTICATED
    return caught.value


@pytest.mark.parametrize(
    ("rule", "role"), [("cn", "orders"), ("dns", "orders.acme.example"), ("uri", "spiffe://acme/orders"), ("email", "orders@acme.example")]
)
def test_the_role_is_read_from_the_field_of_the_rule(rule: str, role: str) -> None:
    found = Certificates(rule).caller(certificate("orders", alternatives=NAMES), NOW)
    assert found == Caller(role, Way.CERTIFICATE, expires_at=NOW + 3600)


def test_of_several_common_names_the_most_specific_counts_as_for_brokers() -> None:
    assert Certificates("cn").caller(certificate("services", "orders"), NOW).principal == "orders"


@pytest.mark.parametrize("rule", ["dns", "uri", "email"])
def test_a_certificate_without_exactly_one_alternative_name_of_the_rule_is_refused(rule: str) -> None:
    several = [x509.DNSName("b.example"), x509.UniformResourceIdentifier("spiffe://b"), x509.RFC822Name("b@b.example"), *NAMES]
    for alternatives in (None, [x509.DirectoryName(x509.Name([]))], several):
        error = refused(rule, certificate("orders", alternatives=alternatives))
        assert error.reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("names", [(), ("a\nb",), (" a",)])
def test_a_certificate_without_a_usable_common_name_is_refused(names: tuple[str, ...]) -> None:
    assert refused("cn", certificate(*names, alternatives=NAMES)).reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("pem", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_bytes_that_are_not_a_certificate_are_refused(pem: bytes) -> None:
    assert refused("cn", pem).reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("rule", CERTIFICATE_ROLES[1:])
@pytest.mark.parametrize(
    "names",
    [
        b"\x30\x04\xa3\x02\x30\x00",  # an X.400 address, which the library does not know
        b"\x30\x05\x82\x03\xff\xfe\xfd",  # a DNS name that is no ASCII
        b"\x30\x7f\x82",  # half of a list
    ],
)
def test_alternative_names_that_can_not_be_read_are_refused_if_the_rule_needs_them(rule: str, names: bytes) -> None:
    error = refused(rule, with_names(names))
    assert (error.reason, error.message) == (Reason.CREDENTIALS_INVALID, "The client certificate can't be read.")
    assert Certificates("cn").caller(with_names(names), NOW).principal == "orders", (
        "the rule of common names does not read the alternative ones"
    )


def test_a_comma_in_a_common_name_does_not_begin_another_name() -> None:
    assert Certificates("cn").caller(certificate("orders,CN=admin"), NOW).principal == "orders,CN=admin"


def test_a_certificate_that_was_read_before_expires_too() -> None:
    certificates, pem = Certificates("cn"), certificate("orders")
    assert certificates.caller(pem, NOW) is certificates.caller(pem, NOW + 3599)
    with pytest.raises(PolicyError) as caught:
        certificates.caller(pem, NOW + 3600)
    assert caught.value.reason is Reason.CREDENTIALS_EXPIRED


def test_the_configurable_rules_are_the_supported_ones() -> None:
    assert tuple(_ROLES) == CERTIFICATE_ROLES
