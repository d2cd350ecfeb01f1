"""Generates what is committed of the Protobuf definitions (code, the API reference, the comments that ``explain`` shows), and compares it.

``python proto/generate.py`` writes it, ``--check`` writes nothing and fails if anything would change. The generators come from lock files
or are pinned, so that everybody generates the same. One module per language beside this one; Python's is here, by grpcio-tools and
mypy-protobuf. Not generated, and left alone: ``__init__.py``. Java's code is not committed: Java's build makes it (``clients/java/stubs``).
"""

import argparse
import difflib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

if not __package__:  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from proto import compiler, descriptors, documented, generate_go, generate_reference, generate_typescript
from proto.tools import ToolMissingError

_PROTO = Path(__file__).resolve().parent
_PYTHON = _PROTO.parent / "clients" / "python"
_SERVICES = ("service.proto", "history.proto")
"""The files that have services."""
_PATTERN = "topicpolicies/v1/*_pb2*.py*"


class Language(NamedTuple):
    """What is generated for one language, or for readers."""

    name: str
    out: Path
    """Where the committed code is."""
    pattern: str
    """Which files below it are generated."""
    generate: Callable[[Path, Path], None]
    """Writes the code of the definitions, the second argument, into an empty directory, the first."""


def generate(out: Path, proto: Path = _PROTO) -> None:
    """Writes messages and their stubs, and, of the files that have services, the gRPC code and its stubs.

    Raises:
        ValueError: the definitions do not compile; protoc has said why on standard error.
    """
    files = compiler.definitions(proto)
    services = [file for file in files if Path(file).name in _SERVICES]
    _run(proto, [f"--python_out={out}", _plugin("mypy"), f"--mypy_out=quiet:{out}"], files)
    _run(proto, [f"--grpc_python_out={out}", _plugin("mypy_grpc"), f"--mypy_grpc_out=quiet:{out}"], services)


def generate_comments(out: Path, proto: Path) -> None:
    """Writes the comments of the policies as JSON, by name: what ``topicpolicies explain`` shows.

    Raises:
        ValueError: the definitions do not compile; protoc has said why on standard error.
    """
    files = [each for each in descriptors.ours(descriptors.read(proto)) if Path(each.name).name == "policies.proto"]
    comments = {name: comment for file in files for name, comment in documented.comments_of(documented.file(file))}
    (out / "fields.json").write_text(json.dumps(comments, indent=1, sort_keys=True) + "\n")


def differences(committed: Path, fresh: Path, pattern: str = _PATTERN) -> list[str]:
    """What has to change for the committed code to be what is generated: a unified diff, empty if nothing has."""
    names = sorted({path.relative_to(root).as_posix() for root in (committed, fresh) for path in root.glob(pattern)})
    lines: list[str] = []
    for name in names:
        old, new = (_lines(root / name) for root in (committed, fresh))
        lines += difflib.unified_diff(old, new, f"committed/{name}", f"generated/{name}")
    return lines


def write(language: Language, fresh: Path) -> None:
    """Puts what was generated in the place of what is committed."""
    for path in language.out.glob(language.pattern):
        path.unlink()
    for path in fresh.glob(language.pattern):
        target = language.out / path.relative_to(fresh)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text())


def _run(proto: Path, options: list[str], files: list[str]) -> None:
    if not compiler.compiled(proto, options, files):
        raise ValueError(f"{', '.join(files)} did not compile")


def _plugin(name: str) -> str:
    """The plugin of this environment, whatever the path says."""
    return f"--plugin=protoc-gen-{name}={Path(sys.executable).with_name(f'protoc-gen-{name}')}"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True) if path.exists() else []


LANGUAGES = (
    Language("Python", _PYTHON, _PATTERN, generate),
    Language("Go", generate_go.OUT, generate_go.PATTERN, generate_go.generate),
    Language("TypeScript", generate_typescript.OUT, generate_typescript.PATTERN, generate_typescript.generate),
)
COMMENTS = Language("comments", _PROTO.parent / "server" / "topicpolicies_server" / "declared", "fields.json", generate_comments)
REFERENCE = Language("API reference", generate_reference.OUT, generate_reference.PATTERN, generate_reference.generate)


def main() -> int:
    """Generates or compares; 1 if the committed code is not what is generated, or can't be generated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check: bool = parser.parse_args().check
    changed, failed = [], False
    for language in (*LANGUAGES, REFERENCE, COMMENTS):
        with tempfile.TemporaryDirectory() as directory:
            fresh = Path(directory)
            try:
                language.generate(fresh, _PROTO)
            except (ToolMissingError, ValueError) as error:
                print(f"{language.name}: {error}", file=sys.stderr)
                failed = True
                continue
            changes = differences(language.out, fresh, language.pattern)
            if changes:
                changed.append(language.name)
            if check:
                sys.stdout.writelines(changes)
            elif changes:
                write(language, fresh)
    if check and changed:
        print(f"\nThe committed code is not what proto/ generates ({', '.join(changed)}); run: python3 dev.py generate", file=sys.stderr)
        return 1
    print(f"generated for {', '.join(changed)}" if changed else "nothing has changed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
