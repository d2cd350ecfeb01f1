"""The pages of the documentation: each is in the site, and each link leads to a file, and to a heading of it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

_ROOT = Path(__file__).resolve().parents[2]
_SITE = YAML(typ="safe").load(_ROOT / "mkdocs.yml")
_OUTSIDE = _SITE["extra"]["outside"]
_PAGES = ["README.md", "proto/README.md", *_OUTSIDE.values(), *(f"docs/{page.name}" for page in _ROOT.glob("docs/*.md"))]
_CODE = re.compile(r"(?ms)^```.*?^```$|^    \S[^\n]*$|``.+?``|`[^`\n]+`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"(?m)^#+ (.+)$")


def _named(nav: Any) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from _named(below)


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = _HEADING.findall(re.sub(r"(?ms)^```.*?^```$", "", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_site_has_every_page_once() -> None:
    assert sorted(_named(_SITE["nav"])) == sorted([*(page.name for page in _ROOT.glob("docs/*.md")), *_OUTSIDE])


@pytest.mark.parametrize("page", _PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    here, wrong = _ROOT / page, []
    for target in _LINK.findall(_CODE.sub("", here.read_text())):
        path, _, anchor = target.partition("#")
        there = (here.parent / path).resolve() if path else here
        known = re.match("https?://", target) or (there.exists() and (not anchor or anchor in _anchors(there)))
        wrong += [] if known else [target]
    assert not wrong
