"""Ray Data: mask rows, mask shards, and find duplicates.

    python with_ray.py mask|shards|dedup WORKERS OUT IN.jsonl…

`mask` reads rows and writes OUT, a folder of Parquet. `shards` writes one Parquet file for each
input and continues a killed run. `dedup` writes the rows that remain to the file OUT.
"""

import sys

import pyarrow as pa
import pyarrow.compute as pc
import ray
from shards import batches, kept, mask_shard, masked, missing

from openchatml import data


class Mask:
    """The state of a worker: a masker, created once."""

    def __init__(self, form):
        self.masker = data.Masker(form)

    def __call__(self, rows: pa.Table) -> pa.Table:
        return masked(rows, self.masker)


class MaskShard:
    def __call__(self, shards: pa.Table) -> pa.Table:
        for shard in shards.to_pylist():
            mask_shard(shard["source"], shard["target"])
        return shards


def keys(rows: pa.Table) -> pa.Table:
    """Return each row with its keys, without refused ones, which have a code."""
    found = pa.table(data.DuplicateRules().keys_batch(rows.select(["text"]), num_threads=1))
    # A row without text has no copy.
    text = pc.coalesce(found["text"], rows["id"])
    table = pa.table({"id": rows["id"], "row": rows["text"], "text": text, "bands": found["bands"]})
    return table.filter(pc.is_null(found["code"]))


def firsts(rows: pa.Table) -> pa.Table:
    """Return the first row of each text. All rows of a text are in this part."""
    return rows.group_by("text").aggregate([("id", "min")]).select(["id_min"]).rename_columns(["id"])


def entries(rows: pa.Table) -> pa.Table:
    """Return one entry for each key of a row, with the row, because its candidates are compared in their part."""
    keys = pc.list_flatten(rows["bands"])
    return rows.select(["id", "row"]).take(pc.list_parent_indices(rows["bands"])).append_column("key", keys)


def verified(rows: pa.Table) -> pa.Table:
    """Return the duplicates among rows with an equal key. All rows of a key are in this part."""
    rows = rows.sort_by([("key", "ascending"), ("id", "ascending")])
    keys, pairs, start = rows["key"].to_pylist(), [], 0
    for at, key in enumerate(keys):
        if key != keys[start]:
            start = at
        # Up to 64 earlier rows, so that a frequent key costs no square.
        pairs += [(before, at) for before in range(max(start, at - 64), at)]
    earlier, later = (rows.take(pa.array([pair[which] for pair in pairs], pa.int64())) for which in (0, 1))
    compared = pa.table(data.DuplicateRules().compare_batch(earlier["row"], later["row"], num_threads=1))
    return pa.table({"earlier": earlier["id"], "later": later["id"]}).filter(compared["is_duplicate"])


def read(files: pa.Table):
    """Yield the lines of files. `read_text` also splits at U+2028, which JSON contains in strings."""
    for source in files["item"].to_pylist():
        yield from map(pa.Table.from_batches, ([rows] for rows in batches(source)))


def mask(sources, output, workers):
    rows = ray.data.from_items(sources, override_num_blocks=len(sources))
    rows = rows.map_batches(read, batch_format="pyarrow", batch_size=1)
    rows = rows.map_batches(
        Mask, fn_constructor_args=("harmony",), batch_format="pyarrow", batch_size=1024, concurrency=workers
    )
    rows.write_parquet(output)


def shards(sources, output, workers):
    todo = [{"source": source, "target": target} for source, target in missing(sources, output)]
    if todo:
        rows = ray.data.from_items(todo, override_num_blocks=len(todo))
        rows.map_batches(MaskShard, batch_format="pyarrow", batch_size=1, concurrency=workers).materialize()


def dedup(sources, output, workers):
    numbers = {"next": 0}

    def numbered(source):
        with open(source, encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in file]
        ids = range(numbers["next"], numbers["next"] + len(lines))
        numbers["next"] += len(lines)
        return pa.table({"id": pa.array(ids, pa.int64()), "text": lines})

    def by(rows, key):
        """Bring all rows of a key into one part, and work on each part at once."""
        return rows.repartition(2 * workers, keys=[key])

    parts = {"batch_format": "pyarrow", "batch_size": None}
    rows = ray.data.from_arrow([numbered(source) for source in sources])
    named = rows.map_batches(keys, batch_format="pyarrow").materialize()
    # A row whose text is not the first one is an exact duplicate.
    first = by(named.select_columns(["id", "text"]), "text").map_batches(firsts, **parts)
    unique = {row["id"] for row in first.take_all()}
    table = pa.concat_tables(ray.get(named.to_arrow_refs())).sort_by("id")
    table = table.filter(pc.is_in(table["id"], pa.array(sorted(unique), pa.int64())))
    near = ray.data.from_arrow(table).map_batches(entries, batch_format="pyarrow")
    pairs = by(near, "key").map_batches(verified, **parts).take_all()
    remain = set(kept(sorted(unique), {(pair["earlier"], pair["later"]) for pair in pairs}))
    with open(output, "w", encoding="utf-8") as file:
        for row in table.select(["id", "row"]).to_pylist():
            if row["id"] in remain:
                file.write(row["row"] + "\n")


def main():
    command, workers, output, *sources = sys.argv[1:]
    # Besides the workers, a processor for tasks that read and write.
    ray.init(num_cpus=int(workers) + 1, include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    # Outputs have the order of their inputs.
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    {"mask": mask, "shards": shards, "dedup": dedup}[command](sources, output, int(workers))


if __name__ == "__main__":
    main()
