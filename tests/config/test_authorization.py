"""Who decides what callers may do: what is made of the options, and what contradicts itself."""

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
from topicpolicies_server.config.making import server_config
from topicpolicies_server.config.sources import read_options

MEMORY = EmbeddedLogConfig(path=None)
BROKERS = {"pulsar": "pulsar://localhost:6650", "admin_url": "http://localhost:8080"}
EMBEDDED = {"data": Path("x.db")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Any file that is there."""
    path = tmp_path / "roles.toml"
    path.write_text("")
    return path


def made(**flags: object) -> AuthorizationConfig:
    """What is made of options, where callers are asked who they are if somebody decides what they may do."""
    asked = {"authentication_providers": "token", "token_secret_key": Path(__file__)}
    decided = "authorization" in flags or "authorization_by_brokers" in flags
    return server_config(read_options({**(asked if decided else {}), **flags}, {}), {}).authorization


def problems(**flags: object) -> str:
    """What is wrong with them."""
    with pytest.raises(ConfigError) as caught:
        made(**flags)
    return str(caught.value)


def test_nobody_decides_unless_it_is_said() -> None:
    assert made(**EMBEDDED) == AuthorizationConfig()
    assert not made(**EMBEDDED).enabled


def test_each_way_is_made_of_its_options(file: Path) -> None:
    assert made(**EMBEDDED, authorization=file) == AuthorizationConfig(file=file)
    assert made(**BROKERS, authorization=file).enabled
    brokers = made(
        **BROKERS,
        authorization_by_brokers=True,
        superuser_roles="a, b",
        namespace_roles_may_read=True,
        authorization_cache_seconds=7,
    )
    assert brokers == AuthorizationConfig(brokers=True, superuser_roles=("a", "b"), namespace_roles_may_read=True, cache_seconds=7)
    assert brokers.enabled


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({**EMBEDDED, "authorization": Path("/gone")}, "can't be read"),
        ({**EMBEDDED, "authorization_by_brokers": True}, "--authorization-by-brokers goes with --pulsar"),
        ({**EMBEDDED, "superuser_roles": "a"}, "--superuser-roles and --namespace-roles-may-read go with"),
        ({**BROKERS, "namespace_roles_may_read": True}, "--superuser-roles and --namespace-roles-may-read go with"),
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
def test_what_contradicts_itself_is_told(flags: dict[str, object], told: str) -> None:
    assert told in problems(**flags)


def test_a_server_that_asks_who_calls_is_told_what_they_may_do(file: Path) -> None:
    tokens = AuthenticationConfig(token=TokenConfig(secret_key_file=file))
    with pytest.raises(ConfigError, match="nothing defines what they may do"):
        ServerConfig(log=MEMORY, authentication=tokens)
    for said in (AuthorizationConfig(file=file), AuthorizationConfig(allow_authenticated=True)):
        ServerConfig(log=MEMORY, authentication=tokens, authorization=said)


def test_a_first_start_is_for_this_machine_only(file: Path) -> None:
    assert ServerConfig(log=MEMORY).listen.loopback
    with pytest.raises(ConfigError, match="can be reached from other machines"):
        ServerConfig(log=MEMORY, listen=parse_address("0.0.0.0:6680"))
    with pytest.raises(ConfigError, match="Authorization needs authenticated callers"):
        ServerConfig(log=MEMORY, authorization=AuthorizationConfig(file=file))


def test_what_goes_with_brokers_is_set_aside_where_a_flag_chooses_the_embedded_log(tmp_path: Path) -> None:
    path = tmp_path / "options.toml"
    said = ['pulsar = "pulsar://localhost:6650"', 'admin_url = "http://localhost:8080"', "authorization_by_brokers = true"]
    path.write_text("\n".join([*said, 'superuser_roles = ["a"]']))
    assert not server_config(read_options(EMBEDDED, {}, path), {}).authorization.enabled
