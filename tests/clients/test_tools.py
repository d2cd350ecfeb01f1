"""A missing or old program is an error with a sentence, never a skipped test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proto import tools


def test_a_missing_program_is_an_error_that_names_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tools.ToolMissingError, match=r"go is missing \(1\.24 or newer\): .*Install it"):
        tools.go()
    with pytest.raises(tools.ToolMissingError, match=r"node is missing \(20\.0 or newer\): .*Install it"):
        tools.node_modules()


@pytest.mark.parametrize(
    ("version", "found"), [("go version go1.24.3 linux/amd64", True), ("go version go1.9 linux/amd64", False), ("oops", False)]
)
def test_an_old_program_is_an_error_with_its_version_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, found: bool
) -> None:
    program = tmp_path / "go"
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    if found:
        assert tools.go() == str(program)
        return
    with pytest.raises(tools.ToolMissingError, match=r"is too old: 1\.24 or newer is needed, and it says"):
        tools.go()


def test_packages_that_npm_can_not_install_are_an_error_with_its_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, script in (("node", "echo v20.1.0"), ("npm", "echo 'no such package'; exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(tools, "_STAMP", tmp_path / "node_modules" / ".installed")
    with pytest.raises(tools.ToolMissingError, match="no such package"):
        tools.node_modules()


def test_packages_are_installed_again_if_dependencies_change_and_not_if_the_packages_own_name_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = "echo v20.1.0", "mkdir -p node_modules; echo installed >> installed"
    for name, line in zip(("node", "npm"), script, strict=True):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(tools, "TYPESCRIPT", tmp_path)
    monkeypatch.setattr(tools, "_STAMP", tmp_path / "node_modules" / ".installed")
    lock = json.loads((tools.ROOT / "clients" / "typescript" / "package-lock.json").read_text())

    def installed() -> int:
        (tmp_path / "package-lock.json").write_text(json.dumps(lock))
        assert tools.node_modules() == tmp_path / "node_modules"
        return (tmp_path / "installed").read_text().count("installed")

    assert installed() == 1
    lock["name"] = lock["packages"][""]["name"] = "@another/name"
    assert installed() == 1
    lock["packages"]["node_modules/typescript"]["integrity"] = "sha512-another"
    assert installed() == 2
    lock["packages"][""]["dependencies"]["@grpc/grpc-js"] = "1.0.0"
    assert installed() == 3
