"""Load the messages of a protobuf schema from a registry: a file and its imports, in a separate pool.

A pool for each schema, because two versions of a file may not be in one.
"""

from __future__ import annotations

from base64 import b64decode
from importlib import import_module

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from streaming.codecs.contract import Undecodable
from streaming.codecs.registry import MAX_REFERENCES, Registry, Schema

FORMAT = "serialized"  # a FileDescriptorProto in base64
_MODULES = [
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
]
WELL_KNOWN = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (import_module(f"google.protobuf.{name}_pb2") for name in _MODULES)
}


def file_of(registry: Registry, schema: Schema, name: str) -> FileDescriptor:
    """`name` is for the file itself, which the registry need not name."""
    files: dict[str, FileDescriptorProto] = {}
    _collect(registry, schema, name, files)
    pool = DescriptorPool()
    _add(pool, name, files, set())
    return pool.FindFileByName(name)


def _collect(registry: Registry, schema: Schema, name: str, files: dict[str, FileDescriptorProto]) -> None:
    if len(files) > MAX_REFERENCES:
        raise Undecodable(f"the schema refers to more than {MAX_REFERENCES} other schemas")
    files[name] = FileDescriptorProto.FromString(b64decode(schema.text, validate=True))
    files[name].name = name
    for reference in schema.references:
        if reference.name not in files:
            _collect(registry, registry.referenced(reference, FORMAT), reference.name, files)


def _add(pool: DescriptorPool, name: str, files: dict[str, FileDescriptorProto], done: set[str]) -> None:
    """Add the files that a file imports, then the file.

    An import that nobody has becomes an empty file. Mostly it only holds options for other tools; otherwise the pool
    names the missing type.
    """
    done.add(name)
    file = files.get(name) or FileDescriptorProto.FromString(WELL_KNOWN.get(name, b""))
    file.name = name
    for imported in file.dependency:
        if imported not in done:
            _add(pool, imported, files, done)
    pool.Add(file)
