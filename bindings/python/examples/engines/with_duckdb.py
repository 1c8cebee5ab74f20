"""DuckDB: mask rows, mask shards, and find duplicates, on one machine.

    python with_duckdb.py mask|shards|dedup WORKERS OUT IN.jsonl…

`mask` reads rows and writes OUT, a file of Parquet. `shards` writes one Parquet file for each input
and continues a killed run. `dedup` writes the rows that remain to the file OUT.
"""

import sys

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from shards import MASKED, commit, kept, masked, masker, missing

from openchatml import data

#: Lines as they are: no quotes, no escapes, and a delimiter that JSON does not contain.
LINES = (
    "read_csv({}, columns = {{'row': 'VARCHAR'}}, header = false, auto_detect = false, delim = '\\x01', "
    "quote = '', escape = '', max_line_size = 67108864, parallel = false)"
)


def rows_of(connection, sources):
    """Return a reader of rows. Its connection is one of its own, because another query runs meanwhile."""
    return connection.cursor().sql(f"SELECT row FROM {LINES.format(sources)}").to_arrow_reader(4096)


def write_masked(connection, sources, target, workers):
    """Mask batches of Arrow between a query and the file that is written."""
    rows = rows_of(connection, sources)
    found = (batch for rows in rows for batch in masked(rows, masker("harmony"), workers).to_batches())
    reader = pa.RecordBatchReader.from_batches(MASKED, found)
    connection.from_arrow(reader).write_parquet(target, compression="zstd")


def mask(connection, sources, output, workers):
    write_masked(connection, sources, output, workers)


def shards(connection, sources, output, workers):
    for source, target in missing(sources, output):
        write_masked(connection, [source], target + ".partial", workers)
        commit(target + ".partial", target)


def keyed(rows, workers):
    """Yield batches of rows with their keys and numbers; a refused row has a code and no keys."""
    rules, number = data.DuplicateRules(), 0
    for batch in rows:
        keys = pa.table(rules.keys_batch(batch, num_threads=workers))
        ids = pa.array(range(number, number + len(batch)), pa.int64())
        number += len(batch)
        # A row without text has no copy.
        text = pc.coalesce(keys["text"], ids)
        table = pa.table({"id": ids, "row": batch["row"], "text": text, "bands": keys["bands"], "code": keys["code"]})
        yield from table.filter(pc.is_null(table["code"])).drop_columns("code").to_batches()


def dedup(connection, sources, output, workers):
    rows = rows_of(connection, sources)
    schema = pa.schema({"id": pa.int64(), "row": pa.string(), "text": pa.int64(), "bands": pa.list_(pa.int64())})
    reader = pa.RecordBatchReader.from_batches(schema, keyed(rows, workers))
    connection.from_arrow(reader).create("keyed")
    # A row whose text is not the first one is an exact duplicate. Each of the others is paired with up
    # to 64 earlier ones of a key, so that a frequent key costs no square.
    pairs = connection.sql(
        """
        WITH firsts AS (SELECT min(id) AS id FROM keyed GROUP BY text),
        entries AS (SELECT id, unnest(bands) AS key FROM keyed SEMI JOIN firsts USING (id)),
        ranked AS (SELECT id, key, row_number() OVER (PARTITION BY key ORDER BY id) AS rank FROM entries),
        pairs AS (
            SELECT DISTINCT one.id AS earlier, two.id AS later
            FROM ranked AS one JOIN ranked AS two
            ON one.key = two.key AND one.rank < two.rank AND one.rank >= two.rank - 64
        )
        SELECT earlier, later, one.row AS earlier_row, two.row AS later_row
        FROM pairs JOIN keyed AS one ON one.id = earlier JOIN keyed AS two ON two.id = later
        """
    ).to_arrow_reader(4096)
    rules, duplicates = data.DuplicateRules(), []
    for batch in pairs:
        compared = pa.table(rules.compare_batch(batch["earlier_row"], batch["later_row"], num_threads=workers))
        found = pa.Table.from_batches([batch]).filter(compared["is_duplicate"])
        duplicates += zip(found["earlier"].to_pylist(), found["later"].to_pylist())
    ids = [row for (row,) in connection.sql("SELECT min(id) AS id FROM keyed GROUP BY text ORDER BY id").fetchall()]
    remain = pa.table({"id": pa.array(kept(ids, duplicates), pa.int64())})
    connection.register("remain", remain)
    rest = connection.sql("SELECT row FROM keyed SEMI JOIN remain USING (id) ORDER BY id")
    with open(output, "w", encoding="utf-8") as file:
        for lines in rest.to_arrow_reader(4096):
            file.writelines(line + "\n" for line in lines["row"].to_pylist())


def main():
    command, workers, output, *sources = sys.argv[1:]
    connection = duckdb.connect(config={"threads": int(workers)})
    {"mask": mask, "shards": shards, "dedup": dedup}[command](connection, sources, output, int(workers))


if __name__ == "__main__":
    main()
