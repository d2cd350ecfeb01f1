"""The application: its commands, and the global options, which may stand before or after the command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from itertools import pairwise
from typing import Any, cast, get_type_hints

import typer
from typer.core import TyperGroup

from ..process import SERVERS
from .exits import INTERRUPTED, ExitCode, report, terminated, writing
from .settings import REQUIRED, WIDE, Output, Settings, WrongUsage, with_parameters
from .verbs import VERBS, function_of

COMMANDS = {
    "get": ("documents:get", "Show the policies of one topic."),
    "update": ("documents:update", "Change some settings of one topic, and no others."),
    "edit": ("edit:edit", "Edit the policies of one topic in your editor."),
    "delete": ("documents:delete", "Delete one document of one topic."),
    "effective": ("documents:effective", "Show the values in force for a topic, and the level of each."),
    "list": ("documents:list_", "List the documents of a namespace, by topic and scope."),
    "watch": ("watch:watch", "Follow topics and namespaces: their documents, then changes."),
    "history": ("history:history", "Show who changed what, and when: the newest event first."),
    "diff": ("history:diff", "Show the settings in which a topic differs between two moments."),
    "revert": ("apply:revert", "Make the policies of one topic what they were at a moment."),
    "plan": ("apply:plan", "Show what apply would change, and write nothing."),
    "apply": ("apply:apply", "Change documents to what the file declares."),
    "export": ("apply:export_", "Write a file that declares the present documents."),
    "explain": ("explain:explain", "Explain a field: its meaning, type, unit and example."),
    "info": ("server:info", "Show the server's version, log and writers."),
    "health": ("server:health", "Check whether the server is ready."),
    "doctor": ("doctor:doctor", "Find what is wrong, and show what to do."),
    "serve": ("serve:serve", "Run a server, until it is stopped (SIGTERM, Ctrl-C)."),
    "config": ("options:config", "Show the options in force, and the source of each."),
    "guard": ("serve:guard", "Restore what brokers lose of each other's changes."),
    "demo": ("demo:demo", "Show many clients changing one topic, and that no update is lost."),
    "version": ("server:version", "Show the version of this program."),
}
"""The commands in the order in which help shows them: module and function, and the first sentence of its docstring."""
_EXTRAS = {"grpc_health": "cli", "opentelemetry": "telemetry", "ruamel": "cli"}
"""The extras that install packages, if it is not that of servers."""
_MEANT = {
    "set": "update changes settings: topicpolicies update TOPIC FIELD=VALUE.",
    "create": "update creates the document that it changes: topicpolicies update TOPIC FIELD=VALUE.",
    "unset": "update clears settings: topicpolicies update TOPIC --unset FIELD.",
    "remove": "delete deletes a document, and update TOPIC --unset FIELD clears one setting.",
    "show": "get shows the policies of a topic.",
    "describe": "get shows the policies of a topic, and explain describes a field.",
    "status": "health says whether the server is ready, and info what it is.",
    "topicPolicies": "The commands of pulsar-admin topicPolicies stand alone here: topicpolicies set-retention -t 3h -s 1G TOPIC.",
}
"""Commands of other programs, and what does the same here."""


_NAMING = ("get", "update", "edit", "delete", "effective", "list")
"""The commands that ``--output name`` is for."""


class Application(TyperGroup):
    """The group of all commands. Each is imported when it is looked up, so that help and completion do without what the commands need."""

    def __init__(self, **settings: Any) -> None:
        """``settings``: passed by Typer."""
        super().__init__(**settings)
        self.commands = cast("dict[str, Any]", dict.fromkeys([*COMMANDS, *VERBS]))  # their names, for completion and suggestions

    def get_command(self, _: Any, cmd_name: str) -> Any:
        """Returns a command; None: there is none of this name."""
        if cmd_name in VERBS:
            function = function_of(cmd_name)
        elif cmd_name in COMMANDS:
            module, attribute = COMMANDS[cmd_name][0].split(":")
            function = getattr(import_module(f".{module}", __package__), attribute)
        else:
            return None
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(cmd_name)(function)
        return typer.main.get_command(alone)

    def format_commands(self, _: Any, formatter: Any) -> None:
        """Writes the sentences of the commands, none of which is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in COMMANDS.items()])
        with formatter.section("Commands of pulsar-admin topicPolicies"):
            formatter.write_text(
                "set-..., get-... and remove-..., such as set-retention, with the same flags: explain names them by field."
            )
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), code.meaning) for code in ExitCode])

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Runs a command and exits."""
        takes_value = {name: not getattr(each, "is_flag", False) for each in self.params for name in (*each.opts, *each.secondary_opts)}
        given = sys.argv[1:] if args is None else args
        first, others = globals_first(given, takes_value)
        if (command := _command(others)) in {*SERVERS, "config"}:  # they have options of TLS of their own, wherever these stand
            first, others = globals_first(given, {name: value for name, value in takes_value.items() if "tls" not in name})
            others.remove(command)
            others.insert(0, command)
        output = output_of(first)
        json = output == "json"
        with writing(json=json, utf_8=json or output == "yaml"):
            try:
                code = super().main(_arranged(first, others), *rest, **(extra | {"standalone_mode": False}))
            except typer.Abort as error:  # at a prompt: Ctrl-C or Ctrl-D, both in the line of the question, or the answer was no
                typer.echo("\nNothing was changed." if error.__context__ else "Nothing was changed.", err=True)
                code = INTERRUPTED if isinstance(error.__context__, KeyboardInterrupt) else ExitCode.ERROR
            except ModuleNotFoundError as error:
                name = (error.name or "").partition(".")[0]
                if name.startswith("topicpolicies"):
                    raise
                told = f"This command needs {name}, which is not installed: pip install 'topicpolicies[{_EXTRAS.get(name, 'server')}]'"
                report({"code": "INVALID_ARGUMENT", "reason": "USAGE", "message": told}, json=json)
                code = ExitCode.ERROR
            except Exception as error:
                if isinstance(error.__context__, KeyboardInterrupt):  # it came in the middle of a lock's code
                    sys.exit(INTERRUPTED)
                if hasattr(error, "problems"):  # a ConfigError
                    violations = [{"field": "", "reason": "CONFIGURATION", "description": each} for each in error.problems]
                    message = " ".join(error.problems)
                    wrong = {"code": "INVALID_ARGUMENT", "reason": "CONFIGURATION", "message": message, "violations": violations}
                    report(wrong, json=json)
                elif not hasattr(error, "format_message"):  # what all of click's exceptions have
                    raise
                elif json or not hasattr(error, "show"):
                    report({"code": "INVALID_ARGUMENT", "reason": "USAGE", "message": error.format_message()}, json=json)
                else:
                    error.show()
                code = ExitCode.USAGE
        sys.exit(code or ExitCode.OK)


def globals_first(args: Sequence[str], takes_value: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Returns the global options among arguments, and all others. What follows ``--`` stays; pulsar-admin's commands have own short ones.

    ``takes_value``: the names of the global options, and whether a value follows.
    """
    first: list[str] = []
    others: list[str] = []
    at = 0
    while at < len(args) and args[at] != "--":
        argument = args[at]
        long = argument.startswith("--")
        name, together, _ = argument.partition("=") if long else (argument[:2], argument[2:], "")
        if name in takes_value and (long or argument == "-o" or _command(others) not in VERBS):
            end = at + 1 + (takes_value[name] and not together)
            first += args[at:end]
        else:
            end = at + 1
            others.append(argument)
        at = end
    return first, [*others, *args[at:]]


def _command(others: Sequence[str]) -> str:
    return next((argument for argument in others if not argument.startswith("-")), "")


def output_of(first: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """Returns the form of output that the global options, or else the environment, select. Of a repeated option the last one counts."""
    wanted = environment.get("TOPICPOLICIES_OUTPUT", "")
    for option, value in pairwise([*first, ""]):
        if option in ("--output", "-o"):
            wanted = value
        elif option.startswith(("--output=", "-o")):
            wanted = option.removeprefix("--output").removeprefix("-o").removeprefix("=")
    return wanted.lower()


def _arranged(first: Sequence[str], others: Sequence[str]) -> list[str]:
    """Returns global options, then a command and its arguments: ``-g`` as ``--scope global``, ``help COMMAND`` as ``COMMAND --help``."""
    if not all(argument == argument.encode(errors="replace").decode() for argument in (*first, *others)):  # such bytes arrive as surrogates
        raise WrongUsage("An argument has bytes that are not UTF-8.")
    command = _command(others)
    if command in _MEANT:
        raise WrongUsage(f'There is no command "{command}". {_MEANT[command]}')
    if command == "help":
        return [*first, *(each for each in others if each != "help"), "--help"]
    if others[:1] == ["--version"]:
        return [*first, "version", *others[1:]]
    if command in VERBS:
        if output_of(first, {}) and command.startswith("get-"):
            told = f"{command} prints what pulsar-admin prints: --output is for get and effective, which show all settings."
            raise WrongUsage(told)
        return [*first, *others]
    if output_of(first, {}) == "name" and command in COMMANDS and command not in _NAMING:
        raise WrongUsage(f"{command} prints no names of topics: --output name is for {', '.join(_NAMING)}.")
    return [*first, *(each for argument in others for each in (("--scope", "global") if argument in ("-g", "--global") else (argument,)))]


app = typer.Typer(
    cls=Application,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _options(context: typer.Context, **given: Any) -> None:
    """Topic policies of Apache Pulsar: change, read and follow them, and serve them.

    These options may stand before or after the command.
    """
    context.obj = Settings(**given)
    WIDE.set(context.obj.output is Output.WIDE)


_TYPES = get_type_hints(Settings, include_extras=True)
_DEFAULTS = {each.name: each.default_factory if each.default is MISSING else each.default for each in fields(Settings)}
app.callback()(
    with_parameters(_options, [("context", typer.Context, REQUIRED), *((name, _TYPES[name], each) for name, each in _DEFAULTS.items())])
)


def main() -> None:
    """Runs the program, under the name ``topicpolicies`` however it was started.

    SIGTERM ends it as Ctrl-C does, even as the first process of a container, which the signal's default effect does not end.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminated)
    app(prog_name="topicpolicies")
