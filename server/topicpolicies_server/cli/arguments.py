"""What arguments and options must be, whatever they mean: Unicode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand


def is_unicode(text: str) -> bool:
    """Whether a text can be sent: bytes that are not UTF-8, and halves of characters, can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check(context: Any) -> None:
    """Looks at the values of a command's arguments and options. Paths of files may have any bytes.

    Raises:
        typer.BadParameter: one is not Unicode.
    """
    for parameter in context.command.params:
        if not all(map(is_unicode, _texts(context.params.get(parameter.name)))):
            raise typer.BadParameter("It has bytes that are not UTF-8.", ctx=context, param=parameter)


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    return [each for each in value if isinstance(each, str)] if isinstance(value, (list, tuple)) else ()


class Command(TyperCommand):
    """A command whose arguments are Unicode, and whose help shows its options under their headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads and checks them."""
        rest = super().parse_args(ctx, args)
        check(ctx)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, then the options that have no heading, then the others under theirs."""
        shown: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.param_type_name == "argument":
                shown["Arguments"].append((record[0].partition(" <")[0], record[1]))  # without the name of a type
            elif record is not None:
                shown.setdefault(getattr(parameter, "rich_help_panel", None) or "Options", []).append(record)
        for heading, records in shown.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
