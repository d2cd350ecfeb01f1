"""Files that every user of the machine can read or write are reported if that does harm, unless their directory is closed to others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    CheckpointsConfig,
    ConfigError,
    EmbeddedLogConfig,
    GuardConfig,
    HistoryConfig,
    OAuth2Config,
    OidcConfig,
    PulsarLogConfig,
    ServerConfig,
    TlsConfig,
    TokenConfig,
    Writer,
    insecure,
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that every user may look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        if any(not each.stat().st_mode & 0o001 for each in Path(name).resolve().parents):
            pytest.skip("others can't look into the directory of temporary files here")
        yield Path(name)


class Files:
    """Creates a file for each option that names one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.made: dict[str, Path] = {}

    def of(self, option: str) -> Path:
        """Creates the file of an option."""
        path = self._folder / option
        path.write_text("content")
        path.chmod(0o600)
        self.made[option] = path
        return path


def configurations(files: Files) -> list[ServerConfig | GuardConfig]:
    """Returns configurations of servers and of a guard that name all files."""
    tls = TlsConfig(certificate_file=files.of("tls_certificate"), key_file=files.of("tls_key"), client_ca_file=files.of("tls_client_ca"))
    decided = AuthorizationConfig(file=files.of("authorization"))
    memory = EmbeddedLogConfig(path=None)
    oidc = OidcConfig(
        issuers=("https://issuer",),
        audiences=("a",),
        jwks_file=files.of("oidc_jwks_file"),
        trust_certs_file=files.of("oidc_trust_certs"),
    )
    secret = AuthenticationConfig(token=TokenConfig(secret_key_file=files.of("token_secret_key")), oidc=oidc)
    public = AuthenticationConfig(token=TokenConfig(public_key_file=files.of("token_public_key")))
    urls: dict[str, Any] = {"service_url": "pulsar+ssl://broker:6651", "admin_url": "https://broker:8443"}
    log = PulsarLogConfig(
        **urls,
        token_file=files.of("pulsar_token_file"),
        tls_trust_certs_file=files.of("pulsar_tls_trust_certs"),
        tls_certificate_file=files.of("pulsar_tls_certificate"),
        tls_key_file=files.of("pulsar_tls_key"),
    )
    issued = PulsarLogConfig(**urls, oauth2=OAuth2Config(issuer="https://issuer", credentials_file=files.of("pulsar_oauth2_credentials")))
    exclusive = PulsarLogConfig(**urls, writer=Writer.EXCLUSIVE)
    peers: dict[str, Any] = {"peer_token_file": files.of("peer_token_file"), "peer_trust_certs_file": files.of("peer_trust_certs")}
    return [
        ServerConfig(log=exclusive, tls=tls, **peers),
        ServerConfig(log=memory, tls=tls, authentication=secret, authorization=decided),
        ServerConfig(log=memory, authentication=public, authorization=decided),
        GuardConfig(log=log, patterns=("a/b",)),
        ServerConfig(log=issued),
    ]


SECRET = {"token_secret_key", "tls_key", "pulsar_token_file", "pulsar_tls_key", "pulsar_oauth2_credentials", "peer_token_file"}


def reported(configs: list[ServerConfig | GuardConfig]) -> dict[str, set[str]]:
    """Returns the options whose files are reported as readable, and as writable, for every user."""
    found: dict[str, set[str]] = {"read": set(), "write": set()}
    for sentence in {each for config in configs for each in insecure(config)}:
        option, _, text = sentence.partition(":")
        found["read" if "may read" in text else "write"].add(option)
        assert "content" not in text
    return found


def test_secrets_readable_and_files_writable_for_every_user_are_reported(folder: Path) -> None:
    files = Files(folder)
    configs = configurations(files)
    every = set(files.made)
    assert len(every) == 15
    for mode, read, written in (
        (0o600, set(), set()),
        (0o640, set(), set()),
        (0o660, set(), set()),
        (0o644, SECRET, set()),
        (0o646, SECRET, every),
        (0o602, set(), every),
    ):
        for path in files.made.values():
            path.chmod(mode)
        assert reported(configs) == {"read": read, "write": written}, oct(mode)


def test_files_in_a_private_directory_are_not_reported(folder: Path) -> None:
    inner = folder / "private"
    inner.mkdir(mode=0o700)
    files = Files(inner)
    configs = configurations(files)
    for path in files.made.values():
        path.chmod(0o666)
    assert reported(configs) == {"read": set(), "write": set()}


@pytest.mark.parametrize(("mode", "replaced"), [(0o777, True), (0o1777, False), (0o755, False)])
def test_files_in_a_directory_where_every_user_can_replace_them_are_reported(folder: Path, mode: int, replaced: bool) -> None:
    inner = folder / "inner"
    inner.mkdir()
    files = Files(inner)
    configs = configurations(files)
    inner.chmod(mode)
    assert reported(configs) == {"read": set(), "write": set(files.made) if replaced else set()}


@pytest.mark.parametrize("through", ["the file", "its directory", "a chain", "a relative link"])
def test_a_link_that_everybody_may_replace_is_told_wherever_it_leads(folder: Path, through: str) -> None:
    files, shared = Files(folder), folder / "shared"
    path = files.of("authorization")
    shared.mkdir()
    link = shared / "link"
    if through == "the file":
        link.symlink_to(path)
    elif through == "its directory":
        link.symlink_to(folder)
        link = link / "authorization"
    elif through == "a chain":
        link.symlink_to(path)
        first = folder / "first"
        first.symlink_to(link)
        link = first
    else:
        link.symlink_to("../authorization")
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        authentication=AuthenticationConfig(token=TokenConfig(secret_key_file=files.of("token_secret_key"))),
        authorization=AuthorizationConfig(file=link),
    )
    assert insecure(config) == []
    shared.chmod(0o777)
    (sentence,) = insecure(config)
    assert sentence.startswith("authorization: ") and "put another file in its place" in sentence
    shared.chmod(0o1777)
    assert insecure(config) == []


def test_links_that_lead_in_a_circle_are_left_to_the_check_of_the_option(folder: Path) -> None:
    (folder / "one").symlink_to(folder / "other")
    (folder / "other").symlink_to(folder / "one")
    with pytest.raises(ConfigError):
        ServerConfig(log=EmbeddedLogConfig(path=None), authorization=AuthorizationConfig(file=folder / "one"))
    assert insecure(ServerConfig(log=EmbeddedLogConfig(path=folder / "one"))) == []


def test_files_that_the_server_keeps_are_reported_if_every_user_can_replace_them(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    files = Files(inner)
    config = ServerConfig(
        log=EmbeddedLogConfig(path=files.of("data")),
        history=HistoryConfig(path=files.of("history")),
        checkpoints=CheckpointsConfig(path=inner / "checkpoints"),
    )
    (inner / "checkpoints").mkdir(mode=0o700)
    for path in files.made.values():
        path.chmod(0o666)
    assert insecure(config) == [], "the server closes them to others when it opens them"
    inner.chmod(0o777)
    assert reported([config]) == {"read": set(), "write": {*files.made, "checkpoints"}}
    inner.chmod(0o755)
    (inner / "checkpoints").chmod(0o777)
    assert reported([config]) == {"read": set(), "write": {"checkpoints"}}
    for path in files.made.values():
        path.unlink()
    (inner / "checkpoints").rmdir()
    inner.chmod(0o777)
    assert insecure(config) == [], "the server creates them for itself"


def test_a_symbolic_link_is_judged_by_its_target(folder: Path) -> None:
    files, link = Files(folder), folder / "link"
    path = files.of("authorization")
    link.symlink_to(path)
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        authentication=AuthenticationConfig(token=TokenConfig(secret_key_file=files.of("token_secret_key"))),
        authorization=AuthorizationConfig(file=link),
    )
    assert insecure(config) == []
    path.chmod(0o602)
    (sentence,) = insecure(config)
    assert sentence.startswith("authorization: ") and str(link) in sentence
    path.unlink()
    assert insecure(config) == []
