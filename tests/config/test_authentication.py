"""The configuration of authentication: what the options become, and which of them contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    ConfigError,
    EmbeddedLogConfig,
    OidcConfig,
    ServerConfig,
    TlsConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.config.address import is_private
from topicpolicies_server.config.building import server_config
from topicpolicies_server.config.sources import read_options

MEMORY = EmbeddedLogConfig(path=None)
EVERYBODY = AuthorizationConfig(allow_authenticated=True)
PUBLIC = parse_address("0.0.0.0:6680")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of an existing file."""
    path = tmp_path / "file"
    path.write_text("x")
    return path


def made(**flags: object) -> AuthenticationConfig:
    return server_config(
        read_options({"data": Path("x.db"), "allow_authenticated": "authentication_providers" in flags, **flags}, {}), {}
    ).authentication


def problems(**flags: object) -> str:
    with pytest.raises(ConfigError) as caught:
        made(**flags)
    return str(caught.value)


def test_authentication_is_off_by_default() -> None:
    assert made() == AuthenticationConfig()
    assert not made().enabled


def test_each_way_of_authentication_is_configured_by_its_options(file: Path) -> None:
    tokens = made(authentication_providers=["token"], token_public_key=file, token_auth_claim="role", proxy_roles="a, b")
    assert tokens.token == TokenConfig(public_key_file=file, role_claim="role")
    assert (tokens.oidc, tokens.certificate, tokens.proxy_roles, tokens.enabled) == (None, False, ("a", "b"), True)
    oidc = made(authentication_providers="oidc", oidc_issuers="https://a.example", oidc_audiences="x,y", oidc_jwks_file=file)
    assert oidc.oidc == OidcConfig(issuers=("https://a.example",), audiences=("x", "y"), jwks_file=file)
    tls = {"tls_certificate": file, "tls_key": file, "tls_client_ca": file}
    assert made(authentication_providers=["certificate"], **tls).certificate
    all_of_them = made(
        authentication_providers="token,oidc,certificate",
        token_secret_key=file,
        oidc_issuers="https://a.example",
        oidc_audiences="x",
        **tls,
    )
    assert all_of_them.token and all_of_them.oidc and all_of_them.certificate


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"authentication_providers": "tokens"}, "must be token or oidc or certificate"),
        ({"authentication_providers": "token"}, "either --token-secret-key FILE or --token-public-key"),
        ({"authentication_providers": "token", "token_secret_key": Path("/gone")}, "can't be read"),
        ({"token_auth_claim": "x"}, "--token-auth-claim goes with --authentication-providers token"),
        ({"oidc_issuers": "https://a.example"}, "--oidc-issuers goes with --authentication-providers oidc"),
        ({"proxy_roles": "gateway"}, "an unauthenticated caller can't be a proxy"),
        ({"authentication_providers": "oidc"}, "--authentication-providers goes with --oidc-issuers and --oidc-audiences"),
        (
            {"authentication_providers": "oidc", "oidc_issuers": "https://a.example"},
            "goes with --oidc-audiences",
        ),
        ({"authentication_providers": "oidc", "oidc_issuers": "http://a.example", "oidc_audiences": "x"}, "write https://host"),
        (
            {
                "authentication_providers": "oidc",
                "oidc_issuers": "https://a.example,https://b.example",
                "oidc_jwks_file": __file__,
            },
            "one issuer",
        ),
        ({"authentication_providers": "certificate"}, "--tls-client-ca"),
        ({"token_allowed_clock_skew_seconds": "301"}, "from 0 to 300"),
    ],
)
def test_contradicting_options_are_refused_with_the_reason(flags: dict[str, object], reason: str) -> None:
    assert reason in problems(**flags)


def test_tokens_are_verified_with_exactly_one_key(file: Path) -> None:
    both = {"authentication_providers": "token", "token_secret_key": file, "token_public_key": file}
    assert "verified with one key" in problems(**both)
    assert "belong together" in problems(authentication_providers="token", token_secret_key=file, token_audience="x")


def test_a_server_reachable_from_other_machines_needs_authentication_unless_insecure(file: Path) -> None:
    tls = TlsConfig(certificate_file=file, key_file=file)
    mutual = TlsConfig(certificate_file=file, key_file=file, client_ca_file=file)
    tokens = AuthenticationConfig(token=TokenConfig(secret_key_file=file))
    with pytest.raises(ConfigError, match="callers are not authenticated, so every caller may"):
        ServerConfig(log=MEMORY, listen=PUBLIC, tls=tls)
    with pytest.raises(ConfigError, match="give the server TLS"):
        ServerConfig(log=MEMORY, listen=PUBLIC, authentication=tokens, authorization=EVERYBODY)
    with pytest.raises(ConfigError, match="nothing defines what they may do"):
        ServerConfig(log=MEMORY, authentication=tokens)
    for allowed in (
        {"listen": PUBLIC, "tls": mutual},
        {"listen": PUBLIC, "tls": tls, "authentication": tokens, "authorization": EVERYBODY},
        {"listen": PUBLIC, "tls": tls, "insecure_listen": True},
        {"listen": PUBLIC, "insecure_listen": True},
        {"tls": tls},
    ):
        ServerConfig(log=MEMORY, **allowed)


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("https://login.example.com", True),
        ("https://login.example.com:8443/realms/acme", True),
        ("http://localhost:8080", True),
        ("http://127.0.0.1:8080/keys", True),
        ("http://[::1]:8080/keys", True),
        ("http://login.example.com", False),
        ("http://localhost.example.com", False),
        ("https://user:password@login.example.com", False),
        ("http://127.0.0.1@login.example.com", False),
        ("https://", False),
        ("https://a.example#x", False),
        ("https://a.example:port", False),
        ("http://[::1", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_a_url_of_an_issuer_is_private_only_by_https_or_on_loopback(url: str, private: bool) -> None:
    assert is_private(url) is private
