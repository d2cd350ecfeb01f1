"""Names of topics mean here what they mean to Pulsar (``TopicName``)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.vectors import examples, name
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import parse_topic


@pytest.mark.parametrize("example", examples("names.json"), ids=name)
def test_a_topic_is_named_as_pulsar_reads_it(example: dict[str, Any]) -> None:
    assert str(parse_topic(example["topic"])) == example["fullName"]


@pytest.mark.parametrize("name", ["t/c/ns/x", "persistent://t/c/ns/x", "persistent://t/c/ns/x/y"])
def test_a_name_of_the_old_form_is_refused_and_belongs_to_no_other_namespace(name: str) -> None:
    with pytest.raises(PolicyError, match="cluster") as refused:
        parse_topic(name)
    assert [violation.reason for violation in refused.value.violations] == ["MALFORMED_NAME"]


@pytest.mark.parametrize("name", ["", "x", "t/n", "t/n/", "t//x", "t/n/x/", "kafka://t/n/x", "t/n/-partition-3", "t/n/\ud800"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(PolicyError):
        parse_topic(name)
