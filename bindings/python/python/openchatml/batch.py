"""Many texts at once: Arrow arrays in, Arrow arrays out.

Texts are a list of `str`, or any object with the Arrow C interface: an array of strings, or a
table or stream of tables with the column `text`. Results have the same interface, so that pyarrow,
polars, datasets and others take them; none of these is needed. The work runs on all cores, without
the interpreter lock.
"""

from openchatml._openchatml import ArrowArray
from openchatml._openchatml import convert_array as convert
from openchatml._openchatml import count_array as count
from openchatml._openchatml import decode_array as decode
from openchatml._openchatml import encode_array as encode
from openchatml._openchatml import parse_array as parse

__all__ = ["ArrowArray", "convert", "count", "decode", "encode", "parse"]
