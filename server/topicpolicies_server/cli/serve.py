"""The commands that run a server or a guard until a signal stops it, and config; their flags are made from the table of options.

The modules of a server or guard are imported when one is run.
"""

from __future__ import annotations

import inspect
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import files
from ..config import Address, ConfigError, EmbeddedLogConfig, GuardConfig, LogFormat, ServerConfig
from ..config.building import guard_config, server_config
from ..config.option import Option, ReadBy
from ..config.rendering import plain, sample, written_value
from ..config.sources import OptionValues, Setting, options, read_options
from ..core.errors import PolicyError
from ..escaping import printable
from ..ops.log import set_up_logging
from .exits import ExitCode, accepts, report
from .globals import Globals, with_parameters
from .rendering import columns

if TYPE_CHECKING:
    from ..declared.files import Declared

_LOG = logging.getLogger(__name__)
_FILE = Annotated[Path | None, typer.Option("--config", metavar="FILE.toml", help="A file of options; also TOPICPOLICIES_CONFIG.")]


def configured(by: ReadBy, *, without: Sequence[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the flags of all options that it reads, and calls it with the values in force.

    The command takes the global options, then the values in force, then parameters of its own, which Typer sees unchanged.

    Args:
        by: whose options the command takes, those of serve or of guard.
        without: the options of which it takes no flags.
    """
    taken = [each for each in options().values() if each.read_by & by and each.name not in without]
    arguments = ["guard"] if by is ReadBy.GUARD else []

    def made(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[2:]

        def run(chosen: Globals, config_file: Path | None, **given: Any) -> None:
            others = {each.name: given.pop(each.name) for each in own}
            flags = given | {name: tuple(given[name] or ()) for name in arguments}
            command(chosen, read_options(flags, os.environ, config_file), **others)

        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        parameters = [(each.name, each.annotation, each.default) for each in own]
        flags = [(each.name, _flag(each, argument=each.name in arguments), None) for each in taken]
        return with_parameters(run, [*parameters, ("config_file", _FILE, None), *flags])

    return made


def _flag(option: Option, *, argument: bool) -> Any:
    """Returns the parameter of a flag, None by default. Its value is checked together with the other sources, not by Typer."""
    told: dict[str, Any] = {"help": _help(option), "show_default": False}
    if option.type is bool:
        names = option.flag if option.name.startswith("no_") else f"{option.flag}/--no-{option.flag.removeprefix('--')}"
        return Annotated[bool | None, typer.Option(names, **told)]
    told["metavar"] = option.metavar
    if argument:
        return Annotated[list[str] | None, typer.Argument(**told)]
    if option.choices:
        told["autocompletion"] = lambda: list(option.choices)
    kind = {Path: Path | None, tuple: list[str] | None}.get(option.type, str | None)
    return Annotated[kind, typer.Option(option.flag, **told)]


def _help(option: Option) -> str:
    default = option.default_text or ("" if option.default in (None, "", (), False) else written_value(option.default))
    notes = [f"default: {default}"] if default else []
    if option.numeric:
        notes.append(option.allowed)
    return plain(f"{option.help}  [{'; '.join(notes)}]" if notes else option.help, lambda other: other.flag)


Sample = Annotated[bool, typer.Option("--sample", help="Print a file of options instead, with every option commented out.")]


@configured(ReadBy.BOTH)
def config(chosen: Globals, in_force: OptionValues, *, sample_file: Sample = False) -> None:
    """Show the options in force, and the source of each.

    It takes the options, the file and the environment variables of serve, and shows the values with which serve would run. It starts and
    writes nothing. Ends with exit code 2 if an option is wrong, and lists all that are.

    \b
    Examples:
      topicpolicies config
      topicpolicies config --config sidecar.toml --max-watches 100
      topicpolicies config --sample > sidecar.toml
    """  # noqa: D301 - "\b" keeps the lines
    if sample_file:
        typer.echo(sample(), nl=False)
        return
    try:
        server_config(in_force, os.environ)
    finally:
        if not chosen.shown(_json(in_force)):
            _show(in_force)


def _show(in_force: OptionValues) -> None:
    if in_force.file is not None:
        typer.echo(f"file: {printable(str(in_force.file))}")
    values = ((each, written_value(each.value)) for each in in_force.settings.values())
    for line in columns((each.option.name, each.source, printable(value)) for each, value in values):
        typer.echo(line)
    if in_force.ignored:
        typer.echo(f"Not options, and ignored: {', '.join(map(printable, sorted(in_force.ignored)))}.", err=True)


def _json(in_force: OptionValues) -> dict[str, Any]:
    told = {
        name: {"value": _plain(setting), "source": setting.source, "where": setting.where} for name, setting in in_force.settings.items()
    }
    return {"options": told, "file": str(in_force.file) if in_force.file is not None else "", "ignored": sorted(in_force.ignored)}


def _plain(setting: Setting) -> Any:
    """Returns a value as JSON: addresses and paths are strings, and a value that is not set is null."""
    if setting.value is None or setting.option.numeric or setting.option.type is bool:
        return setting.value
    if isinstance(setting.value, tuple) and not isinstance(setting.value, Address):
        return list(setting.value)
    return written_value(setting.value) or None


@configured(ReadBy.SERVE)
def serve(chosen: Globals, in_force: OptionValues) -> None:
    """Run a server, until it is stopped (SIGTERM, Ctrl-C).

    By default it listens on loopback, and keeps its change log in your data folder.

    Every option can also be set in a file (config --sample writes one) and in the environment: --max-watches is max_watches in the file
    and TOPICPOLICIES_MAX_WATCHES in the environment. A flag takes precedence over the environment, and that over the file. The command
    config shows the options in force.

    \b
    Examples:
      topicpolicies serve
      topicpolicies serve --config sidecar.toml
      topicpolicies serve --pulsar pulsar://broker:6650 \\
          --admin-url http://broker:8080 --pulsar-token-file token
      topicpolicies serve --data policies.db --listen 0.0.0.0:6680 \\
          --tls-certificate server.pem --tls-key key.pem \\
          --authentication-providers token --token-secret-key secret.key \\
          --authorization roles.toml
    """  # noqa: D301 - "\b" keeps the lines
    config = server_config(in_force, os.environ)
    if isinstance(config.log, EmbeddedLogConfig) and config.log.cluster_file is not None:
        from ..cluster.file import parse as facts  # noqa: PLC0415 - most servers have none

        _check("cluster file", config.log.cluster_file, facts)
    if config.authorization.file is not None:
        from ..access.roles_file import parse as roles  # noqa: PLC0415 - as above

        _check("authorization file", config.authorization.file, roles)
    declared: Sequence[Declared] = ()
    if config.declared is not None:
        from ..declared.files import by_owner  # noqa: PLC0415 - YAML is not needed to serve

        declared = by_owner([config.declared])
    run(config, chosen, declared)


@configured(ReadBy.GUARD)
def guard(chosen: Globals, in_force: OptionValues) -> None:
    """Restore what brokers lose of each other's changes.

    It runs until it is stopped (SIGTERM, Ctrl-C).

    Brokers without PIP-428 (as of Pulsar 4.0) lose settings when two are changed at almost the same time. A guard reads the events of
    the named namespaces and restores what was lost; it logs each repair. Beside brokers that lose nothing it writes nothing.

    Options are read from a file and from the environment too, as with serve.

    \b
    Examples:
      topicpolicies guard 'acme/*' \\
          --pulsar pulsar://broker:6650 --admin-url http://broker:8080
      topicpolicies guard acme/orders --report-only --config sidecar.toml
    """  # noqa: D301 - "\b" keeps the lines
    run(guard_config(in_force), chosen)


def _check(what: str, path: Path, parse: Callable[[str], object]) -> None:
    """Raises a ConfigError for a file that the operator wrote and that is wrong, before the server makes files: no start would help."""
    try:
        parse(files.read(path).decode())
    except (OSError, ValueError) as error:
        raise ConfigError((f'The {what} "{path}" can\'t be used: {error}.',)) from None


def run(config: ServerConfig | GuardConfig, chosen: Globals, declared: Sequence[Declared] = ()) -> None:
    """Runs a server or a guard, which logs on standard error, until a signal stops it.

    ``declared``: what each owner declares in the files that a server keeps in force.
    """
    from ..process import run as run_service  # noqa: PLC0415 - what a process runs is not part of every command

    what, listens = ("the guard", None) if isinstance(config, GuardConfig) else ("the server", config.listen)

    def make() -> Any:
        if isinstance(config, GuardConfig):
            from ..guard.service import GuardService  # noqa: PLC0415

            return GuardService(config)
        from ..rpc.server import Server  # noqa: PLC0415

        if config.data_folder is not None:
            config.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Server(config, declared)

    def running(service: Any) -> None:
        started()
        if isinstance(config, GuardConfig):
            _LOG.info("Guarding %s%s", ", ".join(config.guard), ", reporting only" if config.report_only else "")
            return
        _LOG.info("Listening on %s", service.address)
        if isinstance(config.log, EmbeddedLogConfig):
            _LOG.info("The change log is %s", config.log.path)

    set_up_logging(config.log_level, config.log_format)
    with starting(what, chosen, listens, config.metrics_listen, form=config.log_format) as started:
        run_service(make, running)


@contextmanager
def starting(what: str, chosen: Globals, *addresses: Address | None, form: LogFormat = "text") -> Iterator[Callable[[], None]]:
    """Ends the command with a message if ``what``, which is to listen at addresses, could not start. Yields a function to call once it has.

    ``form``: the format of log lines; unless it is TEXT, the message is a log line too, whatever the form of output.
    """
    running = threading.Event()
    refused = next((f"{each} ({why})" for each in addresses if each is not None and (why := refusal(each))), "")
    try:
        if not refused:
            yield running.set
            return
        reason, why = "ADDRESS", f"nothing can listen on {refused}: name another address."
    except (typer.Exit, typer.Abort):  # end the command, and are RuntimeErrors
        raise
    except PolicyError as error:
        reason, why = str(error.reason), error.message
    except (OSError, RuntimeError) as error:
        if running.is_set():
            raise
        reason, why = "START", f"{error.strerror if isinstance(error, OSError) and error.strerror else error}."
        if isinstance(error, OSError) and error.filename:
            reason, why = "FILE", f"{error.filename} can't be used ({error.strerror}): name another place."
    sentence = f"{what} {'ended' if running.is_set() else 'could not start'}: {why}"
    if form == "text":
        report({"code": "UNKNOWN", "reason": reason, "message": sentence}, json=chosen.json)
    else:
        _LOG.critical("%s", sentence, extra={"fields": {"reason": reason}})
    raise typer.Exit(ExitCode.ERROR if running.is_set() else ExitCode.NOT_STARTED) from None


def refusal(address: Address) -> str:
    """Returns why an address can't be listened on, found out by trial, because gRPC's error does not say why; empty: it can be."""
    if address.path:
        if accepts(str(address)):  # gRPC would silently replace the socket of the other program
            return "another program listens there"
        folder = Path(address.path).absolute().parent
        return "" if os.access(folder, os.W_OK) else "its directory does not exist or can't be written"
    why = ""
    try:
        for family, kind, protocol, _, place in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM):
            try:
                with socket.socket(family, kind, protocol) as tried:
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    tried.bind(place)
                return ""
            except OSError as error:
                why = error.strerror or str(error)
    except (socket.gaierror, UnicodeError):
        return "the host name can't be resolved"
    return why
