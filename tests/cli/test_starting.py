"""A server without options, and servers that can't start: each prints one sentence and exits with code 9."""

from __future__ import annotations

import itertools
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli import programs

pytestmark = pytest.mark.slow
PATHS = {"PYTHONPATH": ":".join(sys.path)}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "topicpolicies_server", *arguments]


def run(*arguments: str, **environment: str) -> programs.Ended:
    """Runs a command until it ends, in a fork."""
    return programs.run(arguments, environment)


def unforked(*arguments: str) -> tuple[int, str, str]:
    """Runs a command as a module in a new process."""
    ended = subprocess.run(command(*arguments), env=PATHS, capture_output=True, text=True, check=False, timeout=50)
    return ended.returncode, ended.stdout, ended.stderr


GRPC = re.compile(r"[IWE]\d{4} ")
"""Matches the beginning of a line by gRPC: it writes one, for example, if a free port of one address is taken at another."""


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[list[str]]:
    """Runs a server; yields its first two lines, without what lines of the log begin with, and without those of gRPC."""
    with subprocess.Popen(command("serve", *arguments), env=PATHS | environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            ours = (line.strip().partition(".serve: ")[2] for line in iter(process.stderr.readline, "") if not GRPC.match(line))
            yield list(itertools.islice(ours, 2))
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
    assert process.returncode == 0


def test_without_options_a_server_uses_the_users_data_folder_and_prints_its_path(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving("--listen", "127.0.0.1:0", HOME=str(home)) as (listening, kept):
        folder = home / ".local/share/topicpolicies"
        assert listening.startswith("Listening on 127.0.0.1:")
        assert kept == f"The change log is {folder / 'policies.db'}"
        assert (folder / "policies.db").is_file() and (folder / "policies.history.db").is_file()
        assert folder.stat().st_mode & 0o777 == 0o700


def test_the_environment_alone_configures_a_server(tmp_path: Path) -> None:
    log = str(tmp_path / "p.db")
    with serving(TOPICPOLICIES_LISTEN="127.0.0.1:0", TOPICPOLICIES_DATA=log) as (listening, kept):
        address = listening.removeprefix("Listening on ")
        info = run("info", "--output", "json", TOPICPOLICIES_SERVER=address)
        assert json.loads(info.stdout)["log"] == "LOG_KIND_EMBEDDED"
        assert kept == f"The change log is {log}"


def port_in_use(directory: Path) -> tuple[list[str], str]:
    del directory
    taken = socket.create_server(("127.0.0.1", 0))
    HELD.append(taken)
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    return ["--listen", address], f"nothing can listen on {address} (Address already in use): name another address"


def metrics_port_in_use(directory: Path) -> tuple[list[str], str]:
    arguments, message = port_in_use(directory)
    return ["--listen", "127.0.0.1:0", "--metrics-listen", arguments[1]], message


def unknown_host(directory: Path) -> tuple[list[str], str]:
    del directory
    return ["--listen", "no-such-host.invalid:6680", "--insecure-listen"], "the host name can't be resolved"


def no_such_address(directory: Path) -> tuple[list[str], str]:
    del directory
    return ["--listen", "192.0.2.1:6680", "--insecure-listen"], "Cannot assign requested address"


def no_directory_of_a_socket(directory: Path) -> tuple[list[str], str]:
    return ["--listen", f"unix:{directory}/none/socket"], "its directory does not exist"


def log_is_no_database(directory: Path) -> tuple[list[str], str]:
    (directory / "p.db").write_text("certainly not a database, whatever else it may be" * 100)
    return ["--listen", "127.0.0.1:0"], "p.db"


def log_in_no_folder(directory: Path) -> tuple[list[str], str]:
    return ["--listen", "127.0.0.1:0", "--data", f"{directory}/none/p.db"], "none/p.db.lock can't be opened: No such file or directory"


def history_in_no_folder(directory: Path) -> tuple[list[str], str]:
    return ["--listen", "127.0.0.1:0", "--history", f"{directory}/none/h.db"], "none/h.db.lock can't be opened: No such file or directory"


def access_log_in_no_folder(directory: Path) -> tuple[list[str], str]:
    return [
        "--listen",
        "127.0.0.1:0",
        "--access-log-file",
        f"{directory}/none/calls",
    ], "none/calls can't be used (No such file"


AUTHENTICATED = ("--authentication-providers", "oidc", "--oidc-issuers", "https://issuer.example", "--oidc-audiences", "topicpolicies")
HELD: list[socket.socket] = []


@pytest.fixture(autouse=True)
def nothing_held() -> Iterator[None]:
    yield
    while HELD:
        HELD.pop().close()


@pytest.mark.parametrize(
    "arrange",
    [
        *(port_in_use, metrics_port_in_use, unknown_host, no_such_address, no_directory_of_a_socket, log_is_no_database),
        *(log_in_no_folder, history_in_no_folder, access_log_in_no_folder),
    ],
)
def test_a_server_that_can_not_start_prints_the_reason_in_one_sentence(
    tmp_path: Path, arrange: Callable[[Path], tuple[list[str], str]]
) -> None:
    arguments, message = arrange(tmp_path)
    ended = run("serve", "--data", str(tmp_path / "p.db"), *arguments)
    assert ended.returncode == 9, ended.stderr
    assert "Traceback" not in ended.stderr
    (sentence,) = ended.stderr.splitlines()
    assert sentence.startswith("Error: the server could not start: ") and message in sentence


@pytest.mark.parametrize(
    ("what", "options", "problem"),
    [
        ("cluster file", ["--cluster-file"], "it has unknown keys: nonsense"),
        ("authorization file", [*AUTHENTICATED, "--authorization"], "nonsense is not a known key"),
    ],
)
def test_a_file_that_the_operator_wrote_wrongly_is_wrong_input_and_no_file_is_made(
    tmp_path: Path, what: str, options: list[str], problem: str
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("nonsense = 1")
    ended = run("serve", "--data", str(tmp_path / "p.db"), "--listen", "127.0.0.1:0", *options, str(path), "-o", "json")
    error = json.loads(ended.stderr)["error"]
    assert (ended.returncode, error["reason"]) == (2, "CONFIGURATION"), "which systemd does not try again"
    assert error["message"] == f'The {what} "{path}" can\'t be used: {problem}.'
    assert list(tmp_path.iterdir()) == [path]


def test_a_unix_socket_on_which_another_server_listens_is_not_taken_over(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    with serving("--data", str(tmp_path / "a.db"), "--listen", address) as (listening, _):
        assert listening == f"Listening on {address}"
        ended = run("serve", "--data", str(tmp_path / "b.db"), "--listen", address)
        assert ended.returncode == 9
        message = f"nothing can listen on {address} (another program listens there): name another address."
        assert ended.stderr == f"Error: the server could not start: {message}\n"
        assert run("health", "--server", address).returncode == 0
    with serving("--data", str(tmp_path / "b.db"), "--listen", address) as (listening, _):  # the socket that the first left is replaced
        assert listening == f"Listening on {address}"


def test_a_host_with_several_addresses_is_listened_on_at_those_that_are_possible(tmp_path: Path) -> None:
    with serving("--data", str(tmp_path / "p.db"), "--listen", "localhost:0") as (listening, _):
        assert listening.startswith("Listening on localhost:")


def test_a_demo_that_can_not_start_prints_the_reason_in_one_sentence(tmp_path: Path) -> None:
    arguments, message = port_in_use(tmp_path)
    ended = run("demo", "--once", *arguments)
    assert ended.returncode == 9, ended.stderr
    assert ended.stderr.splitlines()[-1] == f"Error: the demo could not start: {message}."


def test_the_reason_that_a_server_can_not_start_is_also_printed_as_json(tmp_path: Path) -> None:
    arguments, _ = port_in_use(tmp_path)
    ended = run("serve", "--data", str(tmp_path / "p.db"), *arguments, "--output", "json", "--log-level", "error")
    assert ended.returncode == 9
    assert json.loads(ended.stderr.splitlines()[-1])["error"]["reason"] == "ADDRESS"


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs a file system in which not even root can make a directory")
def test_a_data_folder_that_can_not_be_made_is_reported_in_one_sentence() -> None:
    ended = run("serve", XDG_DATA_HOME="/sys/kernel")
    assert ended.returncode == 9
    sentence = ended.stderr.splitlines()[-1]
    assert sentence.startswith("Error: the server could not start: /sys/kernel/topicpolicies can't be used (")
    assert sentence.endswith("): name another place.")


def test_a_data_folder_that_is_a_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "topicpolicies").write_text("x")
    ended = run("serve", XDG_DATA_HOME=str(tmp_path))
    assert ended.returncode == 9
    assert ended.stderr.splitlines()[-1].startswith(f"Error: the server could not start: {tmp_path}/topicpolicies can't be used (")


@pytest.mark.parametrize("arguments", [("--help",), ("serve", "--max-watche", "1")])
def test_the_module_and_the_program_have_the_same_output(arguments: tuple[str, ...]) -> None:
    one = unforked(*arguments)
    assert one == run(*arguments)
    assert "python -m" not in one[1] + one[2]
