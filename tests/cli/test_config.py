"""The config command: it shows the options in force, their sources, and all errors."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from topicpolicies_server.cli.app import app
from topicpolicies_server.config.sources import options


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "a-home-with-a-name-of-some-length" / "so-that-paths-in-it-are-longer-than-a-column"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sidecar.toml"
    path.write_text("max_watches = 7\nmax_concurrent_calls = 70\n")
    return path


def run(home: Path, *arguments: str, **environment: str) -> Any:
    return CliRunner(env={"HOME": str(home), "XDG_DATA_HOME": "", "TOPICPOLICIES_CACHE": "", "COLUMNS": "80"} | environment).invoke(
        app, ["config", *arguments]
    )


def test_each_option_is_shown_with_its_value_and_source(home: Path, file: Path) -> None:
    shown = run(home, "--config", str(file), "--drain-seconds", "3", TOPICPOLICIES_MAX_CONCURRENT_CALLS="71")
    assert shown.exit_code == 0, shown.output
    rows = {cells[0]: cells[1:] for line in shown.stdout.splitlines() if len(cells := line.split()) >= 2}
    assert shown.stdout.splitlines()[0] == f"file: {file}"
    assert rows["max_watches"] == ["file", "7"]
    assert rows["max_concurrent_calls"] == ["environment", "71"]
    assert rows["drain_seconds"] == ["flag", "3"]
    assert rows["load_timeout_seconds"] == ["default", "120"]
    assert rows["data"] == ["default", f"{home}/.local/share/topicpolicies/policies.db"]
    assert not home.exists()
    assert options().keys() <= {line.split()[0] for line in shown.stdout.splitlines() if line.strip()}


def test_json_has_the_same_options_with_their_sources_and_the_errors(home: Path, file: Path) -> None:
    shown = run(
        home,
        "--config",
        str(file),
        "--guard",
        "acme/*",
        "--output",
        "json",
        TOPICPOLICIES_PULSAR="pulsar://b:1",
        TOPICPOLICIES_OF_OTHERS="x",
    )
    printed = json.loads(shown.stdout)
    assert printed["options"]["max_watches"] == {"value": 7, "source": "file", "where": str(file)}
    assert printed["options"]["pulsar"] == {"value": "pulsar://b:1", "source": "environment", "where": "TOPICPOLICIES_PULSAR"}
    assert printed["options"]["guard"] == {"value": ["acme/*"], "source": "flag", "where": "--guard"}
    assert printed["options"]["history"] == {"value": None, "source": "default", "where": ""}
    assert (printed["file"], printed["ignored"]) == (str(file), ["TOPICPOLICIES_OF_OTHERS"])
    assert list(printed["options"]) == list(options())
    assert shown.exit_code == 2, "the admin URL is missing"
    assert [each["description"] for each in json.loads(shown.stderr)["error"]["violations"]] == [
        "TOPICPOLICIES_PULSAR goes with --admin-url."
    ]


def test_all_errors_are_reported_after_the_table(home: Path, file: Path) -> None:
    file.write_text("max_watchs = 7\nmax_concurrent_calls = 0\n")
    shown = run(home, "--config", str(file), "--max-watches", "none")
    assert shown.exit_code == 2
    assert shown.stderr.splitlines() == [
        "Error: there are 3 problems.",
        f"  - 'max_watchs' in {file} is not an option: did you mean max_watches?",
        f"  - max_concurrent_calls must be a whole number from 16 to 1,000,000, not 0 ({file}).",
        "  - max_watches must be a whole number from 1 to 1,000,000, not 'none' (--max-watches).",
    ]
    assert "load_timeout_seconds" in shown.stdout


def test_a_password_in_a_url_is_not_shown(home: Path) -> None:
    shown = run(home, TOPICPOLICIES_PULSAR="pulsar://me:sword/fish@b:1", TOPICPOLICIES_ADMIN_URL="http://me:sword/fish@b:1")
    assert shown.exit_code == 2 and "fish" not in shown.output
    assert "fish" not in run(home, "-ojson", TOPICPOLICIES_PULSAR="pulsar://me:sword/fish@b:1").output
    for output in ("-otable", "-ojson"):
        shown = run(home, output, TOPICPOLICIES_PULSAR="me:sword/fish@b:1", TOPICPOLICIES_ADMIN_URL="http:/me:sword/fish@b:1")
        assert shown.exit_code == 2 and "fish" not in shown.output
    issuers = "https://a.example,https://me:sword/fish@b.example"
    for output in ("-otable", "-ojson"):
        shown = run(home, output, TOPICPOLICIES_AUTHENTICATION_PROVIDERS="oidc", TOPICPOLICIES_OIDC_ISSUERS=issuers)
        assert shown.exit_code == 2 and "fish" not in shown.output


def test_the_sample_is_toml_without_any_option_set(home: Path) -> None:
    shown = run(home, "--sample")
    assert shown.exit_code == 0 and tomllib.loads(shown.stdout) == {}


@pytest.mark.parametrize("command", ["serve", "guard", "config"])
def test_the_help_is_at_most_80_columns_wide_and_names_every_option_that_the_command_reads(command: str) -> None:
    shown = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, [command, "--help"], terminal_width=80).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "``" not in shown
    for option in options().values():
        named = f"{option.flag} " in shown or f"{option.flag}\n" in shown
        assert named is (command == "config" or option.read_by.name in ("BOTH", command.upper())) or option.name in (
            "tls_certificate",
            "tls_key",
            "guard",
        )


def test_the_options_are_yaml_too(home: Path) -> None:
    shown = run(home, "--output", "yaml")
    assert shown.stdout.startswith("---\noptions:\n")
    assert YAML(typ="safe").load(shown.stdout) == json.loads(run(home, "--output", "json").stdout)
