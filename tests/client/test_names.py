"""Names of topics are parsed as Pulsar parses them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.vectors import examples, name
from topicpolicies.names import namespace_of, topic_name


@pytest.mark.parametrize("example", examples("names.json"), ids=name)
def test_the_full_name_of_a_topic_is_that_of_pulsar(example: dict[str, Any]) -> None:
    assert topic_name(example["topic"]) == example["fullName"]


@pytest.mark.parametrize("topic", ["persistent://public/a/t", "public/a/t", "persistent://public/a/t/with/slashes"])
def test_the_namespace_of_a_topic_is_read_from_any_form_of_its_name(topic: str) -> None:
    assert namespace_of(topic) == "public/a"
