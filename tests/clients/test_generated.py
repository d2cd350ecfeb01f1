"""The committed code of every language is what the definitions generate, and a change of a definition shows in every one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from proto.generate import LANGUAGES, Language, differences
from proto.tools import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_a_definition_changed_without_generating_is_noticed(language: Language, tmp_path: Path) -> None:
    definitions = shutil.copytree(ROOT / "proto", tmp_path / "proto")
    service = definitions / "topicpolicies" / "v1" / "service.proto"
    text = service.read_text()
    assert "rpc GetPolicy(" in text
    service.write_text(text.replace("rpc GetPolicy(", "rpc FetchPolicy(", 1))
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    language.generate(fresh, definitions)
    changes = differences(language.out, fresh, language.pattern)
    assert any(line.startswith("+") and "fetchpolicy" in line.lower() for line in changes)


def test_every_client_beside_pythons_has_generated_code() -> None:
    assert [language.name for language in LANGUAGES] == ["Python", "Go", "Java", "TypeScript"]
    for language in LANGUAGES:
        assert len(list(language.out.glob(language.pattern))) >= 4
