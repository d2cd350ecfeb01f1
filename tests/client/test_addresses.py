"""Targets of clients are parsed into the hosts, ports and sockets that they name."""

from __future__ import annotations

import pytest

from topicpolicies.addresses import Place, places_of


@pytest.mark.parametrize(
    ("address", "places"),
    [
        (str(Place("::1", 7)), (Place("::1", 7),)),
        ("localhost:6680", (Place("localhost", 6680),)),
        ("[::1]:7", (Place("::1", 7),)),
        ("dns:///sidecar:1", (Place("sidecar", 1),)),
        ("dns://10.0.0.53/sidecar:1", (Place("sidecar", 1),)),
        ("dns:sidecar:1", (Place("sidecar", 1),)),
        ("ipv4:127.0.0.1:5", (Place("127.0.0.1", 5),)),
        ("ipv4:10.0.0.1:5, 10.0.0.2:6", (Place("10.0.0.1", 5), Place("10.0.0.2", 6))),
        ("ipv6:[::1]:5,[::2]", (Place("::1", 5), Place("::2", 443))),
        ("unix:/run/s", (Place("", 0, "/run/s"),)),
        ("unix:///run/s", (Place("", 0, "/run/s"),)),
        ("sidecar", (Place("sidecar", 443),)),
        ("::1", (Place("::1", 443),)),
    ],
)
def test_an_address_is_parsed_into_its_hosts_and_ports_or_its_socket(address: str, places: tuple[Place, ...]) -> None:
    assert places_of(address) == places


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "has no host"),
        (":80", "has no host"),
        ("a:b", "a port is a number from 1 to 65535"),
        ("a:", "a port is a number"),
        ("a:0", "a port is a number"),
        ("a:99999", "a port is a number"),
        ("ipv4:127.0.0.1:1,127.0.0.2:x", "a port is a number"),
        ("::1::6680", r"in brackets, such as \[::1\]:6680"),
    ],
)
def test_a_malformed_address_is_refused_with_the_reason(address: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        places_of(address)
