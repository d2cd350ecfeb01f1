"""Text that must not be in the repository: names of package registries, paths of a developer's machine, unfinished work.

The patterns have a bracket in every word, so that this file does not match them itself.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]

_BANNED = {
    "a package registry": re.compile(
        r"[p]ypi\.org|[p]ythonhosted\.org|[r]epo1?\.maven\.(?:apache\.)?org|[o]ss\.sonatype\.org|[r]egistry\.npmjs\.org"
        r"|[r]egistry\.yarnpkg\.com|[p]roxy\.golang\.org|[s]um\.golang\.org|[c]rates\.io|[g]oproxy\.|[a]rtifactory\.",
        re.IGNORECASE,
    ),
    "a path of somebody's machine": re.compile(r"/[h]ome/\w|/[U]sers/\w|/[r]oot\b|/[w]ork/(?:main|shared)|[C]:\\\\?Users"),
    "unfinished work": re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX)\b"),
    "a conflict": re.compile(r"^(?:[<]{7}|[>]{7}) ", re.MULTILINE),
}


def _tracked() -> Iterator[Path]:
    # The checkout may belong to another user, as in many build containers.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (path := _ROOT / name).is_file():
            yield path


def _violations(path: Path) -> list[str]:
    """Returns the violations in a file, each with its line; none for binary files."""
    raw = path.read_bytes()
    if b"\0" in raw:
        return []
    text = raw.decode()
    return [
        f"{what} in line {text.count(chr(10), 0, found.start()) + 1}: {found[0]}"
        for what, pattern in _BANNED.items()
        for found in pattern.finditer(text)
    ]


@pytest.mark.skipif(shutil.which("git") is None or not (_ROOT / ".git").exists(), reason="not a git checkout")
def test_no_tracked_file_has_text_that_must_not_be_in_the_repository() -> None:
    files = list(_tracked())
    assert len(files) > 50
    assert {str(path.relative_to(_ROOT)): found for path in files if (found := _violations(path))} == {}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("--index-url https://" + "pypi" + ".org/simple", "a package registry"),
        ('"resolved": "https://' + "registry" + '.npmjs.org/left-pad"', "a package registry"),
        ("<url>https://" + "repo" + ".maven.apache.org/maven2</url>", "a package registry"),
        ("cache = '/" + "home/somebody/.cache'", "a path of somebody's machine"),
        ("cd /" + "root", "a path of somebody's machine"),
        ("# TO" + "DO: the rest", "unfinished work"),
        ("<" * 7 + " HEAD", "a conflict"),
    ],
)
def test_a_planted_violation_is_reported_with_its_line(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "planted.txt"
    path.write_text(f"in order\n{line}\n")
    assert [found.split(" in line ")[0] for found in _violations(path)] == [what]
    assert " in line 2: " in _violations(path)[0]


def test_text_that_only_resembles_a_violation_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "fine.md"
    path.write_text("The root: /roots, home/page, golang.org/x, maven.apache.org/POM/4.0.0\n=======  a table\n# Title\n")
    assert _violations(path) == []
