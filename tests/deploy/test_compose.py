"""The Compose file: it is one, its files exist, its options are the server's, and it lets nobody in from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from proto.tools import ROOT
from tests.broker.jars import LATEST
from topicpolicies_server.config.building import server_config
from topicpolicies_server.config.logs import PulsarLogConfig
from topicpolicies_server.config.sources import read_options

from .checking import BUILD_SECONDS, DEPLOY, check

FILE = DEPLOY / "compose.yaml"


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def mounts(service: str) -> dict[str, Path]:
    """Returns the mounted files of the repository, by where they are in the container."""
    found = {}
    for volume in read(FILE)["services"][service]["volumes"]:
        source, target, mode = volume.split(":")
        assert mode == "ro"
        found[target] = (FILE.parent / source).resolve(strict=True)
    return found


@pytest.mark.evidence
@pytest.mark.timeout(BUILD_SECONDS + 60)
def test_compose_takes_the_file_and_finds_what_it_mounts() -> None:
    project = check("compose", FILE)
    assert list(project["services"]) == ["broker", "grafana", "prometheus", "sidecar"]
    named = {volume["source"] for each in project["services"].values() for volume in each["volumes"] if volume["type"] == "volume"}
    assert named == set(project["volumes"])
    assert Path(project["services"]["sidecar"]["build"]["context"]) == ROOT and (ROOT / "Dockerfile").is_file()


@pytest.mark.evidence
@pytest.mark.timeout(BUILD_SECONDS + 60)
def test_the_checker_finds_what_the_specification_does_not_know(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text("services: {one: {image: some, restarts: always}}\n")
    with pytest.raises(AssertionError, match="restarts"):
        check("compose", wrong)


def test_every_port_is_on_loopback() -> None:
    ports = [port for each in read(FILE)["services"].values() for port in each.get("ports", ())]
    assert len(ports) == 5 and all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in ports)


def test_the_server_takes_the_environment_of_the_sidecar(tmp_path: Path) -> None:
    service = read(FILE)["services"]["sidecar"]
    (kept,) = (volume.partition(":")[2] for volume in service["volumes"])
    assert kept in re.findall(r"(?m)^VOLUME (.*)$", (ROOT / "Dockerfile").read_text())
    environment = {name: value.replace(kept, str(tmp_path)) for name, value in service["environment"].items()}
    values = read_options({}, environment)
    config = server_config(values, environment)
    assert (values.problems, values.ignored) == ([], [])
    assert isinstance(config.log, PulsarLogConfig) and config.metrics_listen is not None
    assert config.history is not None and config.checkpoints is not None


def test_the_broker_is_of_the_tested_release() -> None:
    assert read(FILE)["services"]["broker"]["image"] == f"apachepulsar/pulsar:{LATEST}"


def test_prometheus_scrapes_the_sidecar_and_has_the_rules() -> None:
    mounted = mounts("prometheus")
    settings = read(mounted["/etc/prometheus/prometheus.yml"])
    (rules,) = settings["rule_files"]
    assert mounted[rules] == ROOT / "docs/monitoring/alerts.yaml"
    (scraped,) = settings["scrape_configs"]
    sidecar = read(FILE)["services"]["sidecar"]
    port = sidecar["environment"]["TOPICPOLICIES_METRICS_LISTEN"].rpartition(":")[2]
    assert scraped["static_configs"] == [{"targets": [f"{sidecar['network_mode'].removeprefix('service:')}:{port}"]}]


def test_grafana_has_the_dashboard_and_the_data_source() -> None:
    mounted = mounts("grafana")
    shown = read(FILE)["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert json.loads(mounted[shown].read_text())["uid"] == "topicpolicies"
    (provider,) = read(mounted["/etc/grafana/provisioning/dashboards/topicpolicies.yaml"])["providers"]
    assert provider["type"] == "file" and provider["options"]["path"] == str(Path(shown).parent)
    (source,) = read(mounted["/etc/grafana/provisioning/datasources/topicpolicies.yaml"])["datasources"]
    assert source["isDefault"] and source["type"] == "prometheus" and source["url"] == "http://prometheus:9090"
