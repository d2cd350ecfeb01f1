"""Bearer tokens in files: a changed file is read again, and the last valid token is used while it can't be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from topicpolicies import InvalidArgument, TokenFile, bearer


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a token. Each call checks whether it has changed."""
    monkeypatch.setattr(bearer, "LOOK_SECONDS", 0.0)
    file = tmp_path / "token"
    file.write_text("first\n")
    return file


def test_the_token_is_read_again_when_the_file_changes(path: Path) -> None:
    token = TokenFile(path)
    assert token() == "first"
    path.write_text(" second \n")
    assert token() == "second"
    other = path.with_name("other")
    other.write_text("third")
    other.rename(path)
    assert token() == "third"


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff\xfe", "tökén".encode(), b"a\nb", b"a\0b"])
def test_a_file_without_a_valid_token_is_refused_at_first_and_later_leaves_the_last_token(path: Path, content: bytes) -> None:
    token = TokenFile(path)
    path.write_bytes(content)
    assert token() == "first"
    with pytest.raises(InvalidArgument, match="no bearer token"):
        TokenFile(path)
    path.write_text("second")
    assert token() == "second"


def test_a_removed_file_leaves_the_last_token(path: Path) -> None:
    token = TokenFile(path)
    path.unlink()
    assert token() == "first"
    with pytest.raises(FileNotFoundError):
        TokenFile(path)
    path.write_text("second")
    assert token() == "second"


def test_a_file_is_not_checked_for_changes_at_each_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "LOOK_SECONDS", 60.0)
    token = TokenFile(path)
    path.write_text("second")
    assert token() == "first"


def test_a_file_that_is_no_token_is_read_only_as_far_as_a_token_may_reach() -> None:
    with pytest.raises(InvalidArgument, match="has no bearer token in it"):
        TokenFile("/dev/zero")
