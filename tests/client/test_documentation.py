"""The examples of docs/python.md and of the README run unchanged, one after the other."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import topicpolicies as tp
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

_ROOT = Path(__file__).parents[2]
_TOPIC = "persistent://public/default/orders"
_CLUSTER = """
cluster = "us"
[clusters]
us = []
west = []
[tenants]
public = ["us", "west"]
[broker]
[namespaces."public/default"]
replication_clusters = ["us", "west"]
"""


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    (tmp_path / "cluster.toml").write_text(_CLUSTER)
    config = ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "p.db", cluster_file=tmp_path / "cluster.toml"),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=tmp_path / "h.db"),
    )
    async with Server(config) as server:
        yield server.address


def _examples(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (_ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def _ending(watch: Any) -> Any:
    """Wraps ``watch`` so that a watch ends when it is synced, for examples that would never end."""
    return lambda self, **options: watch(self, **options, end_when_synced=True)


@pytest.mark.parametrize(("page", "count"), [("docs/python.md", 7), ("README.md", 1)])
async def test_the_examples_of_the_page_run(page: str, count: int, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = _examples(page)
    assert len(examples) == count
    monkeypatch.setattr(tp.Client, "watch", _ending(tp.Client.watch))

    def run() -> dict[str, Any]:
        with tp.Client(address) as client:
            names: dict[str, Any] = {"topic": _TOPIC, "client": client, "saved": ""}
            names["copy"] = "persistent://public/default/copy"
            for number, example in enumerate(examples):
                code = example.replace("localhost:6680", address)
                exec(compile(code, f"{page}, example {number}", "exec"), names)  # noqa: S102
                if names["client"] is not client:  # an example made one of its own and closed it
                    names["client"] = client
            return names

    names = await asyncio.to_thread(run)
    if page == "docs/python.md":
        assert inspect.iscoroutinefunction(names["clear"])
        assert len(names["mirror"]) > 900
        async with tp.AsyncClient(address) as client:
            assert (await client.get(_TOPIC)).exists
            await names["clear"](_TOPIC)
            assert (await client.get(_TOPIC)).policies == tp.TopicPolicies()
