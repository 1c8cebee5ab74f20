from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, final

from typing_extensions import Self

from openchatml import Converted, Diagnostic, Form, ReadForm, Severity, Text
from openchatml.batch import ArrowArray, ArrowArrayExportable, ArrowStreamExportable

__all__ = [
    "BenchmarkIndex",
    "ContaminatedSpan",
    "DuplicateKeys",
    "DuplicateRules",
    "Masked",
    "Masker",
    "RowComparison",
    "check",
    "check_batch",
    "convert",
    "convert_batch",
]

Row: TypeAlias = Text | dict[str, Any]
Rows: TypeAlias = ArrowArrayExportable | ArrowStreamExportable | Sequence[Row | None]
RowForm: TypeAlias = Literal[
    "json", "json2.0", "openai", "sharegpt", "anthropic", "responses", "harmony-json", "instruction", "preference"
]
MaskForm: TypeAlias = Literal["harmony", "ocml2.2", "chatml", "template"]
SpanClass: TypeAlias = Literal["answer", "call", "reasoning", "terminator"]
MarkKey: TypeAlias = Literal["weight", "train", "train_detail", "loss", "loss_scale", "loss_weight", "ignore"]
MaskColumn: TypeAlias = Literal["input_ids", "labels", "attention_mask", "assistant_masks", "text", "spans"]

MaskSpan = TypedDict(
    "MaskSpan", {"start": int, "end": int, "class": str, "message": int, "trained": bool}
)

def convert(
    row: Row,
    to: Form,
    *,
    form: ReadForm | None = None,
    strict: Severity | None = None,
    keep_reasoning: bool = False,
) -> Converted: ...
def convert_batch(
    rows: Rows,
    to: Form,
    *,
    form: ReadForm | None = None,
    strict: Severity | None = None,
    keep_reasoning: bool = False,
    num_threads: int | None = None,
) -> ArrowArray: ...
def check(row: Row, form: RowForm | None = None) -> tuple[Diagnostic, ...]: ...
def check_batch(rows: Rows, form: RowForm | None = None, *, num_threads: int | None = None) -> ArrowArray: ...

@final
class Masked:
    @property
    def input_ids(self) -> list[int]: ...
    @property
    def labels(self) -> list[int]: ...
    @property
    def attention_mask(self) -> list[int]: ...
    @property
    def assistant_masks(self) -> list[int]: ...
    @property
    def text(self) -> str: ...
    @property
    def trained_texts(self) -> list[str]: ...
    @property
    def spans(self) -> list[MaskSpan]: ...
    def __len__(self) -> int: ...

@final
class Masker:
    def __new__(
        cls,
        form: MaskForm,
        *,
        tokenizer: Text | None = None,
        template: str | None = None,
        tokenizer_config: str | None = None,
        variables: Mapping[str, Any] | None = None,
        stops: Sequence[str] = (),
        allow_dropped: bool = False,
        shape: Literal["auto", "chat", "harmony"] = "auto",
        classes: Sequence[SpanClass] | None = None,
        roles: Sequence[Literal["assistant", "user", "system", "tool"]] = ("assistant",),
        marks: Sequence[MarkKey] = ("weight",),
        reasoning: Literal["keep", "finished", "first", "drop"] = "finished",
        train_without_reasoning: bool = False,
        drop_trailing: bool = False,
        allow_untrained_stop: bool = False,
        max_tokens: int | None = None,
        truncation: Literal["refuse", "right", "left"] = "refuse",
        effort: Literal["low", "medium", "high"] = "medium",
        date: str | None = None,
        columns: Sequence[MaskColumn] | None = None,
    ) -> Self: ...
    def mask(self, row: Row) -> Masked: ...
    def line(self, row: Row) -> str: ...
    def mask_batch(self, rows: Rows, *, num_threads: int | None = None) -> ArrowArray: ...

@final
class DuplicateKeys:
    @property
    def text(self) -> int | None: ...
    @property
    def bands(self) -> list[int]: ...

@final
class RowComparison:
    @property
    def is_exact(self) -> bool: ...
    @property
    def is_duplicate(self) -> bool: ...
    @property
    def shared(self) -> int: ...
    @property
    def united(self) -> int: ...
    @property
    def jaccard(self) -> float: ...

@final
class DuplicateRules:
    def __new__(
        cls,
        threshold: float = 0.8,
        *,
        shingle: int = 5,
        exact_only: bool = False,
        fields: Sequence[str] = (),
    ) -> Self: ...
    def keys(self, row: Row) -> DuplicateKeys: ...
    def keys_batch(self, rows: Rows, *, num_threads: int | None = None) -> ArrowArray: ...
    def compare(self, row: Row, other: Row) -> RowComparison: ...
    def compare_batch(self, rows: Rows, others: Rows, *, num_threads: int | None = None) -> ArrowArray: ...

@final
class ContaminatedSpan:
    @property
    def turn(self) -> int: ...
    @property
    def speaker(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def words(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def benchmark(self) -> int: ...
    @property
    def benchmark_words(self) -> int: ...

@final
class BenchmarkIndex:
    def __new__(cls, benchmarks: Sequence[Row], *, words: int = 13, fields: Sequence[str] = ()) -> Self: ...
    @property
    def texts(self) -> int: ...
    @property
    def too_short(self) -> int: ...
    def spans(self, row: Row) -> tuple[ContaminatedSpan, ...]: ...
    def spans_batch(self, rows: Rows, *, num_threads: int | None = None) -> ArrowArray: ...
