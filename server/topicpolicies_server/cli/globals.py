"""The global options: where the server is, how it is reached, and how results are printed.

What calls need is imported where it is used, so that help comes without it.
"""

from __future__ import annotations

import enum
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..core.names import full_topic
from ..escaping import folded, printable, width_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from topicpolicies import Scope, Tls

REQUIRED = inspect.Parameter.empty
"""In place of a default: the parameter must be given."""


class Output(enum.Enum):
    """The form of results and errors."""

    TABLE = "table"
    """Text for people."""
    WIDE = "wide"
    """Text for people, in which no line is folded, however narrow the terminal is."""
    JSON = "json"
    """JSON for programs: one document; of ``watch`` and ``history`` one per line."""
    YAML = "yaml"
    """The same as YAML: several documents are separated by ``---``."""
    NAME = "name"
    """The names of topics, where a result has some; else as TABLE."""


OneScope = Annotated[Literal["local", "global"], typer.Option("--scope", help="The document of this cluster, or the one of all clusters.")]
Scopes = Annotated[
    Literal["local", "global", "both"], typer.Option("--scope", help="The documents of this cluster, of all clusters, or both.")
]


def scopes_of(name: str) -> tuple[Scope.ValueType, ...]:
    """Returns the scopes that a choice names, such as ``both``."""
    from topicpolicies import Scope  # noqa: PLC0415

    return tuple(Scope.Value(f"SCOPE_{each.upper()}") for each in ("local", "global") if name in (each, "both"))


def scope_of(name: str) -> Scope.ValueType:
    """Returns the scope that a choice names."""
    return scopes_of(name)[0]


class WrongUsage(typer.BadParameter):
    """Arguments that are wrong together: the message stands alone, without the name of a parameter."""

    def format_message(self) -> str:
        """Returns the message."""
        return self.message


Topic = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="persistent://tenant/namespace/topic; a name alone is of public/default.", callback=full_topic),
]


def full_namespace(text: str) -> str:
    """Returns a namespace's name with its tenant: ``orders`` is public/orders."""
    return f"public/{text}" if text and "/" not in text else text


def sort_targets(targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the topics and the namespaces among targets: a namespace has two parts and no domain. A name alone is a topic's."""
    topics: list[str] = []
    namespaces: list[str] = []
    for target in targets:
        (namespaces if "://" not in target and target.count("/") == 1 else topics).append(full_topic(target))
    return topics, namespaces


def with_port(server: str | None) -> str | None:
    """Returns an address with the port 6680 if it names none. Those with a scheme, and of sockets, stay."""
    if server is None:
        return None
    if re.fullmatch(r"[^\[\]:/]+|\[[^\[\]/]+\]", server):
        return f"{server}:6680"
    return f"[{server}]:6680" if re.fullmatch(r"[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F.]*", server) else server


def _option(variable: str, metavar: str | None, told: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, envvar=f"TOPICPOLICIES_{variable}", metavar=metavar, help=told, **more)


_FORMS = "Columns for people (table, the default; wide: not folded); JSON or YAML for programs; name: the topics alone."
_TLS = "Use TLS or not; by default only for servers on other machines."
_ACTOR = "Who makes a change, for the log; by default your login name, if no credentials say."
_READ_ANEW = "A file with your token; read again when it changes."
_NAME = "The name in the server's certificate."


@dataclass(frozen=True, slots=True)
class Globals:
    """The values of the global options: each field but the last is one."""

    server: Annotated[
        str,
        _option(
            "SERVER", "ADDRESS", "The server; by default localhost:6680; port 6680 if it has none.", "--server", "-s", callback=with_port
        ),
    ] = "localhost:6680"
    output: Annotated[Output, _option("OUTPUT", None, _FORMS, "--output", "-o", case_sensitive=False)] = Output.TABLE
    timeout_seconds: Annotated[
        float, _option("TIMEOUT", "SECONDS", "How long to try, retries included; by default 30.", "--timeout", min=0.001, max=86_400)
    ] = 30.0
    actor: Annotated[str | None, _option("ACTOR", "NAME", _ACTOR, "--actor")] = None
    reason: Annotated[str, _option("REASON", "TEXT", "Why a change is made, for the log.", "--reason")] = ""
    token_file: Annotated[Path | None, _option("TOKEN_FILE", "FILE", _READ_ANEW, "--token-file")] = None
    use_tls: Annotated[bool | None, _option("CLIENT_TLS", None, _TLS, "--tls/--no-tls")] = None
    tls_ca: Annotated[Path | None, _option("CLIENT_TLS_CA", "FILE", "The authorities that are trusted, PEM.", "--tls-ca")] = None
    tls_certificate: Annotated[Path | None, _option("CLIENT_TLS_CERTIFICATE", "FILE", "Your certificate, PEM.", "--tls-certificate")] = None
    tls_key: Annotated[Path | None, _option("CLIENT_TLS_KEY", "FILE", "Its private key, PEM.", "--tls-key")] = None
    tls_server_name: Annotated[str | None, _option("CLIENT_TLS_SERVER_NAME", "NAME", _NAME, "--tls-server-name")] = None
    given: frozenset[str] = frozenset()
    """The options that a flag or a variable has set; itself no option."""

    @property
    def tls(self) -> bool | Tls | None:
        """The TLS of a connection to a server, as ``Client`` takes it."""
        from topicpolicies import Tls  # noqa: PLC0415

        if (self.tls_certificate is None) != (self.tls_key is None):
            raise WrongUsage("--tls-certificate and --tls-key belong together.")
        if self.tls_ca is None and self.tls_certificate is None and self.tls_server_name is None:
            return self.use_tls
        if self.use_tls is False:
            raise WrongUsage("--no-tls contradicts the other TLS options.")
        return Tls(ca_file=self.tls_ca, certificate_file=self.tls_certificate, key_file=self.tls_key, server_name=self.tls_server_name)

    @property
    def json(self) -> bool:
        """Whether results are printed as JSON."""
        return self.output is Output.JSON

    @property
    def for_programs(self) -> bool:
        """Whether results are printed as JSON or YAML."""
        return self.output in (Output.JSON, Output.YAML)

    def show(self, told: Message | dict[str, Any]) -> None:
        """Prints one document for programs."""
        from .rendering import dumps, of_message, yaml  # noqa: PLC0415

        document = told if isinstance(told, dict) else of_message(told)
        typer.echo(yaml(document) if self.output is Output.YAML else dumps(document))

    def shown(self, told: Message | dict[str, Any], topics: Iterable[str] = ()) -> bool:
        """Prints a result for programs, or the names of its topics; returns whether it did: people are shown something else."""
        if self.for_programs:
            self.show(told)
            return True
        names = dict.fromkeys(filter(None, topics)) if self.output is Output.NAME else ()
        for topic in names:
            typer.echo(printable(topic))
        return bool(names)

    def note(self, text: str) -> None:
        """Prints a note on standard error."""
        if self.json:
            typer.echo(json.dumps({"note": text}, ensure_ascii=False), err=True)
        else:
            tell(printable(text))


def tell(text: str, indent: str = "") -> None:
    """Prints a text for people on standard error, on a terminal folded to its width. ``indent``: stands before what follows a break."""
    typer.echo(folded(text, width_of(sys.stderr), indent), err=True)


def with_parameters(run: Callable[..., None], parameters: Iterable[tuple[str, Any, Any]]) -> Callable[..., None]:
    """Returns a function that has its first parameter and these, for Typer: names, annotations and defaults (``REQUIRED``: none)."""
    first = next(iter(inspect.signature(run, eval_str=True).parameters.values()))
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind) for name, kind, default in parameters]
    made = [first, *more]
    run.__annotations__ = {each.name: each.annotation for each in made} | {"return": None}
    run.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]  # what Typer reads
    return run
