"""What MkDocs does to the pages beyond its own (mkdocs.yml): the repository's pages outside this folder, and lists as GitHub reads them."""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\[\]]+)\]\(([\w./-]+)(#[\w-]+)?\)")
FENCE = re.compile(r"(?ms)(^```.*?^```$)")
ITEM = re.compile(r"(?m)^- .*\n(?:  .*\n|\n(?=  ))+")
"""An item of a list, with what belongs to it: indented by two blanks. Python-Markdown wants four, and a blank line behind paragraphs."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages outside ``docs`` that mkdocs.yml names under ``extra.outside``."""
    for name, path in config.extra["outside"].items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Points links where the site has what they name; what it does not have, but the repository, is named without a link."""
    here = Path(str(page.file.abs_src_path)).parent
    places = {Path(file.abs_src_path): file.src_uri for file in files if file.abs_src_path}

    def link(found: re.Match[str]) -> str:
        text, path, anchor = found.groups()
        target = (here / path).resolve()
        if target in places:
            return f"[{text}]({os.path.relpath(places[target], Path(page.file.src_uri).parent)}{anchor or ''})"
        return text if target.exists() else found[0]

    def item(found: re.Match[str]) -> str:
        text = re.sub(r"(?m)^  ", "    ", found[0])
        return f"{text}\n" if "\n\n" in text else text

    parts = FENCE.split(markdown)
    parts[::2] = [ITEM.sub(item, LINK.sub(link, part)) for part in parts[::2]]
    return "".join(parts)
