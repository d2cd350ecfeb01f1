"""How commands end: exit codes, and errors on standard error, for people or for programs."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from grpc import StatusCode

from topicpolicies import OutcomeUnknown, TopicPoliciesError

from ..escaping import printable
from .settings import Output


class ExitCode(enum.IntEnum):
    """The exit codes of every command."""

    OK = 0
    ERROR = 1
    """Any error that has no code of its own."""
    USAGE = 2
    """The command line, or the request, is wrong."""
    CONFLICT = 3
    """The document has another version than ``--if-version``, or it exists despite ``--must-not-exist`` (ABORTED)."""
    NOT_FOUND = 4
    """There is no such topic or namespace, or, for ``get``, no document."""
    UNAVAILABLE = 5
    """The server, or the log behind it, can't be reached, or did not answer a read in time."""
    OUTCOME_UNKNOWN = 6
    """A change was sent and not answered in time. It can be repeated with the ``--request-id`` that the error names."""
    DIFFERENT = 7
    """``plan`` and ``diff``: there are differences."""
    HALF_DONE = 8
    """``apply``: some changes were made before one failed, or it is unknown whether any were."""
    NOT_STARTED = 9
    """``serve``, ``guard`` and ``demo``: an address or a file is in use, or can't be used."""
    UNWELL = 10
    """``doctor``: a check failed."""


EXIT_CODES = """Exit codes: 0 done, 1 another error, 2 wrong usage or request, 3 conflict (--if-version, --must-not-exist), 4 not found,
or no document, 5 unavailable, 6 outcome unknown: repeat with the --request-id that the error names, 7 there are differences (plan, diff),
8 partly done (apply), 9 not started: an address or a file is in use, or can't be used (serve, guard, demo),
10 a check failed (doctor)."""

_UNRESOLVED = "errors resolving "
"""A part of gRPC's message about a host name that can't be resolved. The strings below are likewise parts of its messages."""
_UNCONNECTED = "failed to connect to all addresses"
_LAST = re.compile(
    r"last error: [A-Z_]+: \S+: (?:Failed to connect to remote host: |connect failed: .* error: )?(?:getsockopt\(SO_ERROR\): )?(.*)",
    re.DOTALL,
)
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_MISNAMED = "Hostname Verification Check failed"
_NO_TLS = "WRONG_VERSION_NUMBER"
_UNUSABLE = "Failed to create security handshaker"
_BROKEN_OFF = ("recvmsg:Connection reset", "Socket closed")
"""A server accepted the connection and closed it, as one does that expects TLS."""
_CODES = {
    StatusCode.INVALID_ARGUMENT: ExitCode.USAGE,
    StatusCode.ABORTED: ExitCode.CONFLICT,
    StatusCode.NOT_FOUND: ExitCode.NOT_FOUND,
    StatusCode.UNAVAILABLE: ExitCode.UNAVAILABLE,
    StatusCode.DEADLINE_EXCEEDED: ExitCode.UNAVAILABLE,
}


def exit_code(error: TopicPoliciesError) -> ExitCode:
    """Returns the exit code of a command that failed with this error."""
    return ExitCode.OUTCOME_UNKNOWN if isinstance(error, OutcomeUnknown) else _CODES.get(error.code, ExitCode.ERROR)


@contextmanager
def reporting(output: Output, server: str = "") -> Iterator[None]:
    """Reports an error of the body on standard error, and ends the command with its exit code.

    Args:
        output: the form of the report.
        server: the server's address, for an error about the connection.

    Raises:
        typer.Exit: the body failed with an error of the client, or a file can't be read or written.
    """
    try:
        yield
    except TopicPoliciesError as error:
        report(error, output, server)
        raise typer.Exit(exit_code(error)) from None
    except OSError as error:
        if error.filename is None:  # an error of the output, which ``writing`` reports
            raise
        report_other("FILE", f"{error.filename}: {error.strerror}", output)
        raise typer.Exit(ExitCode.ERROR) from None


def error_json(error: TopicPoliciesError, message: str = "") -> dict[str, Any]:
    """Returns an error as JSON; ``message``: another one than the error's own."""
    told: dict[str, Any] = {"code": error.code.name, "reason": error.reason, "message": message or error.message}
    if error.metadata:
        told["metadata"] = error.metadata
    if error.violations:
        told["violations"] = [violation._asdict() for violation in error.violations]
    if error.request_id:
        told["request_id"] = error.request_id
    return told


def report(error: TopicPoliciesError, output: Output, server: str = "") -> None:
    """Reports an error on standard error: as a sentence and the violations, or as one JSON document."""
    message = message_of(error, server)
    if output is Output.JSON:
        typer.echo(json.dumps({"error": error_json(error, message)}), err=True)
        return
    if len(error.violations) < 2:
        typer.echo(f"Error: {printable(message)}", err=True)
        return
    typer.echo(f"Error: there are {len(error.violations)} problems.", err=True)
    for violation in error.violations:
        typer.echo(printable(f"  - {violation.field}: {violation.description}"), err=True)


def message_of(error: TopicPoliciesError, server: str) -> str:
    """Returns the message of an error, with the options of the command line that help against it."""
    if isinstance(error, OutcomeUnknown):
        return f"{error.message.rstrip('.')}. To learn what happened, repeat it with --request-id {error.request_id}."
    unknown = _UNRESOLVED in error.message
    if server and not error.reason and (_UNCONNECTED in error.message or unknown):
        return _unreached(error.message, server, unknown=unknown)
    if server and error.code is StatusCode.DEADLINE_EXCEEDED and not error.reason:
        return f"The server at {server} did not answer in time (--timeout). topicpolicies doctor --server {server} checks what is wrong."
    if error.reason == "CREDENTIALS_MISSING":
        return f"{error.message} Say --token-file FILE, or --tls-certificate FILE and --tls-key FILE."
    return error.message


def _unreached(told: str, server: str, *, unknown: bool) -> str:
    """Returns the message about a server that can't be connected to. ``told``: gRPC's message; ``unknown``: the host has no address."""
    if _UNTRUSTED in told:
        return f"The server at {server} is not trusted: no authority that this client knows has signed its certificate. Say --tls-ca FILE."
    if _MISNAMED in told:
        return f"The certificate of the server at {server} is for another name. Say --tls-server-name NAME if that is intended."
    if _NO_TLS in told:
        return f"The server at {server} does not use TLS. Say --no-tls if the network to it is safe."
    if _UNUSABLE in told:
        return "The files of the TLS options can't be used: --tls-ca and --tls-certificate are PEM, and --tls-key is the certificate's key."
    if any(words in told for words in _BROKEN_OFF):
        return f"The server at {server} closed the connection at once: it may require TLS (--tls), or it is not a gRPC server."
    last = _LAST.search(told)
    detail = "the host name can't be resolved" if unknown else last[1] if last else told
    return f"No server can be reached at {server} ({detail}). Name it with --server or TOPICPOLICIES_SERVER."


def report_other(reason: str, message: str, output: Output) -> None:
    """Reports an error that is not of the service on standard error."""
    if output is Output.JSON:
        typer.echo(json.dumps({"error": {"code": "UNKNOWN", "reason": reason, "message": message}}), err=True)
    else:
        typer.echo(f"Error: {printable(message)}", err=True)
