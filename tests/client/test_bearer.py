"""Tokens that stand in files: read anew when they change, and the last one that was good stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from topicpolicies import InvalidArgument, TokenFile, bearer


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a token, which is looked at for each call."""
    monkeypatch.setattr(bearer, "LOOK_SECONDS", 0.0)
    file = tmp_path / "token"
    file.write_text("first\n")
    return file


def test_the_token_is_read_anew_when_the_file_changes(path: Path) -> None:
    token = TokenFile(path)
    assert token() == "first"
    path.write_text(" second \n")
    assert token() == "second"
    other = path.with_name("other")
    other.write_text("third")
    other.rename(path)
    assert token() == "third"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff\xfe", "tökén".encode(), b"a\nb", b"a\0b"])
def test_what_is_no_token_is_refused_and_the_one_before_stays(path: Path, content: bytes) -> None:
    token = TokenFile(path)
    path.write_bytes(content)
    assert token() == "first"
    with pytest.raises(InvalidArgument, match="no bearer token"):
        TokenFile(path)
    path.write_text("second")
    assert token() == "second"


def test_a_file_that_is_gone_leaves_its_token(path: Path) -> None:
    token = TokenFile(path)
    path.unlink()
    assert token() == "first"
    with pytest.raises(FileNotFoundError):
        TokenFile(path)
    path.write_text("second")
    assert token() == "second"


def test_a_file_is_not_looked_at_for_each_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "LOOK_SECONDS", 60.0)
    token = TokenFile(path)
    path.write_text("second")
    assert token() == "first"
