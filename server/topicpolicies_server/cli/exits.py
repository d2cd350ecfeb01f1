"""How commands end: exit codes, errors on standard error for people or for programs, interrupts, and output that can't be written."""

from __future__ import annotations

import enum
import io
import json as json_module
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

import typer

from ..escaping import printable
from .globals import Globals, tell

if TYPE_CHECKING:
    from topicpolicies import TopicPoliciesError
    from topicpolicies.addresses import Place


class ExitCode(enum.IntEnum):
    """The exit codes of every command, each with what it means, for help."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Returns a member."""
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made

    OK = 0, "done"
    ERROR = 1, "another error"
    USAGE = 2, "wrong usage, file or request"
    CONFLICT = 3, "conflict: --if-version, --must-not-exist, another owner"
    NOT_FOUND = 4, "not found, or no document"
    UNAVAILABLE = 5, "the server or its log can't be reached"
    OUTCOME_UNKNOWN = 6, "the outcome is unknown: repeat with the --request-id that the error names"
    DIFFERENT = 7, "there are differences (plan, diff)"
    HALF_DONE = 8, "partly done (apply)"
    NOT_STARTED = 9, "not started: an address or a file can't be used (serve, guard, demo)"
    UNWELL = 10, "a check failed (doctor)"


INTERRUPTED = 128 + signal.SIGINT
"""The exit code of commands that Ctrl-C has ended, by the convention of shells."""
_CODES = {
    "INVALID_ARGUMENT": ExitCode.USAGE,
    "ABORTED": ExitCode.CONFLICT,
    "NOT_FOUND": ExitCode.NOT_FOUND,
    "UNAVAILABLE": ExitCode.UNAVAILABLE,
    "DEADLINE_EXCEEDED": ExitCode.UNAVAILABLE,
}
_CLOSED = "The server at {} closed the connection at once: it may require TLS (--tls), or it is not a gRPC server."
_PLAIN = "The server at {} does not use TLS. Say --no-tls if the network to it is safe."
_CONNECTING = {
    "CERTIFICATE_VERIFY_FAILED": "The server at {} is not trusted: no authority that this client knows has signed its certificate. "
    "Say --tls-ca FILE.",
    "Hostname Verification Check failed": "The certificate of the server at {} is for another name. "
    "Say --tls-server-name NAME if that is intended.",
    "WRONG_VERSION_NUMBER": _PLAIN,
    "Failed to create security handshaker": "The files of the TLS options can't be used: --tls-ca and --tls-certificate are PEM, and "
    "--tls-key is the certificate's key.",
    "Failed parsing HTTP/2": "The server at {} is not a gRPC server: name the port that serve says it listens on, 6680 by default.",
    "recvmsg:Connection reset": _CLOSED,
    "Socket closed": _CLOSED,
    "errors resolving ": "The host name of the server at {} can't be resolved. Name it with --server or TOPICPOLICIES_SERVER.",
}
"""Parts of gRPC's messages about a connection that was not made, and what they mean for the command line."""


def exit_code(error: TopicPoliciesError) -> ExitCode:
    """Returns the exit code of a command that failed with this error."""
    from topicpolicies import OutcomeUnknown  # noqa: PLC0415

    return ExitCode.OUTCOME_UNKNOWN if isinstance(error, OutcomeUnknown) else _CODES.get(error.code.name, ExitCode.ERROR)


DetailedExitCode = Annotated[
    bool, typer.Option("--detailed-exitcode", help="Exit codes as terraform has them: 0 no differences, 1 an error, 2 differences.")
]


@contextmanager
def reporting(chosen: Globals, *, detailed: bool = False) -> Iterator[None]:
    """Reports an error of the body on standard error, and ends the command with its exit code.

    ``detailed``: whether the exit codes are terraform's: 0 no differences, 1 an error, 2 differences.
    """
    try:
        yield
    except typer.Exit as ended:
        if not detailed or not ended.exit_code:
            raise
        raise typer.Exit(2 if ended.exit_code == ExitCode.DIFFERENT else 1) from None
    except Exception as error:
        from topicpolicies import TopicPoliciesError  # noqa: PLC0415

        if isinstance(error, TopicPoliciesError):
            code, told = exit_code(error), error_json(error, chosen)
        elif isinstance(error, OSError) and error.filename is not None:  # else of the output, which ``writing`` reports
            code, told = ExitCode.ERROR, {"code": "UNKNOWN", "reason": "FILE", "message": f"{error.filename}: {error.strerror}"}
        elif hasattr(error, "problems"):  # a ConfigError
            violations = [{"field": "", "reason": "CONFIGURATION", "description": each} for each in error.problems]
            told = {"code": "INVALID_ARGUMENT", "reason": "CONFIGURATION", "message": str(error), "violations": violations}
            code = ExitCode.USAGE
        else:
            raise
        report(told, json=chosen.json)
        raise typer.Exit(1 if detailed else code) from None


def error_json(error: TopicPoliciesError, chosen: Globals) -> dict[str, Any]:
    """Returns an error as JSON."""
    told: dict[str, Any] = {"code": error.code.name, "reason": error.reason, "message": message_of(error, chosen)}
    more = {"metadata": error.metadata, "violations": [each._asdict() for each in error.violations], "request_id": error.request_id}
    return told | {name: value for name, value in more.items() if value}


def report(error: Mapping[str, Any], *, json: bool) -> None:
    """Prints an error on standard error: as one JSON document, or as a sentence, which is followed by the violations if there are several.

    ``error``: ``code``, ``reason``, ``message``, and perhaps more, as ``error_json`` returns it.
    """
    if json:
        typer.echo(json_module.dumps({"error": error}), err=True)
        return
    violations = error.get("violations", ())
    several = len(violations) > 1
    tell(printable(f"Error: {f'there are {len(violations)} problems.' if several else error['message']}"))
    for each in violations if several else ():
        field, told = each["field"], each["description"]
        tell(printable(f"  - {field}: {told.removeprefix(f'{field}: ')}" if field else f"  - {told}"), "    ")


def message_of(error: TopicPoliciesError, chosen: Globals) -> str:
    """Returns the message of an error, with the options of the command line that help against it."""
    from topicpolicies import OutcomeUnknown  # noqa: PLC0415
    from topicpolicies.channels import credentials_for  # noqa: PLC0415

    message, server = error.message, chosen.server
    if isinstance(error, OutcomeUnknown):
        again = f"repeat it with --request-id {error.request_id}"
        told = message.replace("repeat the request with the same id", again)  # what a server says
        return told if again in told else f"{message.rstrip('.')}. To learn what happened, {again}."
    if error.reason == "CREDENTIALS_MISSING":
        return f"{message} Say --token-file FILE, or --tls-certificate FILE and --tls-key FILE."
    if error.reason:
        return message
    if meaning := next((meaning for words, meaning in _CONNECTING.items() if words in message), ""):
        return meaning.format(server)
    silent = "timed out before receiving SETTINGS" in message
    if "failed to connect to all addresses" in message and not silent:
        detail = message.rpartition(": ")[2]
        if detail == "Connection refused" and accepts(server):  # it is the error of another address of the host
            return (_PLAIN if credentials_for(server, chosen.tls) else _CLOSED).format(server)
        return f"No server can be reached at {server} ({detail}). Name it with --server or TOPICPOLICIES_SERVER."
    if silent or error.code.name == "DEADLINE_EXCEEDED":
        return f"The server at {server} did not answer in time (--timeout). topicpolicies doctor --server {server} checks what is wrong."
    return message


def accepts(server: str, seconds: float = 1.0) -> bool:
    """Whether connections to an address are accepted, by one of the places that it names. ``seconds``: how long to wait for each."""
    from topicpolicies.addresses import places_of  # noqa: PLC0415

    for place in places_of(server):
        with suppress(OSError):
            connect(place, seconds)
            return True
    return False


def connect(place: Place, seconds: float) -> None:
    """Connects to a place, and disconnects; an OSError says why that can't be done within the time."""
    if not place.path:
        socket.create_connection((place.host, place.port), seconds).close()
        return
    with socket.socket(socket.AF_UNIX) as opened:
        opened.settimeout(seconds)
        opened.connect(place.path)


@contextmanager
def writing(*, json: bool, utf_8: bool) -> Iterator[None]:
    r"""Ends the command with a message on standard error if its output can't be written. An OSError with a file name is not handled.

    ``utf_8``: whether the output is UTF-8, whatever the locale; else characters that the locale's encoding lacks are escaped: ``\u65e5``.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8" if utf_8 else None, errors="backslashreplace")
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        with suppress(OSError):
            told = f"The output can't be written: {error.strerror or error}."
            report({"code": "UNKNOWN", "reason": "OUTPUT", "message": told}, json=json)
        _discard_output()
        sys.exit(ExitCode.ERROR)


def _discard_output() -> None:
    """Discards output that is still buffered, which Python would try to write again when it exits."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):
            stream.flush()
            continue
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
            os.dup2(nowhere.fileno(), stream.fileno())


def terminated(number: int, _frame: object) -> NoReturn:
    """Handles a signal: ends the process, after what has to be cleaned up, with its exit code by the convention of shells."""
    sys.exit(128 + number)


@contextmanager
def deferring(first: Callable[[], object]) -> Iterator[Callable[[], int]]:
    """Calls ``first`` in the handler of the first SIGINT or SIGTERM; the body goes on. A second one ends the body, in case it is stuck.

    A signal that is ignored, or has a handler of others, stays so. Yields a function that returns the exit code of an interrupted command;
    0: there was no interrupt.

    Raises:
        KeyboardInterrupt: there was a second interrupt.
    """
    received: list[int] = []

    def handle(number: int, _frame: object) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt
        first()

    usual = {}
    if threading.current_thread() is threading.main_thread():
        present = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        usual = {number: each for number, each in present.items() if each in (signal.default_int_handler, signal.SIG_DFL, terminated)}
    for number in usual:
        signal.signal(number, handle)
    try:
        yield lambda: 128 + received[0] if received else 0
    finally:
        for number, each in usual.items():
            signal.signal(number, each)
