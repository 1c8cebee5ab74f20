"""Compares engines with `logue data` on a small set: compare.py LOGUE FOLDER [ENGINE…]

Each engine masks rows and shards, is killed and started again, and removes duplicates.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINES = ROOT / "bindings/python/examples/engines"
sys.path[:0] = [str(ENGINES), str(ROOT / "bindings/python/tests")]

import shards  # noqa: E402
from data_rows import ROWS, random_rows  # noqa: E402

COLUMNS = ["input_ids", "labels", "attention_mask", "assistant_masks"]


def generate(folder, number):
    """Write shards of ordinary and refused rows, and return their paths."""
    rows = random_rows(number)
    for at, row in enumerate(ROWS):
        rows.insert(at * 17, row)
    paths = []
    for part in range(4):
        paths.append(folder / f"part-{part}.jsonl")
        paths[-1].write_text("".join(row + "\n" for row in rows[part::4]), encoding="utf-8", newline="")
    return paths


def files_of(output):
    return sorted(output.glob("*.parquet")) if output.is_dir() else [output]


def read(output):
    """Return the lines of masked rows, and the refused ones, in the order of the output."""
    lines, refused = [], []
    for path in files_of(output):
        for row in pq.read_table(path).to_pylist():
            if row["code"] is None:
                assert row["row"] is row["message"] is None
                lines.append(json.dumps({name: row[name] for name in COLUMNS}, separators=(",", ":")))
            else:
                assert all(row[name] is None for name in COLUMNS)
                refused.append((row["row"], row["code"], row["message"]))
    return lines, refused


class Logue:
    """The program, whose results are expected."""

    def __init__(self, program, folder, sources):
        self.program, self.folder, self.sources = program, folder, sources

    def run(self, command, *arguments):
        output = self.folder / f"{command}.jsonl"
        line = [self.program, "data", command, *arguments, "-o", output, *self.sources]
        status = subprocess.run(line, capture_output=True).returncode
        assert status in (0, 8), status
        return output

    def masks(self):
        output = self.run("mask", "--to", "harmony")
        quarantine = map(json.loads, pathlib.Path(f"{output}.quarantine.jsonl").read_text(encoding="utf-8").splitlines())
        return output.read_text().splitlines(), [(row["code"], row["message"]) for row in quarantine]


def start(engine, command, output, sources, workers=2):
    line = [sys.executable, "-B", ENGINES / f"with_{engine}.py", command, str(workers), output, *sources]
    log = open(f"{output}.log", "wb")
    return subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def run(engine, command, output, sources):
    process = start(engine, command, output, sources)
    if process.wait(timeout=600) != 0:
        print(pathlib.Path(f"{output}.log").read_text(errors="replace")[-4000:], file=sys.stderr)
        raise SystemExit(f"data-engines: {engine} {command} failed")


def compare(what, found, expected):
    if found != expected:
        print(f"data-engines: {what}: differs from `logue data`", file=sys.stderr)
        raise SystemExit(1)
    print(f"data-engines: {what}: equal")


def mask(engine, folder, sources, expected):
    output = folder / f"{engine}-mask"
    run(engine, "mask", output, sources)
    lines, refused = read(output)
    refused = [row[1:] for row in refused]
    if engine == "spark":
        # Spark reads files in the order of their sizes.
        lines, refused = sorted(lines), sorted(refused)
        expected = tuple(sorted(part) for part in expected)
    compare(f"{engine}: {len(lines)} masks and {len(refused)} refused rows", (lines, refused), tuple(expected))


def interrupt(engine, folder, sources, expected):
    """Kill a run after its first shard; the next one does only what is missing."""
    # A longer shard at the end: there is time to kill the run.
    long = folder / "part-9.jsonl"
    if not long.exists():
        long.write_bytes(sources[0].read_bytes() * 40)
    output = folder / f"{engine}-shards"
    process = start(engine, "shards", output, [*sources, long], workers=1)
    while not list(output.glob("*.parquet")):
        if process.poll() is not None:
            print(pathlib.Path(f"{output}.log").read_text(errors="replace")[-4000:], file=sys.stderr)
            raise SystemExit(f"data-engines: {engine} ended before its first shard")
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in files_of(output)}
    if len(before) == len(sources) + 1:
        raise SystemExit(f"data-engines: {engine} was killed too late")
    # A worker may outlive its driver for an instant; an output of an interrupted run is complete.
    for path in files_of(output):
        pq.read_metadata(path)
    (output / "part-9.parquet.partial").write_bytes(b"incomplete")
    run(engine, "shards", output, [*sources, long])
    after = {path.name: path.stat().st_mtime_ns for path in files_of(output)}
    assert {name: after[name] for name in before} == before, "a complete shard was written again"
    assert not list(output.glob("*.partial"))
    whole = folder / f"{engine}-whole"
    run(engine, "shards", whole, [*sources, long])
    for path in files_of(whole):
        assert (output / path.name).read_bytes() == path.read_bytes(), f"{path.name} differs from that of a whole run"
    quarantine = shards.quarantine(output)
    (output / "part-9.parquet").unlink()
    lines, refused = read(output)
    compare(f"{engine}: {len(before)} shards before kill -9 and {len(after) - len(before)} after it", (lines, [row[1:] for row in refused]), expected)
    assert [tuple(row.values()) for row in quarantine.to_pylist()][: len(refused)] == refused


def main():
    program, folder, *engines = sys.argv[1:]
    folder = pathlib.Path(folder)
    sources = generate(folder, 600)
    logue = Logue(pathlib.Path(program).resolve(), folder, sources)
    masks = logue.masks()
    unique = logue.run("dedup").read_bytes()
    for engine in engines or ["duckdb", "polars", "spark", "ray"]:
        mask(engine, folder, sources, masks)
        interrupt(engine, folder, sources, masks)
        run(engine, "dedup", folder / f"{engine}-dedup", sources)
        rows = (folder / f"{engine}-dedup").read_bytes()
        compare(f"{engine}: {rows.count(10)} rows without duplicates", rows, unique)


if __name__ == "__main__":
    main()
