"""Every name in the table of ``docs/clients.md`` is a name in the public API of that client."""

from __future__ import annotations

from pathlib import Path

import pytest

from proto import tools
from tests.clients.toolchains import run
from tests.clients.words import LANGUAGES, PAGE, Promise, go_words, kept, promises, table, words


@pytest.mark.parametrize("language", [pytest.param(each, marks=[] if each == "Python" else pytest.mark.slow) for each in LANGUAGES])
@pytest.mark.timeout(120)
def test_every_name_in_the_table_is_in_the_api_of_its_client(language: str) -> None:
    api = words(language)
    promised = [promise for promise in promises(PAGE.read_text()) if promise.language == language]
    assert len(promised) >= 30
    missing = [str(promise) for promise in promised if not kept(promise, api)]
    assert missing == [], "\n" + "\n".join(missing)


def test_the_table_has_every_language_and_no_feature_twice() -> None:
    found = list(promises(PAGE.read_text()))
    features = [row[0] for row in table(PAGE.read_text(), "feature")]
    assert len(features) == len(set(features))
    assert {promise.language for promise in found} == set(LANGUAGES)
    assert Promise("Go", "delete one document", "Delete", ("Client",)) in found
    assert Promise("Python", "receive every change, with the document before and after", "listen", ("PolicyCache",)) in found
    assert Promise("TypeScript", "who and why", "reason", ()) in found


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ("no table", "no table of features"),
        ("| feature | Python | Go | Java | TypeScript |\n|---|---|---|---|---|\n| a | `a` | `A` | `a` | |", "the row of 'a'"),
        ("| feature | Python | Go | Java | TypeScript |\n|---|---|---|---|---|\n| a | `a` | `A` | `a` |", "the row of 'a'"),
    ],
)
def test_a_page_without_a_name_for_each_feature_and_language_is_refused(page: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        list(promises(page))


def test_a_name_that_belongs_to_another_type_does_not_count() -> None:
    api = {
        "-": {"Client", "WatchMode"},
        "Client": {"update"},
        "AsyncClient": {"update", "get"},
        "WatchMode": {"EVERY"},
        "Document": {"get"},
    }
    both = ("Client", "AsyncClient")
    assert kept(Promise("Python", "a", "update", both), api)
    assert not kept(Promise("Python", "a", "get", both), api)
    assert kept(Promise("Python", "a", "get", ()), api)
    assert kept(Promise("Python", "a", "WatchMode.EVERY", ()), api)
    assert not kept(Promise("Python", "a", "Document.EVERY", ()), api)
    assert not kept(Promise("Go", "a", "context.Context", ()), api)


def test_names_of_go_are_read_from_the_output_of_go_doc() -> None:
    api = go_words(
        """package p // import "p"

CONSTANTS

const (
\tWatchModeEvery = 2 // every Change
)

FUNCTIONS

func New(target string, options ...Option) (*Client, error)
    New makes a Client. Not here: Missing.

TYPES

type Client struct {
\t// Has unexported fields.
}

func (c *Client) Get(ctx context.Context, key Key) (Document, error)

type Update struct {
\tTopic, Scope string // Not this
\tETag string
}
    An Update. func (c *Client) Lie()
"""
    )
    assert {"WatchModeEvery", "New", "target", "Client", "Update"} <= api["-"]
    assert {"Get", "context.Context"} <= api["Client"]
    assert api["Update"] == {"Topic", "Scope", "ETag"}
    assert not {"Missing", "Lie", "Not", "Change"} & set().union(*api.values())


@pytest.mark.slow
def test_only_exported_names_of_typescript_are_listed(tmp_path: Path) -> None:
    (tmp_path / "index.ts").write_text('export { A, type B as C } from "./a.js";\nexport * from "./b.js";\n')
    (tmp_path / "a.ts").write_text(
        "export class A { #hidden = 1; private also = 2; shown = 3; method(taken: string, { etag }: { etag: string }) {} }\n"
        "interface Base { inherited: string }\nexport interface B extends Base { inner: string }\nexport class Unseen { unseen = 1; }\n"
    )
    (tmp_path / "b.ts").write_text("export enum Mode { EVERY = 2 }\nfunction own() {}\nexport function path(segments: string[]) {}\n")
    program = tools.ROOT / "tests" / "clients" / "typescript" / "words.mjs"
    output = run([tools.node(), str(program), str(tools.node_modules()), str(tmp_path / "index.ts")], tools.ROOT)
    assert set(output.splitlines()) >= {
        "- A",
        "- C",
        "A shown",
        "A method",
        "A taken",
        "A etag",
        "B inner",
        "B inherited",
        "Mode EVERY",
        "- path",
        "path segments",
    }
    assert not {"hidden", "also", "Unseen", "unseen", "own"} & set(output.split())
