"""What all commands have in common: arguments and options that are Unicode, and help with its options under headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded and sent. Bytes that are not UTF-8 arrive as surrogates, which can't be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check(context: Any) -> None:
    """Checks the values of a command's arguments and options. Paths of files may have any bytes.

    Raises:
        typer.BadParameter: a value is not Unicode.
    """
    for parameter in context.command.params:
        if not all(map(is_unicode, _texts(context.params.get(parameter.name)))):
            raise typer.BadParameter("The value has bytes that are not UTF-8.", ctx=context, param=parameter)


@contextmanager
def plainly() -> Iterator[None]:
    """Removes from the message of a wrong value what Typer's parser writes before it: the kind of a Python exception.

    Raises:
        typer.BadParameter: the error of the body.
    """
    try:
        yield
    except typer.BadParameter as error:
        error.message = error.message.removeprefix(_KIND)
        raise


_KIND = "Value error, "


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    return [each for each in value if isinstance(each, str)] if isinstance(value, (list, tuple)) else ()


class Command(TyperCommand):
    """A command whose arguments and options must be Unicode, and whose help shows options under headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses and checks the arguments."""
        with plainly():
            rest = super().parse_args(ctx, args)
        check(ctx)
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Returns what follows the command's name in its usage: ``TOPIC``, ``[PATH=VALUE]...``."""
        arguments = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]
        return [self.options_metavar or "", *map(_usage, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments and the options of the command."""
        write_options(self, ctx, formatter)


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Writes a command's arguments, then the options without a heading, then the other options under their headings."""
    shown: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            argument = parameter.param_type_name == "argument"
            left = _name(parameter) if argument else _PYTHON_WORDS.sub(lambda found: _FIELD_WORDS.get(found[1], found[1]), record[0])
            heading = "Arguments" if argument else getattr(parameter, "rich_help_panel", None) or "Options"
            shown.setdefault(heading, []).append((left, _RANGE.sub(r"\1 to \2", record[1])))
    for heading, records in shown.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


_PYTHON_WORDS = re.compile(r"<([^<>]+)>")
_FIELD_WORDS = {"str": "TEXT", "path": "FILE", "file": "FILE", "int range": "N", "float range": "N"}
"""The placeholders of values without a ``metavar``, in place of Typer's names of Python types."""
_RANGE = re.compile(r"([\d.]+)<=x<=([\d.]+)")


def _name(argument: Any) -> str:
    """Returns an argument's name without the marks of optional and repeated ones."""
    return str(argument.metavar or argument.name.upper()).strip("[].")


def _usage(argument: Any) -> str:
    name = _name(argument)
    return f"{name if argument.required else f'[{name}]'}{'...' if argument.nargs == -1 else ''}"
