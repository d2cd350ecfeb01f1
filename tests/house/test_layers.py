"""No import goes to a higher layer, in the core or in the server, and there are no import cycles. Imports for types count."""

from __future__ import annotations

import ast
import graphlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

_SERVER = Path(__file__).resolve().parents[2] / "server" / "topicpolicies_server"

CORE = (("reasons", "traces"), ("errors",), ("names",), ("policies",), ("changes",), ("fold",), ("reading",), ("chains",))
"""The packages and modules of the core, the lowest layer first. Those of one layer do not import each other."""
SERVER = (
    ("core", "escaping", "files", "sqlite_file"),
    ("config", "tasks"),
    ("logs",),
    ("history", "checkpoints", "cluster", "readiness"),
    ("access",),
    ("namespaces",),
    ("ops", "declared"),
    ("process",),
    ("guard",),
    ("rpc",),
    ("cli",),
    ("__main__",),
)
"""The packages and modules of the server, the lowest layer first."""


def imported(path: Path, package: Sequence[str]) -> Iterator[str]:
    """Yields the full names that a module imports; for ``from a import b`` that is ``a.b``, because b may be a module."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            yield from (".".join([*base, *filter(None, [node.module]), name.name]) for name in node.names)


def upward(root: Path, name: str, layers: Sequence[Sequence[str]]) -> list[str]:
    """Returns the imports within the package ``name`` in the folder ``root`` that go to the same or a higher layer, or have no layer."""
    height = {part: number for number, layer in enumerate(layers) for part in layer}
    found = []
    for path in sorted(root.rglob("*.py")):
        inner = path.relative_to(root).with_suffix("").parts
        if inner == ("__init__",):
            continue
        for full in imported(path, (*name.split("."), *inner[:-1])):
            if not full.startswith(f"{name}."):
                continue
            other = full[len(name) + 1 :].partition(".")[0]
            if inner[0] not in height or other not in height or (other != inner[0] and height[other] >= height[inner[0]]):
                found.append(f"{path.relative_to(root).as_posix()} imports {full}")
    return found


def circle(root: Path, name: str) -> list[str]:
    """Returns a cycle of modules of the package ``name`` in ``root``, each imported by the next; the first is repeated at the end."""
    packages = {path: (*name.split("."), *path.relative_to(root).parts[:-1]) for path in root.rglob("*.py")}
    modules = {".".join((*package, path.stem) if path.stem != "__init__" else package): path for path, package in packages.items()}
    graph = {
        module: {other for full in imported(path, packages[path]) if (other := _module(full, modules))} for module, path in modules.items()
    }
    try:
        graphlib.TopologicalSorter({module: others - {module} for module, others in graph.items()}).prepare()
    except graphlib.CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def _module(full: str, modules: Mapping[str, Path]) -> str:
    """Returns the module that has an imported name; "" if it is none of these."""
    while full and full not in modules:
        full = full.rpartition(".")[0]
    return full


def test_the_modules_of_the_server_have_no_import_cycles() -> None:
    assert circle(_SERVER, "topicpolicies_server") == []


def test_no_package_of_the_core_imports_from_its_own_or_a_higher_layer() -> None:
    assert upward(_SERVER / "core", "topicpolicies_server.core", CORE) == []


def test_no_package_of_the_server_imports_from_its_own_or_a_higher_layer() -> None:
    assert upward(_SERVER, "topicpolicies_server", SERVER) == []


def test_every_package_and_module_has_a_layer() -> None:
    def there(root: Path) -> set[str]:
        return {path.stem for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()} - {"__init__"}

    assert there(_SERVER / "core") == {part for layer in CORE for part in layer}
    assert there(_SERVER) == {part for layer in SERVER for part in layer}


@pytest.mark.parametrize(
    ("where", "line", "what"),
    [
        ("changes/rules.py", "from ..fold.fold import fold", "fold.fold.fold"),
        ("fold/fold.py", "from ..chains import sequencer", "chains.sequencer"),
        ("fold/fold.py", "if TYPE_CHECKING:\n    from ..reading.view import View", "reading.view.View"),
        ("reading/view.py", "def late():\n    from ..chains import sequencer", "chains.sequencer"),
        ("names.py", "from .policies.events import Position", "policies.events.Position"),
        ("names.py", "import topicpolicies_server.core.unheard_of", "unheard_of"),
    ],
)
def test_a_planted_import_from_a_higher_layer_is_reported(tmp_path: Path, where: str, line: str, what: str) -> None:
    core = shutil.copytree(_SERVER / "core", tmp_path / "core")
    with (core / where).open("a") as module:
        module.write(f"\n\n{line}\n")
    assert upward(core, "topicpolicies_server.core", CORE) == [f"{where} imports topicpolicies_server.core.{what}"]


def test_a_planted_import_cycle_is_reported(tmp_path: Path) -> None:
    server = shutil.copytree(_SERVER, tmp_path / "topicpolicies_server")
    with (server / "rpc" / "changes.py").open("a") as module:
        module.write("\n\nif TYPE_CHECKING:\n    from .server import Server\n")
    found = circle(server, "topicpolicies_server")
    assert found[0] == found[-1]
    assert {"topicpolicies_server.rpc.server", "topicpolicies_server.rpc.changes"} <= {*found}
