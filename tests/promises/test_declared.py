"""Declared policies that stay: ``serve --declared`` reports drift, and ``--enforce`` puts it back."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.access.signing import SECRET, token
from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.cli.programs import Ended
from tests.ports import free_port
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import GLOBAL, Api, Refused, Update
from .conftest import Serving
from .server_process import run

NAMESPACE = "public/default"
ORDERS, OTHERS = f"persistent://{NAMESPACE}/orders", f"persistent://{NAMESPACE}/others"
_SECONDS = 40


async def until(holds: Callable[[], object], what: str) -> None:
    over = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < over, what
        await asyncio.sleep(0.2)


async def becomes(api: Api, topic: str, **wanted: int) -> None:
    """Returns when a topic has these policies and no others."""
    over = time.monotonic() + _SECONDS
    while (found := (await api.get(topic)).policies) != TopicPolicies(**wanted):  # type: ignore[arg-type]
        assert time.monotonic() < over, found
        await asyncio.sleep(0.2)


def metric(address: str, line: str) -> float:
    """Returns the value of one line of the metrics; -1: there is none."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        found = [each.rsplit(" ", 1)[1] for each in answer.read().decode().splitlines() if each.startswith(line)]
    return float(found[0]) if found else -1


def declare(path: Path, owner: str, *entries: str) -> str:
    path.write_text("\n".join(["version: 1", f"owner: {owner}", "policies:", *(f"  - {each}" for each in entries)]) + "\n")
    return str(path)


async def test_drift_is_told_with_who_changed_what_and_counted_until_it_is_over(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "declared.yaml"
    declared = declare(path, "payments", f"{{pattern: {NAMESPACE}/*, set: {{max_producer_per_topic: 5}}}}")
    metrics = f"127.0.0.1:{free_port()}"
    server = await serving("--declared", declared, "--metrics-listen", metrics)
    drifted = f'topicpolicies_drifted_documents{{namespace="{NAMESPACE}"}}'
    async with Api(server.address) as api:
        await api.update(ORDERS, {"max_producer_per_topic": 5, "message_ttl_in_seconds": 60})
        await until(lambda: metric(metrics, drifted) == 0, "nothing has drifted")
        await api.update(ORDERS, {"max_producer_per_topic": 6}, actor="ann")
        await until(lambda: metric(metrics, drifted) == 1, "the drift is counted")
        (line,) = [each for each in server.printed.splitlines() if "is not as payments declares" in each]
        assert f"{ORDERS} (LOCAL) is not as payments declares: max_producer_per_topic is 6, not 5" in line
        assert "ann" in line
        kept = (await api.get(ORDERS)).policies
        assert kept is not None
        assert kept.max_producer_per_topic == 6, "nothing is put back unless that is asked for"
        declare(path, "payments", f"{{pattern: {NAMESPACE}/*, set: {{max_producer_per_topic: 6}}}}")
        await until(lambda: metric(metrics, drifted) == 0, "the file was read again")
        path.write_text("version: 2\n")
        await until(lambda: "stays in force" in server.printed, "a file that is wrong is told of")
        assert ".; the former content stays in force" not in server.printed
        await api.update(ORDERS, {"max_producer_per_topic": 7})
        await until(lambda: metric(metrics, drifted) == 1, "what was declared before stays in force")
        assert metric(metrics, "topicpolicies_files_unusable") == 1
        declare(path, "payments", f"{{pattern: {NAMESPACE}/*, set: {{max_producer_per_topic: 7}}}}")
        await until(lambda: metric(metrics, "topicpolicies_files_unusable") == 0, "the file can be used again")


async def test_drift_is_put_back_but_never_what_another_owner_has_declared(serving: Serving, tmp_path: Path) -> None:
    declared = declare(
        tmp_path / "declared.yaml",
        "payments",
        f"{{pattern: {NAMESPACE}/o*, set: {{max_producer_per_topic: 5, compaction_threshold: 10}}}}",
        f"{{topic: {OTHERS}, set: {{max_consumer_per_topic: 3}}}}",
    )
    server = await serving("--declared", declared, "--enforce")
    async with Api(server.address) as api:
        others = {"max_producer_per_topic": 5, "compaction_threshold": 10, "max_consumer_per_topic": 3}
        await becomes(api, OTHERS, **others)  # it had no document, and both declarations are of it
        await api.update(ORDERS, {"max_producer_per_topic": 6, "message_ttl_in_seconds": 60}, actor="ann")
        await becomes(api, ORDERS, max_producer_per_topic=5, compaction_threshold=10, message_ttl_in_seconds=60)
        *_, last = await api.history(topic=ORDERS)
        assert (last.actor, last.owner) == ("declared", "payments")
        assert server.printed.count(f"{ORDERS} (LOCAL) was put back as payments declares") == 1
        await api.delete(OTHERS)
        await becomes(api, OTHERS, **others)
        mine = declare(tmp_path / "platform.yaml", "platform", f"{{topic: {ORDERS}, set: {{max_producer_per_topic: 9}}}}")
        refused = run("apply", mine, "--server", server.address)
        assert refused.returncode == 3
        assert "payments" in refused.stderr
        assert run("apply", mine, "--force", "--server", server.address).returncode == 0
        await api.update(ORDERS, {"compaction_threshold": 11})
        await becomes(api, ORDERS, max_producer_per_topic=9, compaction_threshold=10, message_ttl_in_seconds=60)
        assert "max_producer_per_topic is left as it is, because platform declared it" in server.printed


async def test_a_pattern_of_global_policies_reaches_a_topic_that_has_only_a_local_document(serving: Serving, tmp_path: Path) -> None:
    entry = f"{{pattern: {NAMESPACE}/o*, scope: global, set: {{max_producer_per_topic: 5}}}}"
    server = await serving("--declared", declare(tmp_path / "declared.yaml", "payments", entry), "--enforce")
    async with Api(server.address) as api:
        await api.update(ORDERS, {"message_ttl_in_seconds": 60})
        over = time.monotonic() + _SECONDS
        while (await api.get(ORDERS, GLOBAL)).policies != TopicPolicies(max_producer_per_topic=5):
            assert time.monotonic() < over, "as apply would, and as plan says"
            await asyncio.sleep(0.2)


def with_roles(folder: Path) -> list[str]:
    """Returns the options of a server on which two roles may change policies, one of them beyond constraints."""
    roles, key = folder / "roles.toml", folder / "secret.key"
    rights = {"team": ["read", "change", "history"], "operator": ["read", "change", "override"]}
    grants = [f'[[grants]]\nroles = ["{role}"]\nnamespaces = ["*"]\npermissions = {json.dumps(each)}\n' for role, each in rights.items()]
    roles.write_text("".join(grants))
    key.write_bytes(SECRET)
    return ["--authentication-providers", "token", "--token-secret-key", str(key), "--authorization", str(roles)]


def caller(address: str, role: str) -> Api:
    return Api(address, metadata=[("authorization", f"Bearer {token(sub=role)}")])


@pytest.mark.broker
async def test_owners_constraints_and_reverts_hold_beside_a_broker(serving: Serving, tmp_path: Path, broker: Broker, admin: Admin) -> None:
    namespace = await asyncio.to_thread(admin.create_namespace, "declared")
    await asyncio.to_thread(admin.create_topic, f"{namespace}/orders")
    orders, week, key = f"persistent://{namespace}/orders", 7 * 86_400, tmp_path / "team.token"
    key.write_text(token(sub="team"))

    def admin_api(method: str, policy: str, value: object = None) -> object:
        return admin.call(method, f"persistent/{namespace}/orders/{policy}", value)

    async def shown(policy: str, value: object) -> None:
        over = time.monotonic() + _SECONDS
        while (found := await asyncio.to_thread(admin_api, "GET", policy)) != value:
            assert time.monotonic() < over, (policy, found)
            await asyncio.sleep(0.2)

    def command(*arguments: str) -> Ended:
        return run(*arguments, "--server", server.address, "--token-file", str(key))

    declared = declare(tmp_path / "declared.yaml", "payments", f"{{topic: {orders}, set: {{max_producer_per_topic: 5}}}}")
    constraint = f"constraints: [{{pattern: {namespace}/*, fields: {{message_ttl_in_seconds: {{max: 7d}}}}}}]\n"
    (tmp_path / "declared.yaml").write_text((tmp_path / "declared.yaml").read_text() + constraint)
    log = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--history", str(tmp_path / "history.db")]
    server = await serving(*log, *with_roles(tmp_path), "--declared", declared, "--enforce")
    async with caller(server.address, "team") as team, caller(server.address, "operator") as operator:
        await shown("maxProducers", 5)
        await asyncio.to_thread(admin_api, "POST", "maxProducers", 6)
        await shown("maxProducers", 5)
        mine = declare(tmp_path / "platform.yaml", "platform", f"{{topic: {orders}, set: {{max_producer_per_topic: 9}}}}")
        refused = await asyncio.to_thread(command, "apply", mine)
        assert refused.returncode == 3 and "payments" in refused.stderr
        assert (await asyncio.to_thread(command, "apply", mine, "--force")).returncode == 0
        await shown("maxProducers", 9)
        before = (await team.get(orders)).version
        with pytest.raises(Refused) as beyond:
            await team.update(orders, {"message_ttl_in_seconds": week + 1})
        assert [each.reason for each in beyond.value.violations] == ["CONSTRAINT"]
        await operator.update(orders, {"message_ttl_in_seconds": week + 1})
        await shown("messageTTL", week + 1)
        reverted = await asyncio.to_thread(command, "revert", orders, "--to", before, "--yes")
        assert reverted.returncode == 0, reverted.stderr
        await shown("messageTTL", None)
        left = "max_producer_per_topic is left as it is, because platform declared it"
        await until(lambda: left in server.printed, "the server has compared the topic since")
        await shown("maxProducers", 9)


@pytest.mark.broker
async def test_a_pattern_reaches_topics_that_are_created_beside_a_broker(
    serving: Serving, tmp_path: Path, broker: Broker, admin: Admin
) -> None:
    namespace = admin.create_namespace("declared")
    declared = declare(tmp_path / "declared.yaml", "payments", f"{{pattern: {namespace}/o*, set: {{max_producer_per_topic: 5}}}}")
    server = await serving("--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--declared", declared, "--enforce")
    admin.create_topic(f"{namespace}/orders")
    admin.create_topic(f"{namespace}/payments")
    async with Api(server.address) as api:
        await becomes(api, f"persistent://{namespace}/orders", max_producer_per_topic=5)
        assert not (await api.get(f"persistent://{namespace}/payments")).policies


async def test_what_constraints_forbid_is_refused_unless_the_role_may_override_them(serving: Serving, tmp_path: Path) -> None:
    declared = tmp_path / "declared.yaml"
    declared.write_text(f"""
version: 1
constraints:
  - pattern: {NAMESPACE}/*
    fields:
      message_ttl_in_seconds: {{min: 1h, max: 7d}}
      replication_clusters: {{allowed: [standalone]}}
      schema_compatibility_strategy: {{allowed: [full, backward]}}
""")
    (tmp_path / "cluster.toml").write_text('cluster = "standalone"\n')
    server = await serving(*with_roles(tmp_path), "--declared", str(declared), "--cluster-file", str(tmp_path / "cluster.toml"))
    async with caller(server.address, "team") as team, caller(server.address, "operator") as operator:
        week = 7 * 86_400
        await team.update(ORDERS, {"message_ttl_in_seconds": week, "replication_clusters": ["standalone"]})
        wrong = {
            "message_ttl_in_seconds": week + 1,
            "replication_clusters": ["standalone", "other"],
            "max_producer_per_topic": -1,
            "schema_compatibility_strategy": 1,
        }
        with pytest.raises(Refused) as refused:
            await team.update(ORDERS, wrong)
        assert refused.value.code == "INVALID_ARGUMENT"
        found = {each.field: each.reason for each in refused.value.violations}
        constrained = {field.removeprefix("policies.") for field, reason in found.items() if reason == "CONSTRAINT"}
        assert constrained == {"message_ttl_in_seconds", "replication_clusters", "schema_compatibility_strategy"}
        assert "policies.max_producer_per_topic" in found, "all violations are reported at once"
        for value in (0, 3_599, -1):
            with pytest.raises(Refused):
                await team.update(ORDERS, {"message_ttl_in_seconds": value})
        (told,) = await team.batch([Update(ORDERS, TopicPolicies(message_ttl_in_seconds=week + 1))])
        assert isinstance(told, Refused)
        await team.update(ORDERS, {"max_producer_per_topic": 1})  # what is there already is no violation
        await operator.update(ORDERS, {"message_ttl_in_seconds": week + 1})
        await team.update(ORDERS, {"max_producer_per_topic": 2})
        await team.update(ORDERS, mask=["message_ttl_in_seconds"])  # a constraint is about a value, not about its absence
        kept = (await team.get(ORDERS)).policies
    assert kept == TopicPolicies(max_producer_per_topic=2, replication_clusters=["standalone"])


def test_a_server_does_not_start_with_a_wrong_file(tmp_path: Path) -> None:
    (tmp_path / "declared.yaml").write_text("version: 1\npolicies: [{topic: public/default/orders, set: {max_producers: 5}}]\n")
    refused = run("serve", "--data", str(tmp_path / "policies.db"), "--declared", str(tmp_path / "declared.yaml"))
    assert refused.returncode == 2
    assert "declared.yaml:2" in refused.stderr and "max_producers" in refused.stderr
    assert not (tmp_path / "policies.db").exists()
    own = f"constraints: [{{pattern: {NAMESPACE}/*, fields: {{max_producer_per_topic: {{max: 4}}}}}}]\n"
    declared = declare(tmp_path / "own.yaml", "payments", f"{{topic: {ORDERS}, set: {{max_producer_per_topic: 5}}}}")
    (tmp_path / "own.yaml").write_text((tmp_path / "own.yaml").read_text() + own)
    broken = run("serve", "--data", str(tmp_path / "policies.db"), "--declared", declared)
    assert broken.returncode == 2 and "own.yaml:4" in broken.stderr and "allows at most 4" in broken.stderr
    missing = run("serve", "--data", str(tmp_path / "policies.db"), "--declared", str(tmp_path / "missing.yaml"))
    assert missing.returncode == 2
    assert "missing.yaml" in missing.stderr
