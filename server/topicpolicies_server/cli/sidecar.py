"""Checks as a client of a server: its address, its service, whether it is ready, and what the caller may do in namespaces."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

from grpc import StatusCode

from topicpolicies import Client, TopicPoliciesError
from topicpolicies.addresses import Place, places_of
from topicpolicies.v1.service_pb2 import LogKind, WriterMode
from topicpolicies.values import enum_name

from .checks import Check, Finding, failed, ok
from .exits import message_of
from .server import status_of
from .settings import Settings

_SECONDS = 6.0
_DENIED = "PERMISSION_DENIED"
_CLOSED = {
    _DENIED: "your role lacks the permission",
    "READ_ONLY": "the server is read-only",
    "HISTORY_OFF": "the server keeps no history",
}
_REMEDIES = {
    "TOPIC_NOT_FOUND": "Name a topic that exists: --scratch TOPIC; or create it (pulsar-admin topics create).",
    "NAMESPACE_NOT_FOUND": "Create it (pulsar-admin namespaces create), or correct its name.",
    "TOPIC_POLICIES_DISABLED": "Set topicLevelPoliciesEnabled=true and systemTopicEnabled=true at the brokers.",
    "CLUSTER_UNAVAILABLE": "If the admin API refuses the server, make it an admin: pulsar-admin tenants update TENANT --admin-roles ROLE.",
    _DENIED: "Authenticate yourself (--token-file, --tls-certificate), and have your role allowed: see the server's --authorization.",
    "READ_ONLY": "The server's options let it write nothing (--read-only): name another server.",
}


def sidecar(chosen: Settings, client: Client, namespaces: Sequence[str], scratch: str) -> list[Check]:
    """Returns the checks of a running server.

    Args:
        chosen: how it is reached.
        client: a client of it.
        namespaces: the namespaces to check.
        scratch: the namespace or topic of which a change is checked; empty: none is.
    """
    places = places_of(chosen.server)

    def service() -> Finding:
        try:
            info = client.server_info(timeout=_SECONDS)
        except TopicPoliciesError as error:
            if error.code is StatusCode.UNIMPLEMENTED:
                return failed(f"it is another gRPC service ({error.message})")
            return failed("there is no answer" if error.code is StatusCode.DEADLINE_EXCEEDED else message_of(error, chosen.server))
        log, writers = enum_name(LogKind.DESCRIPTOR, info.log), enum_name(WriterMode.DESCRIPTOR, info.writer_mode)
        return ok(f"version {info.version}, log {log.lower()}, writers {writers.lower()}")

    def ready() -> Finding:
        status = status_of(chosen, "readiness")
        return ok(status) if status == "SERVING" else failed(status)

    found = [
        Check(
            "address.name",
            "the host name can be resolved",
            "Name the server with --server HOST:PORT or TOPICPOLICIES_SERVER, and check whether DNS knows the host.",
            lambda: resolved(places),
        ),
        Check(
            "address.connect",
            "connections are accepted",
            "Check whether the server runs, whether it listens there (serve --listen), and whether a firewall is in between.",
            lambda: connected(places),
            needs="address.name",
        ),
        Check(
            "server.service",
            "the service answers",
            "Name the port that serve says it listens on, 6680 by default; and say --tls, --tls-ca, --token-file if it asks for them.",
            service,
            needs="address.connect",
        ),
        Check(
            "server.readiness",
            "the server is ready: its change log can be reached",
            "The server's log says why. With the server's options (--config FILE, --pulsar ...) this command checks the brokers too.",
            ready,
            needs="server.service",
        ),
    ]
    found += [_namespace(client, namespace) for namespace in namespaces]
    return [*found, _scratch(client, scratch)] if scratch else found


def resolved(places: Sequence[Place]) -> Finding:
    """Returns the addresses of the places' hosts, or which host has none."""
    told = []
    for place in places:
        if place.path:
            told.append(place.path)
            continue
        try:
            addresses = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            return failed(f"{place.host}: {error}")
        told.append(f"{place.host} is {', '.join(dict.fromkeys(str(each[4][0]) for each in addresses))}")
    return ok("; ".join(told))


def connected(places: Sequence[Place]) -> Finding:
    """Returns whether all places accept connections, or which does not."""
    for place in places:
        try:
            if place.path:
                with socket.socket(socket.AF_UNIX) as opened:
                    opened.settimeout(_SECONDS)
                    opened.connect(place.path)
            else:
                socket.create_connection((place.host, place.port), _SECONDS).close()
        except OSError as error:
            return failed(f"{place}: {error.strerror or error}")
    return ok(", ".join(map(str, places)))


def _namespace(client: Client, namespace: str) -> Check:
    def run() -> Finding:
        try:
            found = [
                "it has no document" if next(client.list(namespace, page_size=1, timeout=_SECONDS), None) is None else "it has documents"
            ]
        except TopicPoliciesError as error:
            return _refused(error)
        ways: dict[str, Callable[[], object]] = {
            "change it": lambda: _dry_run(client, f"persistent://{namespace}/topicpolicies-doctor"),
            "list its history": lambda: next(client.history_pages(namespace=namespace, page_size=1, timeout=_SECONDS), None),
        }
        for what, ask in ways.items():
            try:
                ask()
            except TopicPoliciesError as error:  # any reason but these comes after the permission
                found += [f"you may not {what}: {_CLOSED[error.reason]}"] if error.reason in _CLOSED else []
        return ok("; ".join(found))

    remedy = "Check the server's log for why it can't read the namespace, and whether the broker serves it."
    return Check(f"server.namespace {namespace}", f"{namespace} can be read", remedy, run, needs="server.service")


def _scratch(client: Client, place: str) -> Check:
    topic = place if "://" in place or place.count("/") > 1 else f"persistent://{place}/topicpolicies-doctor"

    def run() -> Finding:
        try:
            _dry_run(client, topic)
        except TopicPoliciesError as error:
            return _refused(error)
        return ok()

    remedy = "Check the reason, and the server's log."
    return Check("scratch.change", f"a change of {topic} would be made (a dry run)", remedy, run, needs="server.service")


def _dry_run(client: Client, topic: str) -> Any:
    return client.update(topic, max_producer_per_topic=1_000_000, validate_only=True, timeout=_SECONDS)


def _refused(error: TopicPoliciesError) -> Finding:
    return failed(f"{error.reason or error.code.name}: {error.message}", _REMEDIES.get(error.reason, ""))
