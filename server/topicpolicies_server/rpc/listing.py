"""ListPolicies: a page of a namespace's documents, without those of topics whose policies are disabled.

A watch can begin from the token of the first page. So that token's mark covers all disabled topics of the namespace, not only those of the
page. In a large namespace only topics that can have a property of their own are checked for that
(``Admission.topics_with_properties``): checking all of them for each first page would cost more than the page.
"""

from __future__ import annotations

from ..cluster.admission import Admission
from ..cluster.watched_namespaces import left_out_of
from ..core.errors import PolicyError
from ..core.names import PolicyKey, Scope
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from . import answers
from .requests import Page
from .resume_tokens import NOTHING_READ

PAGE_BYTES = 1 << 20
"""Bytes of documents at which a page ends, so that every client can receive it; the last document may take it beyond that."""
_SMALL = 100
"""The most documents of a namespace whose topics are all asked about: a topic's own answer is newer than a list of topics."""


async def answer(registry: Registry, admission: Admission | None, page: Page, wire: answers.Wire) -> bytes:
    """Returns a serialized ``ListPoliciesResponse``.

    Raises:
        PolicyError: the log can't be read, or it can't be found out whether policies are disabled.
    """
    first = page.after is None
    if admission is not None and await admission.namespace_disabled(page.namespace):
        return answers.list_answer([], "", NOTHING_READ if first else None, wire)
    namespace = registry.get(page.namespace)
    heads, more, token = await namespace.page(page.scopes, page.after, page.most, PAGE_BYTES)
    next_page = page.token(heads[-1].key) if more else ""
    if admission is not None:
        topics = await _topics(namespace, admission) if first else {head.key.topic for head in heads}
        left_out = await left_out_of(admission, page.namespace, topics)
        heads = [head for head in heads if head.key.topic not in left_out.topics]
        token = token._replace(left_out=left_out.digest)
    return answers.list_answer(heads, next_page, token if first else None, wire)


async def _topics(namespace: Namespace, admission: Admission) -> set[str]:
    """Returns the topics of a namespace that have documents and may have their policies disabled by a property of their own."""
    if namespace.documents > _SMALL:
        try:
            candidates = await admission.topics_with_properties(namespace.name)
        except PolicyError:
            pass  # then each of them is asked about
        else:
            return {topic for topic in candidates if await _has_document(namespace, topic)}
    heads, _, _ = await namespace.page(frozenset(Scope), None, namespace.documents)
    return {head.key.topic for head in heads}


async def _has_document(namespace: Namespace, topic: str) -> bool:
    for scope in Scope:
        head = await namespace.get(PolicyKey(topic, scope))
        if head is not None and head.document is not None:
            return True
    return False
