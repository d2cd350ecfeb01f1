"""What the files in ``deploy`` repeat of the server, the image and the pages is the same there."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from ruamel.yaml import YAML

from proto.tools import ROOT
from topicpolicies_server.config.option import ReadBy
from topicpolicies_server.config.table import options

from .checking import DEPLOY

CHART = DEPLOY / "chart" / "topicpolicies"
IMAGE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_schema_has_exactly_the_options_that_are_not_the_charts_own() -> None:
    properties = json.loads((CHART / "values.schema.json").read_text())["properties"]
    served = {each.name: each for each in options().values() if each.read_by & ReadBy.SERVE}
    kept = {"data", "history", "checkpoints", "call_record_file"}  # written, not read
    read = [each.name for each in served.values() if each.type is Path and each.name not in kept]
    assert properties["files"]["propertyNames"]["enum"] == read
    own = {*read, "data", "history", "checkpoints", "listen", "metrics_listen"}
    assert properties["options"]["propertyNames"]["enum"] == [name for name in served if name not in own]


def test_the_chart_is_of_this_version_and_has_the_documented_rules_and_dashboard() -> None:
    about = YAML(typ="safe").load(CHART / "Chart.yaml")
    assert about["version"] == about["appVersion"] == PROJECT["version"]
    for name in ("alerts.yaml", "dashboard.json"):
        assert (CHART / "files" / name).resolve() == ROOT / "docs" / "monitoring" / name


def test_the_container_has_the_user_and_the_folder_of_the_image() -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    assert re.findall(r"(?m)^USER (\d+)$", IMAGE) == re.findall(r"runAsUser: (\d+)", helpers)
    (kept,) = re.findall(r"(?m)^VOLUME (.*)$", IMAGE)
    assert f"mountPath: {kept}}}" in helpers


def test_the_labels_of_the_image_are_those_of_the_project_and_of_its_base() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.([\w.]+)="([^"]*)"', IMAGE))
    *_, base = re.findall(r"(?m)^FROM (\S+)", IMAGE)
    assert labels.pop("title") == CHART.name
    assert labels.pop("description") == YAML(typ="safe").load(CHART / "Chart.yaml")["description"]
    assert labels == {"version": PROJECT["version"], "licenses": PROJECT["license"], "base.name": f"docker.io/library/{base}"}


def test_what_the_image_is_built_from_is_in_its_context() -> None:
    excluded, *lines = (ROOT / ".dockerignore").read_text().split()
    passed = [line[1:] for line in lines if line.startswith("!")]
    copied = [source for line in re.findall(r"(?m)^COPY (?!--from)(.*)$", IMAGE) for source in line.split()[:-1]]
    assert excluded == "*" and copied
    assert [source for source in copied if not any(source == each or source.startswith(f"{each}/") for each in passed)] == []
    assert all((ROOT / source).exists() for source in copied)
