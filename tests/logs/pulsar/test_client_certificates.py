"""The log of a broker that accepts only connections with a client certificate and takes the role from it."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.configuration import SUPERUSER, Security
from tests.broker.credentials import Authority, Identity, TokenKey
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, an_update
from topicpolicies_server.config import Limits, PulsarLogConfig
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import PulsarLog, PulsarNamespaceLog
from topicpolicies_server.logs.pulsar.admin import admin_api
from topicpolicies_server.logs.pulsar.log import pulsar_log

pytestmark = [pytest.mark.broker]
ROTATIONS = 3
_PROVIDERS = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[Broker]:
    settings = {
        "authenticationProviders": f"{_PROVIDERS}Token,{_PROVIDERS}Tls",
        "tlsRequireTrustedClientCertOnConnect": "true",
    }
    broker = OwnBroker(security=Security(tokens=TokenKey(), authority=authority), settings=settings, heap_mb=600)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


class Files:
    """The files of the sidecar's certificate."""

    def __init__(self, folder: Path, broker: Broker, authority: Authority) -> None:
        self._certificate, self._key = folder / "sidecar.pem", folder / "sidecar.key"
        self._broker, self._authority = broker, authority

    def put(self, identity: Identity) -> None:
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
        return pulsar_log(self.config(), Limits())


@pytest.fixture
def files(tmp_path: Path, broker: Broker, authority: Authority) -> Files:
    return Files(tmp_path, broker, authority)


async def namespace_of(broker: Broker) -> str:
    with broker.admin() as admin:
        return await asyncio.to_thread(admin.create_namespace)


async def test_a_log_is_written_and_read_with_a_certificate_as_the_only_credential(
    files: Files, broker: Broker, authority: Authority
) -> None:
    namespace = await namespace_of(broker)
    files.put(authority.issue(SUPERUSER))
    log, recorder = files.log(), Recorder()
    opened = await log.open(namespace, recorder)
    recorder.append(opened, an_update(a_key(namespace)))
    await recorder.until_settled(1)
    await log.close()
    assert recorder.complaints == []


@pytest.mark.parametrize("name", ["nobody in particular", None])
async def test_a_sidecar_without_a_certificate_or_with_one_of_a_role_without_permissions_is_refused(
    files: Files, broker: Broker, authority: Authority, name: str | None
) -> None:
    namespace = await namespace_of(broker)
    if name is not None:
        files.put(authority.issue(name))
    log = files.log()
    with pytest.raises(LogError) as refused:
        await asyncio.wait_for(log.open(namespace, Recorder()), 60)
    assert refused.value.reason in ("CLUSTER_UNAVAILABLE", "CLUSTER_UNAVAILABLE", "LOG_UNAVAILABLE")
    await log.close()


async def test_a_replaced_certificate_is_used_from_then_on(files: Files, broker: Broker, authority: Authority) -> None:
    namespace = await namespace_of(broker)
    files.put(authority.issue("nobody"))
    log, admin = files.log(), admin_api(files.config())
    with pytest.raises(LogError):
        await asyncio.wait_for(log.open(namespace, Recorder()), 60)
    with pytest.raises(LogError, match=r"40[13]"):
        await admin.get("tenants")
    files.put(authority.issue(SUPERUSER))
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
    files: Files, broker: Broker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = await namespace_of(broker)
    files.put(authority.issue(SUPERUSER))
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
                files.put(authority.issue(SUPERUSER))
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
