"""What goes with an image: a bill of materials of what the lock file names, and the licenses of all of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import dev

LOCKED = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", (dev.REQUIREMENTS / "server.txt").read_text()))
ELSEWHERE = {"colorama"}
"""Locked for Windows only."""


@pytest.fixture(autouse=True)
def this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the commands use the environment of the tests, in which everything is installed already."""
    monkeypatch.setattr(dev, "VENV", Path(sys.prefix))
    monkeypatch.setattr(dev, "PROGRAMS", Path(sys.prefix) / dev.PROGRAMS.name)
    monkeypatch.setattr(dev, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(dev, "install", lambda profile: None)


@pytest.mark.evidence  # installs what makes it
def test_the_bill_of_materials_has_exactly_what_is_locked(tmp_path: Path) -> None:
    assert dev.release([str(tmp_path)]) == 0
    bill = json.loads((tmp_path / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX" and bill["metadata"]["component"]["name"] == "topicpolicies-server"
    assert {each["name"]: each["version"] for each in bill["components"]} == LOCKED
    assert all(each["purl"] and each["externalReferences"][0]["hashes"] for each in bill["components"])
    assert (tmp_path / "NOTICE").read_text().startswith("Topic policies")


def test_the_notice_has_the_license_of_each_package() -> None:
    own, *parts = "\n".join(dev.notices()).split("=" * 100)
    assert "Apache License 2.0" in own
    said = {part.split(maxsplit=1)[0]: part for part in parts}
    assert said.keys() == LOCKED.keys() - ELSEWHERE
    assert [name for name, part in said.items() if len(part.splitlines()) < 10] == []
    assert [name for name, part in said.items() if not re.match(r"\n\S+ \d\S*: \S", part)] == []
