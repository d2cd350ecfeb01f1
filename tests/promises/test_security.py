"""Who calls and what callers may do, as docs/security.md and SECURITY.md define it; secrets; and the limits of a server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.access.signing import SECRET, jwk, rsa_key, signed, token, unsigned
from tests.client.certificates import Authority, Identity
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import LOCAL, METHODS, SERVICE, Api, Refused, Update, refusal
from .conftest import Serving
from .documents import REDACTED, only, whole
from .server_process import ServerProcess, run
from .watching import Watching, kinds
from .watching import whole as watched

NAMESPACE = "acme/orders"
TOPIC = f"persistent://{NAMESPACE}/one"
GRANTS = {
    "reader": ["read"],
    "watcher": ["watch"],
    "changer": ["change"],
    "historian": ["history"],
    "follower": ["watch", "history"],
    "keeper": ["change", "watch", "secrets"],
    "owner": ["read", "watch", "change", "history"],
    "gateway": ["read", "watch", "change"],
}
INCLUDED = {"change": "read", "watch": "read"}
ALL = {"read", "watch", "change", "history", "secrets"}
MAY = {role: {*grants, *(INCLUDED[each] for each in grants if each in INCLUDED)} for role, grants in GRANTS.items()}
MAY |= {"admin": ALL, "stranger": set(), "unheard-of": set()}


def roles(**changed: list[str]) -> str:
    """Returns a file of roles: the grants above, some of them changed."""
    text = 'superusers = ["admin"]\n[[grants]]\nroles = ["stranger"]\nnamespaces = ["other/*"]\npermissions = ["change", "history"]\n'
    for role, permissions in (GRANTS | changed).items():
        text += f'[[grants]]\nroles = ["{role}"]\nnamespaces = ["acme/*"]\npermissions = {json.dumps(permissions)}\n' if permissions else ""
    return text


def of(role: str, original: str = "", **claims: Any) -> tuple[tuple[str, str], ...]:
    """Returns the metadata of a role's calls, made for another one if it is a proxy."""
    shown = (("authorization", f"Bearer {token(sub=role, **claims)}"),)
    return (*shown, ("topicpolicies-original-principal", original)) if original else shown


class Guarded:
    """A server that knows who calls and what they may do, and its files."""

    def __init__(self, home: Path) -> None:
        self.roles, self.key = home / "roles.toml", home / "secret.key"
        self.roles.write_text(roles())
        self.key.write_bytes(SECRET)
        self.options = ["--authentication-providers", "token", "--token-secret-key", str(self.key), "--authorization", str(self.roles)]
        self.options += ["--proxy-roles", "gateway", "--cluster-file", str(home / "cluster.toml")]
        (home / "cluster.toml").write_text('cluster = "us"\n[broker]\n[namespaces."acme/orders"]\n')


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for all tests that change none of its files; it records every call, and logs all it can."""
    home = tmp_path_factory.mktemp("guarded")
    options = [*Guarded(home).options, "--data", str(home / "policies.db"), "--access-log", "all", "--log-level", "debug"]
    server = ServerProcess(options, home / "server.log")
    asyncio.run(server.start())
    yield server
    server.kill()


@pytest.fixture
async def admin(guarded: ServerProcess) -> AsyncIterator[Api]:
    async with Api(guarded.address, metadata=of("admin")) as api:
        yield api


async def refused_or_none(call: Any) -> Refused | None:
    """Returns why the caller may not make a call; None: it may, though the call may fail otherwise."""
    try:
        await call
    except Refused as error:
        return error if error.code in ("PERMISSION_DENIED", "UNAUTHENTICATED") else None
    return None


# Every method, by every caller


def test_every_method_of_the_service_is_in_the_matrix() -> None:
    assert {name.partition(",")[0] for name in METHODS} == SERVICE


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("through", ["", "gateway"], ids=["directly", "by-a-proxy"])
async def test_a_method_is_permitted_to_those_with_its_permission(guarded: ServerProcess, name: str, through: str) -> None:
    needs, call = METHODS[name]
    for role, may in MAY.items():
        if role == "gateway":
            continue  # a proxy always calls for another one
        permitted = may & MAY[through] if through else may
        async with Api(guarded.address, metadata=of(through or role, role if through else "")) as api:
            found = await refused_or_none(call(api, TOPIC))
        assert (found is None) == (set(needs.split()) <= permitted), (role, found)
        if found is not None:
            assert (found.code, found.reason) == ("PERMISSION_DENIED", "PERMISSION_DENIED"), role
            assert found.metadata["permission"] in set(needs.split()) - permitted, role
            assert found.metadata["namespace"] == NAMESPACE, role


def credentials() -> dict[str, tuple[tuple[tuple[str, str], ...], str]]:
    """Returns what is no valid credential, though it names a superuser, and the reason."""
    now = time.time()
    claims: dict[str, Any] = {"sub": "admin"}

    def bearer(shown: str) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {shown}"),)

    return {
        "none": ((), "CREDENTIALS_MISSING"),
        "forged": (bearer(token(bytes(48), **claims)), "CREDENTIALS_INVALID"),
        "unsigned": (bearer(unsigned({"alg": "none"}, claims)), "CREDENTIALS_INVALID"),
        "another algorithm": (bearer(signed({"alg": "RS256"}, claims)), "CREDENTIALS_INVALID"),
        "expired": (of("admin", exp=now - 1), "CREDENTIALS_EXPIRED"),
        "of tomorrow": (of("admin", nbf=now + 86_400), "CREDENTIALS_INVALID"),
        "two": ((*of("admin"), *of("admin")), "CREDENTIALS_INVALID"),
        "of no role": (of(""), "CREDENTIALS_INVALID"),
        "a proxy without an original": (of("gateway"), "PROXY_REFUSED"),
        "a proxy for a proxy": (of("gateway", "gateway"), "PROXY_REFUSED"),
        "no proxy": (of("admin", "reader"), "PROXY_REFUSED"),
    }


@pytest.mark.parametrize("name", METHODS)
async def test_a_method_is_refused_to_callers_without_valid_credentials(guarded: ServerProcess, name: str) -> None:
    for shown, (metadata, reason) in credentials().items():
        async with Api(guarded.address, metadata=metadata) as api:
            found = await refused_or_none(METHODS[name][1](api, TOPIC))
        assert found is not None and found.reason == reason, shown
        assert found.code == ("PERMISSION_DENIED" if reason == "PROXY_REFUSED" else "UNAUTHENTICATED")


async def test_health_is_open_to_all_but_invalid_credentials(guarded: ServerProcess) -> None:
    async def check(metadata: Any) -> str:
        async with guarded.channel() as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(), metadata=metadata, timeout=10)
            return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))

    async def reflect(metadata: Any) -> list[Any]:
        async with guarded.channel() as channel:
            stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            return [each async for each in stub.ServerReflectionInfo(iter([request]), metadata=metadata, timeout=10)]

    assert await check(()) == await check(of("reader")) == "SERVING"
    for metadata, _ in [each for shown, each in credentials().items() if shown != "none"]:
        with pytest.raises(grpc.aio.AioRpcError):
            await check(metadata)
    with pytest.raises(grpc.aio.AioRpcError):
        await reflect(())
    assert await reflect(of("unheard-of"))


async def test_a_refusal_does_not_say_whether_a_thing_exists(guarded: ServerProcess, admin: Api) -> None:
    await admin.update(TOPIC, {"max_producer_per_topic": 1})
    async with Api(guarded.address, metadata=of("stranger")) as api:
        for call in (api.get, api.delete, lambda topic: api.update(topic, {"max_producer_per_topic": 2}), api.effective):
            names = (TOPIC, f"{TOPIC}-absent", "persistent://acme/nowhere/x")
            found = [await refusal(call(topic)) for topic in names]
            assert len({(each.code, each.reason, each.message.replace("acme/nowhere", NAMESPACE)) for each in found}) == 1


async def test_what_is_refused_changes_nothing_and_leaves_no_entry(guarded: ServerProcess, admin: Api) -> None:
    before = await admin.update(f"{TOPIC}-kept", {"max_producer_per_topic": 1})
    for caller in ((), of("reader"), of("stranger"), of("gateway", "reader")):
        async with Api(guarded.address, metadata=caller) as api:
            for name in ("UpdatePolicy", "BatchUpdatePolicies"):
                assert await refused_or_none(METHODS[name][1](api, f"{TOPIC}-kept")) is not None
            assert (await refusal(api.delete(f"{TOPIC}-kept"))).code in ("UNAUTHENTICATED", "PERMISSION_DENIED")
    assert await admin.get(f"{TOPIC}-kept") == before.document
    assert len(await admin.history(f"{TOPIC}-kept")) == 1


async def test_each_change_of_a_batch_is_permitted_by_itself(guarded: ServerProcess, admin: Api) -> None:
    elsewhere = "persistent://other/space/x"
    value = TopicPolicies(max_producer_per_topic=4)
    async with Api(guarded.address, metadata=of("changer")) as api:
        results = await api.batch([Update(TOPIC, value), Update(elsewhere, value), Update(TOPIC, value)])
    assert [isinstance(each, Refused) and each.code for each in results] == [False, "PERMISSION_DENIED", False]
    assert (await admin.get(elsewhere)).policies is None


async def test_a_watch_needs_the_permission_in_each_of_its_namespaces(guarded: ServerProcess) -> None:
    async with Api(guarded.address, metadata=of("watcher")) as api:
        found = await refusal(watched(api, [NAMESPACE, "other/space"]))
        assert (found.code, found.metadata["namespace"]) == ("PERMISSION_DENIED", "other/space")
        assert kinds(await watched(api, [NAMESPACE, "acme/more"])).count("synced") == 2


# Who changed something


@pytest.mark.parametrize(
    ("caller", "claimed", "expected"),
    [
        (of("owner"), "", ("owner", "AUTHENTICATED", "owner", "")),
        (of("owner"), "ceo", ("owner", "AUTHENTICATED", "owner", "ceo")),
        (of("gateway", "owner"), "", ("owner", "AUTHENTICATED", "gateway", "")),
        (of("gateway", "owner"), "robert", ("owner", "AUTHENTICATED", "gateway", "robert")),
    ],
)
async def test_the_record_has_the_verified_name_apart_from_the_claimed_one(
    guarded: ServerProcess, admin: Api, namespace: str, caller: Any, claimed: str, expected: tuple[str, ...]
) -> None:
    topic = f"persistent://acme/{namespace.partition('/')[2]}/one"
    async with Api(guarded.address, metadata=caller) as api:
        await api.update(topic, {"max_producer_per_topic": 1}, actor=claimed)
    (entry,) = await admin.history(topic)
    assert (entry.actor, entry.actor_standing, entry.principal, entry.claimed_actor) == expected
    (event,) = [event for event in await watched(admin, topics=[topic], scopes=[LOCAL]) if event.kind == "change"]
    assert event.actor == expected[0]


# Secrets


def offload(secret: str) -> TopicPolicies:
    made = only(whole(1), "offload_policies", "max_producer_per_topic")
    made.offload_policies.s3_managed_ledger_offload_credential_secret = secret
    made.offload_policies.managed_ledger_extra_configurations["storage.token"] = secret
    return made


@pytest.mark.parametrize(("role", "seen"), [("admin", True), ("keeper", True), ("owner", False), ("changer", False), ("reader", False)])
async def test_secrets_are_in_answers_only_for_those_who_may_see_them(
    guarded: ServerProcess, admin: Api, namespace: str, role: str, seen: bool
) -> None:
    name = f"acme/{namespace.partition('/')[2]}"
    topic, secret = f"persistent://{name}/one", "hush-hush"
    async with Api(guarded.address, metadata=of(role)) as api:
        await admin.update(topic, offload(secret))
        found: dict[str, Any] = {"get": await api.get(topic), "list": await api.documents(name)}
        if "change" in MAY[role]:
            found["update"] = await api.update(topic, {"max_consumer_per_topic": 1}, with_previous=True)
            found["dry run"] = await api.update(topic, {"max_consumer_per_topic": 2}, dry_run=True)
            found["batch"] = await api.batch([Update(topic, TopicPolicies(max_consumer_per_topic=3), with_previous=True)])
        if "watch" in MAY[role]:
            async with Watching(api, [name], with_previous=True) as watch:
                found["snapshot"] = [event.raw for event in await watch.synced()]
                await admin.update(topic, offload(f"{secret}-2"))
                found["change"] = (await watch.change()).raw
        if "history" in MAY[role]:
            found["history"] = await api.history(topic)
            found["as of"] = [await api.as_of(topic, entry.document.version) for entry in await api.history(topic)]
        if "change" in MAY[role]:
            found["deletion"] = await api.delete(topic, with_previous=True)
    for kind, answer in found.items():
        text = str(answer)
        assert "aws-s3" in text, kind
        shown = seen and kind not in ("history", "as of")  # the history never has them
        assert (secret in text, REDACTED in text) == (shown, not shown), kind
    assert secret not in guarded.printed, "no line of the log, and no record of a call"


async def test_effective_policies_and_errors_have_no_secrets(guarded: ServerProcess, admin: Api) -> None:
    topic = f"{TOPIC}-secret"
    await admin.update(topic, offload("hush-hush"))
    async with Api(guarded.address, metadata=of("owner")) as api:
        effective = await api.effective(topic)
        assert REDACTED in str(effective) and "hush-hush" not in str(effective)
        wrong = offload("hush-hush-2")
        wrong.offload_policies.managed_ledger_offload_driver = "tape"
        wrong.max_producer_per_topic = -1
        found = await refusal(api.update(topic, wrong))
        assert "hush" not in f"{found} {found.violations} {found.metadata}"
    assert "hush-hush" not in guarded.printed


async def test_writing_back_a_redacted_secret_keeps_it_whoever_writes(guarded: ServerProcess, admin: Api) -> None:
    topic = f"{TOPIC}-back"
    await admin.update(topic, offload("hush-hush"))
    async with Api(guarded.address, metadata=of("owner")) as api:
        read = await api.get(topic)
        assert (await api.update(topic, read.policies, mask=["*"])).outcome == "UNCHANGED"
        assert read.policies is not None
        read.policies.max_producer_per_topic = 99
        await api.update(topic, read.policies, mask=["*"])
    expected = offload("hush-hush")
    expected.max_producer_per_topic = 99
    assert (await admin.get(topic)).policies == expected


async def test_no_error_and_no_line_of_the_log_has_a_part_of_a_token(guarded: ServerProcess) -> None:
    for shown in (token(bytes(48), sub="admin"), token(sub="reader")):
        async with Api(guarded.address, metadata=(("authorization", f"Bearer {shown}"),)) as api:
            found = await refusal(api.update(TOPIC, {"max_producer_per_topic": 3}))
        for part in shown.split(".")[1:]:
            assert part not in str(found) and part not in str(found.metadata) and part not in guarded.printed


# What changes while the server runs


async def test_a_permission_that_is_taken_away_ends_calls_and_watches(serving: Serving, tmp_path: Path) -> None:
    files = Guarded(tmp_path)
    server = await serving(*files.options)
    more = "acme-2/more"
    both = roles() + f'[[grants]]\nroles = ["watcher"]\nnamespaces = ["{more}"]\npermissions = ["watch"]\n'
    files.roles.write_text(both)
    server.hang_up()
    async with Api(server.address, metadata=of("watcher")) as api, Api(server.address, metadata=of("admin")) as admin:
        async with asyncio.timeout(20):
            while await refused_or_none(watched(api, [more])) is not None:  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.05)
        states: list[tuple[str, str, str]] = []
        seen: list[str] = []

        async def watch() -> None:
            async for event in api.watch([NAMESPACE, more]):
                if event.kind == "status":
                    states.append((event.namespace, event.state, event.reason))
                elif event.document is not None:
                    seen.append(event.document.version)

        watching = asyncio.create_task(watch())
        await admin.update(TOPIC, {"max_producer_per_topic": 1})
        async with asyncio.timeout(20):
            while not seen:  # noqa: ASYNC110 (another task)
                await asyncio.sleep(0.05)
        files.roles.write_text(both.replace(f'namespaces = ["{more}"]', 'namespaces = ["acme-2/none"]'))
        async with asyncio.timeout(20):
            while (more, "FAILED", "PERMISSION_DENIED") not in states:  # noqa: ASYNC110 (another task)
                await asyncio.sleep(0.05)
        await admin.update(f"persistent://{more}/one", {"max_producer_per_topic": 1})
        goes_on = (await admin.update(TOPIC, {"max_producer_per_topic": 2})).version
        async with asyncio.timeout(20):
            while goes_on not in seen:  # noqa: ASYNC110 (another task)
                await asyncio.sleep(0.05)
        assert len(seen) == 2, "nothing of the other namespace"
        files.roles.write_text(roles(watcher=[]))
        with pytest.raises(Refused) as ended:
            async with asyncio.timeout(20):
                await watching
        assert ended.value.code == "PERMISSION_DENIED"
        assert await refused_or_none(METHODS["GetPolicy"][1](api, TOPIC)) is not None


async def test_a_wrong_file_of_roles_stops_no_running_server_and_starts_none(serving: Serving, tmp_path: Path) -> None:
    files = Guarded(tmp_path)
    server = await serving(*files.options)
    wrong = roles() + '[[grants]]\nroles = ["x"]\nnamespaces = ["no namespace"]\npermissions = ["fly"]\n'
    files.roles.write_text(wrong)
    server.hang_up()
    async with asyncio.timeout(20):
        while "fly" not in server.printed:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.05)
    async with Api(server.address, metadata=of("owner")) as api:
        await api.update(TOPIC, {"max_producer_per_topic": 1})  # the former content is in force
    refused = run("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "2.db"), *files.options)
    assert refused.returncode != 0
    at = len(GRANTS) + 1
    assert f"grants[{at}].namespaces[0]" in refused.stderr and f"grants[{at}].permissions[0]" in refused.stderr, "all errors at once"


async def test_a_key_that_is_replaced_is_in_force_within_seconds(serving: Serving, tmp_path: Path) -> None:
    files = Guarded(tmp_path)
    server = await serving(*files.options)
    other = bytes(range(32, 64))
    new = (("authorization", f"Bearer {token(other, sub='reader')}"),)
    async with Api(server.address, metadata=of("reader")) as old, Api(server.address, metadata=new) as api:
        await old.get(TOPIC)
        assert (await refusal(api.get(TOPIC))).reason == "CREDENTIALS_INVALID"
        (tmp_path / "new").write_bytes(other)
        (tmp_path / "new").rename(files.key)
        async with asyncio.timeout(20):
            while await refused_or_none(api.get(TOPIC)) is not None:  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.05)
        assert (await refusal(old.get(TOPIC))).reason == "CREDENTIALS_INVALID", "this is also how tokens are revoked"
        files.key.write_bytes(b"short")
        server.hang_up()
        async with asyncio.timeout(20):
            while "5 bytes" not in server.printed:  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.05)
        await api.get(TOPIC)  # the last key that can be used stays in force


async def test_a_watch_ends_when_its_token_has_expired(guarded: ServerProcess) -> None:
    begun = time.time()
    async with Api(guarded.address, metadata=of("watcher", exp=begun + 2)) as api:
        with pytest.raises(Refused) as ended:
            async for _ in api.watch([NAMESPACE], timeout=30):
                pass
    assert (ended.value.code, ended.value.reason) == ("UNAUTHENTICATED", "CREDENTIALS_EXPIRED")
    assert 1 < time.time() - begun < 10


# How callers connect


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--listen", "0.0.0.0:0"], "--insecure-listen"),
        (["--authentication-providers", "token", "--token-secret-key", "KEY"], "--allow-authenticated"),
        (["--authentication-providers", "token", "--token-secret-key", "SHORT", "--allow-authenticated"], "SHORT"),
        (["--authorization", "ROLES"], "authentication"),
        (["--authorization", "ROLES", "--authentication-providers", "token", "--token-secret-key", "KEY", "--show-secrets"], "secrets"),
        (["--tls-certificate", "KEY"], "tls"),
    ],
)
def test_a_server_does_not_start_with_what_leaves_it_open_by_mistake(tmp_path: Path, options: list[str], says: str) -> None:
    Guarded(tmp_path)
    (tmp_path / "short.key").write_bytes(b"short")
    files = {"KEY": tmp_path / "secret.key", "ROLES": tmp_path / "roles.toml", "SHORT": tmp_path / "short.key"}
    given = [str(files.get(each, each)) for each in options]
    refused = run("serve", "--data", str(tmp_path / "policies.db"), *(() if "--listen" in given else ("--listen", "127.0.0.1:0")), *given)
    assert refused.returncode in (2, 9), refused.stderr
    assert str(files.get(says, says)) in refused.stderr and "Traceback" not in refused.stderr


async def test_the_default_is_loopback_where_every_caller_may_do_everything(embedded: Any, api: Api, topic: str) -> None:
    for name, (_, call) in METHODS.items():
        assert await refused_or_none(call(api, topic)) is None, name
    assert "listen" not in " ".join(line for line in embedded.server.printed.splitlines() if "insecure:" in line)


def shown(identity: Identity | None, authority: Authority) -> grpc.ChannelCredentials:
    """Returns the credentials of a client that trusts an authority, and shows a certificate."""
    pair = (None, None) if identity is None else (identity.key.read_bytes(), identity.certificate.read_bytes())
    return grpc.ssl_channel_credentials(authority.certificate.read_bytes(), *pair)


async def test_with_tls_only_clients_that_speak_it_connect(serving: Serving, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    own = authority.identity("server", "127.0.0.1")
    trusting = shown(None, authority)
    server = await serving("--tls-certificate", str(own.certificate), "--tls-key", str(own.key), credentials=trusting)
    async with Api(server.address, trusting) as api:
        assert (await api.info())["log"] == "EMBEDDED"
    (tmp_path / "others").mkdir()
    for other in (None, shown(None, Authority(tmp_path / "others", "others"))):
        async with Api(server.address, other) as api:
            assert (await refusal(api.get(TOPIC))).code == "UNAVAILABLE"


async def test_with_mutual_tls_the_certificate_is_the_caller(serving: Serving, tmp_path: Path) -> None:
    files, authority = Guarded(tmp_path), Authority(tmp_path, "authority")
    own = authority.identity("server", "127.0.0.1")
    options = ["--tls-certificate", str(own.certificate), "--tls-key", str(own.key), "--tls-client-ca", str(authority.certificate)]
    options += [*files.options, "--authentication-providers", "certificate"]
    server = await serving(*options, credentials=shown(own, authority))
    by_name = {role: shown(authority.identity(role), authority) for role in MAY}
    for name, (needs, call) in METHODS.items():
        for role, may in MAY.items():
            if role == "gateway":
                continue
            async with Api(server.address, by_name[role]) as api:
                found = await refused_or_none(call(api, TOPIC))
            assert (found is None) == (set(needs.split()) <= may), (name, role, found)
    async with Api(server.address, by_name["admin"], of("reader")) as api:
        assert (await refusal(api.update(TOPIC, {"max_producer_per_topic": 1}))).code == "PERMISSION_DENIED", "the token takes precedence"
    async with Api(server.address, by_name["admin"], (("authorization", "Bearer forged"),)) as api:
        assert (await refusal(api.get(TOPIC))).reason == "CREDENTIALS_INVALID"
    async with Api(server.address, by_name["gateway"], (("topicpolicies-original-principal", "reader"),)) as api:
        await api.get(TOPIC)
        assert (await refusal(api.update(TOPIC, {"max_producer_per_topic": 1}))).code == "PERMISSION_DENIED"
    (tmp_path / "others").mkdir()
    other = Authority(tmp_path / "others", "authority").identity("admin")
    for identity in (None, other):
        async with Api(server.address, shown(identity, authority), of("admin")) as api:
            assert (await refusal(api.get(TOPIC))).code == "UNAVAILABLE", "no connection, whatever the token"


async def test_tokens_of_an_openid_connect_issuer_are_accepted(serving: Serving, tmp_path: Path) -> None:
    issuer, key = "https://issuer.example", rsa_key()
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [jwk(key, "one")]}))
    Guarded(tmp_path)
    options = ["--authentication-providers", "oidc", "--oidc-issuers", issuer, "--oidc-audiences", "sidecar"]
    options += ["--oidc-jwks-file", str(tmp_path / "jwks.json"), "--authorization", str(tmp_path / "roles.toml")]
    server = await serving(*options)
    right: dict[str, Any] = {"sub": "reader", "iss": issuer, "aud": "sidecar", "exp": time.time() + 600}
    wrong: list[dict[str, Any]] = [{"aud": "another"}, {"iss": "https://other.example"}, {"exp": time.time() - 1}]
    for claims, accepted in [(right, True), *(({**right, **each}, False) for each in wrong)]:
        shown_ = token(key, "RS256", {"kid": "one"}, **claims)
        async with Api(server.address, metadata=(("authorization", f"Bearer {shown_}"),)) as api:
            found = await refused_or_none(api.get(TOPIC))
            assert (found is None) == accepted, claims
            if accepted:
                assert (await refusal(api.update(TOPIC, {"max_producer_per_topic": 1}))).code == "PERMISSION_DENIED"


# Limits


async def test_messages_watches_and_selectors_have_limits_that_are_named(serving: Serving) -> None:
    server = await serving("--max-watches", "2", "--max-selectors-per-watch", "3", "--max-message-bytes", "65536")
    async with Api(server.address) as api:
        async with Watching(api, [NAMESPACE]) as first, Watching(api, [NAMESPACE]) as second:
            await first.synced()
            await second.synced()
            found = await refusal(watched(api, [NAMESPACE]))
            assert (found.code, found.reason) == ("RESOURCE_EXHAUSTED", "LIMIT_REACHED")
        async with asyncio.timeout(10):
            while True:
                try:
                    await watched(api, [NAMESPACE])
                    break
                except Refused:
                    await asyncio.sleep(0.05)
        found = await refusal(watched(api, [f"acme/n-{number}" for number in range(4)]))
        assert found.code in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")
        big = {"entry_filters": {"entry_filter_names": "x" * 100_000}}
        assert (await refusal(api.update(TOPIC, big))).code == "RESOURCE_EXHAUSTED"
        assert (await api.get(TOPIC)).policies is None
        await api.update(TOPIC, {"max_producer_per_topic": 1})


async def test_too_large_documents_lists_and_names_are_refused_with_their_field(api: Api, topic: str) -> None:
    for policies, mask, field in (
        ({"entry_filters": {"entry_filter_names": "x" * (2 << 20)}}, (), "policies"),
        ({"shadow_topics": [f"persistent://a/b/c{number}" for number in range(5_001)]}, (), "policies.shadow_topics"),
        ({"max_producer_per_topic": 1}, ["max_producer_per_topic"] * 1_001, "update_mask"),
    ):
        found = await refusal(api.update(topic, policies, mask=mask))
        assert found.code == "INVALID_ARGUMENT" and found.violations[0].field.startswith(field), found
    found = await refusal(api.update("persistent://a/b/" + "c" * 1_100, {"max_producer_per_topic": 1}, actor="a" * 257, reason="r" * 1_025))
    assert {each.field for each in found.violations} == {"topic", "actor", "reason"}


async def test_one_principal_beyond_its_limits_does_not_affect_another(serving: Serving, tmp_path: Path) -> None:
    limits = ["--max-watches-per-principal", "1", "--max-changes-per-second-per-principal", "20"]
    server = await serving(*Guarded(tmp_path).options, *limits)
    async with Api(server.address, metadata=of("owner")) as greedy, Api(server.address, metadata=of("keeper")) as modest:
        async with Watching(greedy, [NAMESPACE]) as first:
            await first.synced()
            found = await refusal(watched(greedy, [NAMESPACE]))
            assert (found.code, found.reason) == ("RESOURCE_EXHAUSTED", "LIMIT_REACHED")
            await watched(modest, [NAMESPACE])
        many = asyncio.gather(
            *(greedy.update(f"{TOPIC}-{number}", {"max_producer_per_topic": 1}) for number in range(120)), return_exceptions=True
        )
        begun = time.monotonic()
        for number in range(5):
            await modest.update(f"{TOPIC}-modest", {"max_producer_per_topic": number})
        assert time.monotonic() - begun < 5
        outcomes = await many
        refused = [each for each in outcomes if isinstance(each, Refused)]
        assert refused and {each.reason for each in refused} == {"LIMIT_REACHED"}
        assert all(each.retry_seconds for each in refused), "with the time after which it may be tried again"
        assert 20 <= len(outcomes) - len(refused) < 100
