"""The Go client: its own tests, under the race detector, and its example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proto import tools
from tests.clients.toolchains import GO, GO_OPTIONS, go_program, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_go_clients_own_tests_pass() -> None:
    go_program("example")  # otherwise, this compiles packages that another process compiles for programs
    # Vet runs below with all analyzers; here it would run with some of them.
    output = run([tools.go(), "test", *GO_OPTIONS, "-vet=off", "-count=1", "-timeout=240s", "-v", "./..."], GO, seconds=500)
    assert len(re.findall(r"^--- PASS: ", output, re.MULTILINE)) > 20
    assert "--- SKIP" not in output


def test_the_go_client_is_formatted_and_vetted() -> None:
    gofmt = Path(tools.go()).resolve().with_name("gofmt")
    assert run([str(gofmt), "-l", "."], GO) == ""
    run([tools.go(), "vet", *GO_OPTIONS, "./..."], GO)
