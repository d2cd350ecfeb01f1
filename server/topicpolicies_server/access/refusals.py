"""What callers are told who are not let in. No sentence has anything in it of what they gave: it would stand in their logs."""

from __future__ import annotations

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason


def missing(wanted: str) -> PolicyError:
    """Nothing was given that says who calls.

    Args:
        wanted: what may be given.
    """
    return PolicyError(Kind.UNAUTHENTICATED, Reason.CREDENTIALS_MISSING, f"This server asks who calls: give {wanted}.")


def invalid(why: str) -> PolicyError:
    """What was given says nothing.

    Args:
        why: a sentence.
    """
    return PolicyError(Kind.UNAUTHENTICATED, Reason.CREDENTIALS_INVALID, why)


def expired(what: str = "token") -> PolicyError:
    """What was given held once."""
    return PolicyError(Kind.UNAUTHENTICATED, Reason.CREDENTIALS_EXPIRED, f"The {what} has expired: call with a new one.")


def unverifiable(why: str) -> PolicyError:
    """Whether what was given holds can't be known now.

    Args:
        why: a sentence.
    """
    return PolicyError(Kind.UNAVAILABLE, Reason.CREDENTIALS_UNVERIFIABLE, why)
