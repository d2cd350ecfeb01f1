"""The global options: where the server is, how it is reached, and how results are printed.

What a call of the server needs is imported when it is called, so that help comes without it.
"""

from __future__ import annotations

import enum
import re
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..escaping import printable
from .files import check_there

if TYPE_CHECKING:
    from topicpolicies import Client, Scope, Tls

_START_SECONDS = 1.0
"""How long a server on this machine may take to begin to listen."""
_ADDRESS = "An address is HOST:PORT of a topic policies server; {}"
_MEANT = {
    "pulsar": "pulsar:// is a broker's. Run topicpolicies serve --pulsar {0}, and name that server here.",
    "pulsar+ssl": "pulsar+ssl:// is a broker's. Run topicpolicies serve --pulsar {0}, and name that server here.",
    "http": "http:// is that of brokers' admin API, which serve takes as --admin-url.",
    "https": "https:// is that of brokers' admin API, which serve takes as --admin-url; TLS is used with --tls.",
}


class Output(enum.Enum):
    """The form of results and errors."""

    TABLE = "table"
    """Text for people."""
    WIDE = "wide"
    """Text for people, in which nothing is cut, however narrow the terminal is."""
    JSON = "json"
    """JSON for programs: one document; of ``watch`` and ``history`` one per line."""
    YAML = "yaml"
    """The same as YAML: several documents are separated by ``---``."""
    NAME = "name"
    """The names of topics, where the result has any; else as TABLE."""


class ScopeName(enum.Enum):
    """The choices of an option that takes one scope."""

    LOCAL = "local"
    GLOBAL = "global"

    @property
    def scope(self) -> Scope.ValueType:
        """The scope of the choice."""
        from topicpolicies import Scope  # noqa: PLC0415

        return Scope.Value(f"SCOPE_{self.name}")


class ScopeNames(enum.Enum):
    """The choices of an option that takes one scope or both."""

    LOCAL = "local"
    GLOBAL = "global"
    BOTH = "both"

    @property
    def scopes(self) -> tuple[Scope.ValueType, ...]:
        """The scopes of the choice."""
        return (ScopeName.LOCAL.scope, ScopeName.GLOBAL.scope) if self is ScopeNames.BOTH else (ScopeName(self.value).scope,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFlags:
    """The global options of TLS for the connection to a server. For ``serve`` the certificate and key are the server's own."""

    use: bool | None = None
    """Whether to use TLS; None: only to other machines."""
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None

    def of_client(self) -> bool | Tls | None:
        """Returns the TLS of a connection to a server, as ``Client`` takes it.

        Raises:
            typer.BadParameter: the options contradict each other.
        """
        from topicpolicies import Tls  # noqa: PLC0415

        if (self.certificate_file is None) != (self.key_file is None):
            raise typer.BadParameter("--tls-certificate and --tls-key belong together.")
        if self.ca_file is None and self.certificate_file is None and self.server_name is None:
            return self.use
        if self.use is False:
            raise typer.BadParameter("--no-tls contradicts the other TLS options.")
        return Tls(ca_file=self.ca_file, certificate_file=self.certificate_file, key_file=self.key_file, server_name=self.server_name)


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of the global options."""

    server: str
    output: Output = Output.TABLE
    timeout_seconds: float = 30.0
    tls_flags: TlsFlags = TlsFlags()
    actor: str = ""
    """Who requests a change, for the log; empty: unknown."""
    reason: str = ""
    """Why a change is requested, for the log."""
    token_file: Path | None = None
    """The file of the bearer token that every call sends; None: there is no token."""

    @property
    def tls(self) -> bool | Tls | None:
        """The TLS of a connection to the server (``TlsFlags.of_client``)."""
        return self.tls_flags.of_client()

    @property
    def json(self) -> bool:
        """Whether results are printed as JSON."""
        return self.output is Output.JSON

    @property
    def for_programs(self) -> bool:
        """Whether results are printed as JSON or YAML."""
        return self.output in (Output.JSON, Output.YAML)

    def client(self, *, listening: bool = True) -> Client:
        """Returns a new client of the server.

        Args:
            listening: whether a server has to listen, if its address is of this machine.

        Raises:
            OSError: a file of the TLS options or the token file can't be read.
            InvalidArgument: the token file has no token, or the token would be sent without TLS.
            TopicPoliciesError: no server listens at an address of this machine.
            typer.BadParameter: the TLS options contradict each other, a file does not exist, or the address is invalid.
        """
        from topicpolicies import Client, TokenFile  # noqa: PLC0415

        self.check()
        token = TokenFile(self.token_file) if self.token_file is not None else None
        client = Client(self.server, tls=self.tls, token=token, timeout=self.timeout_seconds)
        if listening:
            check_listening(self.server, min(_START_SECONDS, self.timeout_seconds))
        return client

    def check(self) -> None:
        """Checks the address and the files that the options name.

        Raises:
            typer.BadParameter: the address is no address, or a file is not there.
        """
        check_target(self.server)
        flags = self.tls_flags
        for option, path in (
            ("--token-file", self.token_file),
            ("--tls-ca", flags.ca_file),
            ("--tls-certificate", flags.certificate_file),
            ("--tls-key", flags.key_file),
        ):
            check_there(path, option)

    def show(self, document: dict[str, Any]) -> None:
        """Prints one document for programs."""
        from . import forms  # noqa: PLC0415

        typer.echo(forms.yaml(document) if self.output is Output.YAML else forms.dumps(document))

    def show_names(self, topics: Iterable[str]) -> bool:
        """Prints each topic once if names are what is to be printed; returns whether they are."""
        if self.output is Output.NAME:
            for topic in dict.fromkeys(topics):
                typer.echo(printable(topic))
        return self.output is Output.NAME


def with_port(server: str) -> str:
    """Returns an address with the port 6680 if it names none. Those with a scheme, and of sockets, stay."""
    if re.fullmatch(r"[^\[\]:/]+|\[[^\[\]/]+\]", server):
        return f"{server}:6680"
    return f"[{server}]:6680" if re.fullmatch(r"[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F.]*", server) else server


def check_target(server: str) -> None:
    """Checks the address of the server, because gRPC reports an invalid port only as a refused connection.

    Raises:
        typer.BadParameter: the address is invalid. What may be a password is not repeated.
    """
    from topicpolicies.addresses import places_of  # noqa: PLC0415

    scheme = server.partition("://")[0] if "://" in server else ""
    if "@" in server and not server.startswith("unix"):
        raise typer.BadParameter(_ADDRESS.format("it has no name or password."), param_hint="--server")
    if scheme in _MEANT:
        raise typer.BadParameter(_ADDRESS.format(_MEANT[scheme].format(server)), param_hint="--server")
    try:
        places_of(server)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--server") from None


def check_listening(server: str, seconds: float) -> None:
    """Waits until a server listens, if its address is of this machine: a client would go on trying until its timeout.

    Raises:
        TopicPoliciesError: none listens after ``seconds``.
    """
    from grpc import StatusCode  # noqa: PLC0415

    from topicpolicies import TopicPoliciesError  # noqa: PLC0415
    from topicpolicies.addresses import is_local, places_of  # noqa: PLC0415

    places = [place for place in places_of(server) if not place.path] if is_local(server) else []
    end = time.monotonic() + seconds
    while places:
        for place in places:
            try:
                socket.create_connection((place.host, place.port), timeout=max(0.1, end - time.monotonic())).close()
            except OSError:
                continue
            return
        if time.monotonic() + 0.1 > end:
            told = f"No server listens at {server}. Start one on this machine with topicpolicies serve, or name another with --server."
            raise TopicPoliciesError(told, code=StatusCode.UNAVAILABLE)
        time.sleep(0.1)


def settings(context: typer.Context) -> Settings:
    """Returns the global options of the running command."""
    found = context.find_object(Settings)
    assert found is not None  # the application's callback has run
    return found
