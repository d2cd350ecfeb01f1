"""The Java code of the Protobuf definitions, by protoc and its gRPC plug-in, which Maven resolves as executables.

The versions are those that the poms of ``clients/java`` name: the ones of a Pulsar broker, in which the broker plug-in runs.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from proto import coordinates
from proto.tools import ROOT, ToolMissingError, definitions, imported

_POM = ROOT / "clients" / "java" / "pom.xml"
_TOOLS = ROOT / ".cache" / "java-tools"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_SYSTEMS = {"Linux": "linux", "Darwin": "osx", "Windows": "windows"}
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch_64", "arm64": "aarch_64"}

OUT = ROOT / "clients" / "java" / "stubs" / "src" / "main" / "java"
"""Where the committed code is; nothing else is there."""
PATTERN = f"{coordinates.wanted()['java.package'].replace('.', '/')}/v1/*.java"
"""Which files there are generated."""


def generate(out: Path, proto: Path) -> None:
    """Writes the messages and the gRPC code.

    Args:
        out: an empty directory.
        proto: the root of the definitions.

    Raises:
        ToolMissingError: a generator is not to be had here.
        ValueError: the definitions do not compile; protoc has said why on standard error.
    """
    protoc, plugin = _tool("com.google.protobuf", "protoc", "protobuf"), _tool("io.grpc", "protoc-gen-grpc-java", "grpc")
    with tempfile.TemporaryDirectory() as well_known:
        _well_known(Path(well_known))
        command = [str(protoc), f"--proto_path={proto}", f"--proto_path={well_known}", f"--java_out={out}"]
        command += [f"--plugin=protoc-gen-grpc-java={plugin}", f"--grpc-java_out=@generated=omit:{out}", *definitions(proto)]
        if subprocess.run(command, check=False).returncode != 0:  # noqa: S603 - a command of this file
            raise ValueError("the definitions did not compile for Java")
    for path in out.rglob("*.java"):
        path.write_text("".join(f"{line.rstrip()}\n" for line in path.read_text().splitlines()))


def _well_known(directory: Path) -> None:
    """The definitions that ours import: those that come with protoc, which its Maven artifact lacks, and ``google.rpc``."""
    for root in imported():
        for package in ("google/protobuf", "google/rpc"):
            for each in (root / package).glob("*.proto"):
                target = directory / package / each.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(each.read_bytes())


def _tool(group: str, artifact: str, name: str) -> Path:
    """An executable, resolved once."""
    found = re.search(rf"<{name}\.version>([^<]+)</{name}\.version>", _POM.read_text())
    if found is None:
        raise ToolMissingError(f"{_POM} names no {name}.version.")
    try:
        classifier = f"{_SYSTEMS[platform.system()]}-{_MACHINES[platform.machine().lower()]}"
    except KeyError:
        raise ToolMissingError(f"There is no {artifact} for {platform.system()} on {platform.machine()}.") from None
    path = _TOOLS / f"{artifact}-{found[1]}-{classifier}.exe"
    if not path.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise ToolMissingError(
                f"mvn (Maven) is missing: it resolves {artifact}, which generates the Java code. Install it and put it on the path."
            )
        coordinates = f"{group}:{artifact}:{found[1]}:exe:{classifier}"
        command = [maven, "--batch-mode", "--quiet", "--no-transfer-progress", "--strict-checksums", _COPY]
        command += [f"-Dartifact={coordinates}", f"-DoutputDirectory={_TOOLS}"]
        _TOOLS.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(  # noqa: S603 - a command of this file
            command, cwd=_TOOLS, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ToolMissingError(f"Maven could not resolve {coordinates}:\n{done.stdout[-2000:]}")
    path.chmod(0o755)
    return path
