"""The table of options: every limit is an option, values are read back as they are written, and the pages have the table."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from topicpolicies_server.config import Limits, ServerConfig
from topicpolicies_server.config.building import data_folder_of
from topicpolicies_server.config.rendering import in_toml, reference, sample, written_value
from topicpolicies_server.config.sources import CLIENT_VARIABLES, options, read_options

DOCUMENTED = Path(__file__).parents[2] / "docs" / "configuration.md"
LIMITS = [each.name for each in dataclasses.fields(Limits)]


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_an_option_with_bounds_default_and_help(name: str) -> None:
    option = options()[name]
    assert option.default == getattr(Limits(), name)
    assert option.help.endswith(".") and option.section == "Limits"
    assert (option.flag, option.variable) == (f"--{name.replace('_', '-')}", f"TOPICPOLICIES_{name.upper()}")


@pytest.mark.parametrize("option", options().values(), ids=lambda option: option.name)
def test_a_value_as_it_is_shown_is_read_back(option: object) -> None:
    each = options()[option.name]  # type: ignore[attr-defined]
    if each.default not in (None, "", ()):
        assert each.read(written_value(each.default)) == each.default
    value = tomllib.loads(f"x = {in_toml(each)}")["x"]
    each.read(value)
    if each.numeric:
        assert each.read(written_value(each.least)) == each.least and each.read(written_value(each.most)) == each.most


def test_the_sample_file_loads_as_it_is_and_with_every_option_uncommented(tmp_path: Path) -> None:
    path = tmp_path / "sample.toml"
    path.write_text(sample())
    found = read_options({}, {}, path)
    assert not found.problems and not any(setting.given for setting in found.settings.values())
    path.write_text(re.sub(r"(?m)^#(\w+ = )", r"\1", sample()))
    found = read_options({}, {}, path)
    assert not found.problems and all(setting.given for setting in found.settings.values())
    defaults = {option.name: option.default for option in options().values() if not option.example}
    assert {name: found.settings[name].value for name in defaults} == defaults


def test_the_reference_is_the_one_in_the_documentation() -> None:
    text = DOCUMENTED.read_text()
    beginning, end = "<!-- config.rendering.reference() -->\n\n", "<!-- end -->"
    assert text.partition(beginning)[2].partition(end)[0] == reference() + "\n", (
        "print topicpolicies_server.config.rendering.reference(), and copy it there"
    )


def test_the_data_folder_follows_the_convention_of_each_system() -> None:
    home = {"HOME": "/somewhere/mine"}
    assert str(data_folder_of(home, "linux")) == "/somewhere/mine/.local/share/topicpolicies"
    assert str(data_folder_of(home | {"XDG_DATA_HOME": "/data"}, "linux")) == "/data/topicpolicies"
    assert str(data_folder_of(home | {"XDG_DATA_HOME": "data"}, "linux")) == "/somewhere/mine/.local/share/topicpolicies"
    assert str(data_folder_of(home, "darwin")) == "/somewhere/mine/Library/Application Support/topicpolicies"


def test_the_image_keeps_the_default_log_on_its_volume() -> None:
    image = (Path(__file__).parents[2] / "Dockerfile").read_text()
    around = dict(re.findall(r"\b([A-Z_]+)=(\S+)", re.findall(r"(?m)^ENV (.*)$", image)[0]))
    (volume,) = re.findall(r"(?m)^VOLUME (.*)$", image)
    assert str(data_folder_of(around, "linux")) == volume
    assert 'CMD ["serve"]' in image
    named = set(re.findall(r"-e (TOPICPOLICIES_\w+)", image))
    assert named and named <= {*CLIENT_VARIABLES, *(option.variable for option in options().values())}


def test_a_configuration_needs_nothing_but_its_log() -> None:
    required = [each.name for each in dataclasses.fields(ServerConfig) if each.default is each.default_factory is dataclasses.MISSING]
    assert required == ["log"]


def test_no_numeric_option_is_shown_as_a_text() -> None:
    numbers = [each for each in options().values() if each.numeric]
    assert len(numbers) > 20 and [each.name for each in numbers if each.metavar == "TEXT"] == []
