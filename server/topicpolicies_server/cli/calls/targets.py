"""What commands are pointed at: topics and namespaces."""

from __future__ import annotations

from collections.abc import Iterable


def sort_targets(targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Topics and namespaces apart: a namespace has two parts and no domain."""
    topics: list[str] = []
    namespaces: list[str] = []
    for target in targets:
        (namespaces if "://" not in target and target.count("/") == 1 else topics).append(target)
    return topics, namespaces


def sort_tenants(targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Tenants apart from all other targets: a tenant is one word."""
    tenants: list[str] = []
    others: list[str] = []
    for target in targets:
        (others if "/" in target or "://" in target else tenants).append(target)
    return tenants, others
