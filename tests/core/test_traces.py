"""Only well-formed trace contexts are kept, so that a caller cannot write arbitrary text into the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.core.traces import MOST_STATE, NO_TRACE, TraceContext, trace_context

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("state", ["", "congo=t61rcWkgMzE", "congo=t61rcWkgMzE,rojo@x/y=00f067aa0ba902b7", "a=" + "x" * 256])
def test_a_well_formed_trace_context_is_kept(state: str) -> None:
    assert trace_context(PARENT, state) == TraceContext(PARENT, state)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        PARENT.upper(),
        PARENT + "0",
        PARENT + "\n",
        PARENT[:-1] + "\n",
        " " + PARENT[1:],
        "ff" + PARENT[2:],
        PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        PARENT.replace("00f067aa0ba902b7", "0" * 16),
        PARENT.replace("-", "_"),
        PARENT.replace("4b", "\u0664b"),
        "x" * 55,
    ],
)
def test_a_malformed_parent_means_no_trace(parent: str) -> None:
    assert trace_context(parent, "congo=1") is NO_TRACE


@pytest.mark.parametrize(
    "state", ["x" * (MOST_STATE + 1), "a=" + "x" * 257, "nothing", "A=1", "a=1\n", "a=\u00e9", "a=b=c", ",".join(["a=1"] * 33)]
)
def test_a_malformed_state_is_left_out(state: str) -> None:
    assert trace_context(PARENT, state) == TraceContext(PARENT, "")


def test_blanks_between_the_members_of_a_state_are_left_out() -> None:
    assert trace_context(PARENT, "a=1 ,\tb=2,, ").state == "a=1,b=2"


@given(st.text(max_size=60), st.text(max_size=600))
def test_a_kept_trace_context_is_bounded_and_printable(parent: str, state: str) -> None:
    for kept in (trace_context(parent, state), trace_context(PARENT, state)):
        assert kept.parent in ("", PARENT) or len(kept.parent) == 55
        assert len(kept.state) <= MOST_STATE and "".join(kept).isascii() and "".join(kept).isprintable()
