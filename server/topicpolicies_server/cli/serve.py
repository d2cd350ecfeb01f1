"""The commands serve and guard, which run until a signal stops them. The modules of a server or guard are imported when one is run."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .. import files
from ..config import Address, ConfigError, EmbeddedLogConfig, GuardConfig, LogFormat, ServerConfig
from ..config.building import guard_config, server_config
from ..config.option import ReadBy
from ..config.sources import OptionValues
from ..core.errors import PolicyError
from ..ops.log import set_up_logging
from .exits import ExitCode, accepts, report
from .globals import Globals
from .options import configured

if TYPE_CHECKING:
    from ..declared.files import Declared

_LOG = logging.getLogger(__name__)


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
