"""Proxies: principals that call for others, and must say for whom. Nobody else may say such a thing.

| the principal | says for whom | then |
|---|---|---|
| is a proxy | somebody who is none | it speaks for that one |
| is a proxy | nobody, or another proxy | PERMISSION_DENIED, ``ORIGINAL_PRINCIPAL_INVALID`` |
| is none | nobody | it speaks for itself |
| is none | anybody | PERMISSION_DENIED, ``NOT_A_PROXY`` |

Source: ``AuthorizationService.isValidOriginalPrincipal``, ``proxyRoles`` of brokers.
"""

from __future__ import annotations

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from .caller import Caller
from .signed import MOST_ROLE, is_role

KEY = "topicpolicies-original-principal"
"""The metadata in which a proxy says for whom it calls."""


def speaking(caller: Caller, original: str, proxies: frozenset[str]) -> Caller:
    """The caller with whom it speaks for.

    Args:
        caller: the principal that was verified.
        original: for whom it says that it calls; "": it says nothing.
        proxies: the principals that may.

    Raises:
        PolicyError: PERMISSION_DENIED, it may not, or has to say it.
    """
    if caller.principal not in proxies:
        if original:
            raise PolicyError(
                Kind.PERMISSION_DENIED,
                Reason.NOT_A_PROXY,
                f"{caller.principal} is no proxy, and calls for itself only: leave out the metadata {KEY}.",
            )
        return caller
    if not original:
        raise _wrong(f"{caller.principal} is a proxy: it says in the metadata {KEY} for whom it calls.")
    if original in proxies:
        raise _wrong(f"{caller.principal} is a proxy, and calls for no other proxy.")
    if not is_role(original):
        raise _wrong(f"The metadata {KEY} names nobody: a principal has {MOST_ROLE} characters at most, all of which can be printed.")
    return caller._replace(speaks_for=original)


def _wrong(message: str) -> PolicyError:
    return PolicyError(Kind.PERMISSION_DENIED, Reason.ORIGINAL_PRINCIPAL_INVALID, message)
