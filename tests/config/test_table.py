"""The table of options: every limit is an option, every option is read, and errors about a limit name its option."""

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
    """Returns the sources of the server's modules by path in the package, without those of ``config``."""
    paths = [path for path in SERVER.rglob("*.py") if path.parts[len(SERVER.parts)] != "config"]
    return {path.relative_to(SERVER).as_posix(): path.read_text() for path in paths}


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_an_option_with_bounds_default_and_help(name: str) -> None:
    option = options()[name]
    assert (option.least, option.most) == bounds()[name]
    assert option.default == getattr(Limits(), name)
    assert option.help.endswith(".") and option.section == "Limits"
    assert (option.flag, option.variable) == (f"--{name.replace('_', '-')}", f"TOPICPOLICIES_{name.upper()}")


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_read_and_limits_of_the_service_are_not_read_by_the_guard(name: str) -> None:
    readers = {path.partition("/")[0] for path, text in sources().items() if re.search(rf"limits\.{name}\b", text)}
    assert readers, f"no module reads {name}: it has no effect"
    if options()[name].read_by is ReadBy.SERVE:
        assert not readers & {"guard", "logs", "metrics"}, f"{name} is also read by code that a guard runs"


def test_every_option_that_is_not_a_limit_is_read_when_the_configuration_is_made() -> None:
    making = "".join((SERVER / "config" / name).read_text() for name in ("making.py", "deriving.py"))
    assert [name for name in options() if name not in LIMITS and f'"{name}"' not in making] == []


@pytest.mark.parametrize("option", options().values(), ids=lambda option: option.name)
def test_a_value_as_it_is_shown_is_read_back(option: object) -> None:
    each = options()[option.name]  # type: ignore[attr-defined]
    if each.default not in (None, "", ()):
        assert each.read(written_value(each.default)) == each.default
    value = tomllib.loads(f"x = {in_toml(each)}")["x"]
    each.read(value)
    if each.kind in (Kind.WHOLE, Kind.NUMBER):
        assert each.read(written_value(each.least)) == each.least and each.read(written_value(each.most)) == each.most


def test_the_sample_file_loads_as_it_is_and_with_every_option_uncommented(tmp_path: Path) -> None:
    path = tmp_path / "sample.toml"
    path.write_text(sample())
    found = read_options({}, {}, path)
    assert not found.problems and not any(setting.given for setting in found.settings.values())
    path.write_text(re.sub(r"(?m)^#(\w+ = )", r"\1", sample()))
    found = read_options({}, {}, path)
    assert not found.problems and all(setting.given for setting in found.settings.values())
    defaults = {option.name: option.default for option in options().values() if not option.example}
    assert {name: found.value(name) for name in defaults} == defaults


def test_the_reference_is_the_one_in_the_documentation() -> None:
    text = DOCUMENTED.read_text()
    beginning, end = "<!-- topicpolicies config --reference -->\n\n", "<!-- end -->"
    assert text.partition(beginning)[2].partition(end)[0] == reference() + "\n", (
        "run topicpolicies config --reference, and copy its output there"
    )


def test_the_data_folder_follows_the_convention_of_each_system() -> None:
    home = {"HOME": "/somewhere/mine"}
    assert str(data_folder(home, "linux")) == "/somewhere/mine/.local/share/topicpolicies"
    assert str(data_folder(home | {"XDG_DATA_HOME": "/data"}, "linux")) == "/data/topicpolicies"
    assert str(data_folder(home | {"XDG_DATA_HOME": "data"}, "linux")) == "/somewhere/mine/.local/share/topicpolicies"
    assert str(data_folder(home, "darwin")) == "/somewhere/mine/Library/Application Support/topicpolicies"
    assert str(data_folder({"LOCALAPPDATA": r"D:\mine"}, "win32")) == r"D:\mine\topicpolicies"


def errors_with(marks: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Returns the place and texts of each maker of errors of which ``marks`` selects an argument, such as ``Kind.RESOURCE_EXHAUSTED``."""
    return ((where, text) for where, arguments, text in _making_errors() if any(map(marks, arguments)))


@functools.cache
def _making_errors() -> list[tuple[str, list[str], str]]:
    """Returns each function that makes errors, and each row of a table of errors: its place, the arguments, and its texts."""
    found = []
    for path, source in sources().items():
        module = ast.parse(source)
        found += [(f"{path}: line {row.lineno}", list(map(ast.unparse, row.elts)), _texts(row)) for row in _rows(module)]
        for function in ast.walk(module):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and (arguments := list(_arguments(function))):
                found.append((f"{path}: {function.name}", arguments, _texts(function)))
    return found


def _rows(module: ast.Module) -> Iterator[ast.Tuple]:
    """Returns the rows of a module's tables that have a kind or reason of errors."""
    for statement in module.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            for row in ast.walk(statement.value):
                if isinstance(row, ast.Tuple) and any(ast.unparse(each).startswith(("Kind.", "Reason.")) for each in row.elts):
                    yield row


def _texts(node: ast.AST) -> str:
    constants = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return " ".join(each for each in constants if isinstance(each, str))


def _arguments(function: ast.AST) -> Iterator[str]:
    """Returns the arguments of the errors that a function makes."""
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in ("PolicyError", "LogError", "unavailable", "add"):
            yield from map(ast.unparse, [*call.args, *(keyword.value for keyword in call.keywords)])


def test_every_error_about_a_limit_names_the_option() -> None:
    errors = list(errors_with(lambda argument: argument.endswith("Kind.RESOURCE_EXHAUSTED")))
    assert len(errors) >= 4
    assert [where for where, error in errors if not any(re.search(rf"\b{name}\b", error) for name in options())] == []


def test_errors_in_tables_are_found_by_these_tests() -> None:
    assert [
        where for where, _ in errors_with(lambda argument: argument == "Kind.RESOURCE_EXHAUSTED") if "client/refusals.py: line" in where
    ]


def test_no_error_suggests_to_raise_a_limit_without_naming_it() -> None:
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
def test_every_error_with_a_reason_of_a_limit_names_the_option(reason: str, names: tuple[str, ...]) -> None:
    errors = list(errors_with(lambda argument: argument == f"Reason.{reason}"))
    assert errors
    assert [where for where, error in errors if not any(re.search(rf"\b{name}\b", error) for name in names)] == []


def test_the_image_keeps_the_default_log_on_its_volume() -> None:
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


def test_no_numeric_option_is_shown_as_a_text() -> None:
    numbers = [each for each in options().values() if each.kind in (Kind.WHOLE, Kind.NUMBER)]
    assert len(numbers) > 30 and [each.name for each in numbers if each.metavar == "TEXT"] == []
