from collections.abc import Sequence
from enum import Enum
from typing import Any, Literal

from typing_extensions import Self, disjoint_base

from openchatml import (
    Amended as Amended,
    ChannelDelta as ChannelDelta,
    Converted as Converted,
    Delta as Delta,
    Diagnostic as Diagnostic,
    Document as Document,
    Encoding as Encoding,
    End as End,
    Ending,
    Head as Head,
    Loss as Loss,
    Message as Message,
    Opened as Opened,
    Recoverer as Recoverer,
    Start as Start,
    Stream as Stream,
    TokenHit as TokenHit,
    check as check,
    convert as convert,
    detect as detect,
    parse as parse,
    parse_ids as parse_ids,
    render as render,
    render_ids as render_ids,
    scan as scan,
)
from openchatml.batch import (
    ArrowArray as ArrowArray,
    convert as convert_array,
    count as count_array,
    decode as decode_array,
    encode as encode_array,
    parse as parse_array,
)
from openchatml.data import (
    BenchmarkIndex as BenchmarkIndex,
    ContaminatedSpan as ContaminatedSpan,
    DuplicateKeys as DuplicateKeys,
    DuplicateRules as DuplicateRules,
    Masked as Masked,
    Masker as Masker,
    RowComparison as RowComparison,
    check as check_row,
    check_batch as check_rows,
    convert as convert_row,
    convert_batch as convert_rows,
)

__version__: str

@disjoint_base
class HarmonyParser:
    def __new__(
        cls,
        encoding: Any,
        role: str | Enum | None,
        *,
        strict: bool | None = None,
        tools: Sequence[str] = (),
    ) -> Self: ...
    def process(self, token: int) -> Self: ...
    def process_many(self, tokens: Sequence[int]) -> Self: ...
    def process_eos(self) -> Self: ...
    @property
    def current_content(self) -> str: ...
    @property
    def last_content_delta(self) -> str | None: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def ends(self) -> list[tuple[Ending, bool]]: ...
    @property
    def diagnostics(self) -> list[Diagnostic]: ...
    @property
    def _current_role(self) -> str | None: ...
    @property
    def _state(self) -> Literal["ExpectStart", "Header", "Content"]: ...
    def _messages_from(self, first: int) -> list[Any]: ...

def render_message_ids(message: str, *, has_functions: bool, compat: str | None = None) -> list[int]: ...
def tool_namespace(name: str) -> dict[str, Any]: ...
