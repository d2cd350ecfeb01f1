"""What all commands are told: where the server is, how to reach it, and how to answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

import typer

from topicpolicies import Client, InvalidArgument, Scope, Tls, TokenFile
from topicpolicies.addresses import addresses_of, places_of

from .files import check_there


class Output(enum.Enum):
    """How results are told."""

    TABLE = "table"
    """For people."""
    JSON = "json"
    """For programs: one document, or, of a watch, one per line."""


class ScopeName(enum.Enum):
    """A scope on the command line."""

    LOCAL = "local"
    GLOBAL = "global"

    @property
    def scope(self) -> Scope:
        """The scope itself."""
        return Scope[self.name]


class ScopeNames(enum.Enum):
    """One scope or both, on the command line."""

    LOCAL = "local"
    GLOBAL = "global"
    BOTH = "both"

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes themselves."""
        return tuple(Scope) if self is ScopeNames.BOTH else (Scope[self.name],)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFlags:
    """The global options about TLS: of the connection to a server; certificate and key are the server's own where one is run."""

    use: bool | None = None
    """Whether TLS is wanted; None: on other machines only."""
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None

    def of_client(self) -> bool | Tls | None:
        """The TLS of a connection to a server.

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
    """The global options."""

    server: str
    output: Output = Output.TABLE
    timeout_seconds: float = 30.0
    tls_flags: TlsFlags = TlsFlags()
    actor: str = ""
    """Who asks for a change."""
    reason: str = ""
    """Why."""
    token_file: Path | None = None
    """A file with the bearer token of every call."""

    @property
    def tls(self) -> bool | Tls | None:
        """The TLS of a connection to the server (see ``TlsFlags.of_client``)."""
        return self.tls_flags.of_client()

    def client(self) -> Client:
        """A client of the server.

        Raises:
            OSError: a file of the TLS options, or the token's, can't be read.
            InvalidArgument: there is no token in it, or it would be sent in the clear.
            typer.BadParameter: the TLS options contradict each other, a file is not there, or the address is none.
        """
        self.check()
        token = TokenFile(self.token_file) if self.token_file is not None else None
        return Client(self.server, tls=self.tls, token=token, timeout=self.timeout_seconds)

    def check(self) -> None:
        """Checks the address and the files that the options name.

        Raises:
            InvalidArgument: the address is a URL.
            typer.BadParameter: it is no address, or a file is not there.
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
        """Whether programs read the answers."""
        return self.output is Output.JSON


def check_target(server: str) -> None:
    """Looks at where the server is said to be: gRPC tells of a wrong port that the connection was refused.

    Raises:
        InvalidArgument: it is a URL.
        typer.BadParameter: it is no address.
    """
    try:
        for address in addresses_of(server):
            places_of(address)
    except InvalidArgument:
        raise
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--server") from None


def settings(context: typer.Context) -> Settings:
    """The global options of the running command."""
    found = context.find_object(Settings)
    assert found is not None  # the application's callback has run
    return found
