"""Measures the package beside openai-harmony and tiktoken, in one run: peers.py [CASES.jsonl]

Prints tables in Markdown: the malformed Harmony cases as right, wrong or error; tokens per second
of reading; bytes per second of encoding; the time of `import`. Needs openchatml, openai-harmony,
tiktoken and pydantic.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial

import openchatml
from openchatml.compat import openai_harmony as ours

ROOT = pathlib.Path(__file__).resolve().parents[3]
ENCODING = openchatml.get_encoding("o200k_harmony")


def vocabulary():
    """Write the vocabulary where openai-harmony and tiktoken look for it."""
    folder = pathlib.Path(tempfile.mkdtemp())
    tokens = ENCODING.token_byte_values()
    with open(folder / "o200k_base.tiktoken", "wb") as file:
        for rank, token in enumerate(tokens):
            file.write(base64.b64encode(token) + b" %d\n" % rank)
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(folder)
    return folder


FOLDER = vocabulary()
import openai_harmony as theirs  # noqa: E402
import tiktoken  # noqa: E402
import tiktoken_ext.openai_public as public  # noqa: E402

# Only the ranks are read from elsewhere.
public.load_tiktoken_bpe = lambda *_, **__: {
    token: rank for rank, token in enumerate(ENCODING.token_byte_values())
}
THEIR_ENCODING = theirs.load_harmony_encoding("HarmonyGptOss")
OUR_ENCODING = ours.load_harmony_encoding("HarmonyGptOss")


def timed(work, clock, least=0.02):
    """Return the seconds that a work takes, over as many runs as take 20 ms."""
    runs = 0
    before = clock()
    while runs == 0 or clock() - before < least:
        work()
        runs += 1
    return (clock() - before) / runs


def turns(mine, other, clock=time.process_time, repeats=15):
    """Return the seconds of two works that take turns, for each turn.

    The time is that of the process, which other programs on the machine change little; work on
    several threads is measured by the clock on the wall, on a machine with nothing else to do.
    """
    return [(timed(mine, clock), timed(other, clock)) for _ in range(repeats)]


# Malformed cases ----------------------------------------------------------------------------


def case_ids(case):
    return case.get("tokens") or ENCODING.encode(case["raw_text"], allowed_special="all")


def expected(case):
    keys = ("role", "channel", "recipient", "content_type", "content")
    return [tuple(message[key] for key in keys) for message in case["expected"]["messages"]]


def read(module, encoding, case, strict):
    role = case.get("start_role")
    role = module.Role(role) if role else None
    tools = case.get("context", {}).get("tools", [])
    named = {"tools": tools} if module is ours else {}
    parser = module.StreamableParser(encoding, role, strict=strict, **named)
    for id in case_ids(case):
        parser.process(id)
    parser.process_eos()
    out = []
    for message in parser.messages:
        content_type = message.content_type
        if content_type is not None:
            content_type = content_type.removeprefix("<|constrain|>")
        text = "".join(part.text for part in message.content)
        out.append((message.author.role.value, message.channel, message.recipient, content_type, text))
    return out


def verdict(module, encoding, case, strict):
    try:
        found = read(module, encoding, case, strict)
    except Exception as error:
        return "error", str(error)
    return ("right", "") if found == expected(case) else ("wrong", found)


def malformed(path):
    cases = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    columns = [
        ("openchatml.compat", ours, OUR_ENCODING, None),
        ("openai-harmony, strict", theirs, THEIR_ENCODING, True),
        ("openai-harmony, strict=False", theirs, THEIR_ENCODING, False),
    ]
    print("| case | " + " | ".join(column[0] for column in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    totals = [dict.fromkeys(("right", "wrong", "error"), 0) for _ in columns]
    for case in cases:
        words = []
        for total, (_, module, encoding, strict) in zip(totals, columns):
            word, detail = verdict(module, encoding, case, strict)
            total[word] += 1
            words.append(word)
            if module is ours and word != "right":
                print(f"{case['name']}: {word}: {detail!r}; expected {expected(case)}", file=sys.stderr)
        print(f"| {case['name']} | " + " | ".join(words) + " |")
    for word in ("right", "wrong", "error"):
        print(f"| **{word}** | " + " | ".join(str(total[word]) for total in totals) + " |")
    print()


# Speed --------------------------------------------------------------------------------------


def completion(prose):
    prose = prose.replace("<|", "< |")
    text = (
        f"<|channel|>analysis<|message|>{prose[:6000]}<|end|>"
        '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": [1, 2, 3]}<|call|>'
        "<|start|>functions.f to=assistant<|channel|>commentary<|message|>5<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{prose[6000:9000]}<|return|>"
    )
    return ENCODING.encode(text, allowed_special="all")


def row(name, count, mine, other, unit, clock=time.process_time):
    """Print a row of the speed of both, and their ratio: the median of those of each turn."""
    measured = turns(mine, other, clock)
    ratio = statistics.median(theirs / ours for ours, theirs in measured)
    ours, theirs = (statistics.median(turn[place] for turn in measured) for place in (0, 1))
    print(f"| {name} | {count / ours:,.0f} | {count / theirs:,.0f} | {ratio:.1f} | {unit} |")


def reading():
    ids = completion((ROOT / "README.md").read_text())

    def whole(module, encoding):
        return lambda: encoding.parse_messages_from_completion_tokens(ids, module.Role.ASSISTANT)

    def process(module, encoding):
        def work():
            parser = module.StreamableParser(encoding, module.Role.ASSISTANT)
            for id in ids:
                parser.process(id)
        return work

    def deltas(module, encoding, ids):
        def work():
            parser = module.StreamableParser(encoding, module.Role.ASSISTANT)
            for id in ids:
                parser.process(id)
                parser.last_content_delta
                parser.current_channel
                parser.current_recipient
        return work

    def loop(ids):
        def work():
            recoverer = openchatml.Recoverer("assistant")
            for id in ids:
                for delta in recoverer.push(id):
                    delta.text
                    delta.channel
        return work

    print(f"Reading a completion of {len(ids)} tokens:\n")
    print("| | openchatml | openai-harmony | times | |")
    print("|---|---|---|---|---|")
    count = len(ids)
    their_whole, their_deltas = whole(theirs, THEIR_ENCODING), deltas(theirs, THEIR_ENCODING, ids)
    row("compat: parse_messages_from_completion_tokens", count, whole(ours, OUR_ENCODING), their_whole, "tokens/s")
    row("parse_ids beside it", count, lambda: openchatml.parse_ids(ids, start_role="assistant").messages, their_whole, "tokens/s")
    row("compat: StreamableParser.process", count, process(ours, OUR_ENCODING), process(theirs, THEIR_ENCODING), "tokens/s")
    row("compat: process and three properties", count, deltas(ours, OUR_ENCODING, ids), their_deltas, "tokens/s")
    row("Recoverer.push beside it", count, loop(ids), their_deltas, "tokens/s")
    # Texts that differ, one after the other: a delta is made only once for all of them.
    pages = [path.read_text() for path in sorted(ROOT.glob("docs/**/*.md"))]
    pages = [completion(page) for page in pages if len(page) >= 9000][:12]
    ours_each, theirs_each = ([make(page) for page in pages] for make in (loop, partial(deltas, theirs, THEIR_ENCODING)))
    row(
        f"Recoverer.push, {len(pages)} completions in turn", sum(map(len, pages)),
        lambda: [work() for work in ours_each], lambda: [work() for work in theirs_each], "tokens/s",
    )
    row("Stream.feed_ids beside it", count, lambda: openchatml.Stream(start_role="assistant").feed_ids(ids), their_deltas, "tokens/s")
    print()


def encoding():
    peer = tiktoken.get_encoding("o200k_base")
    base = openchatml.get_encoding("o200k_base")
    parts = [path.read_text() for path in sorted(ROOT.glob("docs/**/*.md"))]
    parts += [path.read_text() for path in sorted(ROOT.glob("crates/openchatml/src/**/*.rs"))]
    text = "\n".join(parts)[:2_000_000]
    short = [line for line in text.splitlines() if line][:20_000]
    assert base.encode_ordinary(text) == peer.encode_ordinary(text)
    size = len(text.encode())
    short_size = sum(len(line.encode()) for line in short)

    def on_two(encode):
        def work():
            half = len(text) // 2
            halves = [text[:half], text[half:]]
            threads = [threading.Thread(target=encode, args=(part,)) for part in halves]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return work

    print(f"Encoding {size:,} bytes, and {len(short):,} lines of {short_size:,} bytes:\n")
    print("| | openchatml | tiktoken | times | |")
    print("|---|---|---|---|---|")
    ids = base.encode_ordinary(text)
    wall = time.perf_counter
    row("encode_ordinary, one thread", size, lambda: base.encode_ordinary(text), lambda: peer.encode_ordinary(text), "bytes/s")
    row("encode, one thread", size, lambda: base.encode(text, disallowed_special=()), lambda: peer.encode(text, disallowed_special=()), "bytes/s")
    row("encode_ordinary, two threads", size, on_two(base.encode_ordinary), on_two(peer.encode_ordinary), "bytes/s", wall)
    # Both halves one after the other, and at the same time.
    halves = [text[: len(text) // 2], text[len(text) // 2 :]]
    for name, encoding in (("openchatml", base), ("tiktoken", peer)):
        one = lambda: [encoding.encode_ordinary(half) for half in halves]  # noqa: E731
        measured = turns(one, on_two(encoding.encode_ordinary), wall)
        ratio = statistics.median(one / two for one, two in measured)
        print(f"| two threads beside one, {name} | | | {ratio:.2f} | |")
    row("encode_ordinary_batch of the lines", short_size, lambda: base.encode_ordinary_batch(short), lambda: peer.encode_ordinary_batch(short), "bytes/s", wall)
    row("decode", size, lambda: base.decode(ids), lambda: peer.decode(ids), "bytes/s")
    row("count (theirs: len of encode_ordinary)", size, lambda: base.count(text), lambda: len(peer.encode_ordinary(text)), "bytes/s")
    print(f"\nThe machine had a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")


def importing():
    code = "import time; before = time.perf_counter(); import {}; print(time.perf_counter() - before)"

    def milliseconds(module):
        times = []
        for _ in range(11):
            done = subprocess.run([sys.executable, "-c", code.format(module)], stdout=subprocess.PIPE, check=True)
            times.append(float(done.stdout) * 1000)
        return min(times), statistics.median(times)

    print("| import | least ms | median ms |")
    print("|---|---|---|")
    for module in ("openchatml", "openchatml.compat.openai_harmony", "tiktoken", "openai_harmony"):
        least, median = milliseconds(module)
        print(f"| {module} | {least:.1f} | {median:.1f} |")
    print()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        malformed(pathlib.Path(sys.argv[1]))
    reading()
    encoding()
    importing()
