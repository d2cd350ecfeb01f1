"""The built distribution: one wheel with three packages, whose base needs only gRPC and Protobuf."""

import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built as for a release."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out], cwd=_ROOT, check=True)
    (built,) = out.iterdir()
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_has_the_packages_with_their_types_and_no_others(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"topicpolicies", "topicpolicies_server", "topicpolicies_spark"}
    assert {
        "topicpolicies/py.typed",
        "topicpolicies_server/py.typed",
        "topicpolicies_spark/py.typed",
        "topicpolicies/v1/service_pb2_grpc.pyi",
    } <= names
    for package in ("clients/python/topicpolicies", "clients/spark/topicpolicies_spark", "server/topicpolicies_server"):
        parent = (_ROOT / package).parent
        assert {path.relative_to(parent).as_posix() for path in (_ROOT / package).rglob("*.py")} <= names


def test_the_base_requires_only_grpc_and_protobuf(metadata: Message) -> None:
    wanted = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    assert {requirement.name for requirement in wanted if requirement.marker is None} == {"googleapis-common-protos", "grpcio", "protobuf"}
    assert set(metadata.get_all("Provides-Extra", [])) >= {"cli", "server", "dev"}


def test_the_wheel_names_its_licence_and_contains_its_text(metadata: Message, wheel: zipfile.ZipFile) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    (licence,) = (name for name in wheel.namelist() if name.endswith("/LICENSE"))
    assert "Apache License" in wheel.read(licence).decode()


def test_the_wheel_declares_the_command_topicpolicies(wheel: zipfile.ZipFile) -> None:
    (points,) = (name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    assert "topicpolicies = topicpolicies_server.entry:main" in wheel.read(points).decode()
