"""Whether clocks agree: tokens and certificates have times, and so has the history."""

from __future__ import annotations

import email.utils

from .checks import Finding, failed, ok, skipped, warning

_WARNED_SECONDS = 5.0
_FAILED_SECONDS = 60.0


def judged_clock(said: str | None, asked: float, answered: float) -> Finding:
    """How far another clock is from ours.

    Args:
        said: the header Date of an answer, in whole seconds.
        asked: our seconds since 1970 before the question.
        answered: the same behind the answer.
    """
    try:
        theirs = email.utils.parsedate_to_datetime(said or "").timestamp()
    except (ValueError, TypeError):
        return skipped("the answer has no time")
    # It was said at some time of the question, and cut off to whole seconds.
    ahead, behind = theirs - answered, asked - (theirs + 1)
    off = max(ahead, behind, 0.0)
    way = "ahead of" if ahead > behind else "behind"
    if off > _FAILED_SECONDS:
        return failed(f"it is {off:.0f} s {way} ours")
    if off > _WARNED_SECONDS:
        return warning(f"it is {off:.0f} s {way} ours")
    return ok("it agrees with ours" if off < 1 else f"it is {off:.0f} s {way} ours")
