"""Turns the errors of building a message into ``InvalidArgument``: a value that no message can hold is an error of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import TopicPoliciesError, Violation, invalid


@contextmanager
def errors_as_invalid_argument() -> Iterator[None]:
    """Turns what Python and protobuf raise for wrong types, texts that are no Unicode and times out of range into ``InvalidArgument``.

    It is a context manager and a decorator.
    """
    try:
        yield
    except TopicPoliciesError:
        raise
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        reason = "WRONG_TYPE" if isinstance(error, (TypeError, AttributeError)) else "WRONG_VALUE"
        raise invalid(reason, Violation("", reason, f"The values do not fit the message: {error}.")) from error
