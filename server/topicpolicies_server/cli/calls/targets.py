"""Sorts the targets of a command: topics, namespaces and tenants."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def sort_targets(targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the topics and the namespaces among targets: a namespace has two parts and no domain.

    Raises:
        typer.BadParameter: a target has a single part, so that it is neither.
    """
    topics: list[str] = []
    namespaces: list[str] = []
    for target in targets:
        if "/" not in target:
            raise typer.BadParameter(
                f'"{target}" is neither a topic nor a namespace: write persistent://tenant/namespace/topic, or tenant/namespace.',
                param_hint="TOPIC_OR_NAMESPACE",
            )
        (namespaces if "://" not in target and target.count("/") == 1 else topics).append(target)
    return topics, namespaces


def sort_tenants(targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the tenants among targets, and all other targets: a tenant has no slash."""
    tenants: list[str] = []
    others: list[str] = []
    for target in targets:
        (others if "/" in target or "://" in target else tenants).append(target)
    return tenants, others
