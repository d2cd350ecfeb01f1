"""The table of options: every limit is one, each is read by something, and errors that name a limit name the option."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from topicpolicies_server.config import Limits, ServerConfig, bounds
from topicpolicies_server.config.option import Kind, ReadBy
from topicpolicies_server.config.places import data_folder
from topicpolicies_server.config.rendering import in_toml, reference, sample, written_value
from topicpolicies_server.config.sources import read_options
from topicpolicies_server.config.table import options

SERVER = Path(__file__).parents[2] / "server" / "topicpolicies_server"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "configuration.md"
LIMITS = [each.name for each in dataclasses.fields(Limits)]


@functools.cache
def sources() -> dict[str, str]:
    """The server's modules but the configuration's own, by their path in the package."""
    paths = [path for path in SERVER.rglob("*.py") if path.parts[len(SERVER.parts)] != "config"]
    return {path.relative_to(SERVER).as_posix(): path.read_text() for path in paths}


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_an_option_with_its_bounds_its_default_and_a_sentence(name: str) -> None:
    option = options()[name]
    assert (option.least, option.most) == bounds()[name]
    assert option.default == getattr(Limits(), name)
    assert option.help.endswith(".") and option.section == "Limits"
    assert (option.flag, option.variable) == (f"--{name.replace('_', '-')}", f"TOPICPOLICIES_{name.upper()}")


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_read_by_something_and_one_of_calls_by_the_service_only(name: str) -> None:
    readers = {path.partition("/")[0] for path, text in sources().items() if re.search(rf"limits\.{name}\b", text)}
    assert readers, f"nothing reads {name}: nobody can reach it"
    if options()[name].read_by is ReadBy.SERVE:
        assert not readers & {"guard", "logs", "metrics"}, f"{name} is read where a guard runs too"


def test_every_option_that_is_no_limit_is_read_by_what_makes_the_configuration() -> None:
    making = "".join((SERVER / "config" / name).read_text() for name in ("making.py", "deriving.py"))
    assert [name for name in options() if name not in LIMITS and f'"{name}"' not in making] == []


@pytest.mark.parametrize("option", options().values(), ids=lambda option: option.name)
def test_a_value_as_it_is_shown_is_read_back_from_everywhere(option: object) -> None:
    each = options()[option.name]  # type: ignore[attr-defined]
    if each.default not in (None, "", ()):
        assert each.read(written_value(each.default)) == each.default
    value = tomllib.loads(f"x = {in_toml(each)}")["x"]
    each.read(value)
    if each.kind in (Kind.WHOLE, Kind.NUMBER):
        assert each.read(written_value(each.least)) == each.least and each.read(written_value(each.most)) == each.most


def test_the_sample_loads_as_it_is_and_with_every_option_said(tmp_path: Path) -> None:
    path = tmp_path / "sample.toml"
    path.write_text(sample())
    found = read_options({}, {}, path)
    assert not found.problems and not any(setting.given for setting in found.settings.values())
    path.write_text(re.sub(r"(?m)^#(\w+ = )", r"\1", sample()))
    found = read_options({}, {}, path)
    assert not found.problems and all(setting.given for setting in found.settings.values())
    defaults = {option.name: option.default for option in options().values() if not option.example}
    assert {name: found.value(name) for name in defaults} == defaults


def test_the_reference_is_the_documents() -> None:
    text = DOCUMENTED.read_text()
    beginning, end = "<!-- topicpolicies config --reference -->\n\n", "<!-- end -->"
    assert text.partition(beginning)[2].partition(end)[0] == reference() + "\n", "run topicpolicies config --reference, and put it there"


def test_the_data_folder_is_where_each_system_has_it() -> None:
    home = {"HOME": "/somewhere/mine"}
    assert str(data_folder(home, "linux")) == "/somewhere/mine/.local/share/topicpolicies"
    assert str(data_folder(home | {"XDG_DATA_HOME": "/data"}, "linux")) == "/data/topicpolicies"
    assert str(data_folder(home | {"XDG_DATA_HOME": "data"}, "linux")) == "/somewhere/mine/.local/share/topicpolicies"
    assert str(data_folder(home, "darwin")) == "/somewhere/mine/Library/Application Support/topicpolicies"
    assert str(data_folder({"LOCALAPPDATA": r"D:\mine"}, "win32")) == r"D:\mine\topicpolicies"


def told(marks: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """The texts of the functions that make an error so marked: by one of its arguments, such as ``Kind.RESOURCE_EXHAUSTED``."""
    return ((where, text) for where, arguments, text in _making_errors() if any(map(marks, arguments)))


@functools.cache
def _making_errors() -> list[tuple[str, list[str], str]]:
    """Each function that makes errors, and each row of a table of them: where it is, what it hands to them, and its texts."""
    found = []
    for path, source in sources().items():
        module = ast.parse(source)
        found += [(f"{path}: line {row.lineno}", list(map(ast.unparse, row.elts)), _texts(row)) for row in _rows(module)]
        for function in ast.walk(module):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and (arguments := list(_arguments(function))):
                found.append((f"{path}: {function.name}", arguments, _texts(function)))
    return found


def _rows(module: ast.Module) -> Iterator[ast.Tuple]:
    """The rows of a module's own tables that hold a kind, or a reason, of errors."""
    for statement in module.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            for row in ast.walk(statement.value):
                if isinstance(row, ast.Tuple) and any(ast.unparse(each).startswith(("Kind.", "Reason.")) for each in row.elts):
                    yield row


def _texts(node: ast.AST) -> str:
    constants = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return " ".join(each for each in constants if isinstance(each, str))


def _arguments(function: ast.AST) -> Iterator[str]:
    """What is handed to the errors that a function makes."""
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in ("PolicyError", "LogError", "unavailable", "add"):
            yield from map(ast.unparse, [*call.args, *(keyword.value for keyword in call.keywords)])


def test_every_error_about_a_limit_names_the_option() -> None:
    said = list(told(lambda argument: argument.endswith("Kind.RESOURCE_EXHAUSTED")))
    assert len(said) >= 4
    assert [where for where, error in said if not any(re.search(rf"\b{name}\b", error) for name in options())] == []


def test_errors_are_found_in_tables_too() -> None:
    assert [where for where, _ in told(lambda argument: argument == "Kind.RESOURCE_EXHAUSTED") if "client/refusals.py: line" in where]


def test_no_error_says_to_raise_something_without_a_name() -> None:
    nameless = re.compile(r"\braise (?:the|its|that|this) limit")
    assert [path for path, text in sources().items() if nameless.search(text)] == []


@pytest.mark.parametrize(
    ("reason", "names"),
    [
        ("TOO_MANY_NAMESPACES", ("max_loaded_namespaces", "max_loaded_keys")),
        ("TOO_MANY_WATCHES", ("max_watches", "max_health_watches")),
        ("TOO_MANY_SELECTORS", ("max_selectors_per_watch",)),
        ("TOO_MANY_UPDATES", ("max_waiting_per_key",)),
        ("MESSAGE_TOO_LARGE", ("max_message_bytes",)),
        ("LOG_BUSY", ("max_in_flight_per_namespace",)),
        ("LOAD_TIMEOUT", ("load_timeout_seconds", "max_concurrent_loads")),
    ],
)
def test_the_limit_behind_a_reason_is_named_wherever_the_reason_is_given(reason: str, names: tuple[str, ...]) -> None:
    said = list(told(lambda argument: argument == f"Reason.{reason}"))
    assert said
    assert [where for where, error in said if not any(re.search(rf"\b{name}\b", error) for name in names)] == []


def test_the_image_keeps_the_log_that_nobody_named_on_its_volume() -> None:
    image = (Path(__file__).parents[2] / "Dockerfile").read_text()
    around = dict(re.findall(r"\b([A-Z_]+)=(\S+)", re.findall(r"(?m)^ENV (.*)$", image)[0]))
    (volume,) = re.findall(r"(?m)^VOLUME (.*)$", image)
    assert str(data_folder(around, "linux")) == volume
    assert 'CMD ["serve"]' in image
    named = set(re.findall(r"-e (TOPICPOLICIES_\w+)", image))
    assert named and named <= {option.variable for option in options().values()}


def test_a_configuration_needs_nothing_but_its_log() -> None:
    required = [each.name for each in dataclasses.fields(ServerConfig) if each.default is each.default_factory is dataclasses.MISSING]
    assert required == ["log"]


def test_no_numbers_value_is_called_a_text() -> None:
    numbers = [each for each in options().values() if each.kind in (Kind.WHOLE, Kind.NUMBER)]
    assert len(numbers) > 30 and [each.name for each in numbers if each.metavar == "TEXT"] == []
