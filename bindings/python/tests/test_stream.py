"""Streams: the events of Rust, whatever the pieces are."""

import asyncio
import os
import random
import threading

import pytest
from conftest import cases, rust_events
from events import plain

import openchatml

#: Random splits; `OPENCHATML_LONG=1` runs a million.
SPLITS = 1_000_000 if os.environ.get("OPENCHATML_LONG") else 20_000


def fixtures():
    known = {}
    for dialect, role, text in cases():
        known[dialect, role, text.encode()] = None
    return list(known)


def read(dialect, role, pieces):
    stream = openchatml.Stream(dialect, start_role=role)
    events = []
    for piece in pieces:
        events += stream.feed(piece)
    events += stream.finish()
    return events


def test_every_split_in_two_gives_the_events_of_rust():
    requests = fixtures()
    assert len(requests) > 500
    for (dialect, role, source), expected in zip(requests, rust_events(requests)):
        # Long cases at a few places, short ones at every byte.
        step = max(1, len(source) // 200)
        for at in range(0, len(source) + 1, step):
            found = plain(read(dialect, role, [source[:at], source[at:]]))
            assert found == expected, (dialect, role, source, at)


def test_random_splits_give_the_events_of_rust():
    requests = fixtures()
    answers = list(zip(requests, rust_events(requests)))
    generator = random.Random(7)
    for _ in range(SPLITS):
        (dialect, role, source), expected = generator.choice(answers)
        pieces = []
        at = 0
        while at < len(source):
            size = generator.choice([1, 2, 3, 7, 20, 100])
            pieces.append(source[at:at + size])
            at += size
        found = plain(read(dialect, role, pieces))
        assert found == expected, (dialect, role, source, pieces)


def test_ids_give_the_events_of_rust():
    encoding = openchatml.get_encoding("o200k_harmony")
    requests = []
    for dialect, role, source in fixtures():
        if dialect == "harmony":
            ids = encoding.encode(source.decode(), allowed_special="all")
            requests.append((dialect, role, ids))
    generator = random.Random(3)
    requests += [
        ("harmony", None, [generator.randrange(202_000) for _ in range(50)]) for _ in range(200)
    ]
    for (_, role, ids), expected in zip(requests, rust_events(requests)):
        one_by_one = openchatml.Stream("harmony", start_role=role)
        events = [event for id in ids for event in one_by_one.feed_id(id)]
        assert plain(events + one_by_one.finish()) == expected
        together = openchatml.Stream("harmony", start_role=role)
        assert plain(together.feed_ids(ids) + together.finish()) == expected


def test_spans_are_code_points():
    text = "version: 2.2\n<|start|>user<|message|>é😀<|end|>\n<|start|>assistant<|message|>ж<|return|>"
    expected = [text.index("<|start|>user"), text.index("<|end|>") + len("<|end|>")]
    document = openchatml.parse(text)
    assert list(document[0].span) == expected
    assert text[slice(*document[0].body_span)] == "é😀"
    assert document[0].byte_span != document[0].span
    for size in (1, 2, 3, 1000):
        source = text.encode()
        pieces = [source[at:at + size] for at in range(0, len(source), size)]
        ends = [event for event in read("ocml2.2", None, pieces) if isinstance(event, openchatml.End)]
        assert [end.span for end in ends] == [message.span for message in document]
        assert [end.body_span for end in ends] == [message.body_span for message in document]


def test_spans_of_invalid_bytes_count_as_python_decodes_them():
    generator = random.Random(5)
    alphabet = [b"a", "é".encode(), "😀".encode(), b"\xff", b"\xf0\x9f", b"\xe2\x82", b"\x80", b"<|end|>"]
    for _ in range(2000):
        body = b"".join(generator.choice(alphabet) for _ in range(generator.randrange(12)))
        source = b"<|start|>user<|message|>" + body + b"<|end|>"
        document = openchatml.parse(source, "harmony")
        decoded = source.decode("utf-8", "replace")
        first = document[0]
        end = source[:first.byte_span[1]].decode("utf-8", "replace")
        assert first.span == (0, len(end))
        assert decoded.startswith(end)
        events = read("harmony", None, [source[at:at + 2] for at in range(0, len(source), 2)])
        ends = [event for event in events if isinstance(event, openchatml.End)]
        assert ends[0].span == first.span, source


def test_iterators():
    pieces = ["<|channel|>final<|mes", "sage|>4", b"2<|return|>"]

    async def arriving():
        for piece in pieces:
            await asyncio.sleep(0)
            yield piece

    async def collect():
        stream = openchatml.Stream("harmony", start_role="assistant")
        return [event async for event in stream.aiter(arriving())]

    stream = openchatml.Stream("harmony", start_role="assistant")
    events = plain(stream.iter(pieces))
    assert events == plain(asyncio.run(collect()))
    assert ["delta", "42", None] in events


def test_a_finished_stream_says_so():
    stream = openchatml.Stream("harmony")
    stream.finish()
    assert stream.finished
    for call in (lambda: stream.feed("x"), lambda: stream.feed_id(1), stream.finish):
        with pytest.raises(openchatml.OpenChatMLError) as caught:
            call()
        assert caught.value.code == "stream-finished"


def test_a_strict_stream_keeps_what_it_read_and_says_that_it_stopped():
    stream = openchatml.Stream("harmony", start_role="assistant", strict=True)
    with pytest.raises(openchatml.OpenChatMLError) as caught:
        stream.feed("<|channel|>final<|message|>é<|start|>assistant<|message|>x")
    assert caught.value.code == "E-PARSE-HEADER"
    assert caught.value.span == (28, 37)
    assert ["delta", "é", None] in plain(caught.value.events)
    with pytest.raises(openchatml.OpenChatMLError) as caught:
        stream.feed("x")
    assert caught.value.code == "stream-stopped"


def test_a_refused_piece_changes_nothing():
    stream = openchatml.Stream("harmony", start_role="assistant")
    stream.feed("<|channel|>final<|message|>4")
    for wrong in (None, 5.0, object(), "\ud800", ["<|end|>"]):
        with pytest.raises((TypeError, openchatml.OpenChatMLError)):
            stream.feed(wrong)
    with pytest.raises(openchatml.OpenChatMLError):
        stream.feed_ids([1])
    assert plain(stream.feed("2<|return|>"))[0] == ["delta", "2", None]


def test_threads_share_a_stream():
    stream = openchatml.Stream("harmony", start_role="assistant")
    stream.feed("<|channel|>final<|message|>")
    piece = "word " * 10_000
    lengths = []

    def work():
        for _ in range(20):
            events = stream.feed(piece)
            lengths.append(sum(len(event.text) for event in events))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lengths += [len(event[1]) for event in plain(stream.finish()) if event[0] == "delta"]
    assert sum(lengths) == 80 * len(piece)
