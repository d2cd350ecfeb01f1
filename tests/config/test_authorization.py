"""The configuration of authorization: what the options become, and which of them contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    ConfigError,
    EmbeddedLogConfig,
    ServerConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.config.building import server_config
from topicpolicies_server.config.sources import read_options

MEMORY = EmbeddedLogConfig(path=None)
BROKERS = {"pulsar": "pulsar://localhost:6650", "admin_url": "http://localhost:8080"}
EMBEDDED = {"data": Path("x.db")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of an existing file."""
    path = tmp_path / "roles.toml"
    path.write_text("")
    return path


def made(**flags: object) -> AuthorizationConfig:
    """Makes the configuration of options; with authorization, authentication by tokens is configured too."""
    asked = {"authentication_providers": "token", "token_secret_key": Path(__file__)}
    decided = "authorization" in flags or "authorization_by_brokers" in flags
    return server_config(read_options({**(asked if decided else {}), **flags}, {}), {}).authorization


def problems(**flags: object) -> str:
    """Returns the error for options."""
    with pytest.raises(ConfigError) as caught:
        made(**flags)
    return str(caught.value)


def test_authorization_is_off_by_default() -> None:
    assert made(**EMBEDDED) == AuthorizationConfig()
    assert not made(**EMBEDDED).enabled


def test_authorization_by_a_file_and_by_brokers_is_configured_by_its_options(file: Path) -> None:
    assert made(**EMBEDDED, authorization=file) == AuthorizationConfig(file=file)
    assert made(**BROKERS, authorization=file).enabled
    brokers = made(
        **BROKERS,
        authorization_by_brokers=True,
        superuser_roles="a, b",
        authorization_cache_seconds=7,
    )
    assert brokers == AuthorizationConfig(brokers=True, superuser_roles=("a", "b"), cache_seconds=7)
    assert brokers.enabled


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({**EMBEDDED, "authorization": Path("/gone")}, "can't be read"),
        ({**EMBEDDED, "authorization_by_brokers": True}, "--authorization-by-brokers goes with --pulsar"),
        ({**EMBEDDED, "superuser_roles": "a"}, "--superuser-roles go with"),
        ({**BROKERS, "authorization_by_brokers": True, "authorization": Path(__file__)}, "not both"),
        (
            {**EMBEDDED, "authorization": Path(__file__), "allow_authenticated": True},
            "--allow-authenticated lets every authenticated caller",
        ),
        ({**EMBEDDED, "authorization": Path(__file__), "show_secrets": True}, "grant the permission secrets"),
        ({**BROKERS, "authorization_by_brokers": True, "show_secrets": True}, "grant the permission secrets"),
        ({**BROKERS, "authorization_by_brokers": True, "authorization_cache_seconds": 0}, "authorization_cache_seconds"),
    ],
)
def test_contradicting_options_are_refused_with_the_reason(flags: dict[str, object], reason: str) -> None:
    assert reason in problems(**flags)


def test_a_server_with_authentication_needs_an_authorization(file: Path) -> None:
    tokens = AuthenticationConfig(token=TokenConfig(secret_key_file=file))
    with pytest.raises(ConfigError, match="nothing defines what they may do"):
        ServerConfig(log=MEMORY, authentication=tokens)
    for authorization in (AuthorizationConfig(file=file), AuthorizationConfig(allow_authenticated=True)):
        ServerConfig(log=MEMORY, authentication=tokens, authorization=authorization)


def test_a_server_without_options_listens_on_loopback_and_needs_no_authorization(file: Path) -> None:
    assert ServerConfig(log=MEMORY).listen.loopback
    with pytest.raises(ConfigError, match="can be reached from other machines"):
        ServerConfig(log=MEMORY, listen=parse_address("0.0.0.0:6680"))
    with pytest.raises(ConfigError, match="Authorization needs authenticated callers"):
        ServerConfig(log=MEMORY, authorization=AuthorizationConfig(file=file))
