"""ListPolicies: a page of a namespace's documents; of a namespace whose topic policies are disabled, an empty one."""

from __future__ import annotations

from ..cluster.admission import Admission
from ..namespaces.registry import Registry
from . import answers
from .requests import Page
from .resume_tokens import NOTHING_READ

PAGE_BYTES = 1 << 20
"""Bytes of documents at which a page ends, so that every client can receive it; the last document may take it beyond that."""


async def answer(registry: Registry, admission: Admission | None, page: Page, wire: answers.Wire) -> bytes:
    """Returns a serialized ``ListPoliciesResponse``.

    Raises:
        PolicyError: the log can't be read, or it can't be found out whether policies are disabled.
    """
    first = page.after is None
    if admission is not None and await admission.namespace_disabled(page.namespace):
        return answers.list_answer([], "", NOTHING_READ if first else None, wire)
    heads, more, token = await registry.get(page.namespace).page(page.scopes, page.after, page.most, PAGE_BYTES)
    return answers.list_answer(heads, page.token(heads[-1].key) if more else "", token if first else None, wire)
