"""Shards of JSON lines to shards of Parquet, each complete or absent.

An engine distributes the shards; each is one call of `mask_shard`, in any process of any machine that
sees both folders. A shard is written as `NAME.parquet.partial` and renamed when it is complete, so
that a killed run leaves no incomplete output, and the same run again does only what is missing.
"""

import functools
import os
import pathlib

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

from openchatml import data

#: The columns of a masked shard. `row` is set for refused rows, which have a `code`.
MASKED = pa.schema({
    "input_ids": pa.list_(pa.int32()),
    "labels": pa.list_(pa.int32()),
    "attention_mask": pa.list_(pa.int8()),
    "assistant_masks": pa.list_(pa.int8()),
    "code": pa.string(),
    "message": pa.string(),
    "row": pa.string(),
})

#: The bytes of rows that are worked on together.
BATCH = 8 << 20


@functools.cache
def masker(form):
    """Return the masker of this process."""
    return data.Masker(form)


def masked(rows, masker, num_threads=1):
    """Return the columns of masked rows; each refused row keeps its place, with its code and text."""
    table = pa.table(masker.mask_batch(rows, num_threads=num_threads))
    texts = rows.column(0)
    is_refused = pc.is_valid(table["code"])
    table = table.append_column("row", pc.if_else(is_refused, texts, pa.scalar(None, texts.type)))
    return table.cast(MASKED)


def batches(source):
    """Yield the lines of a file as batches with the column `row`."""
    with open(source, encoding="utf-8", errors="replace", newline="\n") as file:
        while lines := file.readlines(BATCH):
            lines = [line.rstrip("\r\n") for line in lines]
            yield pa.record_batch({"row": [line for line in lines if line]})


def mask_shard(source, target, form="harmony", num_threads=1):
    """Mask a shard, unless its output is there."""
    target = pathlib.Path(target)
    if target.exists():
        return
    partial = target.with_name(target.name + ".partial")
    with pq.ParquetWriter(partial, MASKED, compression="zstd") as output:
        for rows in batches(source):
            output.write_table(masked(rows, masker(form), num_threads))
    commit(partial, target)


def commit(partial, target):
    """Give a complete file its name, once its bytes are on the disk."""
    with open(partial, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(partial, target)


def missing(sources, folder):
    """Return the pairs of a shard and its output that are still to be worked on."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    targets = {folder / f"{source.name.split('.')[0]}.parquet": source for source in map(pathlib.Path, sources)}
    if len(targets) != len(sources):
        raise ValueError("two shards have the same name")
    return [(str(source), str(target)) for target, source in sorted(targets.items()) if not target.exists()]


def quarantine(folder):
    """Return the refused rows of all shards: `row`, `code` and `message`. No other column is read."""
    dataset = pa.dataset.dataset(sorted(pathlib.Path(folder).glob("*.parquet")))
    return dataset.to_table(["row", "code", "message"], filter=pc.field("code").is_valid())


def kept(rows, duplicates):
    """Return the ids of the rows that remain: a row is removed if an earlier one that is kept is its duplicate.

    `rows` are ids in order, `duplicates` are verified pairs of an earlier and a later id.
    """
    removed = set()
    for later, earlier in sorted((later, earlier) for earlier, later in duplicates):
        if earlier not in removed:
            removed.add(later)
    return [row for row in rows if row not in removed]
