"""The application: its commands, and the global options, which may stand before or after the command."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from ..process import SERVERS
from .commands import WHERE, Commands
from .exits import ExitCode, check_output, usage_error, writing
from .interrupts import INTERRUPTED, code_of, interruptible, terminable
from .settings import Output, Settings, TlsFlags, with_port
from .verbs import VERBS

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


class Application(TyperGroup):
    """The group of all commands, which are imported when they are used."""

    def __init__(self, **settings: Any) -> None:
        """``settings``: passed by Typer."""
        super().__init__(**settings)
        self.commands = cast("dict[str, Any]", Commands())  # a Mapping suffices: none is ever added

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the sentences of the commands, none of which is imported."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.sentence) for name, place in WHERE.items()])
        with formatter.section("Commands of pulsar-admin topicPolicies"):
            formatter.write_text(
                "set-..., get-... and remove-..., such as set-retention, with the same flags: explain names them by field."
            )

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Runs a command and exits."""
        given = list(sys.argv[1:] if args is None else args)
        output = output_of(given)
        json = output == "json"
        with writing(json=json, utf_8=json or output == "yaml"):
            try:
                with interruptible():
                    code = super().main(self._arranged(given), *rest, **(extra | {"standalone_mode": False}))
            except KeyboardInterrupt:
                code = INTERRUPTED
            except typer.Abort:
                typer.echo("Nothing was changed.", err=True)
                code = ExitCode.ERROR
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("topicpolicies"):
                    raise
                extra_of = "telemetry" if (error.name or "").startswith("opentelemetry") else "server"
                usage_error(f"This command needs {error.name}, which is not installed: pip install 'topicpolicies[{extra_of}]'", json=json)
                code = ExitCode.ERROR
            except Exception as error:
                if not hasattr(error, "format_message"):  # what all of click's exceptions have
                    raise
                code = usage_error(error.format_message(), json=json, show=getattr(error, "show", None))
        sys.exit(code_of(code) or ExitCode.OK)

    def _arranged(self, args: Sequence[str]) -> list[str]:
        """Returns the arguments with the global options first, ``-g`` as ``--scope global``, and ``help COMMAND`` as ``COMMAND --help``.

        Raises:
            typer.BadParameter: an argument is not Unicode, or names a command of another program.
        """
        if not all(is_unicode(argument) for argument in args):
            raise typer.BadParameter("An argument has bytes that are not UTF-8.")
        first, others = globals_first(args, {name: not getattr(each, "is_flag", False) for each in self.params for name in _names(each)})
        command = next((argument for argument in others if not argument.startswith("-")), "")
        if command in _MEANT:
            raise typer.BadParameter(f'There is no command "{command}". {_MEANT[command]}')
        if command == "help":
            others.remove("help")
            others.append("--help")
        elif command not in VERBS:
            others = [each for argument in others for each in (("--scope", "global") if argument in ("-g", "--global") else (argument,))]
        return [*first, *others]


def _names(parameter: Any) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


def globals_first(args: Sequence[str], takes_value: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Returns the global options among arguments, and all others. What follows ``--`` stays; a leading ``--version`` becomes ``version``.

    Behind a command of pulsar-admin short options are its own.

    Args:
        args: the arguments of the program.
        takes_value: the names of the global options, and whether a value follows.
    """
    first: list[str] = []
    others: list[str] = []
    at = 0
    while at < len(args):
        argument = args[at]
        if argument == "--":
            others += args[at:]
            break
        long = argument.startswith("--")
        name, together, _ = argument.partition("=") if long else (argument[:2], argument[2:], "")
        if name in takes_value and (long or not VERBS.keys() & others):
            end = at + 1 + (takes_value[name] and not together)
            first += args[at:end]
        else:
            end = at + 1
            others.append("version" if argument == "--version" and not others else argument)
        at = end
    return first, others


def output_of(args: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """Returns the form of output that the arguments, or else the environment, select. If an argument is repeated, the last one counts."""
    wanted = environment.get("TOPICPOLICIES_OUTPUT", "")
    for argument in globals_first(args, {"--output": True, "-o": True})[0]:
        wanted = argument.removeprefix("--output").removeprefix("-o").removeprefix("=") or wanted
    return wanted.lower()


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded and sent. Bytes that are not UTF-8 arrive as surrogates, which can't be."""
    return text == text.encode(errors="replace").decode()


app = typer.Typer(
    cls=Application,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _default_actor() -> str:
    """Returns the login name; empty: there is none."""
    try:
        return getpass.getuser().encode(errors="replace").decode()
    except (OSError, KeyError, ImportError):
        return ""


def _option(*names: str, variable: str, told: str, **more: Any) -> Any:
    return typer.Option(*names, envvar=f"TOPICPOLICIES_{variable}", help=told, **more)


@app.callback()
def options(  # noqa: PLR0913, PLR0917 - options
    context: typer.Context,
    server: Annotated[
        str, _option("--server", "-s", variable="SERVER", metavar="ADDRESS", told="The server's address; port 6680 if it has none.")
    ] = "localhost:6680",
    output: Annotated[
        Output,
        _option(
            "--output",
            "-o",
            variable="OUTPUT",
            case_sensitive=False,
            told="Columns for people, wide: with nothing cut; JSON or YAML for programs; name: the topics alone.",
        ),
    ] = Output.TABLE,
    timeout: Annotated[
        float, _option("--timeout", variable="TIMEOUT", min=0.001, max=86_400, metavar="SECONDS", told="How long to try, retries included.")
    ] = 30.0,
    actor: Annotated[
        str | None,
        _option("--actor", variable="ACTOR", metavar="NAME", told="Who makes a change, for the log; by default your login name."),
    ] = None,
    reason: Annotated[str, _option("--reason", variable="REASON", metavar="TEXT", told="Why a change is made, for the log.")] = "",
    token_file: Annotated[
        Path | None,
        _option("--token-file", variable="TOKEN_FILE", metavar="FILE", told="A file with your token; read again when it changes."),
    ] = None,
    use: Annotated[
        bool | None,
        _option("--tls/--no-tls", variable="CLIENT_TLS", told="Use TLS or not; by default only for servers on other machines."),
    ] = None,
    ca_file: Annotated[
        Path | None, _option("--tls-ca", variable="CLIENT_TLS_CA", metavar="FILE", told="The authorities that are trusted, PEM.")
    ] = None,
    certificate_file: Annotated[
        Path | None,
        _option(
            "--tls-certificate",
            variable="CLIENT_TLS_CERTIFICATE",
            metavar="FILE",
            told="Your certificate, PEM; for serve, the server's.",
        ),
    ] = None,
    key_file: Annotated[Path | None, _option("--tls-key", variable="CLIENT_TLS_KEY", metavar="FILE", told="Its private key, PEM.")] = None,
    server_name: Annotated[
        str | None,
        _option("--tls-server-name", variable="CLIENT_TLS_SERVER_NAME", metavar="NAME", told="The name in the server's certificate."),
    ] = None,
) -> None:
    """Topic policies of Apache Pulsar: change, read and follow them, and serve them.

    These options may stand before or after the command. Exit codes: docs/command-line.md.
    """
    if context.invoked_subcommand not in SERVERS:
        context.with_resource(terminable())
        check_output(json=output is Output.JSON)
    flags = TlsFlags(use=use, ca_file=ca_file, certificate_file=certificate_file, key_file=key_file, server_name=server_name)
    if context.invoked_subcommand in {*SERVERS, "config"}:  # the environment says how clients call: these have options of a server
        sources = {each.name: context.get_parameter_source(each.name) for each in fields(flags)}
        flags = replace(flags, **{name: None for name, source in sources.items() if source is not None and source.name == "ENVIRONMENT"})
    context.obj = Settings(
        server=with_port(server),
        output=output,
        timeout_seconds=timeout,
        tls_flags=flags,
        actor=_default_actor() if actor is None else actor,
        reason=reason,
        token_file=token_file,
    )


def main() -> None:
    """Runs the program, under the name ``topicpolicies`` however it was started."""
    app(prog_name="topicpolicies")
