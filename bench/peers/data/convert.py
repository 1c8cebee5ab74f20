"""Convert ShareGPT rows to messages with one library, and print the seconds of the work.

    python convert.py orjson|duckdb|datasets IN.jsonl OUT.jsonl|OUT.parquet
"""

import sys
import time

ROLES = {"system": "system", "human": "user", "gpt": "assistant"}


def messages(conversations):
    return [
        {"role": ROLES[turn["from"]], "content": turn["value"]} for turn in conversations
    ]


def with_orjson(source, target):
    import orjson

    with open(source, "rb") as rows, open(target, "wb") as output:
        for row in rows:
            value = orjson.loads(row)
            output.write(orjson.dumps({"messages": messages(value["conversations"])}))
            output.write(b"\n")


def with_duckdb(source, target):
    import duckdb

    form = "(FORMAT parquet, COMPRESSION zstd)" if target.endswith(".parquet") else "(FORMAT json)"
    duckdb.sql(
        f"""
        COPY (
            SELECT list_transform(
                conversations,
                lambda turn: {{
                    'role': CASE turn."from"
                        WHEN 'human' THEN 'user' WHEN 'gpt' THEN 'assistant' ELSE turn."from" END,
                    'content': turn.value
                }}
            ) AS messages
            FROM read_json('{source}', format = 'newline_delimited')
        ) TO '{target}' {form}
        """
    )


def with_datasets(source, target):
    import tempfile

    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        rows = datasets.load_dataset("json", data_files=source, split="train", cache_dir=cache)
        converted = rows.map(
            lambda row: {"messages": messages(row["conversations"])},
            remove_columns=rows.column_names,
            num_proc=2,
        )
        if target.endswith(".parquet"):
            converted.to_parquet(target)
        else:
            converted.to_json(target)


def main():
    library, source, target = sys.argv[1:]
    work = {"orjson": with_orjson, "duckdb": with_duckdb, "datasets": with_datasets}[library]
    __import__(library)
    start = time.perf_counter()
    work(source, target)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
