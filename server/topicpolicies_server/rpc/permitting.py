"""The only place that checks permissions: by namespace, and before anything else is done with the namespace.

So a caller without a permission receives the same error whether the namespace exists or not.
"""

from __future__ import annotations

from ..access import Caller, Granted, Permission
from ..core.errors import Kind, PolicyError
from ..core.policies import documents, secrets
from ..core.reasons import Reason
from .answers import Wire


def permitted(granted: Granted, caller: Caller, namespace: str, *permissions: Permission) -> Wire:
    """Checks what a caller is granted in a namespace, and returns what serializes its documents for the caller, with or without secrets.

    Raises:
        PolicyError: PERMISSION_DENIED, one of the permissions is not granted.
    """
    for permission in permissions:
        if permission not in granted:
            raise _denied(caller, namespace, permission)
    return documents.wire if Permission.SECRETS in granted else secrets.wire


def _denied(caller: Caller, namespace: str, permission: Permission) -> PolicyError:
    who = f'"{caller.role}"' if caller.role else "An unauthenticated caller"
    through = f', for whom "{caller.principal}" calls,' if caller.speaks_for else ""
    metadata = {"permission": permission.value, "namespace": namespace}
    sentence = f'{who}{through} may not do this in {namespace}: it needs the permission "{permission.value}" there.'
    return PolicyError(Kind.PERMISSION_DENIED, Reason.PERMISSION_DENIED, sentence, metadata=metadata)
