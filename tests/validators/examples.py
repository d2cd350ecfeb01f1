"""Records of one policy key, for the tests of the validators."""

from __future__ import annotations

from typing import Any

from .documents import Edit
from .records import Answer, Failure, Key, Update

KEY = Key("persistent://acme/orders/invoices")


def update(request_id: str, answer: Answer | Failure | None, at: float, *, seconds: float = 1.0, **more: Any) -> Update:
    """Returns an attempt that was sent at a time, and answered so many seconds later."""
    values = {"edit": Edit(), "answer": answer, **more}
    return Update(client="c", sidecar="s", invoked=at, answered=at + seconds, key=KEY, request_id=request_id, **values)
