"""Checks, and how they are run and shown: one after the other, whatever the others found. Also the checks as a client of a server."""

from __future__ import annotations

import socket
import textwrap
from collections.abc import Callable, Sequence
from typing import TypeVar

import typer
from grpc import StatusCode

from topicpolicies import Client, TopicPoliciesError
from topicpolicies.addresses import Place, places_of
from topicpolicies.v1.service_pb2 import LogKind, WriterMode
from topicpolicies.values import enum_name

from ..core.errors import PolicyError
from ..core.names import full_topic
from ..escaping import printable
from .exits import message_of
from .server import status_of
from .settings import Settings

_T = TypeVar("_T")
LEVELS = ("failed", "warning", "skipped", "ok")
"""What a finding means. A warning: it works, but not well. Skipped: another check, which this one needs, did not succeed."""
_WIDTH = 79
_SECONDS = 6.0
_REMEDIES = {
    "TOPIC_NOT_FOUND": "Name a topic that exists: --scratch TOPIC; or create it (pulsar-admin topics create).",
    "NAMESPACE_NOT_FOUND": "Create it (pulsar-admin namespaces create), or correct its name.",
    "TOPIC_POLICIES_DISABLED": "Set topicLevelPoliciesEnabled=true and systemTopicEnabled=true at the brokers.",
    "CLUSTER_UNAVAILABLE": "If the admin API refuses the server, make it an admin: pulsar-admin tenants update TENANT --admin-roles ROLE.",
    "PERMISSION_DENIED": "Authenticate yourself (--token-file, --tls-certificate), and have your role allowed: see the server's "
    "--authorization.",
    "READ_ONLY": "The server's options let it write nothing (--read-only): name another server.",
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

    def __init__(self, *, silent: bool) -> None:
        """``silent``: whether the findings are not printed as they come."""
        self.findings: list[dict[str, str]] = []
        """The findings as JSON."""
        self._silent = silent

    def check(self, name: str, holds: str, remedy: str, run: Callable[[], str], needs: str = "") -> None:
        """Runs a check.

        Args:
            name: its name for programs.
            holds: what holds if all is well, in a few words.
            remedy: what to do otherwise.
            run: returns what was found, in bounded time. If it raises a Problem, an OSError, a TopicPoliciesError or a PolicyError, the
                check has failed.
            needs: the name of an earlier check without which this one could only repeat the failure; empty: none.
        """
        level = "failed"
        if needs and not any(each["check"] == needs and each["level"] in ("ok", "warning") for each in self.findings):
            level, told, remedy = "skipped", f"it needs {needs}", ""
        else:
            try:
                level, told, remedy = "ok", run(), ""
            except Problem as problem:
                level, told, remedy = problem.level, str(problem), problem.remedy or remedy
            except (TopicPoliciesError, PolicyError) as error:
                told = error.message
            except OSError as error:
                told = ": ".join(filter(None, (error.filename, error.strerror or str(error) or type(error).__name__)))
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
    """Checks a running server as its client.

    Args:
        run: runs the checks.
        chosen: how the server is reached.
        client: a client of it.
        namespaces: the namespaces to check.
        scratch: the namespace or topic of which a change is checked; empty: none is.
    """
    run.check(
        "address",
        "connections are accepted",
        "Name the server with --server HOST:PORT; check whether DNS knows the host, whether the server runs and listens there, and"
        " whether a firewall is in between.",
        lambda: connected(places_of(chosen.server)),
    )
    run.check(
        "server.service",
        "the service answers",
        "Name the port that serve says it listens on, 6680 by default; and say --tls, --tls-ca, --token-file if it asks for them.",
        lambda: _service(client, chosen.server),
        needs="address",
    )
    run.check(
        "server.readiness",
        "the server is ready: its change log can be reached",
        "The server's log says why. With the server's options (--config FILE, --pulsar ...) this command checks the brokers too.",
        lambda: _ready(chosen),
        needs="server.service",
    )
    for namespace in namespaces:
        run.check(
            f"server.namespace {namespace}",
            f"{namespace} can be read",
            "Check the server's log for why it can't read the namespace, and whether the broker serves it.",
            lambda namespace=namespace: _namespace(client, namespace),  # type: ignore[misc]
            needs="server.service",
        )
    if scratch:
        topic = _scratch_topic(scratch) if "://" not in scratch and scratch.count("/") == 1 else full_topic(scratch)
        run.check(
            "scratch.change",
            f"a change of {topic} would be made (a dry run)",
            "Check the reason, and the server's log.",
            lambda: _refusable(lambda: _dry_run(client, topic)),
            needs="server.service",
        )


def connected(places: Sequence[Place]) -> str:
    """Returns the places, all of which accept connections.

    Raises:
        Problem: one does not.
    """
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


def _service(client: Client, server: str) -> str:
    try:
        info = client.server_info(timeout=_SECONDS)
    except TopicPoliciesError as error:
        if error.code is StatusCode.UNIMPLEMENTED:
            raise Problem(f"it is another gRPC service ({error.message})") from None
        if error.code is StatusCode.UNAUTHENTICATED:
            raise Problem(message_of(error, server), "Give it a token that the server accepts: --token-file FILE.") from None
        raise Problem("there is no answer" if error.code is StatusCode.DEADLINE_EXCEEDED else message_of(error, server)) from None
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


def _scratch_topic(namespace: str) -> str:
    return f"persistent://{namespace}/topicpolicies-doctor"
