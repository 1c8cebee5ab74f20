"""The interpreter lock is released while a text is read or encoded."""

import json
import sys
import threading

import pytest

import openchatml
from openchatml import batch, data

ENCODING = openchatml.get_encoding("o200k_harmony")
WORDS = "The quick brown fox; naïve 漢字 and 12,345 more. " * 20_000
MESSAGE = f"<|start|>user<|message|>{WORDS}<|end|>"
MESSAGES = "<|start|>user<|message|>What is 2 + 2? é<|end|>" * 20_000
IDS = ENCODING.encode(MESSAGES, allowed_special="all")
LINES = ["some words of a line, é " * 20] * 3_000
ARROW = batch.encode(LINES)
ROW = {"messages": [{"role": "user", "content": WORDS[:400_000]}, {"role": "assistant", "content": WORDS[:400_000]}]}
JSON = json.dumps(ROW)
MASKER, RULES, INDEX = data.Masker("harmony"), data.DuplicateRules(), data.BenchmarkIndex([WORDS[:200]])


def parser():
    pytest.importorskip("pydantic")
    from openchatml.compat import openai_harmony as compat

    return compat.StreamableParser(compat.load_harmony_encoding("HarmonyGptOss"), None)


CALLS = {
    "encode": lambda: ENCODING.encode(WORDS),
    "encode_ordinary": lambda: ENCODING.encode_ordinary(WORDS),
    "encode_batch": lambda: ENCODING.encode_batch(LINES),
    "encode_ordinary_batch": lambda: ENCODING.encode_ordinary_batch(LINES),
    "Encoding.count": lambda: ENCODING.count(WORDS),
    "count": lambda: openchatml.count(WORDS),
    "decode": lambda: ENCODING.decode(IDS),
    "decode_bytes": lambda: ENCODING.decode_bytes(IDS),
    "decode_batch": lambda: ENCODING.decode_batch([IDS, IDS]),
    "decode_bytes_batch": lambda: ENCODING.decode_bytes_batch([IDS, IDS]),
    "parse": lambda: openchatml.parse(MESSAGES, "harmony"),
    "parse_ids": lambda: openchatml.parse_ids(IDS),
    "check": lambda: openchatml.check(MESSAGES, "harmony"),
    "convert": lambda: openchatml.convert(MESSAGES, "openai", dialect="harmony"),
    "render": lambda: openchatml.render([{"role": "user", "content": WORDS}]),
    "render_ids": lambda: openchatml.render_ids([{"role": "user", "content": WORDS}]),
    "scan": lambda: openchatml.scan(MESSAGES),
    "Stream.feed": lambda: openchatml.Stream("harmony").feed(MESSAGE),
    "Stream.feed_ids": lambda: openchatml.Stream("harmony").feed_ids(IDS),
    "Recoverer.push_many": lambda: openchatml.Recoverer().push_many(IDS),
    "StreamableParser.process_many": lambda: parser().process_many(IDS),
    "batch.encode": lambda: batch.encode(LINES),
    "batch.count": lambda: batch.count(LINES),
    "batch.decode": lambda: batch.decode(ARROW),
    "batch.parse": lambda: batch.parse([MESSAGE] * 4, "harmony"),
    "batch.convert": lambda: batch.convert([MESSAGE] * 4, "openai", dialect="harmony"),
    "data.convert": lambda: data.convert(JSON, "sharegpt"),
    "data.convert_batch": lambda: data.convert_batch([JSON] * 2, "sharegpt"),
    "data.check": lambda: data.check(JSON),
    "data.check_batch": lambda: data.check_batch([JSON] * 2),
    "Masker.mask": lambda: MASKER.mask(JSON),
    "Masker.line": lambda: MASKER.line(JSON),
    "Masker.mask_batch": lambda: MASKER.mask_batch([JSON] * 2),
    "DuplicateRules.keys": lambda: RULES.keys(JSON),
    "DuplicateRules.keys_batch": lambda: RULES.keys_batch([JSON] * 2),
    "DuplicateRules.compare": lambda: RULES.compare(JSON, JSON),
    "DuplicateRules.compare_batch": lambda: RULES.compare_batch([JSON] * 2, [JSON] * 2),
    "BenchmarkIndex": lambda: data.BenchmarkIndex([JSON] * 2),
    "BenchmarkIndex.spans": lambda: INDEX.spans(JSON),
    "BenchmarkIndex.spans_batch": lambda: INDEX.spans_batch([JSON] * 2),
}


@pytest.fixture
def no_switching():
    """Let a thread run until it gives the interpreter lock back on its own."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


def others_run_during(call):
    """Return whether another thread that waits for the interpreter lock gets it within a call."""
    gate = threading.Lock()
    gate.acquire()
    ready = threading.Event()
    ran = []

    def work():
        ready.set()
        gate.acquire()
        ran.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    # From here to the last line only the call can give the lock back.
    gate.release()
    call()
    result = bool(ran)
    thread.join()
    return result


@pytest.mark.parametrize("name", CALLS)
def test_other_threads_run_during(name, no_switching):
    call = CALLS[name]
    call()
    # The operating system may start the other thread late; without a release it never starts.
    assert any(others_run_during(call) for _ in range(40)), name


def test_the_measure_sees_a_call_that_keeps_the_lock(no_switching):
    assert not any(others_run_during(lambda: sorted(WORDS)) for _ in range(5))
