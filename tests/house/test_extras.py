"""The wheels with each extra alone, in fresh environments: every command runs, or says in one sentence which extra it needs.

Packages come from the cache of uv, or the registry, in the versions of the lock file. Spark is left out: it takes minutes to build.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port
from topicpolicies_server.cli.app import COMMANDS

pytestmark = [pytest.mark.evidence, pytest.mark.timeout(600)]

_ROOT = Path(__file__).resolve().parents[2]
_UV = Path(sys.executable).with_name("uv")
_TOPIC = "persistent://public/default/orders"
_PULSAR = ("--pulsar", "pulsar://127.0.0.1:1", "--admin-url", "http://127.0.0.1:1")


class Installed:
    """An environment with the wheels and one extra of the client."""

    def __init__(self, folder: Path, wheels: Path, extra: str) -> None:
        home = folder / "home"
        home.mkdir(parents=True)
        self.programs = folder / "made" / "bin"
        self.server = f"127.0.0.1:{free_port()}"
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TOPICPOLICIES_SERVER": self.server}
        wanted = f"topicpolicies[{extra}]" if extra else "topicpolicies-server"
        locked = f"--constraints={_ROOT / 'requirements/dev.txt'}"
        _run(_UV, "venv", "--quiet", "--no-config", f"--python={sys.executable}", folder / "made")
        install = ("pip", "install", "--quiet", "--no-config", f"--python={folder / 'made'}", f"--find-links={wheels}")
        _run(_UV, *install, "--no-build", locked, wanted)

    def start(self, *arguments: str, program: str = "topicpolicies") -> subprocess.Popen[str]:
        """Starts a command."""
        command = [str(self.programs / program), *arguments]
        return subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments: str, program: str = "topicpolicies") -> tuple[int, str]:
        """Runs a command until it ends; returns its exit code and output, which is never a traceback."""
        with self.start(*arguments, program=program) as process:
            printed, _ = process.communicate(timeout=60)
        assert "Traceback" not in printed, (arguments, printed)
        return process.returncode, printed

    def needs(self, extra: str, *arguments: str, program: str = "topicpolicies") -> None:
        """Runs a command that says in one sentence that it needs an extra."""
        code, printed = self.run(*arguments, program=program)
        assert code != 0 and len(printed.splitlines()) == 1, (arguments, printed)
        assert f"pip install 'topicpolicies[{extra}]'" in printed, (arguments, printed)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, cwd=_ROOT)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheels")
    for project in (_ROOT, _ROOT / "clients/python"):
        subprocess.run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out], cwd=project, check=True)
    return out


def test_without_an_extra_both_commands_name_theirs(wheels: Path, tmp_path: Path) -> None:
    installed = Installed(tmp_path, wheels, "")
    for arguments in ((), ("--help",), ("get", _TOPIC), ("serve",)):
        installed.needs("cli", *arguments)
    installed.needs("spark", "--help", program="topicpolicies-audit")


@pytest.mark.parametrize("extra", ["cli", "server", "telemetry"])
def test_every_command_runs_or_names_the_extra_that_it_needs(wheels: Path, tmp_path: Path, extra: str) -> None:
    installed = Installed(tmp_path, wheels, extra)
    for command in (*COMMANDS, "set-retention", "get-retention", "remove-retention"):
        code, printed = installed.run(command, "--help")
        assert code == 0 and printed.startswith("Usage:"), (command, printed)
    installed.needs("spark", "--help", program="topicpolicies-audit")
    assert installed.run("explain", "retention_policies")[0] == 0
    assert installed.run("config")[0] == 0
    if extra == "cli":
        for arguments in (("serve",), ("demo", "--once"), ("serve", *_PULSAR), ("guard", *_PULSAR, "public/default")):
            installed.needs("server", *arguments)
    if extra == "server":
        installed.needs("telemetry", "serve", "--otlp-endpoint", "http://127.0.0.1:1")
    if extra != "cli":
        _serve(installed, *(("--otlp-endpoint", "http://127.0.0.1:1") if extra == "telemetry" else ()))


def _serve(installed: Installed, *options: str) -> None:
    """Runs a server and clients of it."""
    with installed.start("serve", "--listen", installed.server, "--metrics-listen", f"127.0.0.1:{free_port()}", *options) as server:
        try:
            for _ in range(100):
                if installed.run("health")[0] == 0:
                    break
            for command in (
                ("update", _TOPIC, "max_producer_per_topic=5"),
                ("set-retention", "-t", "3h", "-s", "1G", _TOPIC),
                ("get", _TOPIC),
                ("list", "public/default"),
                ("history", _TOPIC),
                ("export", "public/default"),
                ("revert", _TOPIC, "--to", "1h-ago", "--yes"),
                ("info",),
                ("doctor",),
                ("delete", _TOPIC),
            ):
                code, printed = installed.run(*command)
                assert code == 0, (command, printed)
            with installed.start("watch", "public/default") as watch:
                assert watch.stdout is not None
                assert watch.stdout.readline()
                watch.send_signal(signal.SIGINT)
        finally:
            server.send_signal(signal.SIGTERM)
            printed, _ = server.communicate(timeout=30)
    assert server.returncode == 0 and "Traceback" not in printed, printed
    code, printed = installed.run("demo", "--once", "--clients", "4", "--updates", "20")
    assert code == 0 and "Updates lost: none" in printed
