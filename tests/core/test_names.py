"""Names of topics are parsed as Pulsar parses them (``TopicName``)."""

from __future__ import annotations

import string
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.vectors import examples, name
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import MAX_NAME_LENGTH, base_name, parse_topic


@pytest.mark.parametrize("example", examples("names.json"), ids=name)
def test_a_topic_has_the_full_name_that_pulsar_gives_it(example: dict[str, Any]) -> None:
    assert str(parse_topic(example["topic"])) == example["fullName"]


@pytest.mark.parametrize("name", ["t/c/ns/x", "persistent://t/c/ns/x", "persistent://t/c/ns/x/y"])
def test_a_name_of_the_old_form_with_a_cluster_is_refused(name: str) -> None:
    with pytest.raises(PolicyError, match="cluster") as refused:
        parse_topic(name)
    assert [violation.reason for violation in refused.value.violations] == ["MALFORMED_NAME"]


PARTS = ["persistent", "non-persistent", "kafka", "://", "/", "t", "n:1", "a b", "", "x", "-partition-", "7", "07", "99999999999"]
ODD = ["\u0663", "\n", "\x7f", "\x80", "Größe", "\ud800", "\U0001f680", "y" * 600]
TEXTS = st.lists(st.sampled_from([*PARTS, *ODD]), max_size=8).map("".join)


def as_the_rules_say(text: str) -> str | None:
    """Returns the full name of a topic by an independent implementation of the rules; None: the text is not a name."""
    domain, separator, rest = text.partition("://")
    parts = (rest if separator else text).split("/")
    plain = frozenset("-=:._" + string.ascii_letters + string.digits)
    if len(text) > MAX_NAME_LENGTH or len(parts) != 3 or not all(parts) or (separator and domain not in ("persistent", "non-persistent")):
        return None
    if not (plain.issuperset(parts[0]) and plain.issuperset(parts[1])) or any(ord(each) < 32 or each == "\x7f" for each in parts[2]):
        return None
    if any(0xD800 <= ord(each) < 0xE000 for each in text) or not (local := base_name(parts[2])):
        return None
    return f"{domain if separator else 'persistent'}://{parts[0]}/{parts[1]}/{local}"


@given(TEXTS | TEXTS.map("persistent://t/n/{}".format))
@hypothesis.example("persistent://t/n/topic\n")
@hypothesis.example("persistent://t/n/-partition-7")
@hypothesis.example("persistent://t/n/" + "y" * 1007)
@hypothesis.example("persistent://t/n/" + "y" * 1008)
def test_a_topic_has_the_full_name_that_the_rules_give_or_is_refused(text: str) -> None:
    expected = as_the_rules_say(text)
    if expected is None:
        with pytest.raises(PolicyError):
            parse_topic(text)
    else:
        assert str(parse_topic(text)) == expected
