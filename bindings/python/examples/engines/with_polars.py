"""Polars: mask rows, mask shards, and find duplicates, on one machine.

    python with_polars.py mask|shards|dedup WORKERS OUT IN.jsonl…

`mask` reads rows and writes OUT, a file of Parquet. `shards` writes one Parquet file for each input
and continues a killed run. `dedup` writes the rows that remain to the file OUT.
"""

import functools
import os
import sys

if __name__ == "__main__":
    # The number of threads is fixed when the package is loaded.
    os.environ["POLARS_MAX_THREADS"] = sys.argv[2]

import polars as pl
from shards import commit, kept, masker, missing

from openchatml import data

MASKED = {
    "input_ids": pl.List(pl.Int32),
    "labels": pl.List(pl.Int32),
    "attention_mask": pl.List(pl.Int8),
    "assistant_masks": pl.List(pl.Int8),
    "code": pl.String,
    "message": pl.String,
    "row": pl.String,
}


def mask_rows(rows, workers):
    """Mask the rows of a frame; each refused row keeps its place, with its code and text."""
    found = pl.DataFrame(masker("harmony").mask_batch(rows, num_threads=workers))
    return found.with_columns(row=pl.when(found["code"].is_not_null()).then(rows["row"]))


def lines(sources):
    return pl.scan_lines(sources, name="row").filter(pl.col("row") != "")


def write_masked(sources, target, workers):
    work = functools.partial(mask_rows, workers=workers)
    lines(sources).map_batches(work, schema=MASKED, streamable=True).sink_parquet(target, compression="zstd")


def mask(sources, output, workers):
    write_masked(sources, output, workers)


def shards(sources, output, workers):
    for source, target in missing(sources, output):
        write_masked([source], target + ".partial", workers)
        commit(target + ".partial", target)


def dedup(sources, output, workers):
    rules = data.DuplicateRules()
    rows = lines(sources).collect().with_row_index("id")
    keys = pl.DataFrame(rules.keys_batch(rows.select("row"), num_threads=workers))
    # A refused row has a code and no keys; a row without text has no copy.
    keyed = rows.hstack(keys.drop("message")).filter(pl.col("code").is_null())
    keyed = keyed.with_columns(pl.coalesce("text", pl.col("id").cast(pl.Int64)))
    # A row whose text is not the first one is an exact duplicate. Each of the others is paired with up
    # to 64 earlier ones of a key, so that a frequent key costs no square.
    unique = keyed.unique("text", keep="first", maintain_order=True)
    entries = unique.select("id", key="bands").explode("key").drop_nulls().sort("key", "id")
    near = [
        entries.select(earlier=pl.col("id").shift(step).over("key"), later="id").drop_nulls()
        for step in range(1, min(64, entries["key"].value_counts()["count"].max() - 1 if len(entries) else 0) + 1)
    ]
    pairs = pl.concat(near).unique() if near else pl.DataFrame({"earlier": [], "later": []}, schema_overrides={"earlier": pl.UInt32, "later": pl.UInt32})
    texts = unique.select("id", "row")
    pairs = pairs.join(texts, left_on="earlier", right_on="id").rename({"row": "earlier_row"})
    pairs = pairs.join(texts, left_on="later", right_on="id").rename({"row": "later_row"})
    compared = pl.DataFrame(rules.compare_batch(pairs.select("earlier_row"), pairs.select("later_row"), num_threads=workers))
    found = pairs.filter(compared["is_duplicate"]).select("earlier", "later").rows()
    remain = unique.filter(pl.col("id").is_in(kept(unique["id"].to_list(), found)))
    with open(output, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in remain["row"])


def main():
    command, workers, output, *sources = sys.argv[1:]
    {"mask": mask, "shards": shards, "dedup": dedup}[command](sources, output, int(workers))


if __name__ == "__main__":
    main()
