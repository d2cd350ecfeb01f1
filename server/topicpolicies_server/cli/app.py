"""The application: its commands, each of which takes the global options too, and reports its errors in one way."""

from __future__ import annotations

import inspect
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from ..process import SERVERS
from .exits import INTERRUPTED, DetailedExitCode, ExitCode, report, reporting, terminated, writing
from .globals import Globals, Output, WrongUsage, tell, with_parameters
from .verbs import VERBS, function_of

COMMANDS = {
    "get": ("documents:get", "Show the policies of one topic."),
    "update": ("documents:update", "Change some settings of one topic, and no others."),
    "edit": ("documents:edit", "Edit the policies of one topic in your editor."),
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
    "config": ("serve:config", "Show the options in force, and the source of each."),
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
_COMPARING = ("plan", "diff")
"""The commands that ``--detailed-exitcode`` is for."""
_FORMS = {each.value for each in Output}
_GLOBAL = "global_"
"""How the names of the global options begin among the parameters of a command."""


class Application(TyperGroup):
    """The group of all commands. Each is imported when it is looked up, so that help and completion do without what the commands need."""

    def __init__(self, **settings: Any) -> None:
        """``settings``: passed by Typer."""
        super().__init__(**settings)
        self.commands = cast("dict[str, Any]", dict.fromkeys([*COMMANDS, *VERBS]))  # their names, for completion and suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command; None: there is none of this name. A name of an option that it has itself is no global option's.

        Its global options are read from the environment too, but not those that stand before it.
        """
        if cmd_name in VERBS:
            function = function_of(cmd_name)
        elif cmd_name in COMMANDS:
            module, attribute = COMMANDS[cmd_name][0].split(":")
            function = getattr(import_module(f".{module}", __package__), attribute)
        else:
            return None
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(cmd_name)(_with_globals(cmd_name, function))
        command = typer.main.get_command(alone)
        ours = [each for each in command.params if (each.name or "").startswith(_GLOBAL)]
        own = {name for each in command.params if each not in ours for name in each.opts}
        for each in ours:
            each.hidden, each.opts = True, [name for name in each.opts if name not in own]  # type: ignore[attr-defined]
            each.get_error_hint = partial(_as_written, each)  # type: ignore[method-assign]
            if ctx.params.get((each.name or "").removeprefix(_GLOBAL)) is not None:
                each.envvar = None
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command of arguments."""
        if args[0] in _MEANT:
            raise WrongUsage(f'There is no command "{args[0]}". {_MEANT[args[0]]}')
        return super().resolve_command(ctx, args)

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
        """Runs a command and exits. ``help COMMAND`` is ``COMMAND --help``, and ``--version`` is ``version``."""
        given = list(sys.argv[1:] if args is None else args)
        take_values = {name for each in cast("list[Any]", self.params) if not each.is_flag for name in each.opts}
        at = 0
        while at < len(given) and given[at].startswith("-") and given[at] not in ("--", "--version"):
            at += 2 if given[at] in take_values else 1
        if given[at : at + 1] == ["help"]:
            given[at:] = [*given[at + 1 :], "--help"]
        elif given[at : at + 1] == ["--version"]:
            given[at] = "version"
        output = output_of(given)
        json = output == "json"
        with writing(json=json, utf_8=json or output == "yaml"):
            try:
                if any(argument != argument.encode(errors="replace").decode() for argument in given):  # such bytes arrive as surrogates
                    raise WrongUsage("An argument has bytes that are not UTF-8.")
                code = super().main(given, *rest, **(extra | {"standalone_mode": False}))
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
                if not hasattr(error, "format_message"):  # what all of click's exceptions have
                    raise
                if "--no-tls" in (near := getattr(error, "possibilities", None) or []):  # resembles much that begins with "--no"
                    near.remove("--no-tls")
                if json or not hasattr(error, "show"):
                    report({"code": "INVALID_ARGUMENT", "reason": "USAGE", "message": error.format_message()}, json=json)
                else:
                    error.show(shown := io.StringIO())
                    tell(shown.getvalue().rstrip("\n"))
                code = ExitCode.USAGE
        sys.exit(code or ExitCode.OK)


def output_of(args: Sequence[str]) -> str:
    """Returns the form of output that arguments, or else the environment, select, for errors that come before the arguments are parsed."""
    wanted = os.environ.get("TOPICPOLICIES_OUTPUT", "")
    for option, value in pairwise([*args, ""]):
        if option == "--":
            break
        if option in ("--output", "-o"):
            wanted = value
        elif option.startswith(("--output=", "-o")):
            form = option.removeprefix("--output").removeprefix("-o").removeprefix("=")
            wanted = form if form.lower() in _FORMS else wanted  # -orp is an option of pulsar-admin's
    return wanted.lower()


app = typer.Typer(
    cls=Application,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


_TYPES = {name: each for name, each in get_type_hints(Globals, include_extras=True).items() if get_origin(each) is Annotated}


def _options(context: typer.Context, **given: Any) -> None:
    """Topic policies of Apache Pulsar: change, read and follow them, and serve them.

    These options may stand before or after the command.
    """
    context.obj = {name: value for name, value in given.items() if value is not None}


def _before_commands() -> Iterator[tuple[str, Any, None]]:
    """Yields the global options as they stand before a command, which reads the environment itself, when all flags are known."""
    for name, annotated in _TYPES.items():
        kind, option = get_args(annotated)
        flag = copy(option)
        flag.envvar, flag.help = None, f"{option.help}  [env var: {option.envvar}]"
        yield name, Annotated[kind | None, flag], None


app.callback()(with_parameters(_options, _before_commands()))


def _with_globals(command: str, function: Callable[..., None]) -> Callable[..., None]:
    """Returns what Typer makes a command of: it takes the global options too, and reports errors.

    ``function``: takes the global options, and parameters of its own.
    """
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    taken = [each for each in _TYPES if command not in {*SERVERS, "config"} or "tls" not in each]
    scoped = any(each.name == "scope" for each in own)

    def run(context: typer.Context, **given: Any) -> None:
        from .rendering import WIDE  # noqa: PLC0415 - help comes without it

        before: dict[str, Any] = context.obj
        said = before | {name: value for name in taken if (value := given.pop(_GLOBAL + name)) is not None}
        if not before.keys() <= set(taken):
            raise WrongUsage(f"The options of TLS that {command} has are its own: they stand after {command}.")
        chosen = Globals(**said, given=frozenset(said))
        by_flag = "output" in before or getattr(context.get_parameter_source(_GLOBAL + "output"), "name", "") == "COMMANDLINE"
        if by_flag and chosen.output is Output.NAME and command not in _NAMING and not command.startswith(("set-", "remove-")):
            raise WrongUsage(f"{command} prints no names of topics: --output name is for {', '.join(_NAMING)}.")
        WIDE.set(chosen.output is Output.WIDE)
        if scoped and given.pop("is_global"):
            given["scope"] = "global"
        with reporting(chosen, detailed=given.pop("detailed", False)):
            function(chosen, **given)

    parameters = [(each.name, each.annotation, each.default) for each in own]
    if command in _COMPARING:
        parameters.append(("detailed", DetailedExitCode, False))
    if scoped:
        parameters.append(("is_global", Annotated[bool, typer.Option("-g", "--global", help="As --scope global.")], False))
    for name in taken:
        kind, option = get_args(_TYPES[name])
        parameters.append((_GLOBAL + name, Annotated[kind | None, option], None))
    run.__doc__ = function.__doc__
    return with_parameters(run, parameters)


def _as_written(option: Any, context: Any) -> str:
    """Returns how an error names an option: by the flags that set it, or by the variable."""
    flag = getattr(context.get_parameter_source(option.name), "name", "") == "COMMANDLINE"
    return " / ".join(f"'{name}'" for name in (option.opts if flag else [option.envvar]))


def main() -> None:
    """Runs the program, under the name ``topicpolicies`` however it was started.

    SIGTERM ends it as Ctrl-C does, even as the first process of a container, which the signal's default effect does not end.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminated)
    app(prog_name="topicpolicies")
