"""The API reference has everything that the definitions have, and everything in them has a comment."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto import generate, generate_reference
from proto.documented import File, Message, undocumented
from proto.reasons import Reason

from .definitions import spoil

_PROTO = Path(__file__).resolve().parents[2] / "proto"
_PAGE = generate_reference.OUT / generate_reference.PATTERN
_SAYS_WHAT_UNSET_MEANS = re.compile(r"Unset|Needed|Either this or|[Aa]s in |not named here")


def _headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", page, re.MULTILINE)


def test_the_definitions_generate_the_committed_page(tmp_path: Path) -> None:
    generate_reference.generate(tmp_path, _PROTO)
    assert generate.differences(generate_reference.OUT, tmp_path, generate_reference.PATTERN) == []


def test_a_comment_changed_without_generating_is_reported(copy: Path, tmp_path: Path) -> None:
    spoil(copy, "service.proto", "// What happens to a list field.", "// What becomes of a list field.")
    generate_reference.generate(tmp_path, copy)
    changes = generate.differences(generate_reference.OUT, tmp_path, generate_reference.PATTERN)
    assert [line for line in changes if line.startswith("+What")] == ["+What becomes of a list field.\n"]


def test_the_reference_is_generated_and_compared_together_with_the_code() -> None:
    assert generate.REFERENCE.generate is generate_reference.generate
    assert (generate.REFERENCE.out / generate.REFERENCE.pattern).is_file()


@pytest.mark.parametrize(
    ("name", "comment", "blamed"),
    [
        (
            "service.proto",
            "// The service: change, read and follow the topic policies of Apache Pulsar.\n",
            "topicpolicies/v1/service.proto",
        ),
        ("service.proto", "  // Reads the documents of one topic.\n", "TopicPoliciesService.GetPolicy"),
        ("service.proto", "// What happens to a list field.\n", "ListOperation"),
        ("service.proto", "  // The list becomes the given one.\n", "LIST_OPERATION_REPLACE"),
        ("service.proto", "// Reads the documents of one topic.\nm", "GetPolicyRequest"),
        ("service.proto", "  // The scope. Unset: LOCAL.\n", "UpdatePolicyRequest.scope"),
        ("service.proto", "  // When. Unset: now, as far as this server knows.\n", "GetPolicyRequest.read_at"),
        ("service.proto", "    // The update succeeded.\n", "PolicyChangeResult.updated"),
        ("policies.proto", "  // Entry filters of the topic. Unset: as the namespace or broker says.\n", "TopicPolicies.entry_filters"),
    ],
)
def test_a_definition_without_a_comment_is_refused_by_name(copy: Path, tmp_path: Path, name: str, comment: str, blamed: str) -> None:
    spoil(copy, name, comment, comment[-1] if comment[-1] != "\n" else "")
    with pytest.raises(ValueError, match=rf"^no comment: {re.escape(blamed)}$"):
        generate_reference.generate(tmp_path, copy)


def test_every_name_in_the_definitions_has_a_comment_and_is_on_the_page(files: list[File]) -> None:
    page = _PAGE.read_text()
    assert [undocumented(each) for each in files] == [[], [], [], []]
    names = list(_names(files))
    assert len(names) > 500
    assert [name for name in names if f"`{name}`" not in page and name not in _headings(page)] == []


def _names(files: list[File]) -> Iterator[str]:
    for each in files:
        yield from each.names
        yield from (call.name for service in each.services for call in service.calls)
        for type_ in each.types:
            if isinstance(type_, Message):
                yield from (field.name for field in type_.fields)
            elif type_.name != "ErrorReason":
                yield from (value.name for value in type_.values)
            else:
                yield from (value.name.removeprefix("ERROR_REASON_") for value in type_.values if value.number)


def test_every_link_leads_to_exactly_one_heading_or_to_a_page() -> None:
    page = _PAGE.read_text()
    anchors = [heading.lower() for heading in _headings(page)]
    targets = re.findall(r"\]\((#?)([^)]+)\)", page)
    assert len(targets) > 100
    assert {target for hash_, target in targets if hash_ and anchors.count(target) != 1} == set()
    assert {target for hash_, target in targets if not hash_ and not (_PAGE.parent / target).is_file()} == set()


def test_the_lines_of_the_page_are_not_too_long() -> None:
    lines = _PAGE.read_text().splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith("| ")] == []


def test_every_field_of_a_request_says_what_it_means_when_it_is_not_set(files: list[File]) -> None:
    silent = [
        f"{message.name}.{field.name}"
        for each in files
        for message in each.types
        if isinstance(message, Message) and message.name.endswith("Request")
        for field in message.fields
        if not field.oneof and field.type.name != "bool" and not _SAYS_WHAT_UNSET_MEANS.search(field.comment)
    ]
    assert silent == []


def test_text_that_markdown_would_take_for_markup_is_escaped() -> None:
    prose = generate_reference._Prose({"Scope", "WatchToken"})
    assert prose.text('"*" and __change_events, a_b, `a*_b`') == '"\\*" and \\_\\_change_events, a_b, `a*_b`'
    assert prose.text("A Scope is a word, a WatchToken a type.") == "A Scope is a word, a [WatchToken](#watchtoken) a type."
    assert prose.text("WatchToken itself", within="WatchToken") == "WatchToken itself"
    assert prose.text("docs/masks.md has it") == "[masks.md](masks.md) has it"


def test_no_wrapped_line_begins_like_a_list_item() -> None:
    word = "x" * 118
    assert generate_reference.wrapped(f"{word} 100. More", "", "") == [word, "100\\. More"]
    assert generate_reference.wrapped(f"{word} - more", "- ", "  ") == [f"- {word}", "  \\- more"]
    assert generate_reference.wrapped(f"{word} -1.", "", "") == [word, "-1."]


def test_the_comment_of_a_reason_is_parsed_into_its_parts(promised: dict[str, Reason]) -> None:
    assert promised["OUTCOME_UNKNOWN"] == Reason(
        "OUTCOME_UNKNOWN",
        "DEADLINE_EXCEEDED",
        "same id",
        ("request_id",),
        "The change may be in the log, or may yet come into it.",
        "Changes whose answer is late, elsewhere, or not known.",
    )
    assert promised["EVENTS_GONE"].status == ""


@pytest.mark.parametrize(
    "comment",
    [
        "A scope is named twice. INVALID_ARGUMENT. Repeat: perhaps.",
        "A scope is named twice. INVALID_ARGUMENT. Repeat: no. Metadata: Topic.",
        "A scope is named twice. Repeat: no.",
        "A scope is named twice. INVALID_ARGUMENT. Repeat: no. More words.",
    ],
)
def test_a_reason_whose_comment_has_another_form_is_refused(copy: Path, tmp_path: Path, comment: str) -> None:
    spoil(copy, "errors.proto", "// A scope is named twice. INVALID_ARGUMENT. Repeat: no.", f"// {comment}")
    with pytest.raises(ValueError, match="ERROR_REASON_REPEATED_SCOPE: its comment does not end with"):
        generate_reference.generate(tmp_path, copy)
