"""The command of the figures: each group really measures, with as little load as is enough to test it, and the results are shown."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from bench.figures import command, etcd
from bench.figures.catalog import GROUPS, Group, chosen
from bench.figures.command import REFUSED, main
from bench.figures.conditions import here
from bench.figures.figure import Measured, results
from bench.figures.scale import QUICK, Say, Scale
from bench.figures.table import WIDTH, as_json, show
from tests.broker.jars import BrokerUnavailableError
from tests.broker.pulsar_broker import Broker

MEASURED = {"reached", "missed", "spared", "told"}


def run(capsys: pytest.CaptureFixture[str], groups: Sequence[str], *options: str) -> list[dict[str, Any]]:
    """Runs the command for groups, and returns their figures from its JSON output."""
    status = main(["--quick", "--output", "json", *options, "--only", *groups])
    report = json.loads(capsys.readouterr().out)
    assert report["conditions"]["quick"] is True and report["conditions"]["cores"] > 0
    assert status == (0 if report["all_reached"] else 1)
    figures: list[dict[str, Any]] = report["figures"]
    assert [each["name"] for each in figures] == [figure.name for group in chosen(groups, large=False) for figure in group.figures]
    return figures


def assert_measured(figures: list[dict[str, Any]]) -> None:
    for each in figures:
        assert each["missing"] == "" and each["state"] in MEASURED, each
        ours, limit = each["rounds"]["ours"], each["rounds"]["limit"]
        assert len(ours) == 2 and all(isinstance(value, float | int) for value in ours), each
        assert (len(limit) == 2 and all(value > 0 for value in limit)) if each["beside"] else not limit, each
        assert each["ours"] > 0 or each["name"].startswith(("memory", "crowd-watcher")), each  # with few documents the memory says nothing


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", [group.name for group in GROUPS if not group.broker and group.name != "batches"])
def test_each_group_measures_every_figure_and_its_limit(capsys: pytest.CaptureFixture[str], group: str) -> None:
    assert_measured(run(capsys, [group]))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_etcd_batches_are_measured_but_count_as_unmeasured(capsys: pytest.CaptureFixture[str]) -> None:
    figures = run(capsys, ["batches"])
    if etcd.version():
        assert_measured(figures)
        return
    (figure,) = figures
    assert figure["ours"] > 0 and figure["state"] == "unmeasured" and "etcd is not installed" in figure["missing"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_group_that_needs_a_broker_measures_every_figure_and_its_limit(capsys: pytest.CaptureFixture[str], broker: Broker) -> None:
    groups = [group.name for group in GROUPS if group.broker]
    assert_measured(run(capsys, groups, "--service-url", broker.service_url, "--admin-url", broker.admin_url))


def test_nothing_is_measured_on_a_busy_machine(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (3.0, 3.0, 3.0))
    assert main(["--only", "unary", "--patience", "0"]) == REFUSED
    output = capsys.readouterr()
    assert output.out == "" and "nothing was measured" in output.err


def test_the_table_shows_which_targets_were_reached_and_why_others_were_not() -> None:
    groups = chosen(["unary", "batches", "pulsar-calls"], large=False)
    made = results(
        [figure for group in groups for figure in group.figures],
        {
            "unary-hot": Measured([3_000.0, 3_300.0], [4_000.0, 4_000.0], "p50 1 ms"),
            "unary-hot-tail": Measured([30.0], [10.0]),
            "batches": Measured([9_000.0], missing="etcd is not installed"),
            "pulsar-rest": Measured([100.0], [10.0]),
            "pulsar-bare": Measured([12.0], [10.0]),
        },
    )
    output = io.StringIO()
    show(made, here(), Console(width=WIDTH, file=output))
    text = output.getvalue()
    lines = [line for line in text.splitlines() if line.startswith("│")]
    assert any("hot key" in line and "3,150 /s ±5%" in line and ">= 0.7" in line and "reached" in line for line in lines)
    assert any("p99 of UpdatePolicy" in line and "3.00" in line and "missed" in line for line in lines)
    assert any("64 updates a message" in line and "not measured" in line for line in lines)
    assert any("8 in flight" in line and "not needed" in line for line in lines)
    assert "etcd is not installed" in text and "p50 1 ms" in text
    assert {each["state"] for each in json.loads(as_json(made, here()))["figures"]} == {"reached", "missed", "unmeasured", "spared"}


def test_without_a_broker_its_groups_are_reported_as_missing_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_broker() -> Broker:
        raise BrokerUnavailableError("Java is missing.\nSee above.")

    def measured(group: Group, scale: Scale, say: Say) -> dict[str, Measured]:
        say("round 1 of 1")
        return {figure.name: Measured([1.0], [1.0]) for figure in group.figures}

    monkeypatch.setattr(command, "OwnBroker", no_broker)
    monkeypatch.setattr(command, "supervised", measured)
    progress: list[str] = []
    groups = chosen([], large=False)
    found = command.measure(groups, QUICK, progress.append)
    for group in groups:
        for figure in group.figures:
            expected = Measured(missing="no broker can be run: Java is missing.") if group.broker else Measured([1.0], [1.0])
            assert found[figure.name] == expected
    assert "unary: round 1 of 1" in progress
