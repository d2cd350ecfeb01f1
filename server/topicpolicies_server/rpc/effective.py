"""The views EFFECTIVE and APPLIED of GetPolicy: what holds for a topic, and which level says so."""

from __future__ import annotations

from topicpolicies.v1 import events_pb2, service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..cluster.admission import Admission
from ..core import documents, resolution
from ..core.errors import Kind, PolicyError, Violation, invalid
from ..core.events import ABSENT
from ..core.names import PolicyKey, Scope
from ..core.view import Change
from ..namespaces.registry import Registry
from . import answers

_VIEWS = service_pb2.PolicyView
_DOCUMENT = (_VIEWS.POLICY_VIEW_UNSPECIFIED, _VIEWS.POLICY_VIEW_DOCUMENT)


def asks_for_document(message: service_pb2.GetPolicyRequest) -> bool:
    """Whether a request asks for a scope's document.

    Raises:
        InvalidArgument: it asks for nothing that this server knows.
    """
    if message.view in _DOCUMENT:
        return True
    if message.view not in _VIEWS.values():
        raise _wrong("view", "UNKNOWN_VIEW", f"{message.view} is no view: say DOCUMENT, EFFECTIVE or APPLIED.")
    if message.HasField("as_of") or message.as_of_version:
        raise _wrong("view", "NO_SUCH_PAST", "What was in effect is not recorded: ask for the documents as of then.")
    return False


async def answer(
    registry: Registry,
    admission: Admission | None,
    namespace: str,
    key: PolicyKey,
    message: service_pb2.GetPolicyRequest,
    wire: answers.Wire,
) -> bytes:
    """A serialized ``GetPolicyResponse``.

    Raises:
        PolicyError: the namespace or the brokers are not known, or can't be asked; the topic does not exist; the log can't be read.
    """
    levels = await admission.levels(namespace, key) if admission is not None else None
    if levels is None or levels.namespace is None or levels.broker is None:
        raise PolicyError(
            Kind.FAILED_PRECONDITION,
            "LEVELS_UNKNOWN",
            f"This server does not know what holds in {namespace} and on the brokers: tell it (serve --cluster-file), or ask for DOCUMENT.",
        )
    heads: dict[Scope, Change | None] = dict.fromkeys(Scope)
    if not levels.disabled:
        served = registry.get(namespace)
        for scope in Scope:
            heads[scope] = await served.get(PolicyKey(key.topic, scope), message.at_least if scope is key.scope else "")
    local, global_ = (_policies(heads[scope]) for scope in Scope)
    if message.view == _VIEWS.POLICY_VIEW_EFFECTIVE:
        found = resolution.effective(local, global_, levels.namespace, levels.broker)
    else:
        found = resolution.applied(key.scope, local, global_, levels.namespace, levels.broker)
    told = service_pb2.GetPolicyResponse(
        topic=key.topic,
        scope=events_pb2.Scope.ValueType(key.scope),
        exists=True,
        version=_version(heads[Scope.LOCAL]),
        global_version=_version(heads[Scope.GLOBAL]),
        disabled=levels.disabled,
    )
    for path, source in found.sources.items():
        told.sources.add(path=path, source=service_pb2.PolicySource.ValueType(source))
    told.policies.MergeFromString(wire(documents.split(found.policies)))
    return told.SerializeToString()


def disabled(key: PolicyKey) -> bytes:
    """A serialized ``GetPolicyResponse`` for a topic whose policies are disabled."""
    told = service_pb2.GetPolicyResponse(topic=key.topic, scope=events_pb2.Scope.ValueType(key.scope), version=ABSENT, disabled=True)
    return told.SerializeToString()


def _policies(head: Change | None) -> TopicPolicies | None:
    return documents.join(head.document) if head is not None and head.document is not None else None


def _version(head: Change | None) -> str:
    return head.version if head is not None else ABSENT


def _wrong(field: str, reason: str, problem: str) -> PolicyError:
    return invalid(reason, Violation(field, reason, problem))
