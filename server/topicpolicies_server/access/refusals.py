"""The errors for callers whose credentials are not accepted. No message quotes credentials: they would get into the callers' logs."""

from __future__ import annotations

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason


def missing(wanted: str) -> PolicyError:
    """Returns the error for a call without credentials.

    Args:
        wanted: the credentials that may be given.
    """
    return PolicyError(Kind.UNAUTHENTICATED, Reason.CREDENTIALS_MISSING, f"This server authenticates callers: give {wanted}.")


def invalid(why: str) -> PolicyError:
    """Returns the error for invalid credentials.

    Args:
        why: a sentence.
    """
    return PolicyError(Kind.UNAUTHENTICATED, Reason.CREDENTIALS_INVALID, why)


def expired(what: str = "token") -> PolicyError:
    """Returns the error for credentials that have expired."""
    return PolicyError(Kind.UNAUTHENTICATED, Reason.CREDENTIALS_EXPIRED, f"The {what} has expired: call with a new one.")


def unverifiable(why: str) -> PolicyError:
    """Returns the error for credentials that can't be verified now.

    Args:
        why: a sentence.
    """
    return PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, why)
