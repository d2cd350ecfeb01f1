"""A generated stub with gRPC's own service config is a complete client: changes, batches, a watch that resumes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.promises.api import Api
from tests.promises.conftest import Embedded
from tests.promises.server_process import ServerProcess

from .programs import LANGUAGES, Program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_bare_stub_changes_repeats_and_sends_batches(language: str, embedded: Embedded, topic: str) -> None:
    async with Program(language, [embedded.server.address], "changes", topic) as program:
        first, repeat, *batch = await program.ended()
    assert (first["outcome"], first["previous_version"], first["replayed"]) == ("APPLIED", "0", False)
    assert {**repeat, "replayed": False} == first and repeat["replayed"]
    assert [each.get("outcome") or each["error"] for each in batch] == ["APPLIED"] * 3 + ["INVALID_REQUEST", "UNCHANGED"]
    versions = [first["version"], *(each["version"] for each in batch[:3])]
    assert [each["previous_version"] for each in batch[:3]] == versions[:3]
    async with Api(embedded.server.address) as api:
        read = await api.get(topic)
    assert read.version == versions[-1]
    assert read.policies is not None
    assert (read.policies.max_producer_per_topic, read.policies.max_consumer_per_topic) == (5, 3)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_bare_stub_resumes_its_watch_where_it_was(language: str, tmp_path: Path, namespace: str, topic: str) -> None:
    server = ServerProcess(["--data", str(tmp_path / "policies.db")], tmp_path / "server.log")
    await server.start()
    versions = ["0"]

    async def change() -> None:
        async with Api(server.address) as api:
            versions.append((await api.update(topic, {"max_producer_per_topic": len(versions)})).version)

    def shown(program: Program) -> list[tuple[str, str]]:
        return [(each["previous_version"], each["version"]) for each in program.lines if each["event"] == "change"]

    try:
        async with Program(language, [server.address], "watch", namespace) as program:
            await program.until(lambda lines: any(each.get("synced") for each in lines))
            await change()
            await change()
            await program.until(lambda _: len(shown(program)) == 2)
            server.kill()
            await server.start()
            await change()
            await program.until(lambda lines: len(shown(program)) == 3 and bool(lines[-1].get("token")))
            assert shown(program) == list(itertools.pairwise(versions))
            assert not any(each["event"] == "reset" for each in program.lines)
            token = next(each["token"] for each in reversed(program.lines) if each.get("token"))
        await change()
        async with Program(language, [server.address], "watch", namespace, token) as again:
            await again.until(lambda _: len(shown(again)) == 1)
            assert shown(again) == [(versions[-2], versions[-1])], "what came before the token does not come again"
    finally:
        server.kill()
