"""The Helm chart: rendered by Helm's own code, decoded as Kubernetes does, and what it renders is what the server takes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML

from proto.tools import ROOT
from tests.plain_http import NO_TLS
from tests.ports import free_port
from tests.promises.server_process import COMMAND, environment
from topicpolicies_server.config.building import server_config
from topicpolicies_server.config.sources import read_options

from .checking import BUILD_SECONDS, DEPLOY, check

CHART = DEPLOY / "chart" / "topicpolicies"
PAGE = (ROOT / "docs" / "deploying.md").read_text()
EXAMPLES = sorted((CHART / "ci").iterdir())
pytestmark = [pytest.mark.evidence, pytest.mark.timeout(BUILD_SECONDS + 60)]

Rendered = dict[str, Any]


@pytest.fixture
def rendered(tmp_path: Path) -> Callable[..., Rendered]:
    """Renders a chart with values; returns its objects by kind, and the notes."""

    def render(values: object, chart: Path = CHART) -> Rendered:
        (tmp_path / "values.yaml").write_text(json.dumps(values))
        found = check("render", chart, tmp_path / "values.yaml")
        by_kind = {each["kind"]: each for each in found["objects"]}
        assert len(by_kind) == len(found["objects"])
        return by_kind | {"notes": found["notes"]}

    return render


def container(objects: Mapping[str, Any]) -> Any:
    (found,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


def variables(objects: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(objects)["env"]}


def placed(objects: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Returns the environment with its files in a folder, where the projected ones are made."""
    (folder / "data").mkdir()
    (folder / "files").mkdir()
    for volume in objects["Deployment"]["spec"]["template"]["spec"]["volumes"]:
        for source in volume.get("projected", {}).get("sources", ()):
            for item in next(iter(source.values()))["items"]:
                (folder / "files" / item["path"]).write_text("")
    places = {"/var/lib/topicpolicies": str(folder / "data"), "/etc/topicpolicies": str(folder / "files")}
    return {name: re.sub("|".join(places), lambda found: places[found[0]], value) for name, value in variables(objects).items()}


def values_of(example: Path) -> Any:
    return YAML(typ="safe").load(example)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_helm_lint_has_nothing_to_say(example: Path) -> None:
    assert [each["text"] for each in check("lint", CHART, example)] == ["icon is recommended"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_the_server_takes_the_environment_of_an_example(example: Path, rendered: Callable[..., Rendered], tmp_path: Path) -> None:
    given = values_of(example)
    objects = rendered(given)
    around = placed(objects, tmp_path) | {"XDG_DATA_HOME": str(tmp_path)}
    read = read_options({}, around)
    server_config(read, around)
    assert (read.problems, read.ignored) == ([], [])
    named = {*given["options"], *given["files"]}
    assert {setting.option.name for setting in read.settings.values() if setting.given} >= named | {"listen", "metrics_listen"}
    assert {mount["name"] for mount in container(objects)["volumeMounts"]} == {
        volume["name"] for volume in objects["Deployment"]["spec"]["template"]["spec"]["volumes"]
    }


def test_values_of_every_kind_reach_the_server_as_they_are(rendered: Callable[..., Rendered], tmp_path: Path) -> None:
    given = {
        "insecure_listen": True,
        "reflection": False,
        "max_loaded_document_bytes": 17_592_186_044_416,
        "otlp_trace_ratio": 0.05,
        "drain_seconds": 2,
        "proxy_roles": ["one", "two"],
        "log_format": "json",
        "guard": None,
    }
    values = read_options({}, placed(rendered({"options": given}), tmp_path))
    assert values.problems == []
    assert {name: values.settings[name].value for name in given} == given | {"proxy_roles": ("one", "two"), "guard": ()} | {
        "log_format": values.settings["log_format"].option.type("json")
    }


def test_a_server_with_the_rendered_environment_answers_the_probes(rendered: Callable[..., Rendered], tmp_path: Path) -> None:
    objects = rendered({"options": {"insecure_listen": True}})
    listen, http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    around = placed(objects, tmp_path) | {"XDG_DATA_HOME": str(tmp_path)}
    around |= {"TOPICPOLICIES_LISTEN": listen, "TOPICPOLICIES_METRICS_LISTEN": http}
    ports = {each["name"]: each["containerPort"] for each in container(objects)["ports"]}
    assert ports == {"grpc": 6680, "metrics": 9464}
    assert variables(objects)["TOPICPOLICIES_LISTEN"] == "0.0.0.0:6680"
    assert variables(objects)["TOPICPOLICIES_METRICS_LISTEN"] == "0.0.0.0:9464"
    with (tmp_path / "output").open("w") as output:
        process = subprocess.Popen([*COMMAND, "serve"], env=environment(around), stdout=output, stderr=output)
    try:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container(objects)[probe]["httpGet"]
            assert asked["port"] == "metrics"
            assert answered(f"http://{http}{asked['path']}", process) == 200
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def answered(url: str, process: subprocess.Popen[bytes]) -> int:
    """Returns the status of an answer, once there is one."""
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        try:
            return httpx.get(url, trust_env=False, verify=NO_TLS).status_code
        except httpx.TransportError:
            time.sleep(0.05)
    return 0


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "Nobody could connect"),
        ({"options": {"insecure_listen": "false"}}, "Nobody could connect"),
        ({"options": {"max_watche": 1}}, "invalid propertyName 'max_watche'"),
        ({"options": {"listen": "0.0.0.0:1"}}, "invalid propertyName 'listen'"),
        ({"files": {"tls_certificate": {"secret": "one"}}}, "missing property 'key'"),
        ({"replica": 1}, "additional properties 'replica' not allowed"),
        ({"options": {"insecure_listen": True}, "replicas": 2}, "Several replicas need options.pulsar"),
        ({"options": {"insecure_listen": True, "pulsar": "pulsar://one"}, "replicas": 2}, "Several replicas need options.pulsar"),
        ({"mode": "sidecar", "monitoring": {"podMonitor": {"enabled": True}}}, "podMonitor.selector"),
        ({"options": {"insecure_listen": True}, "affinity": {"nodeAffinities": {}}}, 'unknown field "spec.template.spec.affinity'),
    ],
)
def test_values_that_would_not_work_are_refused(values: object, says: str, rendered: Callable[..., Rendered]) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        rendered(values)


def test_a_log_on_a_claim_has_one_pod_at_a_time_and_outlives_the_release(rendered: Callable[..., Rendered]) -> None:
    objects = rendered({"options": {"insecure_listen": True}, "persistence": {"storageClass": "fast", "size": "7Gi"}})
    spec, claim = objects["Deployment"]["spec"], objects["PersistentVolumeClaim"]
    assert spec["replicas"] == 1 and spec["strategy"] == {"type": "Recreate"}
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "7Gi"}}}
    assert {"name": "topicpolicies-data", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}} in spec["template"]["spec"][
        "volumes"
    ]
    mine = rendered({"options": {"insecure_listen": True}, "persistence": {"existingClaim": "mine"}})
    assert "PersistentVolumeClaim" not in mine and "'claimName': 'mine'" in str(mine["Deployment"])


def test_the_service_the_monitor_and_the_deployment_mean_the_same_pods(rendered: Callable[..., Rendered]) -> None:
    objects = rendered(values_of(CHART / "ci" / "pulsar-values.yaml"))
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    (endpoint,) = objects["PodMonitor"]["spec"]["podMetricsEndpoints"]
    (port,) = objects["Service"]["spec"]["ports"]
    assert {endpoint["port"], port["targetPort"]} == {each["name"] for each in container(objects)["ports"]}
    for selector in (
        objects["Service"]["spec"]["selector"],
        objects["PodMonitor"]["spec"]["selector"]["matchLabels"],
        objects["Deployment"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector and selector.items() <= labels.items()
    documented = YAML(typ="safe").load(ROOT / "docs" / "monitoring" / "alerts.yaml")
    assert objects["PrometheusRule"]["spec"] == documented
    shown = objects["ConfigMap"]["data"]["topicpolicies.json"]
    assert json.loads(shown) == json.loads((ROOT / "docs" / "monitoring" / "dashboard.json").read_text())
    assert objects["PrometheusRule"]["metadata"]["labels"]["release"] == "prometheus"
    assert objects["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_another_chart_takes_the_container_into_its_pod_as_the_page_has_it(rendered: Callable[..., Rendered], tmp_path: Path) -> None:
    about, values, pod = re.findall(r"```yaml\n# [^\n]*\n(.*?)```", PAGE, re.DOTALL)
    parent = tmp_path / "parent"
    (parent / "templates").mkdir(parents=True)
    (parent / "charts").mkdir()
    (parent / "charts" / "topicpolicies").symlink_to(CHART)
    (parent / "Chart.yaml").write_text(f"apiVersion: v2\nname: broker\nversion: 1.0.0\n{about}")
    (parent / "values.yaml").write_text(values)
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: broker}\nspec:\n  selector: {matchLabels: {app: broker}}\n"
    (parent / "templates" / "broker.yaml").write_text(f"{head}  template:\n    metadata: {{labels: {{app: broker}}}}\n{pod}")
    objects = rendered({}, parent)
    assert {*objects} == {"Deployment", "notes"}
    assert container(objects)["name"] == "topicpolicies"
    assert variables(objects)["TOPICPOLICIES_LISTEN"] == "127.0.0.1:6680"
    assert variables(objects)["TOPICPOLICIES_PULSAR"] == "pulsar://localhost:6650"
    volumes = {each["name"] for each in objects["Deployment"]["spec"]["template"]["spec"]["volumes"]}
    assert {each["name"] for each in container(objects)["volumeMounts"]} == volumes
    template = parent / "templates" / "broker.yaml"
    template.write_text(template.read_text().replace("containers:", "containers:\n        - {name: broker, image: broker}"))
    with pytest.raises(AssertionError, match=r"not restricted: .*broker"):
        rendered({}, parent)


def test_the_values_on_the_page_are_complete(rendered: Callable[..., Rendered], tmp_path: Path) -> None:
    (values,) = re.findall(r"```yaml\n(options:.*?)```", PAGE, re.DOTALL)
    objects = rendered(YAML(typ="safe").load(values))
    around = placed(objects, tmp_path)
    server_config(read_options({}, around), around)
    assert "6680" in objects["notes"] and "not encrypted" not in objects["notes"]
    assert "not encrypted" in rendered({"options": {"insecure_listen": True}})["notes"]
