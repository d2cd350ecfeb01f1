"""The application: its commands, and the global options, which may stand before or after the command."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from topicpolicies import DEFAULT_TARGET

from ..process import SERVERS
from .arguments import check, plainly, write_options
from .commands import Commands
from .exits import EXIT_CODES, ExitCode
from .interrupts import code_of, interruptible, terminable
from .settings import Output, Settings, TlsFlags
from .writing import check_output, writing

_ANYWHERE = {
    "--server": 1,
    "-s": 1,
    "--output": 1,
    "-o": 1,
    "--timeout": 1,
    "--actor": 1,
    "--reason": 1,
    "--token-file": 1,
    "--tls": 0,
    "--no-tls": 0,
    "--tls-ca": 1,
    "--tls-certificate": 1,
    "--tls-key": 1,
    "--tls-server-name": 1,
}
"""The global options, and how many values each takes."""


class Application(TyperGroup):
    """The group of all commands. The global options are accepted behind the command as well."""

    def __init__(self, **settings: Any) -> None:
        """``settings``: passed by Typer."""
        super().__init__(**settings)
        self.commands = cast("dict[str, Any]", Commands())  # a Mapping suffices: none is ever added

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments, once the global options are moved before the command."""
        with plainly():
            rest = super().parse_args(ctx, globals_first(args))
        check(ctx)
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the global options, then the commands."""
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        with interruptible():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Runs a command and exits. With ``--output json`` errors of usage are reported as JSON too."""
        given = sys.argv[1:] if args is None else args
        if not wants_json(given):
            with writing(Output.TABLE), _exiting_by_signal():
                return super().main(args, *rest, **extra)
        with writing(Output.JSON):
            try:
                code = super().main(args, *rest, **(extra | {"standalone_mode": False}))
            except _UsageError as error:
                message = error.format_message()
                typer.echo(json.dumps({"error": {"code": "INVALID_ARGUMENT", "reason": "USAGE", "message": message}}), err=True)
                code = ExitCode.USAGE
        sys.exit(code_of(code) or ExitCode.OK)


@contextmanager
def _exiting_by_signal() -> Iterator[None]:
    try:
        yield
    except SystemExit as end:
        end.code = code_of(end.code)
        raise


_UsageError: Any = typer.BadParameter.__bases__[0]
"""The base class of Typer's errors of usage, which Typer does not export."""


def globals_first(args: Sequence[str]) -> list[str]:
    """Returns the arguments with the global options first; what follows ``--`` stays. A leading ``--version`` becomes ``version``."""
    first: list[str] = []
    others: list[str] = []
    at = 0
    while at < len(args):
        argument = args[at]
        if argument == "--":
            others += args[at:]
            break
        name, together, _ = argument.partition("=")
        if argument[:2] in _ANYWHERE and len(argument) > 2:
            name, together = argument[:2], argument[2:]
        values = _ANYWHERE.get(name)
        if values is None:
            others.append("version" if argument == "--version" and not others else argument)
            at += 1
        else:
            end = at + 1 + (0 if together else values)
            first += args[at:end]
            at = end
    return [*first, *others]


def wants_json(args: Sequence[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the arguments, or else the environment, select JSON. If an argument is repeated, the last one counts."""
    wanted = environment.get("TOPICPOLICIES_OUTPUT", "")
    for option, value in pairwise([*globals_first(args), ""]):
        if option in ("--output", "-o"):
            wanted = value
        elif option.startswith(("--output=", "-o")):
            wanted = option.removeprefix("--output=").removeprefix("-o")
        elif option == "--":
            break
    return wanted.lower() == "json"


app = typer.Typer(
    cls=Application,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=EXIT_CODES,
)


def _default_actor() -> str:
    """Returns the login name; empty: there is none."""
    try:
        return getpass.getuser().encode(errors="replace").decode()
    except (OSError, KeyError, ImportError):
        return ""


def _from_environment(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "ENVIRONMENT"


@app.callback()
def options(  # noqa: PLR0913, PLR0917 - options
    context: typer.Context,
    server: Annotated[
        str, typer.Option("--server", "-s", envvar="TOPICPOLICIES_SERVER", metavar="ADDRESS", help="The server's address.")
    ] = DEFAULT_TARGET,
    output: Annotated[
        Output,
        typer.Option(
            "--output", "-o", envvar="TOPICPOLICIES_OUTPUT", case_sensitive=False, help="A table for people, or JSON for programs."
        ),
    ] = Output.TABLE,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            envvar="TOPICPOLICIES_TIMEOUT",
            min=0.001,
            max=86_400,
            metavar="SECONDS",
            help="How long to try, retries included.",
        ),
    ] = 30.0,
    actor: Annotated[
        str | None,
        typer.Option("--actor", envvar="TOPICPOLICIES_ACTOR", help="Who makes a change, for the log; by default your login name."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", envvar="TOPICPOLICIES_REASON", help="Why a change is made, for the log.")] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", envvar="TOPICPOLICIES_TOKEN_FILE", metavar="FILE", help="A file with your token; read again when it changes."
        ),
    ] = None,
    use: Annotated[
        bool | None,
        typer.Option(
            "--tls/--no-tls", envvar="TOPICPOLICIES_CLIENT_TLS", help="Use TLS or not; by default only for servers on other machines."
        ),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option("--tls-ca", envvar="TOPICPOLICIES_CLIENT_TLS_CA", help="The authorities that are trusted, PEM.")
    ] = None,
    certificate_file: Annotated[
        Path | None,
        typer.Option(
            "--tls-certificate", envvar="TOPICPOLICIES_CLIENT_TLS_CERTIFICATE", help="Your certificate, PEM; for serve, the server's."
        ),
    ] = None,
    key_file: Annotated[Path | None, typer.Option("--tls-key", envvar="TOPICPOLICIES_CLIENT_TLS_KEY", help="Its private key, PEM.")] = None,
    server_name: Annotated[
        str | None,
        typer.Option("--tls-server-name", envvar="TOPICPOLICIES_CLIENT_TLS_SERVER_NAME", help="The name in the server's certificate."),
    ] = None,
) -> None:
    """Topic policies of Apache Pulsar: change, read and follow them, and serve them.

    These options may stand before or after the command.
    """
    if context.invoked_subcommand not in SERVERS:
        context.with_resource(terminable())
        check_output(output)
    flags = TlsFlags(use=use, ca_file=ca_file, certificate_file=certificate_file, key_file=key_file, server_name=server_name)
    if context.invoked_subcommand in {*SERVERS, "config"}:  # the environment says how clients call: these have options of a server
        flags = replace(flags, **{each.name: None for each in fields(flags) if _from_environment(context, each.name)})
    context.obj = Settings(
        server=server,
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
