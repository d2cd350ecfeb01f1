"""The metrics of a server that do not concern namespaces: each one changes with what it measures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import jwt
import pytest
from cryptography import x509

from tests.client.certificates import Authority, Identity
from tests.eventually import eventually
from tests.ports import free_port
from tests.stubs import async_stub
from topicpolicies.v1.service_pb2 import ListPoliciesRequest
from topicpolicies_server.access.issuers import Issuer, KeySet, Unanswered
from topicpolicies_server.access.keys import secret_key
from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    EmbeddedLogConfig,
    Limits,
    ServerConfig,
    TlsConfig,
    parse_address,
)
from topicpolicies_server.config.callers import OidcConfig, TokenConfig
from topicpolicies_server.config.server import AccessLogConfig, TelemetryConfig
from topicpolicies_server.files import Reloader
from topicpolicies_server.ops.metrics import ServerSources
from topicpolicies_server.rpc.server import Server

from .scraping import Shown

SECRET = "0123456789abcdef0123456789abcdef"
LIMITS = replace(Limits(), max_calls_per_principal=500, max_watches=7, drain_seconds=2.0)


@asynccontextmanager
async def secured(path: Path, identity: Identity) -> AsyncIterator[Shown]:
    """Runs a server with TLS, tokens, an access log, and a collector that can't be reached."""
    key = path / "secret.key"
    key.write_bytes(SECRET.encode())
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        listen=parse_address("127.0.0.1:0"),
        metrics_listen=parse_address("127.0.0.1:0"),
        tls=TlsConfig(certificate_file=identity.certificate, key_file=identity.key),
        authentication=AuthenticationConfig(token=TokenConfig(secret_key_file=key)),
        authorization=AuthorizationConfig(allow_authenticated=True),
        access_log=AccessLogConfig(which="all", path=path / "calls.log"),
        telemetry=TelemetryConfig(endpoint=f"http://127.0.0.1:{free_port()}", trace_ratio=1.0),
        limits=LIMITS,
    )
    credentials = grpc.ssl_channel_credentials((path / "ours.pem").read_bytes())
    async with Server(config) as server, grpc.aio.secure_channel(server.address, credentials) as channel:
        yield Shown(server, async_stub(channel))


def end_of(identity: Identity) -> float:
    return x509.load_pem_x509_certificate(identity.certificate.read_bytes()).not_valid_after_utc.timestamp()


async def test_lost_records_and_unusable_files_are_shown(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    identity = authority.identity("server", "127.0.0.1")
    async with secured(tmp_path, identity) as shown:
        before = await shown.scrape()
        assert before.value("topicpolicies_certificate_end_seconds") == end_of(identity)
        assert before.value("topicpolicies_limit", option="max_watches") == 7
        for name in ("access_log_lost_total", "files_unusable"):
            assert before.labels(f"topicpolicies_{name}") and before.value(f"topicpolicies_{name}") == 0, name

        metadata = (("authorization", f"Bearer {jwt.encode({'sub': 'me'}, SECRET)}"),)
        await shown.stub.ListPolicies(ListPoliciesRequest(namespace="public/a"), metadata=metadata)

        kept = identity.certificate.read_bytes()
        identity.certificate.write_text("nonsense")
        scrape = await shown.until("topicpolicies_files_unusable", 1)
        assert scrape.value("topicpolicies_certificate_end_seconds") == before.value("topicpolicies_certificate_end_seconds")
        identity.certificate.write_bytes(kept)
        await shown.until("topicpolicies_files_unusable", 0)


async def test_the_end_of_a_new_certificate_is_shown_once_it_is_in_force(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    identity, other = authority.identity("server", "127.0.0.1"), authority.identity("other", "127.0.0.1")
    async with secured(tmp_path, identity) as shown:
        identity.key.write_bytes(other.key.read_bytes())
        identity.certificate.write_bytes(other.certificate.read_bytes())
        await shown.until("topicpolicies_certificate_end_seconds", end_of(other))


async def test_issuers_without_an_answer_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = True

    async def fetch(_: str) -> KeySet:
        if not answers:
            raise Unanswered("it is away")
        return (("one", secret_key(SECRET.encode())),)

    monkeypatch.setattr("topicpolicies_server.access.issuers.ASK_SECONDS", 0.05)
    monkeypatch.setattr("topicpolicies_server.access.issuers.REFRESH_SECONDS", 0.1)
    config = OidcConfig(issuers=("https://a", "https://b"), audiences=("me",))
    issuers = [Issuer(name, config, fetch, lambda: None) for name in config.issuers]
    sources = ServerSources(reloader=Reloader(), limits=LIMITS, issuers=issuers)

    def unanswered() -> float:
        return next(each.samples[0].value for each in sources.families() if each.name == "topicpolicies_issuers_unanswered")

    for each in issuers:
        each.ask()
    await asyncio.sleep(0.05)
    assert unanswered() == 0
    answers = False
    await eventually(lambda: unanswered() == 2)
    for each in issuers:
        await each.close()
