"""Judges whether clocks agree, on which the times of tokens, certificates and events depend."""

from __future__ import annotations

import email.utils

from .checks import Finding, failed, ok, skipped, warning

_WARNED_SECONDS = 5.0
_FAILED_SECONDS = 60.0


def judged_clock(said: str | None, asked: float, answered: float) -> Finding:
    """Judges how far another clock is from the user's.

    Args:
        said: the header Date of an answer, in whole seconds; None: it has none.
        asked: the user's clock before the request, in seconds since 1970.
        answered: the user's clock after the answer, in seconds since 1970.
    """
    try:
        theirs = email.utils.parsedate_to_datetime(said or "").timestamp()
    except (ValueError, TypeError):
        return skipped("the answer has no time")
    # Date was set between request and answer, and is cut off to whole seconds: a difference within these bounds is none.
    ahead, behind = theirs - answered, asked - (theirs + 1)
    off = max(ahead, behind, 0.0)
    way = "ahead of" if ahead > behind else "behind"
    if off > _FAILED_SECONDS:
        return failed(f"it is {off:.0f} s {way} yours")
    if off > _WARNED_SECONDS:
        return warning(f"it is {off:.0f} s {way} yours")
    return ok("to the second" if off < 1 else f"it is {off:.0f} s {way} yours")
