"""Measures the functions of the Python package beside baselines in pure Python, alone and in engines.

    python engines.py functions|engines|shard [MB [REPEATS]]

`functions` prints rows and megabytes for each second of processor time in one thread, which other programs on the
machine change little. `engines` prints those of the wall clock by engine, with one and two workers.
`shard` masks a sixteenth of the rows from JSON lines to Parquet, as the examples do, in processor time.
Baselines are what is usually written: `json` with openai-harmony for masks, and `json` with datasketch for keys of
duplicates. They work on a part of the rows. Values are medians. An engine is started, and has done a part of
the work, before its time is taken.

Needs openchatml, ray[data], pyspark, duckdb, polars, pyarrow, openai-harmony and datasketch.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import pyarrow as pa

#: Texts of rows are made of words with these frequencies: the first ones are the most frequent.
WORDS = [f"{first}{second}" for second in ("", "ing", "ed", "tion", "ly") for first in
         "the of and to in is that for it as was with be on by at from this have or tide harbour ferry sail port wave".split()]
WORKERS = (1, 2)
SHARDS = 16


def generate(folder, megabytes):
    """Write shards of conversations with two turns and reasoning."""
    generator = random.Random(7)
    weights = [1 / (at + 1) for at in range(len(WORDS))]

    def text(least, most):
        words = generator.choices(WORDS, weights, k=generator.randrange(least, most))
        return " ".join(words).capitalize() + "."

    sizes = []
    for shard in range(SHARDS):
        size = 0
        with open(folder / f"part-{shard:02}.jsonl", "w", encoding="utf-8") as file:
            while size < megabytes * 1e6 / SHARDS:
                messages = []
                for _ in range(2):
                    messages.append({"role": "user", "content": text(20, 120)})
                    messages.append({"role": "assistant", "reasoning_content": text(20, 80), "content": text(40, 240)})
                size += file.write(json.dumps({"messages": messages}) + "\n")
        sizes.append(size)
    return sorted(folder.glob("part-*.jsonl")), sum(sizes)


# The functions of a batch: a table with the column `row` to a table of results. ------------------


@functools.cache
def our_masker():
    from openchatml import data

    return data.Masker("harmony")


def ours_mask(rows, threads=1):
    return pa.table(our_masker().mask_batch(rows, num_threads=threads))


def ours_keys(rows, threads=1):
    from openchatml import data

    return pa.table(data.DuplicateRules().keys_batch(rows, num_threads=threads))


@functools.cache
def harmony():
    """Return the encoding of openai-harmony, with the vocabulary that the package has."""
    import openchatml

    folder = pathlib.Path(tempfile.gettempdir()) / f"o200k-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    with open(folder / "o200k_base.tiktoken", "wb") as file:
        for rank, token in enumerate(openchatml.get_encoding("o200k_harmony").token_byte_values()):
            file.write(base64.b64encode(token) + b" %d\n" % rank)
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(folder)
    import openai_harmony

    return openai_harmony.load_harmony_encoding("HarmonyGptOss")


def baseline_mask(rows, threads=1):
    """Render each message, and train those of the assistant."""
    import openai_harmony as oh

    encoding = harmony()
    columns = {"input_ids": [], "labels": [], "attention_mask": [], "assistant_masks": []}
    for row in rows["row"].to_pylist():
        messages = [oh.Message.from_role_and_content(oh.Role.SYSTEM, oh.SystemContent.new())]
        for message in json.loads(row)["messages"]:
            if message["role"] != "assistant":
                messages.append(oh.Message.from_role_and_content(oh.Role.USER, message["content"]))
                continue
            if message.get("reasoning_content"):
                thought = oh.Message.from_role_and_content(oh.Role.ASSISTANT, message["reasoning_content"])
                messages.append(thought.with_channel("analysis"))
            answer = oh.Message.from_role_and_content(oh.Role.ASSISTANT, message["content"])
            messages.append(answer.with_channel("final"))
        ids, labels = [], []
        for message in messages:
            rendered = encoding.render(message)
            ids += rendered
            labels += rendered if message.author.role == oh.Role.ASSISTANT else [-100] * len(rendered)
        columns["input_ids"].append(ids)
        columns["labels"].append(labels)
        columns["attention_mask"].append([1] * len(ids))
        columns["assistant_masks"].append([int(label >= 0) for label in labels])
    return pa.table(columns)


def ours_convert(rows, threads=1):
    from openchatml import data

    return pa.table(data.convert_batch(rows, "responses", num_threads=threads))


def ours_check(rows, threads=1):
    from openchatml import data

    return pa.table(data.check_batch(rows, num_threads=threads))


def ours_compare(rows, threads=1):
    from openchatml import data

    return pa.table(data.DuplicateRules().compare_batch(rows["row"], rows["row"], num_threads=threads))


WORD = re.compile(r"\w+")


def baseline_keys(rows, threads=1):
    """Hash the text, and the bands of a MinHash of its shingles."""
    from datasketch import MinHash

    texts, bands = [], []
    for row in rows["row"].to_pylist():
        messages = json.loads(row)["messages"]
        text = "\n".join(f"{m['role']} {m.get('reasoning_content', '')} {m['content']}" for m in messages)
        words = WORD.findall(text.lower())
        shingles = {" ".join(words[at:at + 5]).encode() for at in range(max(1, len(words) - 4))}
        sketch = MinHash(num_perm=120)
        sketch.update_batch(list(shingles))
        values = sketch.hashvalues
        texts.append(hashlib.md5(" ".join(text.split()).encode()).hexdigest())
        bands.append([hash(values[at:at + 5].tobytes()) for at in range(0, 120, 5)])
    return pa.table({"text": texts, "bands": bands})


FUNCTIONS = {
    ("mask", "openchatml"): ours_mask,
    ("mask", "baseline"): baseline_mask,
    ("keys", "openchatml"): ours_keys,
    ("keys", "baseline"): baseline_keys,
    ("convert", "openchatml"): ours_convert,
    ("check", "openchatml"): ours_check,
    ("compare", "openchatml"): ours_compare,
}
#: The columns of Spark.
SCHEMAS = {
    ("mask", "openchatml"): "input_ids array<int>, labels array<int>, attention_mask array<tinyint>, assistant_masks array<tinyint>, code string, message string",
    ("mask", "baseline"): "input_ids array<bigint>, labels array<bigint>, attention_mask array<bigint>, assistant_masks array<bigint>",
    ("keys", "openchatml"): "text bigint, bands array<bigint>, code string, message string",
    ("keys", "baseline"): "text string, bands array<bigint>",
}


def batches(paths):
    """Yield the rows of files in batches of 1 MB."""
    for path in paths:
        with open(path, encoding="utf-8", newline="\n") as file:
            while lines := file.readlines(1 << 20):
                yield pa.table({"row": [line.rstrip("\n") for line in lines]})


# The engines: each returns a function that works on files and returns the number of results. ------


def plain(job, workers):
    """No engine: one process; ours with threads."""
    function = FUNCTIONS[job]
    return lambda paths: sum(function(rows, workers).num_rows for rows in batches(paths))


def with_ray(job, workers):
    import engines
    import ray

    # Workers import this module.
    function = engines.FUNCTIONS[job]
    ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False

    class Work:
        def __init__(self):
            function(pa.table({"row": [json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})]}))

        def __call__(self, files):
            count = sum(function(rows).num_rows for rows in engines.batches(files["item"].to_pylist()))
            return pa.table({"count": [count]})

    def run(paths):
        files = ray.data.from_items([str(path) for path in paths], override_num_blocks=len(paths))
        found = files.map_batches(Work, batch_format="pyarrow", batch_size=1, concurrency=workers)
        return sum(row["count"] for row in found.take_all())

    return run


def with_spark(job, workers):
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    import engines

    # Workers have this Python, and import this module.
    function = engines.FUNCTIONS[job]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.files.maxPartitionBytes", 8 << 20)
    builder = builder.config("spark.executorEnv.PYTHONPATH", str(pathlib.Path(__file__).resolve().parent))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    kind = SCHEMAS[job]

    def work(parts):
        for rows in parts:
            yield from function(pa.Table.from_batches([rows]).rename_columns(["row"])).to_batches()

    def run(paths):
        found = spark.read.text([str(path) for path in paths]).mapInArrow(work, kind)
        # Every column is read, so that none is left out of the work.
        sizes = [F.sum(F.size(name) if "array" in rest else F.length(name)) for name, rest in (part.split(" ") for part in kind.split(", "))]
        return found.agg(F.count(F.lit(1)), *sizes).collect()[0][0]

    return run


def with_duckdb(job, workers):
    import duckdb

    function = FUNCTIONS[job]
    connection = duckdb.connect(config={"threads": workers})
    lines = "read_csv({}, columns = {{'row': 'VARCHAR'}}, header = false, auto_detect = false, delim = '\\x01', quote = '', escape = '', max_line_size = 67108864)"

    def run(paths):
        reader = connection.sql(f"SELECT row FROM {lines.format([str(path) for path in paths])}").to_arrow_reader(4096)
        return sum(function(pa.Table.from_batches([rows]), workers).num_rows for rows in reader)

    return run


def with_polars(job, workers):
    import polars as pl

    function = FUNCTIONS[job]

    def run(paths):
        frames = (pl.read_lines(path, name="row") for path in paths)
        return sum(pl.DataFrame(function(rows.to_arrow(), workers)).height for rows in frames)

    return run


RUNS = {"no engine": plain, "Ray Data": with_ray, "Spark": with_spark, "DuckDB": with_duckdb, "Polars": with_polars}


def measure(engine, task, kind, workers, repeats, paths):
    """Print the seconds of each run and the number of rows; the first run is not counted."""
    run = RUNS[engine]((task, kind), workers)
    run(paths[:workers])
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        rows = run(paths)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "rows": rows}))


def measured(engine, task, kind, workers, repeats, paths):
    """Measure in a process of its own, since engines cannot be started twice."""
    line = [sys.executable, "-B", __file__, "--measure", engine, task, kind, str(workers), str(repeats), *map(str, paths)]
    environment = {**os.environ, "POLARS_MAX_THREADS": str(workers), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    seconds = statistics.median(found["seconds"])
    size = sum(os.path.getsize(path) for path in paths)
    return found["rows"] / seconds, size / seconds / 1e6


def functions(paths, repeats):
    """Print the speed of each function in processor time."""
    print("| function | rows/s | MB/s | baseline, rows/s | baseline, MB/s | ratio |")
    print("|---|---|---|---|---|---|")

    def speed(task, kind, some):
        function, rows = FUNCTIONS[task, kind], list(batches(some))
        # Vocabularies are loaded first.
        function(rows[0].slice(0, 5))
        seconds = []
        for _ in range(repeats):
            start = time.process_time()
            for part in rows:
                function(part)
            seconds.append(time.process_time() - start)
        seconds = statistics.median(seconds)
        return sum(part.num_rows for part in rows) / seconds, sum(map(os.path.getsize, some)) / seconds / 1e6

    for task in ("convert", "check", "mask", "keys", "compare"):
        rows, ours = speed(task, "openchatml", paths)
        line = f"| {task} | {rows:,.0f} | {ours:.0f} |"
        if (task, "baseline") in FUNCTIONS:
            rows, base = speed(task, "baseline", paths[: SHARDS // 8])
            print(f"{line} {rows:,.0f} | {base:.2f} | {ours / base:.0f} |", flush=True)
        else:
            print(f"{line} | | |", flush=True)


def in_engines(paths, repeats):
    """Print the speed of masks and keys in each engine."""
    print("| task | engine | workers | ours, rows/s | ours, MB/s | baseline, rows/s | baseline, MB/s | ratio | 1 → 2 workers |")
    print("|---|---|---|---|---|---|---|---|---|")
    for task in ("mask", "keys"):
        for engine in RUNS:
            before = None
            for workers in WORKERS:
                rows, speed = measured(engine, task, "openchatml", workers, repeats, paths)
                base_rows, base = measured(engine, task, "baseline", workers, repeats, paths[: SHARDS // 8])
                scaling = f"{speed / before:.2f}" if before else ""
                before = before or speed
                print(
                    f"| {task} | {engine} | {workers} | {rows:,.0f} | {speed:.1f} | {base_rows:,.0f} | {base:.2f} "
                    f"| {speed / base:.0f} | {scaling} |",
                    flush=True,
                )


def shard(paths, repeats):
    """Print the speed of a whole shard in processor time, and the part of its size that its output has."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "bindings/python/examples/engines"))
    import shards

    source, seconds = paths[0], []
    for number in range(repeats + 1):
        target = source.with_name(f"{number}.parquet")
        start = time.process_time()
        shards.mask_shard(source, target, num_threads=1)
        seconds.append(time.process_time() - start)
    size = os.path.getsize(source)
    # The first run loads the vocabulary.
    speed = size / statistics.median(seconds[1:]) / 1e6
    print(f"mask of a shard of {size / 1e6:.1f} MB to Parquet: {speed:.1f} MB/s, {os.path.getsize(target) / size:.2f} of its size")


def main():
    if sys.argv[1] == "--measure":
        _, _, engine, task, kind, workers, repeats, *paths = sys.argv
        return measure(engine, task, kind, int(workers), int(repeats), [pathlib.Path(path) for path in paths])
    megabytes = float(sys.argv[2]) if len(sys.argv) > 2 else 64
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    with tempfile.TemporaryDirectory() as folder:
        paths, size = generate(pathlib.Path(folder), megabytes)
        print(f"{size / 1e6:.0f} MB in {SHARDS} shards; medians of {repeats} runs\n")
        {"functions": functions, "engines": in_engines, "shard": shard}[sys.argv[1]](paths, repeats)


if __name__ == "__main__":
    main()
