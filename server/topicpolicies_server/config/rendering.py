"""Shows options to people: values, a sample of the file with every option commented out, and the reference in Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from itertools import groupby

from .address import Address
from .option import Option, Value, written
from .sources import FILE_VARIABLE, options

_WIDTH = 100
_NAMES = re.compile(r"``(\w+)``")


def written_value(value: Value) -> str:
    """Returns a value as a flag or a variable may have it; empty: there is none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return written(value)
    if isinstance(value, tuple) and not isinstance(value, Address):
        return ", ".join(value)
    return "" if value is None else str(value)


def plain(text: str, called: Callable[[Option], str]) -> str:
    """Returns a text of the table without its double backticks; options between them are named as ``called`` returns."""
    return _NAMES.sub(lambda name: called(options()[name[1]]) if name[1] in options() else name[1], text)


def in_toml(option: Option) -> str:
    """Returns the option's default as it is written in a file, or an example of a value where there is no default."""
    if option.example:
        return option.example
    told = written_value(option.default)
    return told if option.numeric or option.type is bool else f'"{told}"'


def sample() -> str:
    """Returns a file of options in which every one is commented out."""
    lines = [
        "# The options of a sidecar. What is commented out shows the default, or an example.",
        f"# Read with --config FILE, or {FILE_VARIABLE}=FILE. A flag or an environment variable takes precedence over this file.",
    ]
    for section, group in groupby(options().values(), lambda option: option.section):
        lines += ["", f"## {section}"]
        for option in group:
            lines += ["", *textwrap.wrap(_note(option), _WIDTH, initial_indent="# ", subsequent_indent="# ")]
            lines.append(f"#{option.name} = {in_toml(option)}")
    return "\n".join(lines) + "\n"


def reference() -> str:
    """Returns the tables of all options in Markdown, one for each section."""
    lines: list[str] = []
    for section, group in groupby(options().values(), lambda option: option.section):
        lines += [f"### {section}", "", "| option | default | values | what |", "|---|---|---|---|"]
        lines += [_row(option) for option in group]
        lines.append("")
    return "\n".join(lines)


def _row(option: Option) -> str:
    default = option.default_text or ("none" if option.default in (None, "", ()) else f"`{written_value(option.default)}`")
    return f"| `{option.name}` | {plain(f'{default} | {option.allowed} | {option.help}', lambda other: f'`{other.name}`')} |"


def _note(option: Option) -> str:
    """Returns the comment above an option in the sample."""
    notes = [option.allowed] if option.numeric or option.choices else []
    if option.default_text:
        notes.append(f"default: {option.default_text}")
    return plain(f"{option.help} ({'; '.join(notes)})" if notes else option.help, lambda other: other.name)
