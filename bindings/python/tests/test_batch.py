"""Batches by the Arrow C interface."""

import threading

import pytest
from conftest import cases

import openchatml
from openchatml import batch

HARMONY = openchatml.get_encoding("o200k_harmony")
TEXTS = ["Hello, world!", "", None, "naïve 🦊 <|end|>", "a" * 1000]


def test_without_pyarrow():
    ids = batch.encode(TEXTS)
    assert len(ids) == 5 and "LargeList" in repr(ids)
    schema, array = ids.__arrow_c_array__()
    assert "arrow_schema" in repr(schema) and "arrow_array" in repr(array)
    # Our own results are inputs.
    assert len(batch.decode(ids)) == 5
    assert len(batch.count(batch.decode(ids))) == 5
    with pytest.raises(TypeError):
        ids.__arrow_c_stream__()


def test_wrong_inputs():
    class Broken:
        def __init__(self, result):
            self.result = result

        def __arrow_c_array__(self, requested_schema=None):
            return self.result

    schema, array = batch.count(["a"]).__arrow_c_array__()
    wrong = [5, None, object(), [5], ["a\ud800"], b"x", Broken(None), Broken((1, 2)), Broken((array, schema)),
             Broken((schema, schema)), batch.count(["a"])]
    for value in wrong:
        for call in (batch.encode, batch.count, batch.decode, batch.parse, lambda texts: batch.convert(texts, "openai")):
            with pytest.raises((TypeError, ValueError)):
                call(value)


@pytest.fixture
def arrow():
    return pytest.importorskip("pyarrow")


def inputs(arrow):
    yield arrow.array(TEXTS)
    yield arrow.array(TEXTS, arrow.large_string())
    yield arrow.array(["x", *TEXTS])[1:]
    yield arrow.chunked_array([TEXTS[:2], TEXTS[2:]])
    yield arrow.table({"text": TEXTS, "other": range(5)})
    yield arrow.RecordBatchReader.from_batches(
        arrow.schema([("text", arrow.string())]),
        arrow.table({"text": arrow.array(TEXTS)}).to_batches(max_chunksize=2),
    )
    yield TEXTS


def test_encode_and_decode(arrow):
    expected = [None if text is None else HARMONY.encode_ordinary(text) for text in TEXTS]
    for texts in inputs(arrow):
        try:
            ids = batch.encode(texts)
        except (TypeError, ValueError):
            # A stream of an array that is not a table.
            assert isinstance(texts, arrow.ChunkedArray)
            continue
        array = arrow.array(ids)
        assert array.to_pylist() == expected
        array.validate(full=True)
        assert arrow.array(batch.decode(array)).to_pylist() == TEXTS
    counts = arrow.array(batch.count(TEXTS)).to_pylist()
    assert counts == [None if ids is None else len(ids) for ids in expected]
    allowed = arrow.array(batch.encode(["<|end|>"], allow_specials=True)).to_pylist()
    assert allowed == [[200007]]
    for kind in (arrow.int32(), arrow.int64(), arrow.uint32(), arrow.uint64()):
        ids = arrow.array([[13225, 11], [], None, [201_000_000]], arrow.list_(kind))
        assert arrow.array(batch.decode(ids)).to_pylist() == ["Hello,", "", None, "\ufffd"]


def test_parse_and_convert(arrow):
    texts = [text for dialect, role, text in cases() if dialect == "harmony" and role is None]
    table = arrow.table(batch.parse(arrow.array(texts), "harmony"))
    table.validate(full=True)
    for text, row in zip(texts, table.to_pylist()):
        document = openchatml.parse(text, "harmony")
        assert row["diagnostics"] == [found.code for found in document.diagnostics]
        keys = ["role", "name", "channel", "recipient", "content_type", "call_id", "text", "end", "complete", "visible"]
        assert row["messages"] == [{key: getattr(message, key) for key in keys} for message in document]
    rows = arrow.table(batch.convert(texts, "openai", dialect="harmony")).to_pylist()
    for text, row in zip(texts, rows):
        expected = openchatml.convert(text, "openai", dialect="harmony", line=True)
        assert (row["text"], row["error"]) == (expected.text, None)
        assert row["losses"] == [loss.kind for loss in expected.losses]
    refused = arrow.table(batch.convert(['[{"role":"user","content":"<|end|>"}]', None], "harmony")).to_pylist()
    assert refused[0]["text"] is None and "<|end|>" in refused[0]["error"]
    assert refused[1] == {"text": None, "losses": None, "diagnostics": None, "error": None}


def test_invalid_data_is_refused(arrow):
    offsets = arrow.py_buffer(b"\0\0\0\0\2\0\0\0")
    broken = arrow.StringArray.from_buffers(1, offsets, arrow.py_buffer(b"\xff\xfe"))
    with pytest.raises(ValueError, match="invalid Arrow data"):
        batch.encode(broken)


def test_capsules_are_released(arrow):
    before = arrow.total_allocated_bytes()
    for _ in range(100):
        arrow.table(batch.parse(arrow.array(["<|start|>user<|message|>Hi<|end|>"] * 100), "harmony"))
        batch.encode(arrow.array(TEXTS)).__arrow_c_array__()
    assert arrow.total_allocated_bytes() == before


def test_threads(arrow):
    texts = arrow.array(["some text of several words " * 20] * 200)
    expected = arrow.array(batch.encode(texts, num_threads=1))
    results = []

    def work():
        results.append(arrow.array(batch.encode(texts)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == expected for result in results)
