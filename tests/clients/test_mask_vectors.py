"""The masks that the clients of all languages must make: Python makes the same ones, and the server applies them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from topicpolicies.masks import format_path, parse_path, paths_between
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.changes.masks import apply, read

_VECTORS: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parents[2] / "clients/vectors/masks.json").read_text())


@pytest.mark.parametrize("vector", _VECTORS["differences"], ids=lambda vector: vector["name"])
def test_the_mask_between_two_documents_is_that_of_the_vector_and_turns_one_into_the_other(vector: dict[str, Any]) -> None:
    before, after = (ParseDict(vector[each], TopicPolicies()) for each in ("before", "after"))
    assert sorted(paths_between(before, after)) == sorted(vector["mask"])
    if vector["mask"]:
        mask, violations = read(vector["mask"])
        assert violations == ()
        apply(mask, before, after)
    assert before == after


@pytest.mark.parametrize("vector", _VECTORS["paths"], ids=lambda vector: vector["text"])
def test_a_path_has_the_text_of_the_vector_and_is_parsed_back(vector: dict[str, Any]) -> None:
    assert format_path(vector["segments"]) == vector["text"]
    assert parse_path(vector["text"]) == tuple(vector["segments"])


def test_the_vectors_have_unique_names() -> None:
    names = [vector["name"] for vector in _VECTORS["differences"]]
    assert len(set(names)) == len(names) > 40
