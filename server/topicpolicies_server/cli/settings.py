"""The global options: where the server is, how it is reached, and how results are printed."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

import typer

from topicpolicies import SCOPE_GLOBAL, SCOPE_LOCAL, Client, Scope, Tls, TokenFile
from topicpolicies.addresses import places_of

from .files import check_there


class Output(enum.Enum):
    """The form of results and errors."""

    TABLE = "table"
    """Text for people."""
    JSON = "json"
    """JSON for programs: one document; of ``watch`` and ``history`` one per line."""


class ScopeName(enum.Enum):
    """The choices of an option that takes one scope."""

    LOCAL = "local"
    GLOBAL = "global"

    @property
    def scope(self) -> Scope.ValueType:
        """The scope of the choice."""
        return Scope.Value(f"SCOPE_{self.name}")


class ScopeNames(enum.Enum):
    """The choices of an option that takes one scope or both."""

    LOCAL = "local"
    GLOBAL = "global"
    BOTH = "both"

    @property
    def scopes(self) -> tuple[Scope.ValueType, ...]:
        """The scopes of the choice."""
        return (SCOPE_LOCAL, SCOPE_GLOBAL) if self is ScopeNames.BOTH else (Scope.Value(f"SCOPE_{self.name}"),)


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

    def client(self) -> Client:
        """Returns a new client of the server.

        Raises:
            OSError: a file of the TLS options or the token file can't be read.
            InvalidArgument: the token file has no token, or the token would be sent without TLS.
            typer.BadParameter: the TLS options contradict each other, a file does not exist, or the address is invalid.
        """
        self.check()
        token = TokenFile(self.token_file) if self.token_file is not None else None
        return Client(self.server, tls=self.tls, token=token, timeout=self.timeout_seconds)

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

    @property
    def json(self) -> bool:
        """Whether results are printed as JSON."""
        return self.output is Output.JSON


def check_target(server: str) -> None:
    """Checks the address of the server, because gRPC reports an invalid port only as a refused connection.

    Raises:
        typer.BadParameter: the address is invalid. What may be a password is not repeated.
    """
    if server.startswith(("http://", "https://")) or ("@" in server and not server.startswith("unix")):
        raise typer.BadParameter("An address is HOST:PORT: it has no scheme, name or password.", param_hint="--server")
    try:
        places_of(server)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--server") from None


def settings(context: typer.Context) -> Settings:
    """Returns the global options of the running command."""
    found = context.find_object(Settings)
    assert found is not None  # the application's callback has run
    return found
