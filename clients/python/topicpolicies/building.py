"""Where messages are built: whatever can't be put into one is the caller's fault, and is said as such, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import TopicPoliciesError, Violation, invalid


@contextmanager
def building() -> Iterator[None]:
    """Turns what Python and protobuf raise into ``InvalidArgument``: for wrong types, texts that are no Unicode, times out of range.

    It is a context and a decorator.
    """
    try:
        yield
    except TopicPoliciesError:
        raise
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        reason = "WRONG_TYPE" if isinstance(error, (TypeError, AttributeError)) else "WRONG_VALUE"
        raise invalid(reason, Violation("", reason, f"The values do not fit the message: {error}.")) from error
