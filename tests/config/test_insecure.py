"""Insecure choices are reported, each once, and safe ones are not."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    EmbeddedLogConfig,
    GuardConfig,
    OAuth2Config,
    PulsarLogConfig,
    ServerConfig,
    TlsConfig,
    TokenConfig,
    insecure,
    parse_address,
)
from topicpolicies_server.rpc.server import Server

PUBLIC = parse_address("0.0.0.0:0")
HERE = parse_address("127.0.0.1:0")
MEMORY = EmbeddedLogConfig(path=None)


def server(**options: Any) -> ServerConfig:
    return ServerConfig(**{"log": MEMORY, "listen": HERE, **options})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("token")
    return path


def cluster(**options: Any) -> PulsarLogConfig:
    return PulsarLogConfig(**{"service_url": "pulsar://127.0.0.1:6650", "admin_url": "http://localhost:8080", **options})


def test_a_safe_configuration_has_no_warnings(file: Path) -> None:
    tls = TlsConfig(certificate_file=file, key_file=file, client_ca_file=file)
    for config in (
        server(),
        server(metrics_listen=parse_address("127.0.0.1:9464")),
        server(listen=PUBLIC, tls=tls, advertise=parse_address("here:1")),
        server(log=cluster(token_file=file)),
        server(log=cluster(token_file=file, service_url="pulsar+ssl://broker:6651", admin_url="https://broker:8443")),
    ):
        assert insecure(config) == []


def test_each_insecure_choice_is_reported(file: Path) -> None:
    tls = TlsConfig(certificate_file=file, key_file=file)
    issued = OAuth2Config(issuer="http://issuer", credentials_file=file)
    secure: dict[str, Any] = {"service_url": "pulsar+ssl://broker:6651", "admin_url": "https://broker:8443"}
    away: dict[str, Any] = {"service_url": "pulsar://broker:6650", "admin_url": "http://broker:8080"}
    choices: list[tuple[ServerConfig | GuardConfig, list[str]]] = [
        (server(listen=PUBLIC, insecure_listen=True), ["insecure_listen", "insecure_listen"]),
        (server(listen=PUBLIC, tls=tls, insecure_listen=True), ["insecure_listen"]),
        (server(show_secrets=True), ["show_secrets"]),
        (
            server(
                authentication=AuthenticationConfig(token=TokenConfig(secret_key_file=file)),
                authorization=AuthorizationConfig(allow_authenticated=True),
            ),
            ["allow_authenticated"],
        ),
        (server(metrics_listen=parse_address("0.0.0.0:9464")), ["metrics_listen"]),
        (server(log=cluster(token_file=file, service_url="pulsar://127.0.0.1:6650,broker:6650")), ["pulsar"]),
        (server(log=cluster(token_file=file, admin_url="http://broker:8080")), ["admin_url"]),
        (server(log=cluster(**away)), ["pulsar", "admin_url"]),
        (GuardConfig(log=cluster(**{**secure, "admin_url": "http://broker:8080"}), guard=("a/b",)), ["admin_url"]),
        (server(log=cluster(oauth2=issued, **secure)), ["pulsar_oauth2_issuer"]),
        (server(log=cluster(tls_validate_hostname=False, **secure)), ["pulsar_tls_validate_hostname"]),
        (
            GuardConfig(
                log=cluster(token_file=file, admin_url="http://broker:8080"),
                guard=("a/b",),
                metrics_listen=parse_address("0.0.0.0:9464"),
            ),
            ["metrics_listen", "admin_url"],
        ),
    ]
    for config, options in choices:
        assert [sentence.partition(":")[0] for sentence in insecure(config)] == options
        assert "token\n" not in " ".join(insecure(config))


def test_the_warning_names_the_secrets_that_are_sent_unencrypted(file: Path) -> None:
    away: dict[str, Any] = {"service_url": "pulsar://broker:6650", "admin_url": "https://broker:8443"}
    (without,), (with_token,) = (insecure(server(log=cluster(**away, **more))) for more in ({}, {"token_file": file}))
    assert "credentials of object storages" in without and "credentials of object storages" in with_token
    assert ("token for Pulsar" in without, "token for Pulsar" in with_token) == (False, True)


async def test_a_server_logs_insecure_choices_once_at_its_start(caplog: pytest.LogCaptureFixture) -> None:
    config = server(log=MEMORY, listen=PUBLIC, insecure_listen=True, advertise=parse_address("here:1"), show_secrets=True)
    with caplog.at_level(logging.WARNING):
        async with Server(config):
            pass
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("insecure: ")]
    assert len(lines) == len(set(lines)) == 3
    caplog.clear()
    async with Server(server()):
        pass
    assert caplog.records == []


@pytest.mark.parametrize("on", [True, False])
async def test_reflection_can_be_disabled(on: bool) -> None:
    async with Server(replace(server(), reflection=on)) as running, grpc.aio.insecure_channel(running.address) as channel:
        call: Any = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        if on:
            await call.write(request)
            answer = await call.read()
            assert "topicpolicies.v1.TopicPoliciesService" in [each.name for each in answer.list_services_response.service]
            call.cancel()
            return
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that every user may look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        if any(not each.stat().st_mode & 0o001 for each in Path(name).resolve().parents):
            pytest.skip("others can't look into the directory of temporary files here")
        yield Path(name)


SECRETS = ("token_secret_key", "tls_key", "pulsar_token_file", "pulsar_tls_key", "pulsar_oauth2_credentials", "peer_token_file")


@pytest.mark.parametrize(
    ("mode", "accesses"), [(0o600, ()), (0o640, ()), (0o644, ("read",)), (0o602, ("write",)), (0o666, ("read", "write"))]
)
@pytest.mark.parametrize("private", [False, True])
def test_secrets_that_every_user_may_read_or_write_are_reported(folder: Path, mode: int, accesses: tuple[str, ...], private: bool) -> None:
    files = {option: folder / option for option in SECRETS}
    for path in files.values():
        path.write_text("content")
        path.chmod(mode)
    if private:
        folder.chmod(0o700)
    secure: dict[str, Any] = {"service_url": "pulsar+ssl://broker:6651", "admin_url": "https://broker:8443"}
    keys: dict[str, Any] = {"tls_certificate_file": files["pulsar_tls_key"], "tls_key_file": files["pulsar_tls_key"]}
    issued = OAuth2Config(issuer="https://issuer", credentials_file=files["pulsar_oauth2_credentials"])
    configs: list[ServerConfig | GuardConfig] = [
        GuardConfig(log=cluster(token_file=files["pulsar_token_file"], **keys, **secure), guard=("a/b",)),
        server(
            log=cluster(oauth2=issued, writer="exclusive", **secure),
            tls=TlsConfig(certificate_file=files["tls_key"], key_file=files["tls_key"]),
            peer_token_file=files["peer_token_file"],
            authentication=AuthenticationConfig(token=TokenConfig(secret_key_file=files["token_secret_key"])),
            authorization=AuthorizationConfig(file=files["token_secret_key"]),
        ),
    ]
    found = [sentence for config in configs for sentence in insecure(config)]
    expected = {(option, access) for option in SECRETS for access in accesses} if not private else set()
    assert {(each.partition(":")[0], "read" if "may read" in each else "write") for each in found} == expected
    assert not any("content" in each for each in found)
