"""What all commands are told: where the server is, how to reach it, and how to answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

import typer

from topicpolicies import Client, Scope, Tls


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


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    server: str
    output: Output = Output.TABLE
    timeout_seconds: float = 30.0
    tls: bool | Tls | None = None
    actor: str = ""
    """Who asks for a change."""
    reason: str = ""
    """Why."""

    def client(self) -> Client:
        """A client of the server.

        Raises:
            OSError: a file of the TLS options can't be read.
        """
        return Client(self.server, tls=self.tls, timeout=self.timeout_seconds)

    @property
    def json(self) -> bool:
        """Whether programs read the answers."""
        return self.output is Output.JSON


def settings(context: typer.Context) -> Settings:
    """The global options of the running command."""
    found = context.find_object(Settings)
    assert found is not None  # the application's callback has run
    return found


def tls_options(
    use: bool | None, ca_file: Path | None, certificate_file: Path | None, key_file: Path | None, server_name: str | None
) -> bool | Tls | None:
    """The TLS options together.

    Raises:
        typer.BadParameter: they contradict each other.
    """
    if (certificate_file is None) != (key_file is None):
        raise typer.BadParameter("--tls-certificate and --tls-key belong together.")
    if ca_file is None and certificate_file is None and server_name is None:
        return use
    if use is False:
        raise typer.BadParameter("--no-tls contradicts the other TLS options.")
    return Tls(ca_file=ca_file, certificate_file=certificate_file, key_file=key_file, server_name=server_name)
