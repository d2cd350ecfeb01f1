"""Proxies: principals that call for others, and must say for whom. Other principals must not.

| the principal | says that it calls for | then |
|---|---|---|
| is a proxy | a principal that is no proxy | it speaks for that principal |
| is a proxy | none, or another proxy | PERMISSION_DENIED, ``PROXY_REFUSED`` |
| is no proxy | none | it speaks for itself |
| is no proxy | any principal | PERMISSION_DENIED, ``PROXY_REFUSED`` |

Source: ``AuthorizationService.isValidOriginalPrincipal``, ``proxyRoles`` of brokers.
"""

from __future__ import annotations

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from .caller import Caller
from .signed import MOST_ROLE, is_role

KEY = "topicpolicies-original-principal"
"""The metadata in which a proxy names the principal for whom it calls."""


def speaking(caller: Caller, original: str, proxies: frozenset[str]) -> Caller:
    """Returns the caller with the principal for whom it speaks.

    Args:
        caller: the caller that was verified.
        original: the principal for whom the call says that it speaks; "": none.
        proxies: the principals that are proxies.

    Raises:
        PolicyError: PERMISSION_DENIED: the caller may not name a principal, has to, or names one that it may not speak for.
    """
    if caller.principal not in proxies:
        if original:
            raise PolicyError(
                Kind.PERMISSION_DENIED,
                Reason.PROXY_REFUSED,
                f"{caller.principal} is not a proxy, so it may call only for itself: leave out the metadata {KEY}.",
            )
        return caller
    if not original:
        raise _wrong(f"{caller.principal} is a proxy: name the principal for which it calls in the metadata {KEY}.")
    if original in proxies:
        raise _wrong(f"{caller.principal} is a proxy, and may not call for another proxy.")
    if not is_role(original):
        raise _wrong(f"The metadata {KEY} is not a principal: write at most {MOST_ROLE} characters, all of them printable.")
    return caller._replace(speaks_for=original)


def _wrong(message: str) -> PolicyError:
    return PolicyError(Kind.PERMISSION_DENIED, Reason.PROXY_REFUSED, message)
