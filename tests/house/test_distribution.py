"""The built distributions: a client that needs only gRPC and Protobuf, and the server with the command line and the audit."""

import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

_ROOT = Path(__file__).resolve().parents[2]
_CLIENT = _ROOT / "clients/python"


class Wheel:
    """A wheel, built as for a release."""

    def __init__(self, project: Path, out: Path) -> None:
        subprocess.run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out], cwd=project, check=True)
        (built,) = out.iterdir()
        self.file = zipfile.ZipFile(built)
        self.names = set(self.file.namelist())

    def text(self, end: str) -> str:
        """Returns the one file whose name ends so."""
        (name,) = (name for name in self.names if name.endswith(end))
        return self.file.read(name).decode()

    @property
    def metadata(self) -> Message:
        return Parser().parsestr(self.text(".dist-info/METADATA"))

    @property
    def packages(self) -> set[str]:
        tops = {name.partition("/")[0] for name in self.names}
        return {top for top in tops if not top.endswith(".dist-info")}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return Wheel(_CLIENT, tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return Wheel(_ROOT, tmp_path_factory.mktemp("server"))


def test_the_wheels_have_their_packages_with_types_and_no_others(client: Wheel, server: Wheel) -> None:
    assert client.packages == {"topicpolicies"} and server.packages == {"topicpolicies_server", "topicpolicies_spark"}
    assert {"topicpolicies/py.typed", "topicpolicies/service_config.json", "topicpolicies/v1/service_pb2_grpc.pyi"} <= client.names
    assert {"topicpolicies_server/py.typed", "topicpolicies_spark/py.typed"} <= server.names
    for wheel, package in (
        (client, _CLIENT / "topicpolicies"),
        (server, _ROOT / "clients/spark/topicpolicies_spark"),
        (server, _ROOT / "server/topicpolicies_server"),
    ):
        assert {path.relative_to(package.parent).as_posix() for path in package.rglob("*.py")} <= wheel.names


def test_the_client_requires_only_grpc_and_protobuf_and_its_extras_the_server_of_its_version(client: Wheel, server: Wheel) -> None:
    wanted = [Requirement(text) for text in client.metadata.get_all("Requires-Dist", [])]
    assert {requirement.name for requirement in wanted if requirement.marker is None} == {"googleapis-common-protos", "grpcio", "protobuf"}
    others = {(requirement.name, str(requirement.specifier)) for requirement in wanted if requirement.marker is not None}
    assert others == {("topicpolicies-server", f"=={server.metadata['Version']}")}
    assert set(client.metadata.get_all("Provides-Extra", [])) <= set(server.metadata.get_all("Provides-Extra", []))
    assert f"topicpolicies=={client.metadata['Version']}" in server.metadata.get_all("Requires-Dist", [])


def test_the_wheels_name_their_licence_and_contain_its_text(client: Wheel, server: Wheel) -> None:
    for wheel in (client, server):
        assert wheel.metadata["License-Expression"] == "Apache-2.0"
        assert "Apache License" in wheel.text("/LICENSE")


def test_the_servers_wheel_declares_the_commands(client: Wheel, server: Wheel) -> None:
    assert "topicpolicies = topicpolicies_server.__main__:main" in server.text(".dist-info/entry_points.txt")
    assert not [name for name in client.names if name.endswith("entry_points.txt")]
