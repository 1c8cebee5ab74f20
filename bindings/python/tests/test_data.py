"""Training data: rows one by one, batches of Arrow, and both beside `logue data`."""

import json
import os
import pickle
import subprocess

import pytest
from data_rows import QUESTION, ROWS, TOOL, assistant, messages, random_rows, user

import openchatml
from openchatml import data

ROW = {"messages": [user("2+2?"), assistant("4")]}
BYTES = [row.encode() for row in ROWS] + [b"\xff\xfe", b'{"messages":[{"role":"user","content":"\xff"}]}']

#: A template whose special tokens `o200k` has.
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}"
    "{% if m.role == 'assistant' %}<|return|>{% else %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant<|message|>{% endif %}"
)


def byte_tokenizer():
    """Return a tokenizer of bytes with the special tokens of ChatML."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    vocabulary = {chr(byte if byte in printable else next(others)): byte for byte in range(256)}
    special = [{"id": 300 + at, "content": name, "special": True, "normalized": False}
               for at, name in enumerate(["<|im_start|>", "<|im_end|>"])]
    return json.dumps({
        "added_tokens": special,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    })


#: Options of maskers, each with the arguments of `logue data mask`.
MASKS = {
    "harmony": (("harmony",), {}, ["--to", "harmony"]),
    "kept": (("harmony",), {"reasoning": "keep", "columns": ["text", "spans", "labels"], "date": "2026-01-02", "effort": "high"},
             ["--to", "harmony", "--reasoning", "keep", "--columns", "text,spans,labels", "--date", "2026-01-02", "--effort", "high"]),
    "classes": (("harmony",), {"classes": ["answer", "terminator"], "marks": ["weight", "train"], "drop_trailing": True},
                ["--to", "harmony", "--train", "answer,terminator", "--marks", "weight,train", "--drop-trailing"]),
    "cut": (("ocml2.2",), {"max_tokens": 40, "truncation": "left", "roles": ["assistant", "user"], "allow_untrained_stop": True},
            ["--to", "ocml2.2", "--max-length", "40", "--truncate", "left", "--roles", "assistant,user", "--allow-untrained-stop"]),
    "chatml": (("chatml",), {"tokenizer": "FILE", "train_without_reasoning": True},
               ["--to", "chatml", "--tokenizer", "FILE", "--train-without-reasoning"]),
    "template": (("template",), {"template": TEMPLATE}, ["--to", "template", "--template", "TEMPLATE"]),
}


def masker(name):
    form, named, _ = MASKS[name]
    named = {key: byte_tokenizer() if value == "FILE" else value for key, value in named.items()}
    return data.Masker(*form, **named)


def refused(call, *arguments, **named):
    with pytest.raises(openchatml.OpenChatMLError) as caught:
        call(*arguments, **named)
    return caught.value


def test_rows_are_texts_bytes_or_dicts():
    expected = data.Masker("harmony").mask(ROW)
    text = json.dumps(ROW)
    for row in (text, text.encode(), bytearray(text.encode()), memoryview(text.encode())):
        masked = data.Masker("harmony").mask(row)
        assert (masked.input_ids, masked.labels) == (expected.input_ids, expected.labels)
    for wrong in (5, None, [1], object()):
        for call in (data.check, data.DuplicateRules().keys, lambda row: data.convert(row, "openai"), data.Masker("harmony").mask):
            with pytest.raises(TypeError):
                call(wrong)


def test_masks():
    masked = data.Masker("harmony").mask(ROW)
    assert masked.trained_texts == ["<|channel|>final<|message|>4<|return|>"]
    assert masked.input_ids[-1] == masked.labels[-1] == 200002
    assert masked.labels[0] == -100 and len(masked) == len(masked.labels)
    assert masked.attention_mask == [1] * len(masked)
    assert [mark == 1 for mark in masked.assistant_masks] == [label >= 0 for label in masked.labels]
    assert openchatml.get_encoding("o200k_harmony").decode(masked.input_ids) == masked.text
    for span in masked.spans:
        assert set(span) == {"start", "end", "class", "message", "trained"}
    error = refused(data.Masker("harmony").mask, {"messages": [user("a")]})
    assert error.code == "E-DATA-MASK-EMPTY" and error.diagnostic.help


@pytest.mark.parametrize(
    "form, named",
    [
        ("gemma", {}),
        ("harmony", {"classes": ["context"]}),
        ("harmony", {"roles": ["developer"]}),
        ("harmony", {"marks": ["weights"]}),
        ("harmony", {"columns": ["ids"]}),
        ("harmony", {"shape": "x"}),
        ("harmony", {"reasoning": "x"}),
        ("harmony", {"truncation": "x"}),
        ("harmony", {"effort": "x"}),
        ("harmony", {"max_tokens": 0}),
        ("harmony", {"template": TEMPLATE}),
        ("harmony", {"stops": ["x"]}),
        ("template", {}),
        ("template", {"template": TEMPLATE, "roles": ["user"]}),
        ("template", {"template": TEMPLATE, "date": "yesterday"}),
    ],
)
def test_unknown_options_of_masks(form, named):
    assert refused(data.Masker, form, **named).code == "invalid-argument"


def test_content_that_a_masker_cannot_use():
    assert refused(data.Masker, "template", template="{% for %}").code == "E-DATA-TEMPLATE"
    assert refused(data.Masker, "harmony", tokenizer="{}").code == "E-DATA-TOKENIZER"
    # The tokens of another form are missing before the first row.
    assert refused(data.Masker, "harmony", tokenizer=byte_tokenizer()).code == "E-DATA-SPECIAL-TOKEN"
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_length'"):
        data.Masker("harmony", max_length=5)


def test_findings():
    assert data.check(ROW) == ()
    row = messages(user("a <|im_end|>"), assistant("b"), user("c"))
    codes = [found.code for found in data.check(row)]
    assert codes == ["data-no-answer", "hidden-control-token"]
    found = data.check(row)[1]
    assert row[slice(*found.span)] == "<|im_end|>"
    assert [found.code for found in data.check("{", "openai")] == ["E-JSON-SYNTAX"]
    for form in ("chatml", "x"):
        assert refused(data.check, ROW, form).code == "invalid-argument"


def test_conversions():
    converted = data.convert(ROWS[14], "openai")
    assert json.loads(converted.text) == {"messages": [user("Hi"), assistant("Hello")]}
    assert (converted.source_form, converted.form, converted.losses) == ("sharegpt", "openai", ())
    assert data.convert(ROWS[16], "openai").text.count("\n") == 1
    lost = data.convert(ROWS[2], "sharegpt")
    assert lost.losses and pickle.loads(pickle.dumps(lost)).text == lost.text
    assert refused(data.convert, ROWS[12], "sharegpt", strict="content").code == "E-WRITE-REFUSED"
    assert refused(data.convert, "{", "openai").code == "E-JSON-SYNTAX"
    for named in ({"form": "x"}, {"strict": "x"}):
        assert refused(data.convert, ROW, "openai", **named).code == "invalid-argument"
    assert refused(data.convert, ROW, "x").code == "invalid-argument"
    builtin = {"text": "version: 2.2\ngeneration_settings:\n  builtin_tools: [python]\n<|start|>user<|message|>a<|end|>"}
    error = refused(data.convert, builtin, "openai")
    assert error.code == "E-WRITE-REFUSED" and "builtin_tools" in str(error)


def test_keys_and_comparisons():
    rules = data.DuplicateRules()
    keys = rules.keys(ROW)
    spaced = rules.keys({"id": 7, "conversations": [{"from": "human", "value": " 2+2?"}, {"from": "gpt", "value": "4\n"}]})
    assert keys == spaced and len(keys.bands) == len(set(keys.bands)) == 24
    assert rules.keys({"messages": [user("2+2?"), assistant("5")]}).text != keys.text
    assert data.DuplicateRules(exact_only=True).keys(ROW).bands == []
    same = rules.compare(ROW, ROW)
    assert (same.is_exact, same.is_duplicate, same.jaccard, same.shared) == (True, True, 1.0, same.united)
    other = rules.compare(ROW, {"messages": [user("Tide?"), assistant("No.")]})
    assert (other.is_exact, other.is_duplicate, other.jaccard) == (False, False, 0.0)
    by_field = data.DuplicateRules(fields=["meta.text"])
    assert by_field.keys({"meta": {"text": "a"}, "x": 1}) == by_field.keys({"meta": {"text": "a"}})
    assert refused(by_field.keys, {"x": 1}).code == "E-JSON-SHAPE"
    for named in ({"threshold": 0}, {"threshold": 1.5}, {"shingle": 0}):
        assert refused(data.DuplicateRules, **named).code == "invalid-argument"


def test_texts_of_benchmarks():
    index = data.BenchmarkIndex(["short", {"question": QUESTION, "answer": "45"}])
    assert (index.texts, index.too_short) == (1, 2)
    [span] = index.spans(messages(user("a"), assistant("Now: " + QUESTION.upper())))
    assert (span.turn, span.speaker, span.benchmark, span.words, span.benchmark_words) == (1, "assistant", 1, 25, 25)
    assert span.text == QUESTION.upper().rstrip("?")
    assert index.spans(ROW) == ()
    assert refused(data.BenchmarkIndex, ["short"]).code == "invalid-argument"


def test_objects_can_be_sent_to_workers():
    for name in MASKS:
        before = masker(name)
        after = pickle.loads(pickle.dumps(before))
        for row in BYTES:
            assert outcome(after.line, row) == outcome(before.line, row)
    rules = pickle.loads(pickle.dumps(data.DuplicateRules(0.5, shingle=2, fields=["x"])))
    assert len(rules.keys({"x": "a b"}).bands) == 60
    index = pickle.loads(pickle.dumps(data.BenchmarkIndex([QUESTION], words=8)))
    assert index.spans(messages(user(QUESTION)))[0].words == 25


def outcome(call, *arguments):
    """Return the result of a call, or the code and message of its exception."""
    try:
        return call(*arguments)
    except openchatml.OpenChatMLError as error:
        return (error.code, error.message)


def test_rows_that_are_too_long():
    row = b'{"messages":[{"role":"user","content":"' + b"a" * (64 << 20) + b'"}]}'
    for call in (data.Masker("harmony").mask, data.DuplicateRules().keys, lambda row: data.convert(row, "openai")):
        assert refused(call, row).code == "E-SOURCE-TOO-LARGE"
    assert [found.code for found in data.check(row)] == ["E-SOURCE-TOO-LARGE"]


# Batches.


@pytest.fixture
def arrow():
    return pytest.importorskip("pyarrow")


def batches(rows):
    """Return each function of batches with its one for rows."""
    index = data.BenchmarkIndex([QUESTION])
    rules = data.DuplicateRules()
    yield data.convert_batch(rows, "openai", num_threads=2), lambda row: data.convert(row, "openai")
    yield data.check_batch(rows), data.check
    yield data.Masker("harmony").mask_batch(rows), data.Masker("harmony").mask
    yield rules.keys_batch(rows), rules.keys
    yield rules.compare_batch(rows, rows), lambda row: rules.compare(row, row)
    yield index.spans_batch(rows), index.spans


def test_batches_without_pyarrow():
    for rows in ([ROW, "{", None, b"5"], []):
        for batch, _ in batches(rows):
            assert len(batch) == len(rows)
            assert "arrow_schema" in repr(batch.__arrow_c_array__()[0])
    for wrong in ("{}", 5, {"row": []}, [5], object()):
        with pytest.raises(TypeError):
            data.check_batch(wrong)
    with pytest.raises(ValueError):
        data.DuplicateRules().compare_batch(["{}"], [])


def test_refused_rows_keep_their_place(arrow):
    rows = [*BYTES, None]
    for batch, call in batches(rows):
        table = arrow.table(batch)
        table.validate(full=True)
        assert table.num_rows == len(rows)
        for row, found in zip(rows, table.to_pylist()):
            if row is None:
                assert (found["code"], found["message"]) == ("E-JSON-SHAPE", "the row is null")
                continue
            try:
                call(row)
            except openchatml.OpenChatMLError as error:
                assert (found["code"], found["message"]) == (error.code, error.message)
                rest = {key for key, value in found.items() if value is not None}
                assert rest == {"code", "message"}
            else:
                if "findings" not in found:
                    assert (found["code"], found["message"]) == (None, None), row


def test_columns_equal_the_results_of_rows(arrow):
    rules, index = data.DuplicateRules(), data.BenchmarkIndex([QUESTION])
    table = {}
    for batch, _ in batches(BYTES):
        table |= {name: column.to_pylist() for name, column in zip(arrow.table(batch).column_names, arrow.table(batch).columns)}
    for name in MASKS:
        found = arrow.table(masker(name).mask_batch(BYTES)).drop_columns(["code", "message"])
        for row, cells in zip(BYTES, found.to_pylist()):
            line = outcome(masker(name).line, row)
            if isinstance(line, str):
                assert json.loads(line) == cells
    for at, row in enumerate(BYTES):
        converted = outcome(data.convert, row, "openai")
        if not isinstance(converted, tuple):
            assert table["row"][at] == converted.text
            assert table["losses"][at] == [loss.kind for loss in converted.losses]
        findings = data.check(row)
        cells = [(cell["code"], cell["severity"], cell["message"], (cell["start"], cell["end"])) for cell in table["findings"][at]]
        assert cells == [(found.code, found.severity, found.message, found.byte_span) for found in findings]
        keys = outcome(rules.keys, row)
        if not isinstance(keys, tuple):
            assert (table["text"][at], table["bands"][at]) == (keys.text, keys.bands)
        spans = outcome(index.spans, row)
        if table["spans"][at] is not None:
            names = ["turn", "speaker", "start", "end", "words", "text", "benchmark", "benchmark_words"]
            assert table["spans"][at] == [{name: getattr(span, name) for name in names} for span in spans]


def test_the_column_of_rows(arrow):
    rows = [json.dumps(ROW), None]
    for kind in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view"):
        array = arrow.array(["x", *rows], arrow.string()).cast(getattr(arrow, kind)())[1:]
        for batch in (
            array,
            arrow.table({"number": [1, 2], "other": array}),
            arrow.table({"first": ["{", "{"], "row": array, "text": ["{", "{"]}),
            arrow.table({"first": ["{", "{"], "value": array}),
            arrow.record_batch([array], ["any"]),
            arrow.table({"row": array}).to_reader(),
        ):
            codes = arrow.table(data.check_batch(batch))["code"].to_pylist()
            assert codes == [None, "E-JSON-SHAPE"], kind
    for wrong in (arrow.array([1]), arrow.table({"number": [1]}), arrow.table({"row": [1], "other": ["{}"]})):
        with pytest.raises(TypeError):
            data.check_batch(wrong)
    offsets = arrow.py_buffer(b"\0\0\0\0\2\0\0\0")
    broken = arrow.StringArray.from_buffers(1, offsets, arrow.py_buffer(b"\xff\xfe"))
    with pytest.raises(ValueError, match="invalid Arrow data"):
        data.check_batch(broken)


def test_batches_do_not_depend_on_threads(arrow):
    rows = random_rows(300)
    mask = data.Masker("harmony")
    one, many = (arrow.table(mask.mask_batch(rows, num_threads=number)) for number in (1, 8))
    assert one == many


# `logue data`.


@pytest.fixture
def logue(tmp_path):
    """Run `logue data` on rows; return its output, and (code, message) by row."""
    program = os.environ.get("LOGUE")
    if not program:
        pytest.skip("LOGUE does not name the program")

    def run(command, rows, *arguments, more=()):
        source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        quarantine = tmp_path / "refused.jsonl"
        for old in (target, quarantine):
            old.unlink(missing_ok=True)
        source.write_bytes(b"".join(row + b"\n" for row in rows))
        line = [program, "data", command, "--restart", "-o", target, "--quarantine", quarantine, *more, *arguments, source]
        done = subprocess.run(line, capture_output=True)
        assert done.returncode in (0, 8), done.stderr.decode()
        lines = quarantine.read_bytes().splitlines() if quarantine.exists() else []
        refusals = map(json.loads, lines)
        return target.read_bytes(), {row["row_number"] - 1: (row["code"], row["message"]) for row in refusals}

    return run


def expected(call, rows):
    """Return what the package has for rows: the output, and (code, message) by row."""
    results = [outcome(call, row) for row in rows]
    output = "".join(line + "\n" for line in results if isinstance(line, str))
    return output.encode(), {at: found for at, found in enumerate(results) if isinstance(found, tuple)}


@pytest.mark.parametrize("name", MASKS)
def test_masks_are_those_of_the_program(logue, tmp_path, name):
    (tmp_path / "tokenizer.json").write_text(byte_tokenizer())
    (tmp_path / "template.jinja").write_text(TEMPLATE)
    files = {"FILE": str(tmp_path / "tokenizer.json"), "TEMPLATE": str(tmp_path / "template.jinja")}
    arguments = [files.get(argument, argument) for argument in MASKS[name][2]]
    found = logue("mask", BYTES, *arguments)
    assert found == expected(masker(name).line, BYTES)
    assert found[0].count(b"\n") > 3 and len(found[1]) > 3


@pytest.mark.parametrize("to", ["openai", "sharegpt", "anthropic", "responses", "json", "json2.0", "chatml", "harmony", "ocml2.2"])
def test_conversions_are_those_of_the_program(logue, to):
    for arguments, named in (
        ([], {}),
        (["--keep-reasoning"], {"keep_reasoning": True}),
        (["--strict=structure"], {"strict": "structure"}),
        (["--from", "openai"], {"form": "openai"}),
        (["--from", "chatml"], {"form": "chatml"}),
    ):
        found = logue("convert", BYTES, "--to", to, *arguments)
        assert found == expected(lambda row: data.convert(row, to, **named).text, BYTES), arguments


def test_findings_are_those_of_the_program(logue, tmp_path):
    program = os.environ["LOGUE"]
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"".join(row + b"\n" for row in BYTES))
    done = subprocess.run([program, "data", "check", "--sarif", source], capture_output=True)
    results = json.loads(done.stdout)["runs"][0]["results"]
    place = lambda result: result["locations"][0]["physicalLocation"]["region"]["startLine"]  # noqa: E731
    found = [(place(result), result["ruleId"], result["message"]["text"].split("\n")[0]) for result in results]
    ours = [(at + 1, finding.code, finding.message.split("\n")[0]) for at, row in enumerate(BYTES) for finding in data.check(row)]
    assert found == ours


def test_duplicates_are_those_of_the_program(logue, tmp_path):
    rows = [row.encode() for row in random_rows(400)]
    evidence = tmp_path / "evidence.jsonl"
    output, _ = logue("dedup", rows, "--evidence", evidence)
    rules = data.DuplicateRules()
    removals = [json.loads(line) for line in evidence.read_bytes().splitlines()]
    assert {removal["reason"] for removal in removals} == {"exact", "near"}
    for removal in removals:
        removed, kept = (rows[removal[which]["row_number"] - 1] for which in ("removed", "kept"))
        assert f"{rules.keys(removed).text & (1 << 64) - 1:016x}" == removal["text_hash"]
        compared = rules.compare(removed, kept)
        assert compared.is_duplicate and compared.is_exact == (removal["reason"] == "exact")
        if removal["reason"] == "near":
            assert (compared.shared, compared.united) == (removal["shared_shingles"], removal["united_shingles"])
            assert abs(compared.jaccard - removal["jaccard"]) < 1e-3
    assert deduplicated(rules, rows) == output


def deduplicated(rules, rows):
    """Return the rows that remain, found by the keys as an engine finds them."""
    firsts, groups, pairs = {}, {}, set()
    for at, row in enumerate(rows):
        keys = rules.keys(row)
        if firsts.setdefault(keys.text, at) != at:
            continue
        for key in keys.bands:
            pairs.update((other, at) for other in groups.setdefault(key, []))
            groups[key].append(at)
    removed = set(range(len(rows))) - set(firsts.values())
    for first, second in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
        if first not in removed and rules.compare(rows[first], rows[second]).is_duplicate:
            removed.add(second)
    return b"".join(row + b"\n" for at, row in enumerate(rows) if at not in removed)


def test_benchmarks_are_those_of_the_program(logue, tmp_path):
    benchmarks = ["too short", json.dumps({"question": QUESTION}), json.dumps(TOOL)]
    (tmp_path / "bench.jsonl").write_text("".join(line + "\n" for line in benchmarks))
    output, refusals = logue("decontaminate", BYTES, "--against", tmp_path / "bench.jsonl")
    found = [json.loads(line) for line in output.splitlines()]
    assert found
    index = data.BenchmarkIndex(benchmarks)
    spans = [(at, outcome(index.spans, row)) for at, row in enumerate(BYTES)]
    ours = [
        (at + 1, span.turn, span.speaker, span.start, span.end, span.words, span.text, span.benchmark + 1, span.benchmark_words)
        for at, row in spans
        for span in row
        if not isinstance(span, str)
    ]
    names = ["row_number", "turn", "speaker", "start", "end", "words", "text"]
    assert ours == [(*(row[name] for name in names), row["benchmark"]["line"], row["benchmark"]["words"]) for row in found]
    assert refusals == {at: row for at, row in spans if row and isinstance(row[0], str)}
