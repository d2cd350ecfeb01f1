"""dev.py: it refuses an old Python, installs packages once, and fails if the brokers for the tests can't be run."""

import ast
import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import dev
from tests.evidence import seeds_of

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A project with lock files of its own, in which installations are only recorded."""
    for name in ("dev", "server", "build"):
        (tmp_path / "requirements").mkdir(exist_ok=True)
        (tmp_path / "requirements" / f"{name}.txt").write_text("a==1 \\\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "REQUIREMENTS", tmp_path / "requirements")
    monkeypatch.setattr(dev, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(dev, "STAMP", tmp_path / ".venv" / "installed.json")
    noted: list[str] = []
    monkeypatch.setattr(dev, "make_venv", lambda **_: None)
    monkeypatch.setattr(dev, "quietly", lambda *command: noted.append(str(command[-1])))
    return noted


def test_an_old_python_is_refused_with_a_message_that_names_the_needed_version() -> None:
    ast.parse((_ROOT / "dev.py").read_text(), feature_version=(3, 7))
    script = f"import runpy, sys; sys.version_info = (3, 10, 4); runpy.run_path({str(_ROOT / 'dev.py')!r})"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stderr.strip() == "Python 3.11 or newer is needed; this is Python 3.10."


def test_dev_imports_only_the_standard_library() -> None:
    tree = ast.parse((_ROOT / "dev.py").read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module).split(".", maxsplit=1)[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names


def test_packages_are_installed_once_and_again_after_a_lock_file_has_changed(installed: list[str]) -> None:
    dev.install("dev")
    first = list(installed)
    assert first == [str(dev.REQUIREMENTS / "dev.txt"), str(dev.ROOT)]
    dev.install("dev")
    assert installed == first
    (dev.REQUIREMENTS / "dev.txt").write_text("a==2 \\\n")
    dev.install("dev")
    assert installed == first * 2


def test_the_packages_of_the_tests_suffice_for_the_server_but_not_the_reverse(installed: list[str]) -> None:
    dev.install("server")
    assert str(dev.REQUIREMENTS / "server.txt") in installed
    dev.install("dev")
    assert str(dev.REQUIREMENTS / "dev.txt") in installed
    done = len(installed)
    dev.install("server")
    assert len(installed) == done


def test_generators_are_fetched_while_packages_are_installed_and_a_server_needs_none(
    installed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "proto").mkdir()
    (tmp_path / "proto" / "tools.py").write_text("import pathlib\npathlib.Path('began').touch()\ninput()\n")

    def install(*command: object) -> None:
        end = time.monotonic() + 20
        while not (tmp_path / "began").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        installed.append(str(command[-1]))

    monkeypatch.setattr(dev, "quietly", install)
    dev.install("dev")
    assert installed == [str(dev.REQUIREMENTS / "dev.txt"), str(dev.ROOT)], "a failed fetch does not stop the installation"
    (tmp_path / "began").unlink()
    (tmp_path / "pyproject.toml").write_text("changed = true")
    monkeypatch.setattr(dev, "quietly", lambda *command: installed.append(str(command[-1])))
    dev.install("server")
    assert str(dev.REQUIREMENTS / "server.txt") in installed
    assert not (tmp_path / "began").exists(), "a server needs no generators"


def test_fetching_generators_needs_only_the_standard_library() -> None:
    script = "import sys; import proto.tools; print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    answer = subprocess.run([sys.executable, "-S", "-c", script], cwd=_ROOT, capture_output=True, text=True, check=True)
    assert set(answer.stdout.split()) <= {"__main__", "proto"}


_LOCK = (_ROOT / "requirements" / "dev.txt").read_text()


def _played(monkeypatch: pytest.MonkeyPatch, failing: str = "", configuration: str = "") -> dict[str, str]:
    """Replaces commands by ones that only record what they would install, by installer; the installer ``failing`` fails."""
    noted: dict[str, str] = {}

    def look(command: dev.Command) -> tuple[int, str, float]:
        words = list(map(str, command))
        if "config" in words:
            return 0, configuration, 0.0
        assert "--require-hashes" in words and "--only-binary=:all:" in words and "--no-deps" in words
        by = "uv" if words[0].endswith("uv") else "pip"
        noted[by] = noted.get(by, "") + "\n" + Path(words[-1]).read_text()
        return int(bool(failing) and failing == by), "", 0.0

    monkeypatch.setattr(dev, "look", look)
    for name in dev.INDEXES:
        monkeypatch.delenv(name, raising=False)
    return noted


def test_uv_and_pip_together_install_all_locked_packages(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (dev.REQUIREMENTS / "dev.txt").write_text(_LOCK)
    noted = _played(monkeypatch)
    dev.install("dev")
    assert installed == [str(dev.ROOT)], "pip alone did not install the packages"
    locked = sorted(line for line in _LOCK.splitlines() if "==" in line or "--hash" in line)
    assert sorted(line for part in noted.values() for line in part.splitlines() if "==" in line or "--hash" in line) == locked
    assert re.findall(r"(?m)^[\w-]+(?===)", noted["pip"]) == ["uv", "pyspark"]


@pytest.mark.parametrize("failing", ["uv", "pip"])
def test_pip_installs_everything_if_uv_or_its_share_fails(installed: list[str], monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    (dev.REQUIREMENTS / "dev.txt").write_text(_LOCK)
    _played(monkeypatch, failing)
    dev.install("dev")
    assert installed == [str(dev.REQUIREMENTS / "dev.txt"), str(dev.ROOT)]


@pytest.mark.parametrize("configured", ["variable", "file"])
def test_pip_alone_installs_if_it_has_an_index_of_its_own(installed: list[str], monkeypatch: pytest.MonkeyPatch, configured: str) -> None:
    (dev.REQUIREMENTS / "dev.txt").write_text(_LOCK)
    noted = _played(monkeypatch, configuration="global.index-url='https://packages.example/simple'" if configured == "file" else "")
    if configured == "variable":
        monkeypatch.setenv("PIP_INDEX_URL", "https://packages.example/simple")
    dev.install("dev")
    assert installed == [str(dev.REQUIREMENTS / "dev.txt"), str(dev.ROOT)]
    assert not noted


def test_packages_are_installed_into_an_environment_with_an_unknown_stamp(installed: list[str]) -> None:
    dev.STAMP.write_text("not ours")
    dev.install("dev")
    assert installed


def test_after_a_failed_installation_the_packages_are_installed_again(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dev.install("dev")

    def fail(*_: object) -> None:
        raise dev.Failure("no network")

    (dev.REQUIREMENTS / "dev.txt").write_text("a==2 \\\n")
    with monkeypatch.context() as patched:
        patched.setattr(dev, "quietly", fail)
        assert dev.main(["lint"]) == 1
    before = len(installed)
    dev.install("dev")
    assert len(installed) > before


@pytest.mark.parametrize("interrupted", ["as .venv is made", "as packages are installed", "never"])
def test_an_environment_that_an_interrupted_installation_has_left_is_made_again(
    monkeypatch: pytest.MonkeyPatch, installed: list[str], tmp_path: Path, interrupted: str
) -> None:
    monkeypatch.undo()
    for name, path in (("ROOT", ""), ("REQUIREMENTS", "requirements"), ("VENV", ".venv"), ("STAMP", ".venv/installed.json")):
        monkeypatch.setattr(dev, name, tmp_path / path)
    monkeypatch.setattr(dev, "PYTHON", sys.executable)
    monkeypatch.setattr(dev, "generators", contextlib.nullcontext)
    asked: list[str] = []

    def quietly(*command: object) -> None:
        words = list(map(str, command))
        asked.append("venv" if "venv" in words else "pip")
        if (interrupted, asked) in (("as .venv is made", ["venv"]), ("as packages are installed", ["pip"])):
            raise KeyboardInterrupt

    monkeypatch.setattr(dev, "quietly", quietly)
    if interrupted == "as .venv is made":
        with monkeypatch.context() as missing:
            missing.setattr(dev, "PYTHON", tmp_path / "no python")
            assert dev.main(["lint"]) == 130
    elif interrupted == "as packages are installed":
        assert dev.main(["lint"]) == 130
    asked.clear()
    interrupted_then, interrupted = interrupted, "never"
    dev.install("dev")
    assert asked == (["pip", "pip"] if interrupted_then == "never" else ["venv", "pip", "pip"])
    asked.clear()
    (tmp_path / "pyproject.toml").write_text("changed = true")
    dev.install("dev")
    assert asked == ["pip", "pip"], "a complete environment is kept"


def test_a_moved_environment_is_made_again(monkeypatch: pytest.MonkeyPatch, installed: list[str], tmp_path: Path) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(dev, "make_venv", lambda *, anew: asked.append(anew))
    dev.install("dev")
    dev.install("dev")
    assert asked == [False]
    there = tmp_path / "there"
    dev.VENV.rename(there)
    monkeypatch.setattr(dev, "VENV", there)
    monkeypatch.setattr(dev, "STAMP", there / dev.STAMP.name)
    before = len(installed)
    dev.install("dev")
    assert asked == [False, True] and len(installed) > before
    dev.install("dev")
    assert asked == [False, True]


def test_the_error_of_a_failing_command_has_its_whole_output(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(dev.Failure, match=r"(?s)first\nsecond\n.*This failed: "):
        dev.quietly(sys.executable, "-c", "print('first'); print('second'); raise SystemExit(3)")
    assert "first" not in capfd.readouterr().out


def test_progress_is_cut_at_the_terminals_width(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for columns in (40, 200):
        terminal = Terminal()
        with monkeypatch.context() as patch:
            patch.setenv("COLUMNS", str(columns))
            patch.setattr(sys, "stdout", terminal)
            dev.quietly(sys.executable, "-c", "print('x' * 300)")
        assert "\r\x1b[K" + "x" * (columns - 1) + "\r" in terminal.getvalue()


@pytest.mark.parametrize("command", sorted({*dev.COMMANDS} - {*dev.WITH_HELP}))
def test_help_installs_and_runs_nothing(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str) -> None:
    for name in ("install", "install_brokers", "verify", "run"):
        monkeypatch.setattr(dev, name, lambda *_, **_extra: pytest.fail("it began"))
    for form in ("-h", "--help"):
        assert dev.main([command, form]) == 0
        told = capfd.readouterr().out
        assert told.startswith(f"usage: dev.py {command} ") and str(dev.COMMANDS[command].__doc__) in told


def test_if_no_broker_can_be_run_nothing_is_tested_and_the_command_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(dev, "verify", lambda *_: pytest.fail("it went on"))
    monkeypatch.setattr(dev, "install", lambda _: None)
    assert dev.main(["test"]) == 1
    errors = capfd.readouterr().err
    assert "JDK 17 or newer is missing" in errors
    assert "nothing was tested" in errors


def test_brokers_are_resolved_while_packages_are_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests" / "broker").mkdir(parents=True)
    waits = "import pathlib, sys, time\nend = time.monotonic() + 20\nwhile not pathlib.Path('installed').exists():\n"
    waits += "    assert time.monotonic() < end\n    time.sleep(0.01)\nprint(*sys.argv[1:])\n"
    for name in ("__init__.py", "broker/__init__.py"):
        (tmp_path / "tests" / name).touch()
    (tmp_path / "tests" / "broker" / "jars.py").write_text(waits)
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "NOTHING_IS_MISSING_S", 0.01)
    monkeypatch.setattr(dev, "install", lambda _: (tmp_path / "installed").touch())
    monkeypatch.setattr(dev, "run", lambda *_: 0)
    dev.install_brokers()
    assert capfd.readouterr().out == f"== brokers\n{' '.join(dev.BROKERS)}\n"


def test_a_failed_inspection_fails_the_command_although_the_tests_pass(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "install", lambda _: None)
    monkeypatch.setattr(dev, "run", lambda program, *_, **__: int(Path(program).name == "mypy"))
    assert dev.main(["check"]) == 1
    assert "Not in order: types" in capfd.readouterr().err
    monkeypatch.setattr(dev, "run", lambda *_, **__: 0)
    assert dev.main(["check"]) == 0


def test_inspections_run_at_the_same_time_and_are_printed_in_their_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = f"file = pathlib.Path({str(tmp_path / 'second')!r})"
    first = f"import pathlib, time; {file}\nwhile not file.exists(): time.sleep(0.01)\nprint('first')"
    second = f"import pathlib, sys; {file}\nfile.touch()\nprint('second', file=sys.stderr)\nraise SystemExit(3)"
    assert dev.inspect({"one": (sys.executable, "-c", first), "two": (sys.executable, "-c", second)}) == ["two"]
    assert re.fullmatch(r"== one\nfirst\nin order \(.* s\)\n== two\nsecond\nnot in order\n", capfd.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("test", {"slow", "broker", "neither"}),
        ("check", {"neither"}),
        ("evidence", {"evidence"}),
    ],
)
def test_each_command_runs_the_tests_with_its_markers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, wanted: set[str]
) -> None:
    asked: list[tuple[str | Path, ...]] = []

    def run(*command: str | Path, **_: object) -> int:
        asked.append(command)
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(dev, "install_brokers", lambda: None)
        patched.setattr(dev, "install", lambda _: None)
        patched.setattr(dev, "run", run)
        assert dev.main([command]) == 0
    (tests,) = (each[each.index("pytest") :] for each in asked if "pytest" in each)
    marks = {"slow": "slow", "broker": "broker", "evidence": "evidence", "neither": "simulation"}
    written = "".join(f"@pytest.mark.{mark}\ndef test_{name}(): pass\n" for name, mark in marks.items())
    (tmp_path / "test_each.py").write_text(f"import pytest\n{written}")
    collect = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-m", tests[tests.index("-m") + 1])
    output = subprocess.check_output(collect, text=True, cwd=tmp_path)
    assert set(re.findall(r"::test_(\w+)", output)) == wanted


@pytest.mark.parametrize(("free", "chosen", "wanted"), [(1 << 40, "", True), (1 << 20, "", False), (1 << 40, "elsewhere", False)])
def test_temporary_files_are_in_memory_if_there_is_room_and_no_other_folder_was_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, chosen: str, wanted: bool
) -> None:
    monkeypatch.setattr(dev, "MEMORY", tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.delenv("TMPDIR", raising=False)
    if chosen:
        monkeypatch.setenv("TMPDIR", chosen)
    with dev.files_in_memory():
        assert (Path(os.environ.get("TMPDIR", "")).parent == tmp_path) is wanted
        assert len(list(tmp_path.iterdir())) == wanted
    assert os.environ.get("TMPDIR", "") == chosen and not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 3])
def test_the_parts_of_the_evidence_have_all_seeds_from_the_end_of_the_first_ones_on(parts: int) -> None:
    asked = (sys.executable, "-m", "pytest", "--collect-only", "-q", f"--parts={parts}", "-m", "evidence", "tests/simulation")
    output = subprocess.check_output(asked, text=True, cwd=_ROOT)
    assert set(re.findall(r"many_more_runs\[(?:.*-)?(\d+)", output)) == {str(part) for part in range(parts)}
    seeds = [seed for part in range(parts) for seed in seeds_of(part, 30, 70)]
    assert seeds == list(range(30, 30 + 70 * parts))


_INTERRUPTED = """
import signal, sys
import dev

dev.install = lambda _: None
dev.inspect = lambda _: []
dev.keep_what_is_compiled = lambda: None
dev.PATIENCE_S = float(sys.argv[1])
dev.PYTHON = sys.executable
run = dev.run
dev.run = lambda *_: run(sys.executable, "-c", sys.argv[2])
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in the background
dev.listen()
sys.exit(dev.main(["check"]))
"""
_ENDING_IN_ORDER = """
import pathlib, signal, time

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
signal.signal(signal.SIGTERM, interrupt)
try:
    pathlib.Path(FOLDER, "begun").touch()
    time.sleep(60)
finally:
    time.sleep(1)
    pathlib.Path(FOLDER, "taken down").touch()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are other signals")
@pytest.mark.parametrize(
    ("number", "whom", "patience", "status"),
    [
        (signal.SIGINT, "all", 20, 130),
        (signal.SIGINT, "dev.py", 1, 130),
        (signal.SIGTERM, "dev.py", 20, 143),
        (signal.SIGHUP, "dev.py", 20, 129),
    ],
)
def test_interrupted_tests_finish_their_teardown_before_dev_ends(
    tmp_path: Path, number: signal.Signals, whom: str, patience: float, status: int
) -> None:
    command = [sys.executable, "-c", _INTERRUPTED, str(patience), _ENDING_IN_ORDER.replace("FOLDER", repr(str(tmp_path)))]
    process = subprocess.Popen(command, cwd=_ROOT, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        if whom == "all":
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(30) == status
        assert (tmp_path / "taken down").exists()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_failing_tests_fail_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "install", lambda _: None)
    monkeypatch.setattr(dev, "run", lambda *command, **_: 5 if "pytest" in command else 0)
    assert dev.main(["check"]) == 5


def test_the_tests_write_bytecode_even_if_the_environment_turns_that_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    ask = (sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)")
    answers: list[str] = []

    def run(*command: str | Path, **_: object) -> int:
        if "pytest" in command:
            answers.append(subprocess.check_output(ask, text=True).strip())
        return 0

    monkeypatch.setattr(dev, "install", lambda _: None)
    monkeypatch.setattr(dev, "run", run)
    assert dev.main(["check"]) == 0
    assert answers == ["False"]


@pytest.mark.parametrize("compiled", [False, True])
def test_uncompiled_tests_are_compiled_by_one_process_before_they_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: bool
) -> None:
    (tmp_path / "tests" / "__pycache__").mkdir(parents=True)
    if not compiled:
        (tmp_path / "tests" / "__pycache__").rmdir()
    asked: list[str] = []

    def run(*command: str | Path, **_: object) -> int:
        asked.extend(each for each in command if each in ("tests.collecting", "pytest"))
        return 0

    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "install", lambda _: None)
    monkeypatch.setattr(dev, "run", run)
    assert dev.main(["check"]) == 0
    assert asked == (["pytest"] if compiled else ["tests.collecting", "pytest"])


def test_the_readme_continuous_integration_and_make_use_the_commands_of_dev() -> None:
    steps = [line for line in (_ROOT / ".ci" / "run").read_text().splitlines() if "python3" in line]
    assert steps == ["exec python3 dev.py test"]
    readme = (_ROOT / "README.md").read_text()
    assert re.search(r"^python3 dev\.py test\b", readme, re.MULTILINE)
    assert set(re.findall(r"python3 dev\.py (\w+)", readme)) <= set(dev.COMMANDS)
    phony = re.search(r"^\.PHONY: (.*)$", (_ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(dev.COMMANDS)
