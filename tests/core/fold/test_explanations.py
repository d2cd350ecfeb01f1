"""Other explanations of a broker's document are found as by a comparison of every setting."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.core.fold import inference
from topicpolicies_server.core.fold.inference import infer, one_apart
from topicpolicies_server.core.fold.keystate import Superseded
from topicpolicies_server.core.policies.documents import EXTRA_PREFIX, Document, Setting

DOCUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c", f"{EXTRA_PREFIX}x"]), st.sampled_from([b"1", b"2"]))
OLDER = st.lists(st.builds(Superseded, st.none() | DOCUMENTS, st.integers(0, 3), st.just("")), max_size=7)


def explained_otherwise(
    document: Document, changed: list[Setting], raws: Sequence[Document | None], head: Document | None, known: frozenset[str] | None
) -> bool:
    """Returns whether another explanation has another effect, by definition."""
    others = [one_apart(raw, document, known) for raw in raws]
    explanations = [changed, *(other for other in others if other is not None)]
    effects = [[name for name in each if document.get(name) != (head or {}).get(name)] for each in explanations]
    return any(each != effects[0] for each in effects)


@given(
    DOCUMENTS, st.none() | DOCUMENTS, OLDER, st.none() | DOCUMENTS, st.sampled_from([None, None, frozenset({"a", "b"})]), st.integers(0, 3)
)
def test_ambiguity_is_found_as_by_a_comparison_of_every_setting(
    document: Document,
    live: Document | None,
    older: list[Superseded],
    head: Document | None,
    known: frozenset[str] | None,
    since: int,
) -> None:
    found = infer(document, live, older, head, known, since)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inference, "_is_explained_otherwise", explained_otherwise)
        assert found == infer(document, live, older, head, known, since)
