"""The API reference, ``docs/api.md``: what the comments of the definitions say, in Markdown, with links between types."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from proto import descriptors, documented, tools
from proto.documented import Enum, Field, File, Message, Service, Type

OUT = tools.ROOT / "docs"
"""Where the committed page is."""
PATTERN = "api.md"
"""Its name."""
_WIDTH = 120
_ORDER = ("service.proto", "history.proto", "policies.proto", "events.proto", "errors.proto")
"""How the page is ordered; other files follow."""
_INTRODUCTION = """\
# API reference

This page is generated from the comments of `proto/topicpolicies/v1`: change those, then run `python3 dev.py generate`.
[masks.md](masks.md) defines masks, [watch.md](watch.md) the protocol of watches. Each field is listed with its number
and its type; an `optional` field that is not set differs from one that is zero, empty or false.
"""
_CODE = re.compile(r"(`[^`]*`)")
_PAGE = re.compile(r"\bdocs/(\w+\.md)\b")
_LIKE_A_LIST = re.compile(r"^(\s*)(\d+|)([.)+#>-])(?=\s|$)")
"""What Markdown takes for the beginning of a list, a heading or a quotation, if a line begins with it."""


def generate(out: Path, proto: Path) -> None:
    """Writes the page.

    Args:
        out: a directory.
        proto: the root of the definitions.

    Raises:
        ValueError: the definitions do not compile, or something in them has no comment, or a reason's has not the form of the others.
    """
    files = [documented.file(each) for each in descriptors.ours(descriptors.read(proto))]
    if missing := [name for file in files for name in documented.undocumented(file)]:
        raise ValueError(f"no comment: {', '.join(missing)}")
    (out / PATTERN).write_text(page(files))


def page(files: list[File]) -> str:
    """The whole page, of all files together."""
    files = sorted(files, key=lambda file: _ORDER.index(name) if (name := Path(file.name).name) in _ORDER else len(_ORDER))
    prose = _Prose({name for file in files for name in file.names})
    lines = _INTRODUCTION.splitlines()
    for file in files:
        lines += ["", f"## {Path(file.name).name}", "", *prose.paragraphs(file.comment), "", *_contents(file, prose)]
        for service in file.services:
            lines += _service(service, prose)
        for each in file.types:
            if isinstance(each, Message):
                lines += _message(each, prose)
            else:
                lines += _enum(each, prose)
    return "\n".join(lines) + "\n"


class _Prose:
    """Comments as Markdown: what would be taken for markup is not, and names of types are links."""

    def __init__(self, types: set[str]) -> None:
        self._types = types
        # A name of one word, such as Scope, is a word too: only fields' types link to it.
        spoken = sorted((name for name in types if len(re.findall("[A-Z]", name)) > 1), key=len, reverse=True)
        self._spoken = re.compile(rf"\b({'|'.join(spoken)})\b(?!/)") if spoken else re.compile(r"(?!)")

    def text(self, comment: str, *, within: str = "") -> str:
        """One paragraph; ``within``: the type that it belongs to, which is not linked."""
        parts = _CODE.split(comment)
        return "".join(part if index % 2 else self._plain(part, within) for index, part in enumerate(parts))

    def paragraphs(self, comment: str, *, within: str = "", indent: str = "") -> list[str]:
        """A whole comment, in lines."""
        lines: list[str] = []
        for paragraph in comment.split("\n\n"):
            lines += ([""] if lines else []) + wrapped(self.text(paragraph, within=within), indent, indent)
        return lines

    def type(self, type_: Type) -> str:
        """A field's type."""
        name = self.link(type_.name) if not type_.scalar else f"`{type_.name}`"
        if type_.key:
            return f"map from `{type_.key}` to {name}"
        if type_.repeated:
            return f"list of {name}"
        return f"`optional` {name}" if type_.optional else name

    def link(self, name: str) -> str:
        """A type's name, with a link where this page has it."""
        return f"[{name}](#{name.lower()})" if name in self._types else f"`{name}`"

    def _plain(self, text: str, within: str) -> str:
        text = re.sub(r"([*<\[\]])|(?<!\w)_+|_+(?!\w)", lambda found: "".join(f"\\{each}" for each in found[0]), text)
        text = self._spoken.sub(lambda found: found[0] if found[0] == within else self.link(found[0]), text)
        return _PAGE.sub(r"[\1](\1)", text)


def wrapped(text: str, first: str, others: str) -> list[str]:
    """Lines of a paragraph; none begins with what Markdown takes for something else."""
    lines = textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False)
    return [lines[0], *(_LIKE_A_LIST.sub(r"\1\2\\\3", line) for line in lines[1:])] if lines else []


def _contents(file: File, prose: _Prose) -> list[str]:
    return wrapped(", ".join(map(prose.link, file.names)) + ".", "", "")


def _service(service: Service, prose: _Prose) -> Iterator[str]:
    yield from ("", f"### {service.name}", "", *prose.paragraphs(service.comment, within=service.name), "")
    for call in service.calls:
        request, response = prose.link(call.request), prose.link(call.response)
        asked = f"stream of {request}" if call.streams_requests else request
        told = f"stream of {response}" if call.streams_responses else response
        yield from wrapped(f"**`{call.name}`** ({asked}) returns ({told}). {prose.text(call.comment)}", "- ", "  ")


def _message(message: Message, prose: _Prose) -> Iterator[str]:
    yield from ("", f"### {message.name}", "", *prose.paragraphs(message.comment, within=message.name))
    if message.fields:
        yield ""
    told: set[str] = set()
    for field in message.fields:
        if field.oneof and field.oneof not in told:
            told.add(field.oneof)
            yield from wrapped(f"One of `{field.oneof}`. {prose.text(message.oneofs[field.oneof], within=message.name)}", "- ", "  ")
        yield from _field(field, prose, message.name, "  " if field.oneof else "")


def _field(field: Field, prose: _Prose, within: str, indent: str) -> list[str]:
    text = f"**`{field.name}`** ({field.number}, {prose.type(field.type)}). {prose.text(field.comment, within=within)}"
    return wrapped(text, f"{indent}- ", f"{indent}  ")


def _enum(enum: Enum, prose: _Prose) -> Iterator[str]:
    yield from ("", f"### {enum.name}", "", *prose.paragraphs(enum.comment, within=enum.name), "")
    for value in enum.values:
        yield from wrapped(f"**`{value.name}`** ({value.number}). {prose.text(value.comment, within=enum.name)}", "- ", "  ")
