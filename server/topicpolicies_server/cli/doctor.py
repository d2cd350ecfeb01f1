"""The doctor command: checks as a client of a server, and with its options as its operator; shows what is wrong and what to do."""

from __future__ import annotations

import os
import socket
import textwrap
from asyncio import Runner
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import typer
from grpc import StatusCode

from topicpolicies import Client, TopicPoliciesError
from topicpolicies.addresses import Place, places_of
from topicpolicies.v1.service_pb2 import LogKind, WriterMode
from topicpolicies.values import enum_name

from ..config import Address, EmbeddedLogConfig, PulsarLogConfig, ServerConfig
from ..config.building import server_config
from ..config.option import ReadBy
from ..config.sources import OptionValues
from ..core.errors import PolicyError
from ..core.names import full_topic
from ..core.reasons import LogState
from ..escaping import printable
from ..logs.change_log import LogError
from .calls import calling
from .exits import ExitCode, message_of, reporting
from .options import configured
from .serve import refusal
from .server import status_of
from .settings import Settings, full_namespace, settings

_T = TypeVar("_T")
LEVELS = ("failed", "warning", "skipped", "ok")
"""What a finding means. A warning: it works, but not well. Skipped: another check, which this one needs, did not succeed."""
_WIDTH = 79
_SECONDS, _BROKER_SECONDS = 6.0, 3.0
_REMEDIES = {
    "TOPIC_NOT_FOUND": "Name a topic that exists: --scratch TOPIC; or create it (pulsar-admin topics create).",
    "NAMESPACE_NOT_FOUND": "Create it (pulsar-admin namespaces create), or correct its name.",
    "TOPIC_POLICIES_DISABLED": "Set topicLevelPoliciesEnabled=true and systemTopicEnabled=true at the brokers.",
    "CLUSTER_UNAVAILABLE": "If the admin API refuses the server, make it an admin: pulsar-admin tenants update TENANT --admin-roles ROLE.",
    "PERMISSION_DENIED": "Authenticate yourself (--token-file, --tls-certificate), and have your role allowed: see the server's "
    "--authorization.",
    "READ_ONLY": "The server's options let it write nothing (--read-only): name another server.",
}


class Check(NamedTuple):
    """What is checked; ``{0}`` is the namespace, or the topic, that it is about."""

    holds: str
    """What holds if all is well, in a few words."""
    remedy: str
    """What to do otherwise."""
    needs: str = ""
    """The check without which this one could only repeat the failure, of the same namespace if it is about one; empty: none."""


CHECKS = {
    "address": Check(
        "connections are accepted",
        "Name the server with --server HOST:PORT; check whether DNS knows the host, whether the server runs and listens there, and"
        " whether a firewall is in between.",
    ),
    "server.service": Check(
        "the service answers",
        "Name the port that serve says it listens on, 6680 by default; and say --tls, --tls-ca, --token-file if it asks for them.",
        "address",
    ),
    "server.readiness": Check(
        "the server is ready: its change log can be reached",
        "The server's log says why. With the server's options (--config FILE, --pulsar ...) this command checks the brokers too.",
        "server.service",
    ),
    "server.namespace": Check(
        "{0} can be read",
        "Check the server's log for why it can't read the namespace, and whether the broker serves it.",
        "server.service",
    ),
    "scratch.change": Check("a change of {0} would be made (a dry run)", "Check the reason, and the server's log.", "server.service"),
    "listen": Check("the server can listen", "Name another address with --listen."),
    "data": Check("the log's folder can be written", "Name a file of the embedded log with --data."),
    "broker.service": Check(
        "the brokers accept connections",
        "Correct --pulsar, and check whether the broker runs and advertises an address that can be reached from here.",
    ),
    "broker.admin": Check(
        "their admin API answers",
        "Correct --admin-url: it is HTTP, port 8080 or 8443 by default, not the port of --pulsar; or --pulsar-tls-trust-certs.",
    ),
    "token.accepted": Check(
        "the brokers accept the server's token",
        "Give the server a token that the brokers' key has signed and that has not expired, by --pulsar-token-file or an issuer.",
        "broker.admin",
    ),
    "broker.policies": Check(
        "topic policies are on at the brokers, and read from change logs",
        "In broker.conf set topicLevelPoliciesEnabled=true, systemTopicEnabled=true and the default class; restart the brokers.",
        "token.accepted",
    ),
    "broker.namespace": Check(
        "{0} exists, and the server's role may see it",
        "Make the role an admin of its tenant: pulsar-admin tenants update TENANT --admin-roles ROLE.",
        "token.accepted",
    ),
    "broker.rates": Check(
        "no rate of {0} slows its change log down",
        "pulsar-admin namespaces remove-subscription-dispatch-rate {0}; limit single topics by policies of their own.",
        "broker.namespace",
    ),
}


class Problem(Exception):
    """What is checked does not hold."""

    def __init__(self, told: str, remedy: str = "", level: str = "failed") -> None:
        """``told``: what was found; ``remedy``: what to do, if not what the check says in general."""
        super().__init__(told)
        self.remedy = remedy
        self.level = level


class Doctor:
    """Runs checks and keeps their findings."""

    def __init__(self, checks: Mapping[str, Check] = CHECKS, *, silent: bool) -> None:
        """``silent``: whether the findings are not printed as they come."""
        self.findings: list[dict[str, str]] = []
        """The findings as JSON."""
        self._checks = checks
        self._silent = silent

    def check(self, kind: str, run: Callable[..., str], *about: str) -> None:
        """Runs a check, perhaps about a namespace or topic. ``run``: returns what was found, in bounded time, or raises what is wrong."""
        holds, remedy, needs = self._checks[kind]
        holds, level = holds.format(*about), "failed"
        succeeded = {each["check"] for each in self.findings if each["level"] in ("ok", "warning")}
        if needs and succeeded.isdisjoint((needs, " ".join((needs, *about)))):
            level, told, remedy = "skipped", f"it needs {needs}", ""
        else:
            try:
                level, told, remedy = "ok", run(*about), ""
            except Problem as problem:
                level, told, remedy = problem.level, str(problem), problem.remedy or remedy.format(*about)
            except (TopicPoliciesError, PolicyError) as error:
                told = error.message
            except OSError as error:
                told = ": ".join(filter(None, (error.filename, error.strerror or str(error) or type(error).__name__)))
        name = kind if kind == "scratch.change" else " ".join((kind, *about))
        self.findings.append({"check": name, "level": level, "holds": holds, "told": told, "remedy": remedy})
        if not self._silent:
            self._print(f"{level:<9}", f"{holds}: {told}" if told else holds)
            if remedy:
                self._print(f"{'':<9}remedy: ", remedy)

    @staticmethod
    def _print(first: str, text: str) -> None:
        wrapper = textwrap.TextWrapper(_WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False)
        typer.echo("\n".join(wrapper.wrap(printable(text))))

    @property
    def counts(self) -> dict[str, int]:
        """How many findings are of each level."""
        return {level: sum(each["level"] == level for each in self.findings) for level in LEVELS}


def check_server(run: Doctor, chosen: Settings, client: Client, namespaces: Sequence[str], scratch: str) -> None:
    """Checks a running server as its client. ``scratch``: the namespace or topic of which a change is checked; empty: none is."""
    run.check("address", lambda: connected(places_of(chosen.server)))
    run.check("server.service", lambda: _service(client, chosen))
    run.check("server.readiness", lambda: _ready(chosen))
    for namespace in namespaces:
        run.check("server.namespace", lambda name: _namespace(client, name), namespace)
    if scratch:
        of_namespace = "://" not in scratch and scratch.count("/") == 1
        topic = f"persistent://{scratch}/topicpolicies-doctor" if of_namespace else full_topic(scratch)
        run.check("scratch.change", lambda name: _refusable(lambda: _dry_run(client, name)), topic)


def connected(places: Sequence[Place]) -> str:
    """Returns the places, all of which accept connections; if one does not, that is a Problem."""
    for place in places:
        try:
            if place.path:
                with socket.socket(socket.AF_UNIX) as opened:
                    opened.settimeout(_SECONDS)
                    opened.connect(place.path)
            else:
                socket.create_connection((place.host, place.port), _SECONDS).close()
        except OSError as error:
            raise Problem(f"{place}: {error.strerror or error}") from None
    return ", ".join(map(str, places))


def _service(client: Client, chosen: Settings) -> str:
    try:
        info = client.server_info(timeout=_SECONDS)
    except TopicPoliciesError as error:
        if error.code is StatusCode.UNIMPLEMENTED:
            raise Problem(f"it is another gRPC service ({error.message})") from None
        if error.code is StatusCode.UNAUTHENTICATED:
            raise Problem(message_of(error, chosen), "Give it a token that the server accepts: --token-file FILE.") from None
        raise Problem("there is no answer" if error.code is StatusCode.DEADLINE_EXCEEDED else message_of(error, chosen)) from None
    log, writers = enum_name(LogKind.DESCRIPTOR, info.log), enum_name(WriterMode.DESCRIPTOR, info.writer_mode)
    return f"version {info.version}, log {log.lower()}, writers {writers.lower()}"


def _ready(chosen: Settings) -> str:
    status = status_of(chosen, "readiness")
    if status != "SERVING":
        raise Problem(status)
    return status


def _namespace(client: Client, namespace: str) -> str:
    first = _refusable(lambda: next(client.list(namespace, page_size=1, timeout=_SECONDS), None))
    return "it has no document" if first is None else "it has documents"


def _refusable(call: Callable[[], _T]) -> _T:
    """Makes a call whose reasons to be refused have remedies of their own."""
    try:
        return call()
    except TopicPoliciesError as error:
        raise Problem(f"{error.reason or error.code.name}: {error.message}", _REMEDIES.get(error.reason, "")) from None


def _dry_run(client: Client, topic: str) -> str:
    client.update(topic, max_producer_per_topic=1_000_000, validate_only=True, timeout=_SECONDS)
    return ""


class Brokers:
    """Checks the brokers of a server by its own options and credentials, as its operator.

    No request creates a change log: of a namespace without one only metadata is requested.
    """

    def __init__(self, config: PulsarLogConfig, runner: Runner) -> None:
        """``runner``: the event loop on which the admin API is called."""
        from ..logs.pulsar.admin import admin_api  # noqa: PLC0415 - what clients have no use for need not be installed

        self._config = config
        self._runner = runner
        self._admin = admin_api(config)

    def close(self) -> None:
        """Closes the connections to the admin API."""
        self._runner.run(self._admin.close())

    def check(self, run: Doctor, namespaces: Sequence[str]) -> None:
        """Checks the brokers, and some namespaces there."""
        scheme, _, hosts = self._config.service_url.partition("://")
        first = urlsplit(f"//{hosts.split(',')[0]}")
        place = Place(first.hostname or "", first.port or (6651 if scheme == "pulsar+ssl" else 6650))
        run.check("broker.service", lambda: connected([place]))
        run.check("broker.admin", self._answers)
        run.check("token.accepted", self._token_accepted)
        run.check("broker.policies", self._reads_change_logs)
        for namespace in namespaces:
            run.check("broker.namespace", self._exists, namespace)
            run.check("broker.rates", self._rates, namespace)

    def _get(self, *path: str) -> Any:
        """Returns the JSON of an answer; None for "not found"."""
        return self._runner.run(self._admin.get(*path, seconds=_BROKER_SECONDS))

    def _object(self, *path: str) -> Mapping[str, Any]:
        found = self._get(*path)
        if not isinstance(found, dict):
            raise LogError(LogState.ADMIN_UNREACHABLE, "The answer is not one of a broker.")
        return found

    def _answers(self) -> str:
        try:
            version = self._get("brokers", "version")
        except LogError as error:
            if error.state is LogState.ADMIN_REFUSED:
                return "it asks who calls"
            raise
        if not isinstance(version, str) or len(version) >= 100 or "<" in version:
            raise Problem("the answer is no version: it is another service")
        return version.strip()

    def _token_accepted(self) -> str:
        self._get("clusters")
        return "" if self._config.token_file is not None or self._config.oauth2 is not None else "without a token"

    def _reads_change_logs(self) -> str:
        from ..logs.pulsar.facts import unread_logs  # noqa: PLC0415

        try:
            settings = self._object("brokers", "configuration", "runtime")
        except LogError as error:
            if error.state is not LogState.ADMIN_REFUSED:
                raise
            told = "the brokers hide their configuration from this role, so it is not known whether they read change logs"
            remedy = "Give the server a superuser's role, or do without the brokers' limits and defaults."
            raise Problem(told, remedy, level="warning") from None
        if str(settings.get("topicLevelPoliciesEnabled", "true")).lower() != "true":
            raise Problem("topicLevelPoliciesEnabled is false")
        problem, _ = unread_logs(settings)
        if problem:
            raise Problem(problem)
        return ""

    def _exists(self, namespace: str) -> str:
        if self._get("namespaces", *namespace.split("/")) is None:
            raise Problem("it does not exist", f"Create it (pulsar-admin namespaces create {namespace}), or correct its name.")
        return ""

    def _rates(self, namespace: str) -> str:
        from ..logs.pulsar.facts import dialect_of  # noqa: PLC0415
        from ..logs.pulsar.topics import throttling  # noqa: PLC0415

        policies, version = self._object("namespaces", *namespace.split("/")), self._get("brokers", "version")
        if told := throttling(namespace, policies, dialect_of(str(version).strip())):
            raise Problem(told, level="warning")
        return ""


_SOURCES = ("pulsar", "data", "admin_url")
"""Options of the log. A user who gives one of them is taken to be the operator of the server."""
Scratch = Annotated[
    str,
    typer.Option("--scratch", metavar="PLACE", help="Check by a dry run whether a topic can be changed here: a namespace or a topic."),
]
Namespaces = Annotated[
    list[str] | None, typer.Option("--namespace", metavar="NAMESPACE", help="Check this namespace (tenant/namespace); can be repeated.")
]
Pre = Annotated[bool, typer.Option("--pre", help="Check only what must hold before the server is started.")]


@configured(ReadBy.SERVE, of_server=False)
def doctor(
    context: typer.Context, in_force: OptionValues, *, scratch: Scratch = "", namespaces: Namespaces = None, pre: Pre = False
) -> None:
    """Find what is wrong, and show what to do.

    It checks the server's address, whether the service answers and is ready, and, with --scratch, whether a change would be made. With the
    options of serve (--config, --pulsar, ...) it also checks the brokers and the server's own token. It changes nothing.

    Ends with exit code 0 if no check fails (warnings do not count), and with 10 if one does.

    \b
    Examples:
      topicpolicies doctor
      topicpolicies doctor --server sidecar:6680 --scratch public/default
      topicpolicies doctor --config sidecar.toml --namespace acme/orders
      topicpolicies doctor --pre --pulsar pulsar://broker:6650 \\
          --admin-url http://broker:8080 --pulsar-token-file token
    """  # noqa: D301 - "\b" keeps the lines
    chosen, config = settings(context), None
    if in_force.file is not None or pre or any(in_force.settings[name].given for name in _SOURCES):
        config = server_config(in_force, os.environ)
    said = context.parent is not None and getattr(context.parent.get_parameter_source("server"), "name", "") != "DEFAULT"
    if config is not None and not said:
        chosen = _of_config(chosen, config)
    named = list(dict.fromkeys([*map(full_namespace, namespaces or []), *([scratch] if scratch.count("/") == 1 else [])]))
    if wrong := next((each for each in named if each.count("/") != 1 or not all(each.split("/"))), None):
        raise typer.BadParameter(f'"{wrong}" is not a namespace: write tenant/namespace.', param_hint="--namespace")
    run = Doctor(silent=chosen.for_programs)
    if not pre:
        with calling(chosen, listening=False) as client:
            check_server(run, chosen, client, named, scratch)
    if config is not None and pre and isinstance(config.log, EmbeddedLogConfig) and config.log.path is not None:
        listen, data = config.listen, config.log.path
        run.check("listen", lambda: _free(listen))
        run.check("data", lambda: _writable(data))
    if config is not None and isinstance(config.log, PulsarLogConfig):
        with reporting(chosen.output), Runner() as runner, closing(Brokers(config.log, runner)) as brokers:
            brokers.check(run, named)
    counts = run.counts
    if chosen.for_programs:
        chosen.show({"well": not counts["failed"], "counts": counts, "checks": run.findings})
    else:
        typer.echo(f"\n{len(run.findings)} checks: {', '.join(f'{counts[level]} {level}' for level in LEVELS[:3])}.")
    if counts["failed"]:
        raise typer.Exit(ExitCode.UNWELL)


def _free(address: Address) -> str:
    if why := refusal(address):
        raise Problem(f"{address}: {why}")
    return str(address)


def _writable(path: Path) -> str:
    folder = next(each for each in path.absolute().parents if each.exists())  # serve makes the data folder
    if not os.access(path if path.exists() else folder, os.W_OK) or not os.access(folder, os.W_OK):
        raise Problem(f"{path} can't be written")
    return str(path)


def _of_config(chosen: Settings, config: ServerConfig) -> Settings:
    """Returns how the server of a configuration is reached from its own machine."""
    listen = config.listen
    target = str(listen._replace(host="127.0.0.1") if listen.unspecified else listen)
    return replace(chosen, server=target, tls_flags=chosen.tls_flags if config.tls is None else replace(chosen.tls_flags, use=True))
