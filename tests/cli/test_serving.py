"""The commands that run a server, and the health command against it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.client.certificates import Authority
from topicpolicies_server.cli import serve as serve_module
from topicpolicies_server.cli.app import app, output_of
from topicpolicies_server.config import AccessLogConfig, EmbeddedLogConfig, HistoryConfig, PulsarLogConfig, ServerConfig

ENVIRONMENT = {"PYTHONPATH": ":".join(sys.path)}


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    """The configurations of the servers that would have run."""
    configurations: list[ServerConfig] = []
    monkeypatch.setattr(serve_module, "run", lambda config, *_: configurations.append(config))
    return configurations


def serve(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["serve", *arguments])


def test_serve_with_a_data_file_keeps_history_and_checkpoints_beside_it(configured: list[ServerConfig], tmp_path: Path) -> None:
    assert serve("--data", str(tmp_path / "p.db")).exit_code == 0
    history = HistoryConfig(path=tmp_path / "p.history.db")
    checkpoints = tmp_path / "p.checkpoints"
    assert configured == [
        ServerConfig(log=EmbeddedLogConfig(path=tmp_path / "p.db"), history=history, checkpoints=checkpoints, access_log=AccessLogConfig())
    ]


def test_secrets_are_shown_only_with_the_option_for_it(configured: list[ServerConfig], tmp_path: Path) -> None:
    assert serve("--data", str(tmp_path / "p.db")).exit_code == 0
    assert serve("--data", str(tmp_path / "p.db"), "--show-secrets").exit_code == 0
    assert [config.show_secrets for config in configured] == [False, True]


def test_the_options_of_tls_of_a_server_stand_after_the_command_and_are_not_ignored_before_it(
    configured: list[ServerConfig], tmp_path: Path
) -> None:
    own = Authority(tmp_path, "authority").identity("server")
    given = ("--tls-certificate", str(own.certificate), "--tls-key", str(own.key))
    refused = CliRunner().invoke(app, [*given, "serve", "--data", str(tmp_path / "p.db")])
    assert refused.exit_code == 2 and "they stand after serve" in refused.stderr
    assert serve("--data", str(tmp_path / "p.db"), *given).exit_code == 0
    assert [config.tls.certificate_file if config.tls else None for config in configured] == [own.certificate]


def test_the_access_log_is_on_standard_error_or_in_a_file(configured: list[ServerConfig], tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "p.db"))
    for given in ((), ("--access-log-file", "-"), ("--access-log-file", str(tmp_path / "calls"))):
        assert serve(*data, *given).exit_code == 0
    assert [config.access_log.path for config in configured] == [None, None, tmp_path / "calls"]


def test_the_history_has_the_path_and_the_bounds_of_its_options(configured: list[ServerConfig], tmp_path: Path) -> None:
    pulsar = ("--pulsar", "pulsar://broker:6650", "--admin-url", "http://broker:8080")
    assert serve(*pulsar).exit_code == 0
    assert serve("--data", str(tmp_path / "p.db"), "--no-history").exit_code == 0
    bounds = ("--history-days", "7", "--history-megabytes", "64")
    assert serve(*pulsar, "--history", str(tmp_path / "h.db"), *bounds).exit_code == 0
    kept = HistoryConfig(path=tmp_path / "h.db", days=7, megabytes=64)
    assert [config.history for config in configured] == [None, None, kept]
    assert serve(*pulsar, "--history", str(tmp_path / "h.db"), "--no-history").exit_code == 2


def test_serve_with_pulsar_accepts_all_its_options(configured: list[ServerConfig], tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("token", "trust", "certificate", "key", "authority")}
    for path in files.values():
        path.write_text("x")
    result = serve(
        *("--pulsar", "pulsar+ssl://broker:6651", "--admin-url", "https://broker:8443"),
        *("--pulsar-token-file", str(files["token"]), "--pulsar-tls-trust-certs", str(files["trust"])),
        *("--listen", "0.0.0.0:7000", "--tls-certificate", str(files["certificate"]), "--tls-key", str(files["key"])),
        *("--tls-client-ca", str(files["authority"]), "--log-level", "debug"),
    )
    assert result.exit_code == 0, result.output
    (config,) = configured
    assert config.log == PulsarLogConfig(
        service_url="pulsar+ssl://broker:6651",
        admin_url="https://broker:8443",
        token_file=files["token"],
        tls_trust_certs_file=files["trust"],
    )
    assert config.tls is not None
    assert config.tls.client_ca_file == files["authority"]
    assert str(config.listen) == "0.0.0.0:7000"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "p.db", "--pulsar", "pulsar://a:1"), "--data goes with the embedded log, not with --pulsar"),
        (("--data", "p.db", "--admin-url", "http://a:1"), "--admin-url goes with --pulsar"),
        (("--pulsar", "pulsar://a:1"), "--pulsar goes with --admin-url"),
        (
            ("--pulsar", "pulsar://a:1", "--admin-url", "http://a:1", "--cluster-file", "c.toml"),
            "--cluster-file goes with",
        ),
        (("--data", "p.db", "--cluster-file", "missing.toml"), "can't be read"),
        (("--data", "p.db", "--cluster-file", __file__), "serving.py\" can't be used: Expected"),
        (("--data", "p.db", "--listen", "nowhere"), "listen must be host:port"),
        (("--data", "p.db", "--listen", "0.0.0.0:1"), "--insecure-listen"),
        (("--data", "p.db", "--tls-key", "k"), "goes with --tls-certificate"),
        (("--data", "p.db", "--tls-client-ca", "k"), "goes with --tls-certificate"),
        (("--data", "p.db", "--tls"), "No such option: --tls"),
        (("--data", "p.db", "--tls-ca", "k"), "No such option: --tls-ca"),
    ],
)
def test_a_wrong_configuration_is_refused_with_a_sentence(configured: list[ServerConfig], arguments: tuple[str, ...], message: str) -> None:
    result = serve(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not configured


def test_insecure_listen_allows_an_address_beyond_loopback_without_tls(configured: list[ServerConfig], tmp_path: Path) -> None:
    assert serve("--data", str(tmp_path / "p.db"), "--listen", "0.0.0.0:1", "--insecure-listen").exit_code == 0
    assert configured[0].insecure_listen


def test_a_server_prints_its_address_serves_calls_and_stops_at_sigterm(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "topicpolicies_server", "serve", "--data", str(tmp_path / "p.db"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().partition(": Listening on ")[2].strip()

        def ask(*arguments: str) -> tuple[int, str]:
            result = CliRunner(env={"TOPICPOLICIES_SERVER": address}).invoke(app, list(arguments))
            return result.exit_code, result.stdout

        assert ask("health") == (0, "SERVING\n")
        assert ask("health", "--service", "topicpolicies.v1.TopicPoliciesService", "-ojson") == (0, '{"status": "SERVING"}\n')
        assert ask("health", "--service", "no.such.Service")[0] == 4
        code, out = ask("update", "public/default/t", "max_producer_per_topic=5", "-ojson")
        assert (code, json.loads(out)["outcome"]) == (0, "CHANGE_OUTCOME_APPLIED")
        second = subprocess.run([*command[:-1], "127.0.0.1:0"], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=30)
        assert second.returncode == 9
        assert "Error: the server could not start: " in second.stderr and f"in use by process {process.pid}" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert ask("health", "--timeout", "0.5")[0] == 5


@pytest.mark.timeout(120)
def test_the_demo_loses_no_update_and_reports_its_counts() -> None:
    arguments = ["demo", "--once", "--clients", "24", "--updates", "4", "--listen", "127.0.0.1:0", "-ojson"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["problems"] == []
    assert report["updates"] == report["watched"] == 96


@pytest.mark.timeout(120)
def test_the_demo_keeps_serving_until_it_is_interrupted() -> None:
    command = [sys.executable, "-m", "topicpolicies_server", "demo", "--clients", "4", "--updates", "2", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = ""
        while " update " not in (line := process.stderr.readline()):
            address = line.split()[2] if line.startswith("Serving on ") else address
        program = Path(sys.executable).parent / "topicpolicies"
        here = Path.cwd()
        assert program.exists() and line.split()[0] == str(program.relative_to(here) if program.is_relative_to(here) else program)
        process.stderr.readline()
        result = CliRunner().invoke(app, ["get", "public/default/demo", "--server", address])
        assert result.exit_code == 0
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Updates lost: none" in out


def without(*packages: str) -> str:
    """Returns the beginning of a script after which these packages can't be imported."""
    return f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(packages)!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
"""


def script(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text, *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=30
    )


def test_client_commands_and_all_help_run_without_the_servers_packages() -> None:
    beginning = without("pulsar", "httpx", "uvloop", "grpc_reflection", "sortedcontainers")
    code = beginning + "from topicpolicies_server.cli.app import main; main()"
    helping = """
from topicpolicies_server.cli.app import app
from typer.testing import CliRunner
for command in sys.argv[1:]:
    print(command, CliRunner().invoke(app, [command, "--help"]).exit_code)
"""
    commands = ("get", "update", "delete", "list", "watch", "doctor", "health", "serve", "config", "demo")
    assert script(beginning + helping, *commands).stdout.splitlines() == [f"{command} 0" for command in commands]
    failed = script(code, "get", "public/default/t", "--server", "127.0.0.1:1", "--timeout", "0.2")
    assert failed.returncode == 5, failed.stderr


def test_without_its_packages_the_command_line_names_what_to_install() -> None:
    hidden = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda name: None if name == 'typer' else find(name)\n"
    failed = script(hidden + "import topicpolicies_server.cli.app")
    assert "pip install 'topicpolicies[cli]'" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "wanted"),
    [
        (["get", "-ojson"], "", True),
        (["get", "--output", "JSON"], "table", True),
        (["get"], "json", True),
        (["get", "-o", "table"], "json", False),
        (["get", "-o", "json", "--output=table"], "", False),
        (["get", "--", "-o", "json"], "", False),
        (["get"], "", False),
        (["get", "json"], "", False),
        (["set-offload-policies", "-o", "json", "-orp", "x"], "", True),
    ],
)
def test_json_for_errors_of_usage_is_requested_by_any_form_of_the_option_or_the_environment(
    arguments: list[str], environment: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPICPOLICIES_OUTPUT", environment)
    assert (output_of(arguments) == "json") is wanted
