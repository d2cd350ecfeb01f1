"""The policies that a running broker enforces on its topics, read by an agent (``java/``) in the broker's process."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.broker.jars import BrokerUnavailableError, jars, java
from tests.broker.pulsar_broker import Broker
from tests.promises.broker.policy_case import filled
from topicpolicies.v1.policies_pb2 import TopicPolicies

_SOURCES = Path(__file__).parent / "java"
_SECONDS = 60
_OTHER_NAMES = {"maxProducersPerTopic": "maxProducerPerTopic", "topicMaxMessageSize": "maxMessageSize"}
"""Fields of ``HierarchyTopicPolicies`` that have other names in ``TopicPolicies``."""
_ASIDE = frozenset({"ofSubscription", "ofOtherSubscription", "keptByLedger", "allowAutoSubscriptionCreation", "backLogQuotaMap"})


class Agent:
    """The agent, compiled for one version of the broker."""

    def __init__(self, version: str, home: Path) -> None:
        """Compiles the agent.

        Args:
            version: the version of the broker.
            home: an empty directory for the compiled classes.

        Raises:
            BrokerUnavailableError: there is no Java compiler.
        """
        compiler = shutil.which("javac", path=str(java().parent)) or shutil.which("javac")
        if compiler is None:
            raise BrokerUnavailableError("A JDK is needed, with javac beside java.")
        self._home = home
        sources = [str(source) for source in sorted(_SOURCES.glob("*.java"))]
        arguments = [compiler, "-nowarn", "-proc:none", "-cp", f"{jars(version)}/*", "-d", str(home), *sources]
        subprocess.run(arguments, check=True, timeout=_SECONDS)
        self._jar = home / "agent.jar"
        with zipfile.ZipFile(self._jar, "w") as archive:
            archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nAgent-Class: EnforcedPolicies\n")
            for made in home.glob("EnforcedPolicies*.class"):
                archive.write(made, made.name)

    def ask(self, broker: Broker, topics: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Returns the policies that the broker enforces on loaded topics, as the agent's JSON, by the topics' full names."""
        with tempfile.TemporaryDirectory(dir=self._home) as directory:
            answer_file = Path(directory) / "answer.json"
            arguments = ",".join([str(answer_file), *topics])
            command = [
                str(java()),
                "--add-modules=jdk.attach",
                "-cp",
                str(self._home),
                "Attach",
                str(broker.pid),
                str(self._jar),
                arguments,
            ]
            subprocess.run(command, check=True, timeout=_SECONDS)
            found: dict[str, Any] = json.loads(answer_file.read_text())
        assert "problem" not in found, found["problem"]
        return found


def document(answer: Mapping[str, Any]) -> TopicPolicies:
    """Returns the agent's answer about one topic as a document, without offload policies and the rates of single subscriptions."""
    policies = TopicPolicies()
    members = {_OTHER_NAMES.get(name, name): value for name, value in answer.items() if name not in _ASIDE}
    filled(policies, members)
    for kind, quota in answer["backLogQuotaMap"].items():
        filled(policies.back_log_quota_map[kind], quota)
    policies.auto_subscription_creation_override.allow_auto_subscription_creation = answer["allowAutoSubscriptionCreation"]
    return policies
