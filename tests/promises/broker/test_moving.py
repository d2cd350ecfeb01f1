"""export, plan and apply through the admin API: policies move between the system topic, the metadata store and a sidecar."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.broker.admin import Admin
from tests.broker.fixtures import MakeBroker
from tests.broker.pulsar_broker import Broker
from tests.promises.blocking import BlockingApi
from tests.promises.server_process import COMMAND, ServerProcess, environment, run
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .policy_case import ELSEWHERE, HERE, SHADOWS, SUBSCRIPTION, Example, Need, Scope, comparable, ensure
from .policy_cases import CASES
from .test_every_field import SHOWN_AS_FALSE

_METADATA_STORE = {"topicPoliciesServiceClassName": "org.apache.pulsar.broker.service.MetadataStoreTopicPoliciesService"}
_THOUSAND = 1_000
_TOGETHER = 6
"""How many policies a topic has in each scope."""
NAMESPACE, REPLICATED = f"public/moved-{uuid.uuid4().hex[:8]}", f"moved-{uuid.uuid4().hex[:8]}/replicated"
Documents = dict[tuple[str, Scope], TopicPolicies]


def create(admin: Admin) -> None:
    """Creates the namespaces and their topics, the first one partitioned, and their subscriptions."""
    ensure(admin, f"clusters/{ELSEWHERE}", {"serviceUrl": "http://127.0.0.1:9", "brokerServiceUrl": "pulsar://127.0.0.1:9"})
    ensure(admin, f"tenants/{REPLICATED.partition('/')[0]}", {"allowedClusters": [HERE, ELSEWHERE]})
    for namespace in (NAMESPACE, REPLICATED):
        admin.call("PUT", f"namespaces/{namespace}", {"replication_clusters": [HERE]})
    for topic in sorted({topic for topic, _ in DOCUMENTS} | {f"{NAMESPACE}/{shadow}" for shadow in SHADOWS}):
        admin.create_topic(topic, partitions=2 if topic == f"{NAMESPACE}/t0" else 0)
        admin.call("PUT", f"persistent/{topic}/subscription/{SUBSCRIPTION}")
    admin.call("POST", f"persistent/{REPLICATED}/t/maxProducers", 1)
    admin.call("DELETE", f"persistent/{REPLICATED}/t/maxProducers")
    admin.call("POST", f"namespaces/{REPLICATED}/replication", [HERE, ELSEWHERE])


def _examples() -> list[tuple[str, Scope, Any, Example]]:
    """Returns a topic, a scope, a case and its value for each policy in each scope in which the admin API can set it."""
    found = []
    for number, case in enumerate(case.in_namespace(NAMESPACE) for case in CASES if case.settable):
        topic = f"{REPLICATED}/t" if case.need is Need.TWO_CLUSTERS else f"{NAMESPACE}/t{number // _TOGETHER}"
        for scope in case.scopes:
            example = case.examples[0 if case.setting in SHOWN_AS_FALSE else scope - 1]
            found.append((topic, scope, case, example))
    return found


EXAMPLES = _examples()
DOCUMENTS: Documents = {}
for _topic, _scope, _, _example in EXAMPLES:
    DOCUMENTS.setdefault((_topic, _scope), TopicPolicies()).MergeFrom(_example.policies)


def declared(text: str) -> dict[tuple[str, str], Any]:
    """Returns what a file declares, by topic and scope, with sorted lists."""
    entries = YAML(typ="safe").load(text)["policies"]
    for each in entries:
        each["set"].update({name: sorted(value) for name, value in each["set"].items() if isinstance(value, list)})
    return {(each["topic"], each.get("scope", "local")): each["set"] for each in entries}


@pytest.mark.not_in_4_0_0("subscription_expiration_time_in_minutes, and no policies in the metadata store")
@pytest.mark.timeout(180)
def test_policies_move_between_brokers_and_sidecars(broker: Broker, admin: Admin, make_broker: MakeBroker, tmp_path: Path) -> None:
    create(admin)
    for topic, scope, case, example in EXAMPLES:
        case.setting_call(example, scope).on(admin, topic)
    other = make_broker(settings=_METADATA_STORE)
    other.start()
    with other.admin() as its_admin:
        create(its_admin)
    file, cluster = tmp_path / "policies.yaml", tmp_path / "cluster.toml"
    cluster.write_text(f'cluster = "{HERE}"\n')
    sidecar = ServerProcess(["--data", str(tmp_path / "policies.db"), "--cluster-file", str(cluster)], tmp_path / "log")
    asyncio.run(sidecar.start())
    system_topic, metadata_store = ("--admin-url", broker.admin_url), ("--admin-url", other.admin_url)
    try:
        # from the system topic to a sidecar
        assert run("export", NAMESPACE, REPLICATED, "-f", str(file), *system_topic).returncode == 0
        everything = declared(file.read_text())
        assert len(everything) == len(DOCUMENTS)
        refused = run("apply", "-f", str(file), "--server", sidecar.address)
        assert refused.returncode == 2 and "stands for a secret" in refused.stderr
        file.write_text(file.read_text().replace("'********'", "moved"))
        assert run("apply", "-f", str(file), "--server", sidecar.address).returncode == 0
        with BlockingApi(sidecar.address) as api:
            for (topic, scope), expected in DOCUMENTS.items():
                found = api.get(f"persistent://{topic}", scope).policies or TopicPolicies()
                assert without_secrets(found) == without_secrets(expected), (topic, scope)
        # from the sidecar to the metadata store
        moved = run("export", NAMESPACE, REPLICATED, "--server", sidecar.address).stdout
        assert declared(moved) == everything
        file.write_text(moved.replace("'********'", "moved"))
        dry = run("apply", "-f", str(file), "--dry-run", *metadata_store)
        assert dry.returncode == 0 and f"{len(DOCUMENTS)} documents are not as declared" in dry.stderr
        done = run("apply", "-f", str(file), *metadata_store)
        assert done.returncode == 0, done.stderr
        assert run("plan", "-f", str(file), *metadata_store).returncode == 0
        # and back to the system topic, from which everything was deleted
        nothing = tmp_path / "nothing.yaml"
        nothing.write_text(f"version: 1\nnamespaces: [{NAMESPACE}, {REPLICATED}]\npolicies: []\n")
        assert run("apply", "-f", str(nothing), "--prune", *system_topic).returncode == 0
        done = run("apply", "-f", str(file), *system_topic)
        assert done.returncode == 0 and len(done.stdout.splitlines()) > len(DOCUMENTS), done.stderr
        assert declared(run("export", NAMESPACE, REPLICATED, *system_topic).stdout) == everything
    finally:
        sidecar.kill()
        admin.call("POST", f"namespaces/{REPLICATED}/replication", [HERE])


@pytest.mark.evidence
@pytest.mark.not_in_4_0_0("policies in the metadata store")
@pytest.mark.timeout(3_000)
def test_a_thousand_topics_move_both_ways_and_are_equal(broker: Broker, admin: Admin, make_broker: MakeBroker, tmp_path: Path) -> None:
    namespace = f"public/thousand-{uuid.uuid4().hex[:8]}"
    simple = (case for case in CASES if case.settable and case.need is Need.NOTHING and case.setting not in SHOWN_AS_FALSE)
    cases = [case.in_namespace(namespace) for case in simple]
    other = make_broker(settings=_METADATA_STORE)
    other.start()
    with other.admin() as its_admin:
        for each in (admin, its_admin):
            each.call("PUT", f"namespaces/{namespace}", {"replication_clusters": [HERE]})
            for number in range(_THOUSAND):
                each.create_topic(f"{namespace}/t{number}")
                each.call("PUT", f"persistent/{namespace}/t{number}/subscription/{SUBSCRIPTION}")
    for number in range(_THOUSAND):
        case = cases[number % len(cases)]
        case.setting_call(case.examples[0], case.scopes[number // len(cases) % len(case.scopes)]).on(admin, f"{namespace}/t{number}")
    sidecar = ServerProcess(["--data", str(tmp_path / "policies.db")], tmp_path / "log")
    asyncio.run(sidecar.start())
    at: dict[str, tuple[str, str]] = {
        "system topic": ("--admin-url", broker.admin_url),
        "sidecar": ("--server", sidecar.address),
        "metadata store": ("--admin-url", other.admin_url),
    }
    file, nothing = tmp_path / "policies.yaml", tmp_path / "nothing.yaml"
    nothing.write_text(f"version: 1\nnamespaces: [{namespace}]\npolicies: []\n")

    def long(*arguments: str) -> str:
        ended = subprocess.run([*COMMAND, *arguments], env=environment(), capture_output=True, text=True, timeout=600, check=False)
        assert ended.returncode == 0, (arguments, ended.stderr[-2_000:])
        return ended.stdout

    try:
        file.write_text(long("export", namespace, *at["system topic"]))
        everything = declared(file.read_text())
        assert len(everything) == _THOUSAND
        for there in ("sidecar", "metadata store", "sidecar", "system topic"):
            file.write_text(file.read_text().replace("'********'", "moved"))
            long("apply", "-f", str(nothing), "--prune", "--yes", *at[there])
            long("apply", "-f", str(file), "--yes", *at[there])
            file.write_text(long("export", namespace, *at[there]))
            assert declared(file.read_text()) == everything, there
        assert "moved" not in file.read_text(), "secrets are hidden"
    finally:
        sidecar.kill()


def without_secrets(policies: TopicPolicies) -> TopicPolicies:
    found = comparable(policies)
    for name in ("s3_managed_ledger_offload_credential_id", "s3_managed_ledger_offload_credential_secret"):
        if found.offload_policies.HasField(name):
            setattr(found.offload_policies, name, "")
    return found


def test_what_brokers_refuse_is_reported_by_topic(admin: Admin, broker: Broker, tmp_path: Path) -> None:
    namespace = admin.create_namespace()
    for name in ("a", "b"):
        admin.create_topic(f"{namespace}/{name}")
    file = tmp_path / "policies.yaml"

    def applied(*entries: str) -> tuple[int, str]:
        file.write_text("\n".join(["version: 1", "policies:", *(f"- {each}" for each in entries)]))
        ended = run("apply", "-f", str(file), "--admin-url", broker.admin_url)
        return ended.returncode, ended.stderr

    code, told = applied(
        f"{{topic: {namespace}/a, set: {{entry_filters: {{entry_filter_names: missing}}, max_producer_per_topic: 1}}}}",
        f"{{topic: {namespace}/b, set: {{max_producer_per_topic: 2}}}}",
    )
    assert code == 8 and f"failed    persistent://{namespace}/a  LOCAL" in told and "entry_filters: Pulsar refuses it" in told
    assert admin.call("GET", f"persistent/{namespace}/a/maxProducers") == 1
    assert admin.call("GET", f"persistent/{namespace}/b/maxProducers") == 2
    code, told = applied(
        f"{{topic: {namespace}/none, set: {{max_producer_per_topic: 1}}}}",
        f"{{topic: {namespace}/a, set: {{delayed_delivery_enabled: true}}}}",
        f"{{topic: {namespace}/a, scope: global, set: {{schema_validation_enforced: true}}}}",
        f"{{topic: {namespace}/b, set: {{max_producer_per_topic: -1}}}}",
    )
    assert code == 2 and told.count("refused") == 4
    assert "does not exist" in told and "together" in told and "LOCAL scope only" in told and "Nothing was changed" in told
    code, told = applied(f"{{topic: {namespace}/b, set: {{schema_validation_enforced: true, max_producer_per_topic: null}}}}")
    assert code == 0 and admin.call("GET", f"persistent/{namespace}/b/schemaValidationEnforced") is True
    assert admin.call("GET", f"persistent/{namespace}/b/maxProducers") is None
    code, told = applied(f"{{topic: {namespace}/b, set: {{schema_validation_enforced: false}}}}")
    assert code == 0 and "1 document changed" in told and admin.call("GET", f"persistent/{namespace}/b/schemaValidationEnforced") is False
    code, told = applied(f"{{topic: {namespace}/b, set: {{schema_validation_enforced: false}}}}")
    assert code == 0 and "taken to be as declared: 1" in told and "Everything is as declared" in told
