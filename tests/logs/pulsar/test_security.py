"""The log of a broker that offers TLS and takes roles from tokens, or from client certificates."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jwt
import pytest

from tests.broker.configuration import SUPERUSER, Security
from tests.broker.credentials import Authority, TokenKey
from tests.broker.credentials import Identity as Certificate
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, an_update
from topicpolicies_server.config import OAuth2Config, PulsarLogConfig
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog, PulsarNamespaceLog, TlsOptions, token_from_file
from topicpolicies_server.logs.pulsar.admin import Admin, admin_api
from topicpolicies_server.logs.pulsar.client import PulsarClient
from topicpolicies_server.logs.pulsar.credentials import IssuedToken, TokenSource
from topicpolicies_server.logs.pulsar.log import pulsar_log

from .test_oauth2 import Web

pytestmark = [pytest.mark.broker]
ROTATIONS = 3
_PROVIDERS = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
BRIEF_SECONDS, AFTERWARDS_SECONDS = 7.0, 3.0
"""How long a token is valid, and how long the test continues afterwards: the broker checks each second."""


@dataclass
class Secured:
    broker: Broker
    authority: Authority
    directory: Path

    def log(self, *, role: str | None = SUPERUSER, tls: TlsOptions | None = None) -> PulsarLog:
        """Returns the change logs of this broker over TLS."""
        file = self.directory / "token"
        if role is not None:
            file.write_text(f"{self.broker.token(role)}\n")
        return self.log_of(None if role is None else token_from_file(file), tls)

    def log_of(self, token: TokenSource | None, tls: TlsOptions | None = None) -> PulsarLog:
        """The same with any source of tokens."""
        return PulsarLog(
            self.broker.service_url_tls,
            self.broker.admin_url_tls,
            token=token,
            tls=tls or TlsOptions(trust_certs=self.authority.trust),
            limits=PulsarLimits(creation_seconds=0.5, check_seconds=1.0, close_seconds=3.0),
        )

    def token_until(self, moment: float) -> str:
        """Returns a superuser's token that expires at ``moment``."""
        assert self.broker.security.tokens is not None, "the broker requires tokens"
        return jwt.encode({"sub": SUPERUSER, "exp": int(moment)}, self.broker.security.tokens.secret, "HS256")


@pytest.fixture(scope="module")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Authority]]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    settings = {
        "authenticationProviders": f"{_PROVIDERS}Token,{_PROVIDERS}Tls",
        "authenticationRefreshCheckSeconds": "1",  # by default, the broker requests a new token within a minute after expiry
    }
    broker = OwnBroker(security=Security(tokens=TokenKey(), authority=authority), settings=settings, heap_mb=600)
    try:
        broker.start()
        yield broker, authority
    finally:
        broker.close()


@pytest.fixture
def secured(secured_broker: tuple[Broker, Authority], tmp_path: Path) -> Secured:
    return Secured(*secured_broker, tmp_path)


async def namespace_of(secured: Secured) -> str:
    with secured.broker.admin() as admin:
        return await asyncio.to_thread(admin.create_namespace)


async def test_a_log_is_written_and_read_with_a_token_and_tls_and_the_token_is_not_logged(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = await namespace_of(secured)
    log = secured.log()
    recorder = Recorder()
    with caplog.at_level(logging.DEBUG):
        opened = await log.open(namespace, recorder)
        recorder.append(opened, an_update(a_key(namespace)))
        await recorder.until_settled(1)
        await log.close()
    assert recorder.complaints == []
    assert str(secured.broker.token()) not in caplog.text


async def test_a_token_is_rotated_under_load_without_a_failed_append_or_request(secured: Secured) -> None:
    namespace, token = await namespace_of(secured), secured.directory / "token"
    log = secured.log()
    expires_at = int(time.time() + BRIEF_SECONDS)
    await asyncio.to_thread(token.write_text, secured.token_until(expires_at))
    admin = Admin(secured.broker.admin_url_tls, token=token_from_file(token), tls=TlsOptions(trust_certs=secured.authority.trust))
    recorder = Recorder()
    opened, appended, asked = await log.open(namespace, recorder), 0, 0
    recorder.append(opened, an_update(a_key(namespace)))
    await recorder.until_settled(1)
    assert "public" in await admin.get("tenants") and time.time() < expires_at, "the short-lived token must be in use"
    await asyncio.to_thread(token.write_text, secured.token_until(expires_at + 3_600))
    while (left := expires_at + AFTERWARDS_SECONDS - time.time()) > 0 or not asked:
        appended += 1
        recorder.append(opened, an_update(a_key(namespace, appended % 10), appended))
        if not appended % 10:
            assert "public" in await admin.get("tenants")
            asked += left < AFTERWARDS_SECONDS
        await asyncio.sleep(0.02)
    await recorder.until_settled(appended + 1)
    assert asked and len(recorder.places) == appended + 1, "events appended after the short-lived token expired must be stored too"
    assert recorder.failures == [] and recorder.losses == [] and recorder.complaints == []
    await admin.close()
    await log.close()


async def test_a_log_is_written_and_read_with_tokens_of_an_issuer_that_the_broker_trusts(secured: Secured, tmp_path: Path) -> None:
    namespace, web, credentials = await namespace_of(secured), Web(), tmp_path / "credentials.json"
    web.token = lambda _: secured.token_until(time.time() + 3_600)
    content = {"type": "client_credentials", "client_id": "sidecar", "client_secret": "hush"}
    await asyncio.to_thread(credentials.write_text, json.dumps(content))
    log = secured.log_of(IssuedToken(OAuth2Config(issuer=web.url, credentials_file=credentials, audience="pulsar")))
    recorder = Recorder()
    try:
        opened = await log.open(namespace, recorder)
        recorder.append(opened, an_update(a_key(namespace)))
        await recorder.until_settled(1)
        assert len(recorder.places) == 1 and recorder.failures == [] and recorder.complaints == []
        assert [(form["client_id"], form["audience"]) for form in web.forms] == [(["sidecar"], ["pulsar"])], (
            "one token serves both protocols"
        )
        web.token = lambda _: TokenKey().token(SUPERUSER)
        refused = secured.log_of(IssuedToken(OAuth2Config(issuer=web.url, credentials_file=credentials)))
        with pytest.raises(LogError) as caught:
            await asyncio.wait_for(refused.open(await namespace_of(secured), Recorder()), 60)
        assert caught.value.reason in ("CLUSTER_UNAVAILABLE", "LOG_UNAVAILABLE")
        await refused.close()
    finally:
        await log.close()
        web.close()


async def test_a_tenants_administrator_has_all_permissions_that_a_log_needs(secured: Secured) -> None:
    with secured.broker.admin() as admin:
        await asyncio.to_thread(admin.call, "PUT", "tenants/acme", {"adminRoles": ["sidecar"], "allowedClusters": ["standalone"]})
        await asyncio.to_thread(admin.call, "PUT", "namespaces/acme/orders", {"replication_clusters": ["standalone"]})
    log = secured.log(role="sidecar")
    recorder = Recorder()
    opened = await log.open("acme/orders", recorder)
    for n in range(2):
        recorder.append(opened, an_update(a_key("acme/orders", n)))
    await recorder.until_settled(2)
    assert recorder.failures == []
    await opened.check()
    assert recorder.losses == []
    await log.close()


@pytest.mark.parametrize("role", ["nobody in particular", None])
async def test_a_role_without_permissions_and_a_client_without_a_token_are_refused(secured: Secured, role: str | None) -> None:
    namespace = await namespace_of(secured)
    log = secured.log(role=role)
    with pytest.raises(LogError) as refused:
        await log.open(namespace, Recorder())
    assert refused.value.reason in ("CLUSTER_UNAVAILABLE", "LOG_UNAVAILABLE")
    await log.close()


async def test_a_broker_with_a_certificate_of_another_authority_is_not_trusted(secured: Secured, tmp_path: Path) -> None:
    namespace = await namespace_of(secured)
    stranger = Authority(tmp_path / "stranger")
    log = secured.log(tls=TlsOptions(trust_certs=stranger.trust))
    with pytest.raises(LogError, match="certificate") as refused:
        await asyncio.wait_for(log.open(namespace, Recorder()), 40)
    assert refused.value.reason == "CLUSTER_UNAVAILABLE"
    await log.close()


@pytest.mark.parametrize("wrong", ["authority", "name"])
async def test_the_binary_protocol_also_checks_the_authority_and_the_host_name(secured: Secured, tmp_path: Path, wrong: str) -> None:
    namespace = await namespace_of(secured)
    token = str(secured.broker.token())
    url, trust = secured.broker.service_url_tls, secured.authority.trust
    unchecked = TlsOptions(trust_certs=trust, check_hostname=False)
    if wrong == "name":
        url = url.replace("127.0.0.1", "127.1")  # the same address under a name that the certificate does not contain
    else:
        trust = Authority(tmp_path / "stranger").trust
    client = PulsarClient(url, token=lambda: token, tls=TlsOptions(trust_certs=trust))
    with pytest.raises((LogError, TimeoutError)):
        await asyncio.wait_for(client.create_reader(f"persistent://{namespace}/topic", "name", queue_size=10), 5)
    await client.close(5)
    control = PulsarClient(url, token=lambda: token, tls=unchecked)
    assert await asyncio.wait_for(control.create_reader(f"persistent://{namespace}/topic", "name", queue_size=10), 5)
    await control.close(5)


# Client certificates


class Files:
    """The files of the sidecar's certificate."""

    def __init__(self, folder: Path, broker: Broker, authority: Authority) -> None:
        self._certificate, self._key = folder / "sidecar.pem", folder / "sidecar.key"
        self._broker, self._authority = broker, authority

    def put(self, identity: Certificate) -> None:
        shutil.copyfile(identity.certificate, self._certificate)
        shutil.copyfile(identity.key, self._key)

    def config(self) -> PulsarLogConfig:
        there = self._certificate.exists()
        return PulsarLogConfig(
            service_url=self._broker.service_url_tls,
            admin_url=self._broker.admin_url_tls,
            tls_trust_certs_file=self._authority.trust,
            tls_certificate_file=self._certificate if there else None,
            tls_key_file=self._key if there else None,
        )

    def log(self) -> PulsarLog:
        return pulsar_log(self.config())


@pytest.fixture
def files(secured: Secured) -> Files:
    return Files(secured.directory, secured.broker, secured.authority)


@pytest.mark.parametrize("name", ["nobody in particular", None])
async def test_a_sidecar_without_a_certificate_or_with_one_of_a_role_without_permissions_is_refused(
    files: Files, secured: Secured, name: str | None
) -> None:
    namespace = await namespace_of(secured)
    if name is not None:
        files.put(secured.authority.issue(name))
    log = files.log()
    with pytest.raises(LogError) as refused:
        await asyncio.wait_for(log.open(namespace, Recorder()), 60)
    assert refused.value.reason in ("CLUSTER_UNAVAILABLE", "LOG_UNAVAILABLE")
    await log.close()


async def test_a_replaced_certificate_is_used_from_then_on(files: Files, secured: Secured) -> None:
    namespace = await namespace_of(secured)
    files.put(secured.authority.issue("nobody"))
    log, admin = files.log(), admin_api(files.config())
    with pytest.raises(LogError):
        await asyncio.wait_for(log.open(namespace, Recorder()), 60)
    with pytest.raises(LogError, match=r"40[13]"):
        await admin.get("tenants")
    files.put(secured.authority.issue(SUPERUSER))
    recorder = Recorder()
    opened: PulsarNamespaceLog | None = None
    async with asyncio.timeout(60):
        while opened is None:  # connections of the library made with the old certificate stay in use while open
            try:
                assert "public" in await admin.get("tenants")
                opened = await log.open(namespace, recorder)
            except LogError:
                await asyncio.sleep(0.5)
    recorder.append(opened, an_update(a_key(namespace)))
    await recorder.until_settled(1)
    assert recorder.failures == []
    await log.close()
    await admin.close()


async def test_a_certificate_is_rotated_under_load_without_a_failed_append_or_request(
    files: Files, secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = await namespace_of(secured)
    files.put(secured.authority.issue(SUPERUSER))
    log, admin, ended = files.log(), admin_api(files.config()), False
    recorder = Recorder()
    opened, appended, asked = await log.open(namespace, recorder), 0, 0

    async def write() -> None:
        nonlocal appended
        while not ended:
            appended += 1
            recorder.append(opened, an_update(a_key(namespace, appended % 10), appended))
            await asyncio.sleep(0.02)

    async def ask() -> None:
        nonlocal asked
        while not ended:
            assert "public" in await admin.get("tenants")
            asked += 1
            await asyncio.sleep(0.02)

    with caplog.at_level(logging.INFO):
        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            group.create_task(ask())
            for number in range(1, ROTATIONS + 1):
                files.put(secured.authority.issue(SUPERUSER))
                async with asyncio.timeout(60):
                    while sum("read again, and in force" in each.message for each in caplog.records) < number:  # noqa: ASYNC110 (a log line)
                        await asyncio.sleep(0.01)
                goal, other, beside = (appended + 5, asked + 5), files.log(), Recorder()  # connects with the new certificate
                made = await other.open(namespace, beside)
                beside.append(made, an_update(a_key(namespace, "beside"), number))
                await beside.until_settled(1)
                assert beside.failures == []
                await other.close()
                async with asyncio.timeout(60):
                    while appended < goal[0] or asked < goal[1]:  # noqa: ASYNC110 (not reported)
                        await asyncio.sleep(0.01)
            ended = True
    await recorder.until_settled(appended)
    assert recorder.failures == [] and recorder.losses == [] and recorder.complaints == []
    await log.close()
    await admin.close()
