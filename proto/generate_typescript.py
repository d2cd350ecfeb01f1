"""The TypeScript code of the Protobuf definitions, by protoc and protoc-gen-es, in the version of the client's lock file."""

from __future__ import annotations

from pathlib import Path

from proto import compiler, tools

OUT = tools.TYPESCRIPT / "src" / "generated"
"""Where the committed code is."""
PATTERN = "**/*_pb.ts"
"""Which files there are generated."""
_DETAILS = ("google/rpc/error_details.proto", "google/rpc/status.proto")
"""What errors carry; for the other languages there are packages with the generated code of these."""


def generate(out: Path, proto: Path) -> None:
    """Writes the messages and the service's description.

    Args:
        out: an empty directory.
        proto: the root of the definitions.

    Raises:
        ToolMissingError: Node or npm is not to be had here.
        ValueError: the definitions do not compile; protoc has said why on standard error.
    """
    plugin = tools.node_modules() / ".bin" / "protoc-gen-es"
    options = [f"--plugin=protoc-gen-es={plugin}", f"--es_out={out}", "--es_opt=target=ts,import_extension=js"]
    if not compiler.compiled(proto, options, [*compiler.definitions(proto), *_DETAILS]):
        raise ValueError("the definitions did not compile for TypeScript")
