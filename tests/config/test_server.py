"""A server's configuration that could be made is valid; otherwise all its errors are reported."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.config import (
    DEFAULT_LISTEN,
    Address,
    ConfigError,
    EmbeddedLogConfig,
    Limits,
    PulsarLogConfig,
    ServerConfig,
    TlsConfig,
    parse_address,
)
from topicpolicies_server.config.option import Option, options_of
from topicpolicies_server.config.sources import options

MEMORY = EmbeddedLogConfig(path=None)


def pulsar(**changes: object) -> PulsarLogConfig:
    values: dict[str, object] = {"service_url": "pulsar://127.0.0.1:6650", "admin_url": "http://127.0.0.1:8080"}
    return PulsarLogConfig(**(values | changes))  # type: ignore[arg-type]


def test_the_default_listens_on_loopback_only() -> None:
    config = ServerConfig(log=MEMORY)
    assert str(config.listen) == DEFAULT_LISTEN
    assert config.listen.loopback


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:6680", Address("127.0.0.1", 6680), True),
        ("127.9.9.9:1", Address("127.9.9.9", 1), True),
        ("localhost:0", Address("localhost", 0), True),
        ("[::1]:65535", Address("::1", 65_535), True),
        ("unix:/run/socket", Address("", 0, "/run/socket"), True),
        ("0.0.0.0:6680", Address("0.0.0.0", 6680), False),  # noqa: S104
        ("[::]:6680", Address("::", 6680), False),
        ("policies.internal:6680", Address("policies.internal", 6680), False),
    ],
)
def test_an_address_is_read_and_written_back(text: str, address: Address, loopback: bool) -> None:
    assert parse_address(text) == address
    assert str(address) == text
    assert address.loopback is loopback


@pytest.mark.parametrize(
    "text",
    ["", "6680", ":6680", "host", "host:", "host:x", "host:70000", "host:-1", "::1:6680", "[]:1", "a b:1", "http://a:1", "unix:", "h:²"],
)
def test_a_text_that_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not an address"):
        parse_address(text)


@pytest.mark.parametrize("text", ["0.0.0.0:6680", "[::]:6680", "10.0.0.1:6680", "policies.internal:6680"])
def test_a_server_reachable_from_other_machines_needs_tls_or_an_explicit_option(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--insecure-listen"):
        ServerConfig(log=MEMORY, listen=parse_address(text))
    assert ServerConfig(log=MEMORY, listen=parse_address(text), insecure_listen=True).tls is None
    pem = tmp_path / "pem"
    pem.write_text("x")
    tls = TlsConfig(certificate_file=pem, key_file=pem, client_ca_file=pem)
    assert ServerConfig(log=MEMORY, listen=parse_address(text), tls=tls).tls is tls


def test_all_errors_of_a_configuration_are_reported_at_once(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(ConfigError) as caught:
        ServerConfig(
            log=pulsar(token_file=gone, tls_trust_certs_file=gone, tls_key_file=gone),
            listen=parse_address("0.0.0.0:1"),
            tls=TlsConfig(certificate_file=gone, key_file=gone, client_ca_file=gone),
        )
    # TLS is configured, so the address itself is not an error
    assert [problem.split()[0].rstrip(":") for problem in caught.value.problems] == [
        *("--pulsar-token-file", "--pulsar-tls-trust-certs", "--pulsar-tls-key", "--tls-certificate", "--tls-key", "--tls-client-ca"),
        "--pulsar-tls-certificate",
    ]


@pytest.mark.parametrize("option", options_of(Limits).values(), ids=lambda option: option.name)
def test_every_limit_has_bounds_that_include_its_default_and_are_enforced(option: Option) -> None:
    assert isinstance(option.default, (int, float)) and option.least <= option.default <= option.most
    for outside in (option.least - 1, option.most + 1, math.nan, True, None, "many"):
        with pytest.raises(ConfigError, match=option.name):
            option.read(outside)
    for edge in (option.least, option.most):
        assert option.read(option.type(edge)) == edge


@pytest.mark.parametrize(
    "url",
    ["pulsar", "pulsar://", "pulsar://host", "pulsar://host:x", "pulsar://a:1,b", "pulsar://a:1/path", "pulsar://user@a:1"],
)
def test_a_service_url_without_scheme_host_and_port_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="pulsar must be pulsar://host:port"):
        options()["pulsar"].read(url)


def test_several_hosts_and_tls_urls_are_accepted() -> None:
    for option, url in (("pulsar", "pulsar+ssl://a:6651,b:6651,[::1]:6651"), ("admin_url", "https://a:8443/")):
        assert options()[option].read(url) == url


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_a_configuration_error(text: str) -> None:
    try:
        address = parse_address(text)
    except ConfigError:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])  # noqa: S104
def test_an_exclusive_writer_on_all_interfaces_needs_an_advertised_address(host: str) -> None:
    listen = parse_address(f"{host}:6680")
    with pytest.raises(ConfigError, match="--advertise"):
        ServerConfig(log=pulsar(writer="exclusive"), listen=listen, insecure_listen=True)
    config = ServerConfig(log=pulsar(writer="exclusive"), listen=listen, insecure_listen=True, advertise=parse_address("sidecar-1:6680"))
    assert str(config.advertise) == "sidecar-1:6680"
    ServerConfig(log=pulsar(), listen=listen, insecure_listen=True)
    ServerConfig(log=pulsar(writer="exclusive"), listen=listen, insecure_listen=True, read_only=True)


@pytest.mark.parametrize("option", ["peer_token_file", "peer_trust_certs_file"])
def test_what_a_server_needs_to_forward_changes_goes_with_exclusive_writers(option: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    here: dict[str, Any] = {option: file}
    absent: dict[str, Any] = {option: tmp_path / "absent"}
    with pytest.raises(ConfigError, match="go with --writer exclusive"):
        ServerConfig(log=pulsar(), **here)
    with pytest.raises(ConfigError, match="can't be read"):
        ServerConfig(log=pulsar(writer="exclusive"), **absent)
    ServerConfig(log=pulsar(writer="exclusive"), **here)


@pytest.mark.parametrize("text", ["sidecar-1", "sidecar-1:0", "http://sidecar-1:6680", "0.0.0.0:6680", "[::]:6680"])
def test_an_advertised_address_that_others_can_not_use_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="advertise must be"):
        options()["advertise"].read(text)
