"""The definitions as protoc reads them: one descriptor set, with all that they import and with their comments."""

from __future__ import annotations

import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from proto import compiler

PROTO = Path(__file__).resolve().parent
"""The root of the definitions."""
_OURS = "topicpolicies/"


def read(definitions: Path = PROTO) -> FileDescriptorSet:
    """Compiles the definitions below a root.

    Raises:
        ValueError: they do not compile; protoc has said why on standard error.
    """
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "set.binpb"
        options = ["--include_imports", "--include_source_info", f"--descriptor_set_out={out}"]
        if not compiler.compiled(definitions, options, compiler.definitions(definitions)):
            raise ValueError("the definitions did not compile")
        return FileDescriptorSet.FromString(out.read_bytes())


def ours(descriptors: FileDescriptorSet) -> list[FileDescriptorProto]:
    """The files of this project; the others are imported from elsewhere."""
    return [file for file in descriptors.file if file.name.startswith(_OURS)]
