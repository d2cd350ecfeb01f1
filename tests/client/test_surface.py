"""The public names of the package, and its dependencies."""

from __future__ import annotations

import inspect
import subprocess
import sys

import topicpolicies
from topicpolicies import AsyncClient, Client
from topicpolicies_server.config import DEFAULT_PORT


def test_every_public_name_exists_once_and_is_documented() -> None:
    for name in topicpolicies.__all__:
        shown = getattr(topicpolicies, name)
        assert shown.__doc__ or not isinstance(shown, type) or hasattr(shown, "DESCRIPTOR"), name
    assert len(set(topicpolicies.__all__)) == len(topicpolicies.__all__)


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    def public(kind: type) -> dict[str, list[str]]:
        functions = {name: each for name, each in vars(kind).items() if not name.startswith("_") and callable(each)}
        return {name: list(inspect.signature(each).parameters) for name, each in functions.items()}

    assert public(Client) == public(AsyncClient)
    properties = [{name for name, each in vars(kind).items() if isinstance(each, property)} for kind in (Client, AsyncClient)]
    assert properties == [{"stub"}, {"stub"}]
    assert list(inspect.signature(Client).parameters) == list(inspect.signature(AsyncClient).parameters)


def test_the_default_target_is_the_default_port_of_the_server() -> None:
    assert f"localhost:{DEFAULT_PORT}" == topicpolicies.DEFAULT_TARGET


def test_the_client_needs_nothing_but_grpc_and_protobuf() -> None:
    script = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root in sys.stdlib_module_names or root in {"grpc", "google", "topicpolicies", "typing_extensions"}:
            return None
        if root.startswith("_") or root == "cython_runtime":
            return None
        raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import topicpolicies
print(topicpolicies.Client.__name__)
"""
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == "Client", done.stderr
