"""The doctor command: checks as a client of a server, and with its options as its operator; shows what is wrong and what to do."""

from __future__ import annotations

import os
from asyncio import Runner
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer

from topicpolicies import Client, TopicPoliciesError
from topicpolicies.addresses import Place, places_of

from ..config import PulsarLogConfig, ServerConfig
from ..config.building import server_config
from ..config.option import ReadBy
from ..config.sources import OptionValues
from ..core.errors import PolicyError
from ..core.names import full_topic
from ..core.reasons import LogState
from ..escaping import printable
from ..logs.change_log import LogError
from .calls import calling
from .exits import ExitCode, connect, message_of
from .globals import Globals, full_namespace
from .rendering import show_columns
from .serve import configured
from .server import status_of

_SECONDS, _BROKER_SECONDS = 6.0, 3.0


class Check(NamedTuple):
    """What a check is about; ``{0}`` in its texts is the namespace."""

    holds: str
    """What holds if all is well, in a few words."""
    remedy: str
    """What to do if it does not."""
    needs: str = ""
    """The check without which this one could only repeat the failure."""


_CREDENTIALS = (
    "Give your token by --token-file FILE or TOPICPOLICIES_TOKEN_FILE, or your certificate by --tls-certificate FILE and --tls-key FILE."
)
_REFUSED = "Check the reason, the server's log, and whether your role may do it (--token-file; --authorization of the server)."
CHECKS = {
    "address": Check(
        "connections are accepted",
        "Name the server with --server HOST:PORT; check whether DNS knows the host, whether the server runs and listens there, and whether "
        "a firewall is in between.",
    ),
    "server.service": Check(
        "the service answers",
        "Name the port that serve says it listens on, 6680 by default; and say --tls, --tls-ca if it has TLS.",
        "address",
    ),
    "server.readiness": Check(
        "the server is ready: its change log can be reached",
        "The server's log says why. With the server's options (--config FILE, --pulsar ...) this command checks the brokers too.",
        "server.service",
    ),
    "server.namespace": Check("{0} can be read", _REFUSED, "server.service"),
    "scratch.change": Check("a change of {of} would be made (a dry run)", _REFUSED, "server.service"),
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
        "In broker.conf set topicLevelPoliciesEnabled=true, systemTopicEnabled=true and the default class; restart the brokers. To see "
        "whether they are, the server needs a superuser's role.",
        "token.accepted",
    ),
    "broker.namespace": Check(
        "{0} exists, and the server's role may see it",
        "Create it (pulsar-admin namespaces create {0}), or make the role an admin of its tenant (pulsar-admin tenants update TENANT "
        "--admin-roles ROLE).",
        "token.accepted",
    ),
    "broker.rates": Check(
        "no rate of {0} slows its change log down",
        "pulsar-admin namespaces remove-subscription-dispatch-rate {0}; limit single topics by policies of their own.",
        "broker.namespace",
    ),
}
"""The checks, by name."""


class Problem(Exception):
    """What is checked does not hold. ``level``: "failed", or "warning" if it works, but not well."""

    def __init__(self, told: str, level: str = "failed", remedy: str = "") -> None:
        """``told``: what was found; ``remedy``: what to do, if not what the check says."""
        super().__init__(told)
        self.level = level
        self.remedy = remedy


class Doctor:
    """Runs checks and keeps their findings."""

    def __init__(self, *, silent: bool) -> None:
        """``silent``: whether the findings are not printed as they come."""
        self.findings: list[dict[str, str]] = []
        """The findings as JSON. The level is ok, failed, warning, or skipped: another check, which this one needs, did not succeed."""
        self._silent = silent

    def check(self, name: str, run: Callable[..., str], *about: str, of: str = "") -> None:
        """Runs a check.

        Args:
            name: the check's.
            run: returns what was found, in bounded time, or raises what is wrong.
            about: the namespace that the check is about, which ``run`` takes.
            of: what its sentence names besides.
        """
        check, level, remedy = CHECKS[name], "failed", ""
        holds = check.holds.format(*about, of=of)
        sound = {each["check"] for each in self.findings if each["level"] in ("ok", "warning")}
        if check.needs and sound.isdisjoint((check.needs, " ".join((check.needs, *about)))):
            level, told = "skipped", f"it needs {check.needs}"
        else:
            try:
                level, told = "ok", run(*about)
            except Problem as problem:
                level, told, remedy = problem.level, str(problem), problem.remedy
            except (TopicPoliciesError, PolicyError) as error:
                told = f"{error.reason or 'error'}: {error.message}"
            except OSError as error:
                told = ": ".join(filter(None, (error.filename, error.strerror or str(error) or type(error).__name__)))
        remedy = (remedy or check.remedy.format(*about)) if level in ("failed", "warning") else ""
        self.findings.append({"check": " ".join((name, *about)), "level": level, "holds": holds, "told": told, "remedy": remedy})
        if not self._silent:
            rows = [(f"{level:<7}", printable(f"{holds}: {told}" if told else holds)), ("", f"remedy: {remedy}")]
            show_columns(rows if remedy else rows[:1])

    @property
    def counts(self) -> dict[str, int]:
        """How many findings are of each level."""
        counted = Counter(each["level"] for each in self.findings)
        return {level: counted[level] for level in ("failed", "warning", "skipped", "ok")}


def check_server(run: Doctor, chosen: Globals, client: Client, namespaces: Sequence[str], scratch: str) -> None:
    """Checks a running server as its client. ``scratch``: the namespace or topic of which a change is checked; empty: none is."""
    run.check("address", lambda: connected(places_of(chosen.server)))
    run.check("server.service", lambda: _service(client, chosen))
    run.check("server.readiness", lambda: _ready(chosen))
    for namespace in namespaces:
        run.check("server.namespace", lambda name: _documents(client, name), namespace)
    if scratch:
        of_namespace = "://" not in scratch and scratch.count("/") == 1
        topic = f"persistent://{scratch}/topicpolicies-doctor" if of_namespace else full_topic(scratch)
        run.check("scratch.change", lambda: _dry_run(client, topic), of=topic)


def connected(places: Sequence[Place]) -> str:
    """Returns the places, all of which accept connections; if one does not, that is a Problem."""
    for place in places:
        try:
            connect(place, _SECONDS)
        except OSError as error:
            raise Problem(f"{place}: {error.strerror or error}") from None
    return ", ".join(map(str, places))


def _service(client: Client, chosen: Globals) -> str:
    try:
        info = client.server_info(timeout=_SECONDS)
    except TopicPoliciesError as error:
        raise Problem(message_of(error, chosen), remedy=_CREDENTIALS if error.reason.startswith("CREDENTIALS_") else "") from None
    return f"version {info.version}"


def _ready(chosen: Globals) -> str:
    status = status_of(chosen, "readiness")
    if status != "SERVING":
        raise Problem(status)
    return status


def _documents(client: Client, namespace: str) -> str:
    first = next(client.list(namespace, page_size=1, timeout=_SECONDS), None)
    return "it has no document" if first is None else "it has documents"


def _dry_run(client: Client, topic: str) -> str:
    client.update(topic, max_producer_per_topic=1_000_000, validate_only=True, timeout=_SECONDS)
    return ""


def check_brokers(run: Doctor, config: PulsarLogConfig, get: Callable[..., Any], namespaces: Sequence[str]) -> None:
    """Checks the brokers of a server, and some namespaces there, by its own options and credentials, as its operator.

    No request creates a change log: of a namespace without one only metadata is requested.

    ``get``: returns the JSON of an answer of the admin API; None for "not found".
    """
    scheme, _, hosts = config.service_url.partition("://")
    first = urlsplit(f"//{hosts.split(',')[0]}")
    place = Place(first.hostname or "", first.port or (6651 if scheme == "pulsar+ssl" else 6650))
    run.check("broker.service", lambda: connected([place]))
    run.check("broker.admin", lambda: _version(get))
    run.check("token.accepted", lambda: ", ".join(get("clusters") or ()))
    run.check("broker.policies", lambda: _reads_change_logs(get))
    for namespace in namespaces:
        run.check("broker.namespace", lambda name: _exists(get, name), namespace)
        run.check("broker.rates", lambda name: _rates(get, name), namespace)


def _version(get: Callable[..., Any]) -> str:
    try:
        version = get("brokers", "version")
    except LogError as error:
        if error.state is LogState.ADMIN_REFUSED:
            return "it asks who calls"
        raise
    if not isinstance(version, str) or len(version) >= 100 or "<" in version:
        raise Problem("the answer is no version: it is another service")
    return version.strip()


def _reads_change_logs(get: Callable[..., Any]) -> str:
    from ..logs.pulsar.facts import unread_logs  # noqa: PLC0415 - what clients have no use for need not be installed

    try:
        found = get("brokers", "configuration", "runtime")
    except LogError as error:
        if error.state is not LogState.ADMIN_REFUSED:
            raise
        raise Problem("the brokers hide their configuration from this role, so it is not known", level="warning") from None
    if not isinstance(found, dict):
        raise Problem("the answer is not one of a broker")
    problem, _ = unread_logs(found)
    if str(found.get("topicLevelPoliciesEnabled", "true")).lower() != "true" or problem:
        raise Problem(problem or "topicLevelPoliciesEnabled is false")
    return ""


def _exists(get: Callable[..., Any], namespace: str) -> str:
    if not isinstance(get("namespaces", *namespace.split("/")), dict):
        raise Problem("it does not exist")
    return ""


def _rates(get: Callable[..., Any], namespace: str) -> str:
    from ..logs.pulsar.facts import dialect_of  # noqa: PLC0415
    from ..logs.pulsar.topics import throttling  # noqa: PLC0415

    policies = get("namespaces", *namespace.split("/"))
    if told := throttling(namespace, policies, dialect_of(str(get("brokers", "version")).strip())):
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
Pre = Annotated[bool, typer.Option("--pre", help="Check only the brokers, before the server is started.")]


@configured(ReadBy.SERVE, without=("tls_certificate", "tls_key"))
def doctor(chosen: Globals, in_force: OptionValues, *, scratch: Scratch = "", namespaces: Namespaces = None, pre: Pre = False) -> None:
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
    config = None
    if in_force.file is not None or pre or any(in_force.settings[name].given for name in _SOURCES):
        config = server_config(in_force, os.environ)
    if pre and config is not None and not isinstance(config.log, PulsarLogConfig):
        raise typer.BadParameter("It checks brokers: name them with --pulsar. What the embedded log lacks, serve says.", param_hint="--pre")
    if config is not None and "server" not in chosen.given:
        chosen = _of_config(chosen, config)
    named = list(dict.fromkeys([*map(full_namespace, namespaces or []), *([scratch] if scratch.count("/") == 1 else [])]))
    if wrong := next((each for each in named if each.count("/") != 1 or not all(each.split("/"))), None):
        raise typer.BadParameter(f'"{wrong}" is not a namespace: write tenant/namespace.', param_hint="--namespace")
    run = Doctor(silent=chosen.for_programs)
    if not pre:
        with calling(chosen, listening=False) as client:
            check_server(run, chosen, client, named, scratch)
    if config is not None and isinstance(config.log, PulsarLogConfig):
        from ..logs.pulsar.admin import admin_api  # noqa: PLC0415 - what clients have no use for need not be installed

        with Runner() as runner:
            admin = admin_api(config.log)
            try:
                check_brokers(run, config.log, lambda *path: runner.run(admin.get(*path, seconds=_BROKER_SECONDS)), named)
            finally:
                runner.run(admin.close())
    counts = run.counts
    if not chosen.shown({"well": not counts["failed"], "counts": counts, "checks": run.findings}):
        told = ", ".join(f"{counts[level]} {level}" for level in ("failed", "warning", "skipped"))
        typer.echo(f"\n{len(run.findings)} checks: {told}.")
    if counts["failed"]:
        raise typer.Exit(ExitCode.UNWELL)


def _of_config(chosen: Globals, config: ServerConfig) -> Globals:
    """Returns how the server of a configuration is reached from its own machine."""
    listen = config.listen
    target = str(listen._replace(host="127.0.0.1") if listen.unspecified else listen)
    return replace(chosen, server=target, use_tls=chosen.use_tls if config.tls is None else True)
