"""The systemd unit: systemd takes every line of it, and what it says of the server is so."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from topicpolicies_server.cli.exits import ExitCode
from topicpolicies_server.config import Limits
from topicpolicies_server.config.building import data_folder_of
from topicpolicies_server.config.table import options

from .checking import DEPLOY

UNIT = (DEPLOY / "topicpolicies.service").read_text()
SETTINGS = dict(re.findall(r"(?m)^(\w+)=(.*)$", UNIT))
ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSED = 2.0
"""Of 10, by systemd's own measure; a service without any restriction has 9.6."""


def test_every_line_is_a_section_a_setting_or_a_comment() -> None:
    lines = [line for line in UNIT.splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"\[(Unit|Service|Install)\]|[A-Z]\w+=.*", line)] == []
    named = re.findall(r"TOPICPOLICIES_\w+", UNIT)
    assert named and {*named} <= {each.variable for each in options().values()}


def test_the_log_is_in_the_folder_that_systemd_makes() -> None:
    around = dict(each.split("=") for each in SETTINGS["Environment"].split())
    assert str(data_folder_of(around, "linux")) == f"/var/lib/{SETTINGS['StateDirectory']}"


def test_the_server_is_stopped_started_again_and_given_files_as_its_options_say() -> None:
    assert float(SETTINGS["TimeoutStopSec"]) > Limits().drain_seconds
    assert int(SETTINGS["LimitNOFILE"]) > 3 * Limits().max_concurrent_calls
    assert int(SETTINGS["RestartPreventExitStatus"]) == ExitCode.USAGE


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed here")
@pytest.mark.parametrize("secret", [False, True], ids=["as it is", "with the secret of its comments"])
def test_systemd_takes_every_line_and_finds_little_exposed(secret: bool, tmp_path: Path) -> None:
    unit = tmp_path / "topicpolicies.service"
    text = UNIT.replace("/opt/topicpolicies/bin/topicpolicies", sys.executable)  # it wants to see the program
    unit.write_text(re.sub(r"(?m)^#(\w+=)", r"\1", text) if secret else text)
    assert analyzed("verify", "--man=no", str(unit)) == ""
    exposed = re.search(r"exposure level for topicpolicies.service: ([\d.]+)", analyzed("security", "--offline=true", str(unit)))
    assert exposed is not None and float(exposed[1]) <= MOST_EXPOSED


def analyzed(*arguments: str) -> str:
    assert ANALYZE is not None
    done = subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr
