"""The masks that all languages must make, as Python makes them and as the server applies them."""

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
def test_a_mask_names_what_differs_and_leads_from_one_document_to_the_other(vector: dict[str, Any]) -> None:
    before, after = (ParseDict(vector[each], TopicPolicies()) for each in ("before", "after"))
    assert sorted(paths_between(before, after)) == sorted(vector["mask"])
    if vector["mask"]:
        mask, violations = read(vector["mask"], TopicPolicies.DESCRIPTOR)
        assert violations == ()
        apply(mask, before, after)
    assert before == after


@pytest.mark.parametrize("vector", _VECTORS["paths"], ids=lambda vector: vector["text"])
def test_a_path_is_written_in_one_way(vector: dict[str, Any]) -> None:
    assert format_path(vector["segments"]) == vector["text"]
    assert parse_path(vector["text"]) == tuple(vector["segments"])


def test_the_vectors_have_different_names() -> None:
    names = [vector["name"] for vector in _VECTORS["differences"]]
    assert len(set(names)) == len(names) > 40
