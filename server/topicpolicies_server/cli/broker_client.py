"""Topic policies through the brokers' admin API, whichever way the brokers keep them: what plan, apply and export call of a client.

A document is read setting by setting, and written in the same way. The admin API has no versions and no dry run: changes are judged here
by the rules that need no facts of the cluster, and by the brokers when they are made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from topicpolicies import (
    CHANGE_OUTCOME_APPLIED,
    CHANGE_OUTCOME_UNCHANGED,
    PolicyDocument,
    Scope,
    TopicPolicies,
    TopicPoliciesError,
)
from topicpolicies.errors import from_status
from topicpolicies.names import namespace_of, topic_name
from topicpolicies.requests import ChangeRequest
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL
from topicpolicies.v1.service_pb2 import ChangeResult
from topicpolicies.values import ValueProblem

from ..config import PulsarLogConfig
from ..config.address import is_url
from ..core.chains.computing import judge_request
from ..core.errors import Kind, PolicyError, invalid
from ..core.errors import Violation as CoreViolation
from ..core.names import DOMAINS, PolicyKey, parse_namespace, parse_topic
from ..core.names import Scope as CoreScope
from ..core.policies import documents, secrets
from ..core.policies.documents import Document, Setting, family
from ..core.policies.facts import Facts
from ..core.reasons import LogState, Reason, ViolationReason
from ..declared.files import Declaration
from ..logs.change_log import LogError
from ..logs.pulsar.admin import NO_ENDPOINT, Admin, admin_api, names_of, segments_of, understood
from ..logs.pulsar.facts import learn
from ..rpc.errors import status
from ..rpc.requests import read_change
from .endpoints import ENDPOINTS, path_of, read, request
from .globals import Globals, WrongUsage

TOGETHER = 8
"""How many topics are read or written at the same time, each by one request at a time."""
_VERSION = "0"
"""The version of every document: the admin API has none."""
_FALSE = f"false of {' and of '.join(name for name, endpoint in ENDPOINTS.items() if endpoint.unset is False)}"
_NOT_SHOWN = f"The admin API shows neither {_FALSE}, nor policies of subscriptions that do not exist: they are left out."
_MANY = 100
"""How many topics take so long to read that it is noted."""
_READ_SECONDS, _SHORT_SECONDS = 15.0, 1.0
"""How long to go on asking for a setting, and for subscriptions."""


@contextmanager
def calling_brokers(
    chosen: Globals, url: str, token_file: Path | None, declarations: Sequence[Declaration], *, everything: bool
) -> Iterator[BrokerClient]:
    """Yields a client of the admin API, as ``calls.calling`` yields one of a server. The global options for TLS are those of its TLS."""
    _ = chosen.tls  # raises if the options contradict each other
    service_url = f"pulsar://{urlsplit(url.split(',', maxsplit=1)[0]).hostname}:6650"
    config = PulsarLogConfig(
        service_url=service_url,
        admin_url=url,
        token_file=token_file,
        tls_trust_certs_file=chosen.tls_ca,
        tls_certificate_file=chosen.tls_certificate,
        tls_key_file=chosen.tls_key,
    )
    if not is_url(url, hosts=True):
        raise WrongUsage("--admin-url must be http://host:port or https://host:port.")
    if problems := config.problems():
        raise WrongUsage(problems[-1])
    try:
        admin = admin_api(config)
    except PolicyError as error:
        raise _told(error) from error
    client = BrokerClient(chosen, admin, service_url, declarations, everything=everything)
    try:
        yield client
    finally:
        client.close()


class BrokerClient:
    """A client of the admin API."""

    def __init__(self, chosen: Globals, admin: Admin, service_url: str, declarations: Sequence[Declaration], *, everything: bool) -> None:
        """Sends no request yet.

        Args:
            chosen: the global options: how to note what could not be read or compared.
            admin: the brokers' admin API; it is closed with the client.
            service_url: where brokers are reached; if there are several clusters, it may tell which one this is.
            declarations: what is compared: ``list`` reads only the topics that these are about, and the policies of their subscriptions.
            everything: whether ``list`` reads all topics all the same.
        """
        self._chosen = chosen
        self._noted: set[str] = set()
        self._admin = admin
        self._service_url = service_url
        self._declarations = declarations
        self._everything = everything
        self._runner = asyncio.Runner()
        self._cluster = ""
        self._topics: dict[str, frozenset[str]] = {}
        """The topics of each namespace, by full name; of a partitioned topic its own."""
        self._documents: dict[PolicyKey, Document] = {}
        """Those that were read."""
        self._missing: set[str] = set()
        """The endpoints that the brokers do not have: they are older than Pulsar 4.2.4."""
        self._unsure: set[PolicyKey] = set()
        """The documents that are to have what looks like unset, and is unset or there already."""

    def close(self) -> None:
        """Closes the connections."""
        self._runner.run(self._admin.close())
        self._runner.close()

    def list(self, namespace: str, *, scopes: Collection[Scope.ValueType] = ()) -> Iterator[PolicyDocument]:
        """Yields the documents of a namespace that set anything.

        Raises:
            TopicPoliciesError: the namespace does not exist, or the brokers do not answer.
        """
        topics = sorted(self._names(namespace))
        chosen = [each for each in topics if self._everything or any(one.covers(each) for one in self._declarations)]
        self._run(self._read_all(chosen))
        if self._everything:
            self._note(_NOT_SHOWN)
        for topic in chosen:
            for scope in scopes or (SCOPE_LOCAL, SCOPE_GLOBAL):
                if settings := self._documents[_key(topic, scope)]:
                    yield _document(topic, scope, settings)

    def get(self, topic: str, *, scope: Scope.ValueType) -> PolicyDocument:
        """Returns a document, as ``list``. That of a topic which does not exist is absent."""
        full = topic_name(topic)
        if full in self._names(namespace_of(full)) and _key(full, scope) not in self._documents:
            self._run(self._read_all([full]))
        return _document(full, scope, self._documents.get(_key(full, scope)))

    def batch(self, changes: Iterable[ChangeRequest]) -> Iterator[tuple[ChangeRequest, ChangeResult | TopicPoliciesError]]:
        """Makes or checks changes of documents that were read, and yields each with its result or its error, in order."""
        given = list(changes)
        by_topic: dict[str, list[int]] = {}
        for index, change in enumerate(given):
            by_topic.setdefault(change.topic, []).append(index)
        answers: dict[int, ChangeResult | TopicPoliciesError] = {}

        async def make(topic: str) -> None:  # one by one: brokers before 4.1 lose what is changed at the same time
            for index in by_topic[topic]:
                answers[index] = await self._answer(given[index])

        self._run(_together(make, by_topic))
        if self._unsure and all(change.validate_only for change in given):
            self._note(f"To the admin API {_FALSE} looks like unset; documents taken to be as declared: {len(self._unsure)}.")
        for index, change in enumerate(given):
            yield change, answers[index]

    def _run(self, work: Any) -> Any:
        try:
            return self._runner.run(work)
        except PolicyError as error:
            raise _told(error) from error

    def _names(self, namespace: str) -> frozenset[str]:
        if namespace not in self._topics:
            self._topics[namespace] = self._run(self._list(namespace))
        return self._topics[namespace]

    @understood
    async def _list(self, namespace: str) -> frozenset[str]:
        if not self._cluster:
            self._cluster = (await learn(self._admin, self._service_url)).name
        found: set[str] = set()
        for domain in DOMAINS:
            for more in ((), ("partitioned",)):
                answer = await self._admin.get(domain, *parse_namespace(namespace).split("/"), *more)
                if answer is None:
                    raise LogError(Reason.NAMESPACE_NOT_FOUND, f"The namespace {namespace} does not exist.", kind=Kind.NOT_FOUND)
                found.update(map(topic_name, names_of(answer)))
        return frozenset(each for each in found if not parse_topic(each).is_system_topic)

    async def _read_all(self, topics: Sequence[str]) -> None:
        if len(topics) > _MANY:
            self._note(f"Reading {len(topics):,} topics, some sixty requests each ...")
        await _together(self._read, topics)

    @understood
    async def _read(self, topic: str) -> None:
        place = segments_of(topic)
        declared = (path for each in self._declarations if each.covers(topic) for path in each.paths)
        keys = {path[1] for path in declared if path[0] == "subscription_policies" and len(path) > 1}
        try:
            keys.update(names_of(await self._admin.get(*place, "subscriptions", seconds=_SHORT_SECONDS)))
        except LogError as error:  # brokers load the topic to list them, which may fail although its policies can be read
            self._note(f"The subscriptions of {topic} can't be listed, so their policies are left out: {error.message}")
        for scope in (SCOPE_LOCAL, SCOPE_GLOBAL):
            policies = TopicPolicies()
            for name, endpoint in ENDPOINTS.items():
                for key in sorted(keys) if "{}" in endpoint.path else [""]:
                    if name in self._missing or (endpoint.local_only and scope == SCOPE_GLOBAL):
                        continue
                    path = path_of(endpoint.read_at or endpoint.path, key)
                    try:
                        read(policies, name, key, await self._admin.get(*place, *path, seconds=_READ_SECONDS, query=_query(scope)))
                    except LogError as error:
                        if NO_ENDPOINT not in error.message:
                            raise
                        self._missing.add(name)
                        self._note(f"These brokers' admin API does not have {name}: it is left out.")
                    except ValueProblem as problem:
                        told = f"{topic}: what the admin API answers of {name} is not known to this version: {problem}"
                        raise LogError(LogState.ADMIN_UNREACHABLE, told) from problem
            self._documents[_key(topic, scope)] = documents.split(policies)

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._chosen.note(text)

    async def _answer(self, change: ChangeRequest) -> ChangeResult | TopicPoliciesError:
        try:
            namespace, judged = read_change(change)
            if judged.key.topic not in self._topics.get(namespace, ()):
                raise PolicyError(Kind.NOT_FOUND, Reason.TOPIC_NOT_FOUND, f"{judged.key.topic} does not exist: create it first.")
            before = self._documents.get(judged.key) or None
            judged.facts = Facts(cluster=self._cluster)
            computed = judge_request(judged, before, _VERSION)
            if isinstance(computed, PolicyError):
                raise computed
            after = computed.document or {}
            kept = {setting: value for setting, value in after.items() if not _looks_unset(setting, value)}
            changed = documents.differing(before, kept)
            if after.keys() - kept.keys() - (before or {}).keys():
                self._unsure.add(judged.key)
            if found := list(_not_writable(judged.key, changed, kept, self._missing)):
                raise invalid(*found)
            if changed and not judged.validate_only:
                await self._write(judged.key, changed, kept)
                self._documents[judged.key] = kept
        except PolicyError as error:
            return _told(error)
        outcome = CHANGE_OUTCOME_APPLIED if changed else CHANGE_OUTCOME_UNCHANGED
        return ChangeResult(document=_document(change.topic, change.scope, kept), version=_VERSION, outcome=outcome)

    async def _write(self, key: PolicyKey, changed: Sequence[Setting], after: Document) -> None:
        """Makes settings what they are in a document. What brokers refuse is tried again after the rest: quotas depend on retention."""
        policies, pending = documents.join(after), list(changed)
        while pending:
            refused: dict[Setting, PolicyError] = {}
            for setting in pending:
                made = request(setting, policies)
                query = {**made.query, **_query(key.scope)}
                try:
                    await self._admin.change(made.method, *segments_of(key.topic), *made.path, query=query, body=made.body)
                except PolicyError as error:
                    if isinstance(error, LogError):
                        raise
                    refused[setting] = error
            if len(refused) == len(pending):
                first = refused[pending[0]]
                told = " ".join(f"{setting}: {error.message}" for setting, error in refused.items())
                raise PolicyError(first.kind, first.reason, told)
            pending = list(refused)


def _not_writable(key: PolicyKey, changed: Iterable[Setting], after: Document, missing: Collection[str]) -> Iterator[CoreViolation]:
    """Yields what the admin API can't write. ``missing``: the endpoints that it does not have."""
    for setting in changed:
        name = family(setting)
        endpoint = ENDPOINTS[name]
        if name in missing:
            told = f"These brokers' admin API does not have {name}: leave it out."
            yield CoreViolation(f"policies.{name}", ViolationReason.UNKNOWN_PATH, told)
        if endpoint.local_only and key.scope is CoreScope.GLOBAL:
            told = f"The admin API has {name} in the LOCAL scope only: set it there."
            yield CoreViolation(f"policies.{name}", ViolationReason.LOCAL_SCOPE_ONLY, told)
        policies = documents.join({setting: after[setting]} if setting in after else {})
        there = [field for field in endpoint.members if policies.HasField(field)]  # type: ignore[arg-type]
        if 0 < len(there) < len(endpoint.members):
            told = f"The admin API sets {', '.join(endpoint.members)} together: declare all of them, or none."
            yield CoreViolation(f"policies.{there[0]}", ViolationReason.HALF_OBJECT, told)


def _looks_unset(setting: Setting, value: bytes) -> bool:
    """Whether the admin API shows a setting as unset although it has this value."""
    name = family(setting)
    return ENDPOINTS[name].unset is not None and getattr(documents.join({setting: value}), name) == ENDPOINTS[name].unset


def _told(error: PolicyError) -> TopicPoliciesError:
    made = status(error)
    return from_status(made.code, made.message, made.details)


async def _together(work: Callable[[str], Awaitable[None]], topics: Iterable[str]) -> None:
    places = asyncio.Semaphore(TOGETHER)

    async def one(topic: str) -> None:
        async with places:
            await work(topic)

    await asyncio.gather(*map(one, topics))


def _document(topic: str, scope: Scope.ValueType, settings: Document | None) -> PolicyDocument:
    shown = TopicPolicies.FromString(secrets.wire(settings)) if settings else None
    return PolicyDocument(topic=topic, scope=scope, policies=shown, version=_VERSION)


def _key(topic: str, scope: int) -> PolicyKey:
    return PolicyKey(topic, CoreScope(scope))


def _query(scope: int) -> dict[str, str]:
    return {"isGlobal": "true"} if scope == SCOPE_GLOBAL else {}
