"""The commands. Each is imported when it is looked up, so that help and completion do without what the commands need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand

from .exits import EXIT_CODES
from .verbs import VERBS, function_of


class Place(NamedTuple):
    """Where a command is, and what it does."""

    function: str
    """Module and function."""
    sentence: str
    """What the list of commands says; the first line of the function's docstring."""


WHERE = {
    "get": Place("documents:get", "Show the policies of one topic."),
    "update": Place("documents:update", "Change some settings of one topic, and no others."),
    "edit": Place("edit:edit", "Edit the policies of one topic in your editor."),
    "delete": Place("documents:delete", "Delete one document of one topic."),
    "effective": Place("documents:effective", "Show the values in force for a topic, and the level of each."),
    "list": Place("documents:list_", "List the documents of a namespace, by topic and scope."),
    "watch": Place("watch:watch", "Follow topics and namespaces: their documents, then changes."),
    "history": Place("history:history", "Show who changed what, and when: the newest event first."),
    "diff": Place("history:diff", "Show the settings in which a topic differs between two moments."),
    "revert": Place("revert:revert", "Make the policies of one topic what they were at a moment."),
    "plan": Place("apply:plan", "Show what apply would change, and write nothing."),
    "apply": Place("apply:apply", "Change documents to what the file declares."),
    "export": Place("apply:export_", "Write a file that declares the present documents."),
    "explain": Place("explain:explain", "Explain a field: its type, unit, special values and example."),
    "info": Place("server:info", "Show the server's version, log and writers."),
    "health": Place("server:health", "Check whether the server is ready."),
    "doctor": Place("doctor:doctor", "Find what is wrong, and show what to do."),
    "serve": Place("serve:serve", "Run a server, until it is stopped (SIGTERM, Ctrl-C)."),
    "config": Place("config:config", "Show the options in force, and the source of each."),
    "guard": Place("serve:guard", "Restore what brokers lose of each other's changes."),
    "demo": Place("demo:demo", "Show many clients changing one topic, and that no update is lost."),
    "version": Place("server:version", "Show the version of this program."),
}
"""The commands in the order in which help shows them. Those of pulsar-admin, such as set-retention, are in ``verbs``."""


class Command(TyperCommand):
    """A command whose help shows arguments in the usual form, without Typer's braces and types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Returns what follows the command's name in its usage: ``TOPIC``, ``[FIELD=VALUE]...``."""
        arguments: list[Any] = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        names = ((each.metavar or str(each.name).upper(), each.required, each.nargs) for each in arguments)
        pieces = [(name if required else f"[{name}]") + ("..." if nargs != 1 else "") for name, required, nargs in names]
        return [self.options_metavar or "", *pieces]

    def get_help(self, ctx: Any) -> str:
        """Returns the help."""
        return re.sub(r"<(str|list\[str\])>", lambda found: " " * len(found[0]), super().get_help(ctx))


class Commands(Mapping[str, Any]):
    """The commands by name, pulsar-admin's included. A lookup imports the command's module."""

    def __getitem__(self, name: str) -> Any:
        if name in VERBS:
            function = function_of(name)
        else:
            module, _, attribute = WHERE[name].function.partition(":")
            function = getattr(import_module(f".{module}", __package__), attribute)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, cls=Command, epilog=EXIT_CODES)(function)
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        yield from WHERE
        yield from VERBS

    def __len__(self) -> int:
        return len(WHERE) + len(VERBS)
