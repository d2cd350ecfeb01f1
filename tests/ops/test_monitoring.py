"""The page about monitoring, the dashboard and the alert rules: they name only metrics that exist, and explain every metric."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from ruamel.yaml import YAML

from tests.namespaces.bench import Bench, simulate
from topicpolicies.v1 import service_pb2
from topicpolicies_server.access.issuers import Issuer
from topicpolicies_server.config.callers import OidcConfig
from topicpolicies_server.files import Reloader
from topicpolicies_server.history.entries import GapReason
from topicpolicies_server.logs.change_log import Connections
from topicpolicies_server.ops.metrics import CallCounts, ServerCollector, ServerSources

from .scraping import Scrape, showing
from .test_calls import update

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_PAGE = (_DOCS / "monitoring.md").read_text()
_NAME = re.compile(r"\b(?:topicpolicies|process|python)_[a-z_]+\b")
_LABELS = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
_ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \|([^|]*)\|", re.MULTILINE)
_ALERT = re.compile(r"^\| `(TopicPolicies\w+)` \| (.+) \|$", re.MULTILINE)


class ConnectedLog:
    """A fake log that reports connections, as the one in Pulsar does."""

    def connections(self) -> Connections:
        """Returns that two of three logs are connected."""
        return Connections(3, 2)


def beside_pulsar() -> Scrape:
    """Returns the metrics of a server with brokers."""
    shown: list[Scrape] = []

    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        log, bench.registry.common.log = bench.registry.common.log, ConnectedLog()  # type: ignore[assignment]
        registry = CollectorRegistry()
        sources = ServerSources(
            reloader=Reloader(),
            limits=bench.limits,
            issuers=[Issuer("https://a", OidcConfig(issuers=("https://a",), audiences=("me",)), None, lambda: None)],
            unrecorded=int,
            certificate_ends=lambda: 1.0,
            drift=lambda: {"acme/orders": 1},
        )
        registry.register(ServerCollector(bench.registry, CallCounts(), sources, guarded=int))
        shown.append(Scrape(generate_latest(registry).decode()))
        bench.registry.common.log = log

    simulate(scenario)
    return shown[0]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[Scrape]:
    """Returns the metrics of a server with the embedded log after an update, and of one with brokers."""

    async def embedded() -> Scrape:
        async with showing(tmp_path_factory.mktemp("server")) as shown:
            await shown.stub.UpdatePolicy(update(1))
            return await shown.until("topicpolicies_calls_total", 1, method="UpdatePolicy")

    return [asyncio.run(embedded()), beside_pulsar()]


def expressions() -> Iterator[tuple[str, str]]:
    """Yields every query, with the name of its alert or panel."""
    for group in rules()["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in json.loads((_DOCS / "monitoring" / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def rules() -> Mapping[str, Any]:
    """Returns the alert rules."""
    read: Mapping[str, Any] = YAML(typ="safe").load(_DOCS / "monitoring" / "alerts.yaml")
    return read


def test_every_metric_in_a_query_exists(everything: list[Scrape]) -> None:
    names = set().union(*(scrape.names for scrape in everything))
    missing = {where: sorted(set(_NAME.findall(query)) - names) for where, query in expressions()}
    assert {where: name for where, name in missing.items() if name} == {}
    assert all(_NAME.findall(query) for _, query in expressions()), "a query names no metric"


def test_every_label_in_a_query_is_explained_on_the_page() -> None:
    labels = {label.strip(" `") for _, _, labels in _ROW.findall(_PAGE) for label in labels.split(",")} | {"instance"}
    unknown = {where: sorted(set(_LABELS.findall(query)) - labels) for where, query in expressions()}
    assert {where: label for where, label in unknown.items() if label} == {}


def test_the_page_explains_exactly_the_metrics_that_are_exposed(everything: list[Scrape]) -> None:
    shown = {name: family.type for scrape in everything for name, family in scrape.families.items()}
    assert {name: kind for name, kind, _ in _ROW.findall(_PAGE)} == shown


def test_the_page_names_exactly_the_labels_of_each_metric(everything: list[Scrape]) -> None:
    explained = {name: {label.strip(" `") for label in labels.split(",")} - {""} for name, _, labels in _ROW.findall(_PAGE)}
    for scrape in everything:
        for name, family in scrape.families.items():
            for sample in family.samples:
                assert set(sample.labels) - {"le"} == explained[name], sample


def test_every_alert_is_explained_on_the_page_and_has_a_severity_and_a_summary() -> None:
    alerts = [rule["alert"] for group in rules()["groups"] for rule in group["rules"]]
    assert len(alerts) == len(set(alerts)) >= 20
    assert [name for name, _ in _ALERT.findall(_PAGE)] == alerts
    assert all(
        {"severity"} <= set(rule["labels"]) and rule["annotations"]["summary"] for group in rules()["groups"] for rule in group["rules"]
    )


_ONE_INCREASE = re.compile(r"increase\((\w+)(?:\{([^}]*)\})?\[\w+\]\)\)? > 0$")


async def test_counters_of_which_an_alert_needs_one_increase_are_exposed_as_0_before(tmp_path: Path) -> None:
    async with showing(tmp_path) as shown:
        idle = await shown.scrape()
    wanted = {
        rule["alert"]: _ONE_INCREASE.search(rule["expr"]) for group in rules()["groups"] for rule in group["rules"] if "for" not in rule
    }
    found = {alert: match for alert, match in wanted.items() if match is not None}
    assert set(found) == {
        "TopicPoliciesInternalErrors",
        "TopicPoliciesUnreadableEntries",
        "TopicPoliciesHistoryGaps",
        "TopicPoliciesCheckpoints",
        "TopicPoliciesAccessLog",
    }
    for alert, match in found.items():
        labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
        zeros = [each for each in idle.labels(match[1]) if labels.items() <= each.items()]
        assert zeros and idle.value(match[1], **labels) == 0, f"{alert} would miss the first one: Prometheus knows no 0 before it"
    methods = {each["method"] for each in idle.labels("topicpolicies_calls_total")}
    assert methods == {method.name for method in service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].methods}
    assert {each["reason"] for each in idle.labels("topicpolicies_history_gaps_total")} == {reason.name for reason in GapReason}


def test_no_panel_covers_another() -> None:
    panels = json.loads((_DOCS / "monitoring" / "dashboard.json").read_text())["panels"]
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        at = panel["gridPos"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert taken.setdefault(cell, panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in panels}) == len(panels)
