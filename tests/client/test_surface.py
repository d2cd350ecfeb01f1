"""The public names of the package, and its dependencies."""

from __future__ import annotations

import inspect
import subprocess
import sys

import topicpolicies
from topicpolicies import AsyncClient, Client
from topicpolicies_server.config import DEFAULT_PORT


def test_every_public_class_and_function_is_documented() -> None:
    shown = {name: each for name, each in vars(topicpolicies).items() if getattr(each, "__module__", "").startswith("topicpolicies.")}
    own = {name: each for name, each in shown.items() if not each.__module__.startswith("topicpolicies.v1")}
    assert {"Client", "AsyncClient", "PolicyCache", "update_request"} <= own.keys()
    assert [name for name, each in own.items() if not each.__doc__] == []
    assert {"TopicPolicies", "ChangeResult", "HistoryEntry", "PulsarEvent", "ErrorReason"} <= set(vars(topicpolicies))


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    def public(kind: type) -> dict[str, list[str]]:
        functions = {name: each for name, each in vars(kind).items() if not name.startswith("_") and callable(each)}
        return {name: list(inspect.signature(each).parameters) for name, each in functions.items()}

    assert public(Client) == public(AsyncClient)
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
