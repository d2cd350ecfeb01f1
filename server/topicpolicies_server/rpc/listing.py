"""ListPolicies: a page of a namespace's documents, without the topics whose policies are disabled.

The token of the first page serves a watch, so it names all disabled topics of the namespace, not those of the page. Of a large namespace
only the topics that can have properties are looked for in it: reading all of it for each first page would cost more than the page.
"""

from __future__ import annotations

from ..cluster.admission import Admission
from ..cluster.switchboard import left_out_of
from ..core.errors import PolicyError
from ..core.names import PolicyKey, Scope
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from . import answers
from .requests import Page
from .watching.desk import NOTHING_READ

PAGE_BYTES = 1 << 20
"""A page ends with the document that makes it so large, so that every client can receive it."""
_SMALL = 100
"""Documents of a namespace of which all topics are asked about: their own answers are newer than lists of topics."""


async def answer(registry: Registry, admission: Admission | None, page: Page, wire: answers.Wire) -> bytes:
    """A serialized ``ListPoliciesResponse``.

    Raises:
        PolicyError: the log can't be read; nobody can tell whether policies are disabled.
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
        token = token._replace(left_out=left_out.mark)
    return answers.list_answer(heads, next_page, token if first else None, wire)


async def _topics(namespace: Namespace, admission: Admission) -> set[str]:
    """The topics of a namespace that may be disabled and have documents."""
    if namespace.documents > _SMALL:
        try:
            candidates = await admission.may_say(namespace.name)
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
