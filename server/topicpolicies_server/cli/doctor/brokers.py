"""Checks as the operator of a server on Pulsar, who has its options: the brokers' addresses, its token, and what brokers do with logs.

No request creates a change log: of a namespace without one only metadata is requested.
"""

from __future__ import annotations

import json
from asyncio import Runner
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from topicpolicies.addresses import Place

from ...config import PulsarLogConfig
from ...core.reasons import LogState
from ...logs.avro import Codec, Dialect, UnsupportedSchema
from ...logs.change_log import LogError
from ...logs.pulsar.admin import Admin
from ...logs.pulsar.facts import dialect_of, unread_logs
from ...logs.pulsar.topics import throttling
from .checks import Check, Finding, Level, failed, ok
from .sidecar import connected

_SECONDS = 3.0
_CHANGE_EVENTS = "__change_events"


class Brokers:
    """Checks the brokers of a server by its own options and credentials."""

    def __init__(self, config: PulsarLogConfig, admin: Admin, runner: Runner) -> None:
        """``admin``: a client of the admin API; ``runner``: the event loop on which it is used."""
        self._config = config
        self._admin = admin
        self._runner = runner

    def checks(self, namespaces: Sequence[str]) -> list[Check]:
        """Returns the checks."""
        scheme, _, hosts = self._config.service_url.partition("://")
        first = urlsplit(f"//{hosts.split(',')[0]}")
        place = Place(first.hostname or "", first.port or (6651 if scheme == "pulsar+ssl" else 6650))
        found = [
            Check(
                "broker.service",
                "the brokers accept connections",
                "Correct --pulsar, and check whether the broker runs and advertises an address that can be reached from here.",
                lambda: connected([place]),
            ),
            Check(
                "broker.admin",
                "their admin API answers",
                "Correct --admin-url: it is HTTP, port 8080 or 8443 by default, not the port of --pulsar; or --pulsar-tls-trust-certs.",
                self._answers,
            ),
            Check(
                "token.accepted",
                "the brokers accept the server's token",
                "Give the server a token that the brokers' key has signed and that has not expired, by --pulsar-token-file or an issuer.",
                self._token_accepted,
                needs="broker.admin",
            ),
            Check(
                "broker.policies",
                "topic policies are on at the brokers, and read from change logs",
                "In broker.conf set topicLevelPoliciesEnabled=true, systemTopicEnabled=true and the default class; restart the brokers.",
                self._reads_change_logs,
                needs="token.accepted",
            ),
        ]
        for namespace in namespaces:
            found += self._of_namespace(namespace)
        return found

    def _of_namespace(self, namespace: str) -> list[Check]:
        there = f"broker.namespace {namespace}"
        return [
            Check(
                there,
                f"{namespace} exists, and the server's role may see it",
                f"Make the role an admin: pulsar-admin tenants update {namespace.partition('/')[0]} --admin-roles ROLE.",
                lambda: self._exists(namespace),
                needs="token.accepted",
            ),
            Check(
                f"broker.rates {namespace}",
                f"no rate of {namespace} slows its change log down",
                f"pulsar-admin namespaces remove-subscription-dispatch-rate {namespace}; limit single topics by policies of their own.",
                lambda: self._rates(namespace),
                needs=there,
            ),
            Check(
                f"broker.schema {namespace}",
                f"the schema of {namespace}'s change log is one of policy events",
                f"See who registered it (pulsar-admin schemas get persistent://{namespace}/{_CHANGE_EVENTS}), and delete that schema.",
                lambda: self._schema(namespace),
                needs=there,
            ),
        ]

    def _get(self, *path: str) -> Any:
        """Returns the JSON of an answer; None for "not found".

        Raises:
            LogError: there is no usable answer (``ADMIN_UNREACHABLE``, ``ADMIN_REFUSED``).
        """
        return self._runner.run(self._admin.get(*path, seconds=_SECONDS))

    def _object(self, *path: str) -> Mapping[str, Any]:
        found = self._get(*path)
        if not isinstance(found, dict):
            raise LogError(LogState.ADMIN_UNREACHABLE, "The answer is not one of a broker.")
        return found

    def _answers(self) -> Finding:
        try:
            version = self._get("brokers", "version")
        except LogError as error:
            if error.state is LogState.ADMIN_REFUSED:
                return ok("it asks who calls")
            raise
        is_version = isinstance(version, str) and len(version) < 100 and "<" not in version
        return ok(version.strip()) if is_version else failed("the answer is no version: it is another service")

    def _token_accepted(self) -> Finding:
        self._get("clusters")
        config = self._config
        return ok("" if config.token_file is not None or config.oauth2 is not None else "without a token")

    def _reads_change_logs(self) -> Finding:
        try:
            settings = self._object("brokers", "configuration", "runtime")
        except LogError as error:
            if error.state is not LogState.ADMIN_REFUSED:
                raise
            told = "the brokers hide their configuration from this role, so it is not known whether they read change logs"
            return Finding(Level.WARNING, told, "Give the server a superuser's role, or do without the brokers' limits and defaults.")
        if str(settings.get("topicLevelPoliciesEnabled", "true")).lower() != "true":
            return failed("topicLevelPoliciesEnabled is false")
        problem, _ = unread_logs(settings)
        return failed(problem) if problem else ok()

    def _exists(self, namespace: str) -> Finding:
        if self._get("namespaces", *namespace.split("/")) is None:
            return failed("it does not exist", f"Create it (pulsar-admin namespaces create {namespace}), or correct its name.")
        return ok()

    def _rates(self, namespace: str) -> Finding:
        policies, version = self._object("namespaces", *namespace.split("/")), self._get("brokers", "version")
        told = throttling(namespace, policies, dialect_of(str(version).strip()))
        return Finding(Level.WARNING, told) if told else ok()

    def _schema(self, namespace: str) -> Finding:
        if self._get("persistent", *namespace.split("/"), _CHANGE_EVENTS, "partitions") is None:
            return ok("there is no change log yet")
        if (schema := self._get("schemas", *namespace.split("/"), _CHANGE_EVENTS, "schema")) is None:
            return ok("nothing was written yet")
        if not isinstance(schema, dict) or schema.get("type") != "AVRO":
            return failed("it is not one in Avro")
        data = schema.get("data")
        try:
            Codec(data if isinstance(data, str) else json.dumps(data), local_cluster="", dialect=Dialect.UNKNOWN)
        except UnsupportedSchema as error:
            return failed(f"{error}"[:200])
        return ok()
