"""A broker with the plug-in, and the sidecar that serves it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.broker.admin import Admin
from tests.broker.configuration import Ports
from tests.broker.credentials import TokenKey
from tests.broker.pulsar_broker import OwnBroker
from tests.java_build import plugin_jar
from tests.plain_http import NO_TLS
from tests.promises.blocking import BlockingApi
from tests.promises.server_process import ServerProcess

SERVICE = "topicpolicies.broker.SidecarTopicPoliciesService"
"""The class of the plug-in in the broker's configuration."""

KEEP_TOPICS = {"brokerDeleteInactiveTopicsEnabled": "false"}
"""Keeps topics without clients, which a broker would delete after a minute together with their policies."""

KEY = TokenKey()
"""Signs the token of the role ``brokers``, which the plug-in sends."""

SHOW_SECRETS = "--show-secrets"
"""The sidecar's option without which a broker can't have secrets, where the sidecar does not authenticate its callers."""


class Pair:
    """A broker and its sidecar, which uses the embedded log or the broker's own ``__change_events``."""

    def __init__(
        self,
        directory: Path,
        *,
        log_in_pulsar: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Does not start the processes yet.

        Args:
            directory: the directory for the sidecar's log and output.
            log_in_pulsar: whether the sidecar's log is in the broker, which then runs with ``systemTopicEnabled=false``.
            settings: further lines of ``standalone.conf``.
        """
        self._log_in_pulsar = log_in_pulsar
        ports = Ports()
        (directory / "cluster.toml").write_text('cluster = "standalone"\n')  # without it LOCAL replication clusters are refused
        log = ["--data", str(directory / "policies.db"), "--cluster-file", str(directory / "cluster.toml")]
        bare = {}
        if log_in_pulsar:
            log = ["--pulsar", f"pulsar://127.0.0.1:{ports.service}", "--admin-url", f"http://127.0.0.1:{ports.web}"]
            bare = {"systemTopicEnabled": "false"}
        self.sidecar = ServerProcess([*log, SHOW_SECRETS], directory / "sidecar.log")
        own = {
            "topicPoliciesServiceClassName": SERVICE,
            "topicPoliciesSidecarAddress": self.sidecar.address,
            "topicPoliciesSidecarLoadTimeoutSeconds": "5",
            "topicPoliciesSidecarRequestTimeoutSeconds": "8",
            **KEEP_TOPICS,
        }
        self.broker = OwnBroker(settings={**own, **bare, **(settings or {})}, ports=ports, plugins=[plugin_jar()])
        self.api = BlockingApi(self.sidecar.address)
        self.api.__enter__()

    @property
    def admin(self) -> Admin:
        """The broker's admin API; close it after use."""
        return self.broker.admin()

    def start(self) -> None:
        """Starts both processes, first the one in which the log is."""
        for start in (self.broker.start, self.start_sidecar) if self._log_in_pulsar else (self.start_sidecar, self.broker.start):
            start()

    def start_sidecar(self) -> None:
        """Starts the sidecar, and waits until it serves."""
        asyncio.run(self.sidecar.start())

    def metric(self, name: str) -> float:
        """Returns a metric of the plug-in from the broker's metrics page, by its name without prefix."""
        page = httpx.get(f"{self.broker.admin_url}/metrics/", trust_env=False, verify=NO_TLS).raise_for_status().text
        found = re.search(rf"^topicpolicies_sidecar_{name}(?:{{[^}}]*}})? (\S+)", page, re.MULTILINE)
        assert found is not None, f"there is no figure {name}"
        return float(found[1])

    def close(self) -> None:
        """Ends both processes."""
        self.api.__exit__(None, None, None)
        self.broker.close()
        self.sidecar.kill()
