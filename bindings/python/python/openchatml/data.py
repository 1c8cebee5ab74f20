"""Training data: the functions of `logue data` for rows, and for batches of Arrow.

A row is `str`, bytes or a `dict`. A batch is an object with the Arrow C interface: an array of texts
or bytes, or a table or stream with the column `row`, `value` or `text`, else its first such
column. A refused row raises `OpenChatMLError`; in a batch it keeps its place, with `code` and
`message`. Results have the Arrow C interface; no other package is needed.
"""

from openchatml._openchatml import (
    BenchmarkIndex,
    ContaminatedSpan,
    DuplicateKeys,
    DuplicateRules,
    Masked,
    Masker,
    RowComparison,
)
from openchatml._openchatml import check_row as check
from openchatml._openchatml import check_rows as check_batch
from openchatml._openchatml import convert_row as convert
from openchatml._openchatml import convert_rows as convert_batch

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
