"""Checks of the broker behind a sidecar: its addresses, the sidecar's role, the version, the configuration, and namespaces.

No request creates a change log: of a namespace without one only metadata is requested (as in ``logs/pulsar/admin/topics``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from topicpolicies import Tls
from topicpolicies.addresses import Place

from ...config import PulsarLogConfig
from ...logs.avro import Codec, Dialect, UnsupportedSchema
from ...logs.pulsar.admin.api import Answer, TooLargeError, fetch
from ...logs.pulsar.admin.facts import changes_in_place, dialect_of, unread_logs
from ...logs.pulsar.admin.topics import throttling
from ...logs.pulsar.credentials import Tokens, identity_of, tls_of
from .certificates import certificates
from .checks import Check, Finding, failed, ok, skipped, warning
from .clocks import judged_clock
from .reaching import connected
from .tokens import judged_token

_SECONDS = 5.0
_CHANGE_EVENTS = "__change_events"
_UNKNOWN, _FORBIDDEN, _MISSING = 401, 403, 404


class AdminRequests:
    """Sends requests to a broker's admin API, without retries, and returns the answers uninterpreted."""

    def __init__(self, config: PulsarLogConfig) -> None:
        """Prepares requests by the options of ``config``, and sends none.

        Raises:
            OSError: a TLS file can't be read.
        """
        scheme, _, hosts = config.admin_url.rstrip("/").partition("://")
        self._base = f"{scheme}://{hosts.split(',')[0]}/admin/v2/"
        self._tokens = Tokens(identity_of(config))
        self._http = httpx.AsyncClient(verify=tls_of(config).context(), timeout=_SECONDS, trust_env=False)

    async def token(self) -> str:
        """Returns the token that is sent to brokers; "": none, or only a certificate is shown.

        Raises:
            OSError: the token can't be read, or the issuer gives none.
        """
        return await self._tokens.token()

    async def __call__(self, *path: str) -> Answer:
        """Returns the answer to a GET of a path.

        Raises:
            OSError: there is no token or no answer, or the answer is too large.
        """
        token = await self.token()
        url = self._base + "/".join(quote(segment, safe="") for segment in path)
        try:
            return await fetch(self._http, url, {"Authorization": f"Bearer {token}"} if token else {})
        except (httpx.HTTPError, httpx.InvalidURL, TooLargeError) as error:
            raise OSError(f"{urlsplit(url).netloc}: {str(error) or type(error).__name__}") from error

    async def close(self) -> None:
        """Closes the connections."""
        await self._tokens.close()
        await self._http.aclose()


def judged_version(version: str) -> Finding:
    """Judges brokers by the known faults of their version."""
    faults = []
    match dialect_of(version):
        case Dialect.SHARED_KEY:
            faults.append("LOCAL and GLOBAL policies share one key: removing one removes the other (fixed in 3.0.13, 3.3.8, 4.0.6)")
        case Dialect.UNKNOWN:
            faults.append("it is not known how this version stores GLOBAL policies, so the sidecar writes none")
    if changes_in_place(version):
        faults.append("brokers change documents in place in their cache, and so lose each other's updates (fixed in 4.1 by PIP-428)")
    if not faults:
        return ok(version)
    return warning(
        f"{version}: {'; '.join(faults)}", "Upgrade to 4.0.6 at least, better 4.1; until then run a guard (topicpolicies guard)."
    )


def judged_settings(answer: Answer) -> Finding:
    """Judges by the brokers' configuration whether topic policies are enabled, and read from change logs."""
    if answer.status in (_UNKNOWN, _FORBIDDEN):
        told = (
            "the broker hides its configuration from this role, so its limits and defaults, and whether it reads change logs, are not known"
        )
        return warning(told, "Give the sidecar a superuser's role, or do without the brokers' limits and defaults.")
    settings = answer.content
    if answer.status != httpx.codes.OK or not isinstance(settings, dict):
        return failed(f"it answers {answer.status}")
    enabled = str(settings.get("topicLevelPoliciesEnabled", "true")).lower() == "true"
    problem = unread_logs(settings)[0] if enabled else "topicLevelPoliciesEnabled is false"
    return failed(problem) if problem else ok()


def judged_schema(definition: str) -> Finding:
    """Judges whether the schema of a change log is one of policy events."""
    try:
        Codec(definition, local_cluster="", dialect=Dialect.UNKNOWN)
    except UnsupportedSchema as error:
        return failed(f"it is not one of policy events: {error}"[:200])
    return ok()


def judged_entry(answer: Answer, what: str) -> Finding:
    """Judges whether a request that only some roles may make was answered. Brokers refuse a known role with 401 as well as with 403."""
    if answer.status in (_UNKNOWN, _FORBIDDEN):
        return failed(f"the role may not see {what} ({answer.reason('')})")
    if answer.status >= httpx.codes.BAD_REQUEST and answer.status != _MISSING:
        return failed(f"it answers {answer.status} ({answer.reason('')})")
    return ok()


def brokers(config: PulsarLogConfig, ask: AdminRequests, namespaces: Sequence[str], *, needs_superuser: bool = False) -> list[Check]:
    """Returns the checks of the broker.

    Args:
        config: how the sidecar reaches the broker.
        ask: sends requests to the admin API.
        namespaces: the namespaces to check.
        needs_superuser: whether the server learns the superusers only from the brokers' configuration, for which it must be one.
    """
    service, admin = (_place(url, ports) for url, ports in ((config.service_url, _SERVICE_PORTS), (config.admin_url, _ADMIN_PORTS)))

    async def answers() -> Finding:
        answer = await ask("brokers", "version")
        if answer.status in (_UNKNOWN, _FORBIDDEN):
            return ok(f"it answers {answer.status}")
        told = answer.content
        is_version = isinstance(told, str) and len(told) < 100 and "<" not in told
        return (
            ok(str(told)) if answer.status == httpx.codes.OK and is_version else failed(f"it answers {answer.status}, and tells no version")
        )

    async def version() -> Finding:
        answer = await ask("brokers", "version")
        return judged_version(str(answer.content).strip()) if answer.status == httpx.codes.OK else judged_entry(answer, "the version")

    async def clock() -> Finding:
        asked = time.time()
        answer = await ask("brokers", "version")
        return judged_clock(answer.headers.get("Date"), asked, time.time())

    async def settings() -> Finding:
        return judged_settings(await ask("brokers", "configuration", "runtime"))

    found = [
        Check(
            name="broker.service",
            holds="the broker accepts connections",
            why="The sidecar reads and writes its change logs there.",
            run=lambda: connected(service),
            remedy="Correct --pulsar, and check whether the broker runs and advertises an address that can be reached from here.",
        ),
        Check(
            name="broker.admin",
            holds="its admin API answers",
            why="The sidecar requests facts about the cluster from it.",
            run=answers,
            remedy="Correct --admin-url: it is HTTP, port 8080 or 8443 by default; not the port of --pulsar.",
        ),
    ]
    tls = Tls(ca_file=config.tls_trust_certs_file, certificate_file=config.tls_certificate_file, key_file=config.tls_key_file)
    for group, place, url in (("broker-tls", service, config.service_url), ("admin-tls", admin, config.admin_url)):
        if url.startswith(("pulsar+ssl", "https")):
            found += certificates(place, tls, used=True, group=group, before=None, named=config.tls_validate_hostname)
    found += [*_tokens(config, ask, needs_superuser), *(_tenant(namespace, ask) for namespace in namespaces)]
    found += [
        Check(
            name="broker.version",
            holds="its version has no known fault that matters here",
            why="Some versions lose policies by themselves.",
            run=version,
            remedy="Upgrade the brokers.",
            needs=("token.accepted",),
        ),
        Check(
            name="broker.policies",
            holds="topic policies are enabled at the brokers, and read from change logs",
            why="If they are not, brokers ignore what is written.",
            run=settings,
            remedy="In broker.conf set topicLevelPoliciesEnabled=true, systemTopicEnabled=true and the default class; restart the brokers.",
            needs=("token.accepted",),
        ),
    ]
    found += [check for namespace in namespaces for check in _namespace(namespace, ask)]
    found += [
        Check(
            name="clock.broker",
            holds="the broker's clock agrees with yours",
            why="The broker checks tokens and certificates by its clock, and the times of events come from it.",
            run=clock,
            remedy="Synchronize both clocks with NTP (chronyc tracking, timedatectl).",
            needs=("broker.admin",),
        ),
    ]
    return found


def _tokens(config: PulsarLogConfig, ask: AdminRequests, needs_superuser: bool) -> list[Check]:
    """Returns the checks of the sidecar's own token, and of the role that the token has."""
    certificate = config.tls_certificate_file
    nothing = "without a token" if certificate is None else "without a token, by its certificate"
    option = "--pulsar-token-file" if config.oauth2 is None else "--pulsar-oauth2-credentials"

    async def own() -> Finding:
        shown = await ask.token()
        return judged_token(shown, time.time()) if shown else skipped(f"the sidecar calls {nothing}")

    async def accepted() -> Finding:
        answer = await ask("clusters")
        if answer.status == _UNKNOWN:
            return failed(f"the broker does not accept the token ({answer.reason('')})")
        return ok("" if await ask.token() else nothing)

    async def superuser() -> Finding:
        answer = await ask("tenants")
        if answer.status in (_UNKNOWN, _FORBIDDEN) and needs_superuser:
            return warning(
                "no superuser: --authorization-by-brokers can't learn who the brokers' superusers are, and they may do nothing here",
                "Name them with --superuser-roles, or give the sidecar a superuser's role.",
            )
        if answer.status in (_UNKNOWN, _FORBIDDEN):
            return ok("no superuser: at most an admin of some tenants")
        judged = judged_entry(answer, "the tenants")
        return judged if judged.level.value != "ok" else ok("a superuser: it may do everything in this cluster")

    return [
        Check(
            name="token.own",
            holds="the sidecar's own token is available and valid",
            why="When it expires, the broker refuses the sidecar.",
            run=own,
            remedy="Put a new token into the file of --pulsar-token-file (pulsar tokens create); it is read again, without a restart."
            if config.oauth2 is None
            else "Correct --pulsar-oauth2-issuer, --pulsar-oauth2-credentials, --pulsar-oauth2-audience and --pulsar-oauth2-scope.",
        ),
        Check(
            name="token.accepted",
            holds="the broker accepts the token",
            why="A role that the broker does not know may do nothing.",
            run=accepted,
            remedy=f"Give {option} a token that is signed with the brokers' key and has not expired."
            if config.oauth2 is None
            else "Check whether the brokers trust this issuer, and accept the audience in its tokens.",
            needs=("broker.admin",),
        ),
        Check(
            name="token.role",
            holds="the permissions of its role are known",
            why="A token with fewer permissions does less harm if it is stolen.",
            run=superuser,
            remedy="Check the broker's authorization.",
            needs=("token.accepted",),
        ),
    ]


def _tenant(namespace: str, ask: AdminRequests) -> Check:
    """Returns the check that the sidecar is an admin of a namespace's tenant."""
    tenant = namespace.partition("/")[0]

    async def run() -> Finding:
        return judged_entry(await ask("namespaces", tenant), f"the namespaces of {tenant}")

    return Check(
        name=f"token.tenant {namespace}",
        holds=f"the sidecar is an admin of {tenant}",
        why="__change_events is a system topic: only a tenant's admins may write it.",
        run=run,
        remedy=f"pulsar-admin tenants update {tenant} --admin-roles ROLE",
        needs=("token.accepted",),
    )


def _namespace(namespace: str, ask: AdminRequests) -> list[Check]:
    """Returns the checks of a namespace: that it exists, and the schema of its change log."""
    tenant, _, name = namespace.partition("/")

    async def there() -> Finding:
        answer = await ask("namespaces", tenant, name)
        if answer.status == _MISSING:
            return failed(f"{namespace} does not exist")
        if answer.status in (_UNKNOWN, _FORBIDDEN):
            return skipped(f"the role may not see it: see token.tenant {namespace}")
        return judged_entry(answer, namespace)

    async def rates() -> Finding:
        answer, version = await ask("namespaces", tenant, name), await ask("brokers", "version")
        policies = answer.content if isinstance(answer.content, dict) else {}
        told = throttling(namespace, policies, dialect_of(str(version.content).strip()))
        return warning(told) if told else ok()

    async def schema() -> Finding:
        layout = await ask("persistent", tenant, name, _CHANGE_EVENTS, "partitions")
        if layout.status == _MISSING:
            return ok("there is no change log yet")
        answer = await ask("schemas", tenant, name, _CHANGE_EVENTS, "schema")
        if answer.status == _MISSING:
            return ok("nothing was written yet")
        told: Mapping[str, Any] = answer.content if isinstance(answer.content, dict) else {}
        if answer.status != httpx.codes.OK or "data" not in told:
            return judged_entry(answer, "the schema") if answer.status != httpx.codes.OK else failed("the answer is not a schema")
        if told.get("type") != "AVRO":
            return failed(f"its type is {told.get('type')}")
        data = told["data"]
        return judged_schema(data if isinstance(data, str) else json.dumps(data))

    return [
        Check(
            name=f"broker.namespace {namespace}",
            holds=f"{namespace} exists",
            why="Policies of topics of a namespace that does not exist are refused.",
            run=there,
            remedy=f"Create it (pulsar-admin namespaces create {namespace}), or correct its name.",
            needs=("token.accepted",),
        ),
        Check(
            name=f"broker.rates {namespace}",
            holds=f"no rate of {namespace} slows its change log down",
            why="Brokers apply it to __change_events as to any topic: changes are seen late or time out, and compaction fails.",
            run=rates,
            remedy=f"pulsar-admin namespaces remove-subscription-dispatch-rate {namespace}; limit single topics by policies of their own.",
            needs=(f"broker.namespace {namespace}",),
        ),
        Check(
            name=f"broker.schema {namespace}",
            holds=f"the schema of {namespace}'s change log is one of policy events",
            why="Events with another schema are skipped, and their policies with them.",
            run=schema,
            remedy=f"See who registered it (pulsar-admin schemas get persistent://{namespace}/{_CHANGE_EVENTS}), and delete that schema.",
            needs=(f"broker.namespace {namespace}",),
        ),
    ]


_SERVICE_PORTS, _ADMIN_PORTS = (6650, 6651), (8080, 8443)


def _place(url: str, ports: tuple[int, int]) -> Place:
    """Returns the first host of a URL, with the port that is the default of its scheme."""
    scheme, _, rest = url.partition("://")
    parts = urlsplit(f"//{rest.rstrip('/').split(',')[0]}")
    return Place(parts.hostname or "", parts.port or ports[scheme in ("pulsar+ssl", "https")])
