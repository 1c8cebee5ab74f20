from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol, TypeAlias, final

from openchatml import Dialect, Form, ReadForm, Role

__all__ = [
    "ArrowArray",
    "convert",
    "count",
    "decode",
    "encode",
    "parse",
]

class ArrowArrayExportable(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class ArrowStreamExportable(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

Texts: TypeAlias = ArrowArrayExportable | ArrowStreamExportable | Sequence[str | None]

@final
class ArrowArray:
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...
    def __len__(self) -> int: ...

def encode(
    texts: Texts, encoding: str = "o200k_harmony", *, allow_specials: bool = False, num_threads: int | None = None
) -> ArrowArray: ...
def count(
    texts: Texts, encoding: str = "o200k_harmony", *, allow_specials: bool = False, num_threads: int | None = None
) -> ArrowArray: ...
def decode(
    ids: ArrowArrayExportable | ArrowStreamExportable,
    encoding: str = "o200k_harmony",
    *,
    num_threads: int | None = None,
) -> ArrowArray: ...
def parse(
    texts: Texts,
    dialect: Dialect | None = None,
    *,
    start_role: Role | Enum | None = None,
    tools: Sequence[str] = (),
    num_threads: int | None = None,
) -> ArrowArray: ...
def convert(
    texts: Texts,
    to: Form,
    *,
    dialect: ReadForm | None = None,
    thinking: bool = False,
    num_threads: int | None = None,
) -> ArrowArray: ...
