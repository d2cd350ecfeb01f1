"""The program in the client's README, and the example of the README of all, run as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.test_against_server import in_thread
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, parse_address

_ROOT = Path(__file__).parents[2]
_PRINTED = {
    "clients/python/README.md": (
        r"updated to version \S+\nedited: 6\nrefused: PRECONDITION_FAILED\ncached documents: 1\npersistent://\S+ 6\n"
    ),
    "README.md": r"(.|\n)*max_producer_per_topic: 5(.|\n)*",
}


@pytest.mark.parametrize("page", _PRINTED)
def test_the_first_example_of_the_page_runs(page: str) -> None:
    (program, *others) = re.findall(r"^```python\n(.*?)^```$", (_ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert not others
    program = program.replace('watch(namespaces=["public/default"])', 'watch(namespaces=["public/default"], until_synced=True)')
    with in_thread(ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"))) as address:
        command = [sys.executable, "-c", program.replace("localhost:6680", address)]
        done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}, check=False, timeout=60)
    assert done.stderr == ""
    assert re.fullmatch(_PRINTED[page], done.stdout), done.stdout
