"""Checks as the operator of a server on Pulsar, who has its options: the brokers' addresses, its token, and what brokers do with logs.

No request creates a change log: of a namespace without one only metadata is requested.
"""

from __future__ import annotations

from asyncio import Runner
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from topicpolicies.addresses import Place

from ..config import PulsarLogConfig
from ..core.reasons import LogState
from ..logs.change_log import LogError
from ..logs.pulsar.admin import admin_api
from ..logs.pulsar.facts import dialect_of, unread_logs
from ..logs.pulsar.topics import throttling
from .doctor import Doctor, Problem, connected

_SECONDS = 3.0


class Brokers:
    """Checks the brokers of a server by its own options and credentials."""

    def __init__(self, config: PulsarLogConfig, runner: Runner) -> None:
        """``runner``: the event loop on which the admin API is called."""
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
            run.check("broker.namespace", lambda namespace=namespace: self._exists(namespace), namespace)  # type: ignore[misc]
            run.check("broker.rates", lambda namespace=namespace: self._rates(namespace), namespace)  # type: ignore[misc]

    def _get(self, *path: str) -> Any:
        """Returns the JSON of an answer; None for "not found"."""
        return self._runner.run(self._admin.get(*path, seconds=_SECONDS))

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
        policies, version = self._object("namespaces", *namespace.split("/")), self._get("brokers", "version")
        if told := throttling(namespace, policies, dialect_of(str(version).strip())):
            raise Problem(told, level="warning")
        return ""
