"""Spark: mask rows, mask shards, and find duplicates.

    python with_spark.py mask|shards|dedup WORKERS OUT IN.jsonl…

`mask` reads rows and writes OUT, a folder of Parquet. `shards` writes one Parquet file for each
input and continues a killed run. `dedup` writes the rows that remain to the file OUT.
"""

import os
import sys

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F
from shards import kept, mask_shard, masked, masker, missing

from openchatml import data

MASKED = (
    "input_ids array<int>, labels array<int>, attention_mask array<tinyint>, assistant_masks array<tinyint>, "
    "code string, message string, row string"
)


def mask_rows(batches):
    """Mask the rows of a task; its batches arrive one after the other."""
    for rows in batches:
        yield from masked(rows, masker("harmony")).to_batches()


def key_rows(batches):
    rules = data.DuplicateRules()
    for rows in batches:
        keys = pa.table(rules.keys_batch(rows.select(["value"]), num_threads=1))
        table = pa.table({"id": rows["id"], "value": rows["value"], "text": keys["text"], "bands": keys["bands"]})
        # A refused row has a code and no keys.
        yield from table.filter(pc.is_null(keys["code"])).to_batches()


def verify_pairs(batches):
    rules = data.DuplicateRules()
    for pairs in batches:
        compared = pa.table(rules.compare_batch(pairs["earlier_row"], pairs["later_row"], num_threads=1))
        yield from pa.table({"earlier": pairs["earlier"], "later": pairs["later"]}).filter(compared["is_duplicate"]).to_batches()


def mask(spark, sources, output):
    spark.read.text(sources).mapInArrow(mask_rows, MASKED).write.option("compression", "zstd").parquet(output)


def shards(spark, sources, output):
    todo = missing(sources, output)
    if todo:
        spark.sparkContext.parallelize(todo, len(todo)).foreach(lambda shard: mask_shard(*shard))


def dedup(spark, sources, output):
    # The place of a row: the number of its file, and its order in the file.
    files = F.create_map(*[F.lit(part) for at, source in enumerate(sources) for part in (os.path.basename(source), at)])
    place = F.struct(files[F.col("_metadata.file_name")].alias("file"), F.monotonically_increasing_id().alias("at"))
    rows = spark.read.text(sources).select(place.alias("id"), "value")
    keyed = rows.mapInArrow(key_rows, "id struct<file: int, at: bigint>, value string, text bigint, bands array<bigint>").cache()
    # A row whose text is not the first one is an exact duplicate.
    # A row without text has no copy.
    firsts = keyed.groupBy(F.coalesce("text", "id.at")).agg(F.min("id").alias("id")).select("id")
    unique = keyed.join(firsts, "id")
    near = unique.select("id", F.explode("bands").alias("key"))
    near = near.withColumn("rank", F.row_number().over(Window.partitionBy("key").orderBy("id")))
    one, two = near.alias("one"), near.alias("two")
    # Each row is paired with up to 64 earlier ones of a key, so that a frequent key costs no square.
    close = F.expr("one.key = two.key and one.rank < two.rank and one.rank >= two.rank - 64")
    pairs = one.join(two, close).select(F.col("one.id").alias("earlier"), F.col("two.id").alias("later")).distinct()
    texts = unique.select("id", "value")
    pairs = pairs.join(texts.selectExpr("id as earlier", "value as earlier_row"), "earlier")
    pairs = pairs.join(texts.selectExpr("id as later", "value as later_row"), "later")
    found = pairs.select("earlier", "later", "earlier_row", "later_row").mapInArrow(
        verify_pairs, "earlier struct<file: int, at: bigint>, later struct<file: int, at: bigint>"
    )
    duplicates = [(tuple(pair.earlier), tuple(pair.later)) for pair in found.collect()]
    rows = {tuple(row.id): row.value for row in texts.collect()}
    with open(output, "w", encoding="utf-8") as file:
        for row in kept(sorted(rows), duplicates):
            file.write(rows[row] + "\n")


def main():
    command, workers, output, *sources = sys.argv[1:]
    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", str(4 * int(workers)))
    # Workers have this Python, and import this folder.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = builder.config("spark.executorEnv.PYTHONPATH", os.path.dirname(os.path.abspath(__file__)))
    spark = builder.getOrCreate()
    {"mask": mask, "shards": shards, "dedup": dedup}[command](spark, sources, output)


if __name__ == "__main__":
    main()
