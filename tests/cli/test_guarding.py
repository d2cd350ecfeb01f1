"""The guard command, the server's options for repairs, and the signals that a running process handles."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from topicpolicies_server.cli import serve as serve_module
from topicpolicies_server.cli.app import app
from topicpolicies_server.config import AccessLogConfig, GuardConfig, Limits, PulsarLogConfig, ServerConfig, parse_address
from topicpolicies_server.namespaces.repairs import RepairQueue
from topicpolicies_server.process import until_told_to_stop

CLUSTER = ("--pulsar", "pulsar://broker:6650", "--admin-url", "http://broker:8080")
LOG = PulsarLogConfig(service_url="pulsar://broker:6650", admin_url="http://broker:8080")


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The configurations of the servers and guards that would have run."""
    configurations: list[Any] = []
    monkeypatch.setattr(serve_module, "run", lambda config, *_: configurations.append(config))
    return configurations


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_guard_runs_with_the_patterns_of_its_arguments(configured: list[Any]) -> None:
    assert run("guard", "acme/*", "beta/orders", *CLUSTER).exit_code == 0
    assert configured == [GuardConfig(log=LOG, guard=("acme/*", "beta/orders"))]


def test_guard_accepts_all_its_options(configured: list[Any], tmp_path: Path) -> None:
    token, trust = tmp_path / "token", tmp_path / "trust"
    for path in (token, trust):
        path.write_text("x")
    result = run(
        *("guard", "acme/*", *CLUSTER, "--pulsar-token-file", str(token), "--pulsar-tls-trust-certs", str(trust), "--report-only"),
        *("--pause-repairs", "--max-repairs-per-second", "5", "--metrics-listen", "127.0.0.1:9000", "--log-level", "debug"),
    )
    assert result.exit_code == 0, result.output
    (config,) = configured
    assert (config.report_only, config.pause_repairs, config.limits) == (True, True, Limits(max_repairs_per_second=5))
    assert config.metrics_listen == parse_address("127.0.0.1:9000") and config.log.token_file == token


def test_serve_can_guard_namespaces_or_be_read_only(configured: list[Any], tmp_path: Path) -> None:
    assert run("serve", *CLUSTER, "--guard", "acme/*", "--guard", "beta/*", "--metrics-listen", "localhost:0").exit_code == 0
    assert run("serve", "--data", str(tmp_path / "p.db"), "--read-only", "--pause-repairs").exit_code == 0
    guarding, reading = configured
    assert guarding == ServerConfig(
        log=LOG, guard=("acme/*", "beta/*"), metrics_listen=parse_address("localhost:0"), access_log=AccessLogConfig()
    )
    assert reading.read_only and reading.pause_repairs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("guard", *CLUSTER), "Name the namespaces to guard"),
        (("guard", "acme", *CLUSTER), "guard must be tenant/namespace"),
        (("guard", "acme/a/b", *CLUSTER), "guard must be tenant/namespace"),
        (("guard", "acme/*", "--pulsar", "x", "--admin-url", "y"), "pulsar must be pulsar://host:port"),
        (("guard", "acme/*", *CLUSTER, "--metrics-listen", "unix:/tmp/m"), "over TCP only"),
        (("guard", "acme/*", *CLUSTER, "--max-repairs-per-second", "0"), "max_repairs_per_second must be a number from"),
        (("serve", "--data", "p.db", "--guard", "acme/*"), "--guard goes with --pulsar"),
        (("serve", *CLUSTER, "--guard", "acme"), "guard must be tenant/namespace"),
        (("serve", *CLUSTER, "--guard", "acme/*", "--writer", "exclusive"), "goes with --writer shared"),
    ],
)
def test_an_invalid_combination_of_options_is_refused_with_a_sentence(
    configured: list[Any], arguments: tuple[str, ...], message: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and message in " ".join(result.output.split())
    assert configured == []


def service(repairs: RepairQueue) -> Any:
    return SimpleNamespace(registry=SimpleNamespace(repairs=repairs), reloader=None)


async def test_signals_pause_and_resume_repairs_and_stop_the_process() -> None:
    repairs = RepairQueue(asyncio.get_running_loop(), 10)
    waiting = asyncio.get_running_loop().create_task(until_told_to_stop(service(repairs)))
    await asyncio.sleep(0)
    seen = []
    for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR2):
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.05 + random.random() / 100)
        seen.append(repairs.paused)
    assert seen == [True, True, False, False] and not waiting.done()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(waiting, 20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_sent_by_the_callback_at_the_start_stops_the_process(number: signal.Signals) -> None:
    repairs = RepairQueue(asyncio.get_running_loop(), 10)
    await asyncio.wait_for(until_told_to_stop(service(repairs), lambda: os.kill(os.getpid(), number)), 20)
