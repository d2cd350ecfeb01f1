"""The Go code of the Protobuf definitions, by protoc and Go's own generators."""

from __future__ import annotations

import re
from pathlib import Path

from proto import compiler, tools

OUT = tools.ROOT / "clients" / "go"
"""Where the committed code is."""
PATTERN = "topicpolicies/v1/*.pb.go"
"""Which files there are generated."""


def generate(out: Path, proto: Path) -> None:
    """Writes the messages and the gRPC code.

    Args:
        out: an empty directory.
        proto: the root of the definitions.

    Raises:
        ToolMissingError: Go is not to be had here.
        ValueError: the definitions do not compile; protoc has said why on standard error.
    """
    plugins = [f"--plugin=protoc-gen-{name}={tools.go_tool(*tool)}" for name, tool in tools.GO_GENERATORS.items()]
    (module,) = re.findall(r"^module (\S+)$", (OUT / "go.mod").read_text(), re.MULTILINE)
    options = [f"--go_out={out}", f"--go_opt=module={module}", f"--go-grpc_out={out}", f"--go-grpc_opt=module={module}"]
    if not compiler.compiled(proto, [*plugins, *options], compiler.definitions(proto)):
        raise ValueError("the definitions did not compile for Go")
