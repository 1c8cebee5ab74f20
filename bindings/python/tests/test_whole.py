"""Nothing of a conversation is left out without an exception, and no argument ends the process."""

import copy
import json
import os
import pickle
import subprocess
import sys

import pytest

import openchatml
from openchatml import batch

ENCODING = openchatml.get_encoding("o200k_harmony")
SURROGATE = "é \ud800"

#: A developer message that declares a type, and a call of its tool.
TYPES = (
    "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {{\n\n"
    "type f = (_: {{\na?: {},\n}}) => any;\n\n}} // namespace functions<|end|>"
    "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>"
)

SMALL = """
import threading
import openchatml

def nested(opening, inner, closing, levels=110):
    return opening * levels + inner + closing * levels

def header(yaml):
    return "version: 2.2\\n" + yaml + "\\n<|start|>user<|message|>a<|end|>"

types = {types!r}
arguments = ['{{"a":' + nested("[", "1", "]") + "}}", nested('{{"a":', "1", "}}")]
recursive = "string;\\n}};\\ntype t = t[] | {{ a?: t }} | string;\\ntype g = (_: {{ a?: t"
texts = [header("x: " + nested("{{a: ", "", "}}", levels)) for levels in (12, 40, 60)]
texts += [header("".join(" " * level + "a:\\n" for level in range(levels))) for levels in (12, 40, 60)]
for argument in arguments:
    for type in (nested("{{a: ", "string", "}}"), nested("(", "string", ")"), nested("Array<", "string", ">"),
                 "string" + "[]" * 5000, nested("(", "string", ")[]"), "t; }}) => any;\\ntype t = t[] | {{ a?: t }} | string;\\ntype h = (_: {{ b?: t"):
        texts.append(types.format(type, argument))

def work():
    for text in texts:
        for to in ("openai", "ocml2.2", "harmony"):
            openchatml.convert(text, to)
        openchatml.check(text)
        openchatml.parse(text)
        openchatml.Stream("ocml2.2").feed(text)

threading.stack_size(STACK)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("done")
"""


def is_debug():
    """Return whether the module was built without optimisation, which needs larger stacks."""
    return os.path.getsize(os.path.realpath(openchatml._openchatml.__file__)) > 40_000_000


def test_deep_types_and_headers_fit_a_small_stack():
    stack = (1024 if is_debug() else 128) * 1024
    code = SMALL.format(types=TYPES).replace("STACK", str(stack))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_deep_types_stay_text_in_batches():
    deep = TYPES.format("string" + "[]" * 5000, "{}")
    texts = batch.convert([deep] * 2, "openai", num_threads=2)
    assert len(texts) == 2
    converted = openchatml.convert(deep, "openai")
    assert "[]" * 5000 in converted.text
    codes = [found.code for found in openchatml.check("version: 2.2\n" + deep)]
    assert "invalid-tool-declaration" in codes
    assert '"items"' in openchatml.convert(TYPES.format("string" + "[]" * 8, "{}"), "openai").text


@pytest.mark.parametrize(
    "message",
    [
        {"role": "User", "content": "b"},
        {"role": "user", "content": 5},
        {"role": "user", "content": None},
        {"role": "user"},
        {"content": "b"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://a/b"}}]},
        {"role": "user", "content": float("nan")},
        {"role": "user", "content": SURROGATE},
        {"role": "tool", "content": "b"},
        5,
        "b",
        [],
    ],
)
def test_a_message_that_cannot_be_rendered_is_an_error_with_its_index(message):
    for conversation in ([{"role": "user", "content": "a"}, message], {"messages": [{"role": "user", "content": "a"}, message]}):
        for render in (openchatml.render, openchatml.render_ids):
            with pytest.raises(openchatml.OpenChatMLError) as caught:
                render(conversation)
            assert caught.value.message_index == 1
            assert caught.value.code in ("E-JSON-SHAPE", "E-WRITE-REFUSED", "E-SOURCE-NOT-UTF8")


@pytest.mark.parametrize(
    "source",
    ["garbage", '[{"role":"user","content":"a"}] x', "[", "5", "<|start|>user<|message|>a<|end|> b", {}, {"messages": "a"}],
)
def test_text_outside_of_messages_is_not_left_out_of_a_prompt(source):
    with pytest.raises(openchatml.OpenChatMLError) as caught:
        openchatml.render(source)
    assert caught.value.code.startswith("E-")


@pytest.mark.parametrize("source", [5, None, 1.5, True])
def test_only_conversations_are_rendered(source):
    with pytest.raises(TypeError):
        openchatml.render(source)


def test_strict_conversions_refuse_dropped_messages():
    row = '[{"role":"user","content":"a"},{"role":"User","content":"b"}]'
    converted = openchatml.convert(row, "anthropic")
    assert [(loss.kind, loss.index) for loss in converted.losses] == [("message-dropped", 1)]
    for strict in ("content", "structure", "identity"):
        with pytest.raises(openchatml.OpenChatMLError) as caught:
            openchatml.convert(row, "anthropic", strict=strict)
        assert caught.value.losses[0].kind == "message-dropped"
    garbage = openchatml.convert('[{"role":"user","content":"a"}] x', "openai")
    assert [loss.kind for loss in garbage.losses] == ["message-dropped"]
    assert garbage.diagnostics[0].code == "E-JSON-SYNTAX"


def test_tools_beside_messages_are_rendered():
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    row = {"messages": [{"role": "developer", "content": "Rules."}, {"role": "user", "content": "Hi"}], "tools": [tool]}
    prompt = openchatml.render(row)
    assert "Rules.\n\n# Tools\n\n## functions\n\nnamespace functions {\n\ntype f = (_: {\na?: string,\n}) => any;" in prompt
    assert ENCODING.decode(openchatml.render_ids(row)) == prompt
    assert prompt == openchatml.convert(json.dumps(row), "harmony").text
    for tools in (5, [{"type": "function", "function": {"nam": "f"}}], {"a": 1}):
        with pytest.raises(openchatml.OpenChatMLError):
            openchatml.render({**row, "tools": tools})
    assert openchatml.render({**row, "tools": None}) == openchatml.render(row["messages"])


class Claims(list):
    def __len__(self):
        return 2**60


def test_the_claimed_length_of_a_list_is_not_trusted():
    assert ENCODING.decode(range(5)) == '!"#$%'
    assert ENCODING.decode(Claims([13225])) == "Hello"
    assert ENCODING.encode_batch(Claims(["Hello"])) == [[13225]]
    assert openchatml.parse_ids(Claims([13225])).source == b"Hello"
    for length in (2**40, 2**62):
        for call in (
            ENCODING.decode, ENCODING.decode_bytes, ENCODING.decode_with_offsets, ENCODING.decode_tokens_bytes,
            lambda ids: ENCODING.decode_batch([ids]), openchatml.parse_ids, openchatml.Stream().feed_ids,
            openchatml.Recoverer("assistant").push_many,
        ):
            with pytest.raises(ValueError):
                call(range(length))
    for wrong in ("ab", {1: 2}, 5, None):
        with pytest.raises(TypeError):
            ENCODING.decode(wrong)


def test_lone_surrogates_have_one_code():
    encoding = openchatml.get_encoding("o200k_base")
    for call in (
        openchatml.parse, openchatml.check, openchatml.view, openchatml.detect, openchatml.scan, openchatml.render,
        lambda text: openchatml.convert(text, "openai"), lambda text: openchatml.Stream().feed(text),
        lambda text: batch.count([text]), lambda text: batch.parse(["a", text]),
        lambda text: openchatml.render([{"role": "user", "content": text}]),
        lambda text: encoding.encode("a", disallowed_special={text}), encoding.encode_single_token,
    ):
        with pytest.raises(openchatml.OpenChatMLError) as caught:
            call(SURROGATE)
        assert caught.value.code == "E-SOURCE-NOT-UTF8"


def test_spans_of_stray_characters_are_the_same_however_the_text_is_split():
    text = "<|start|>user<|message|>a<|end|>😀"
    source = text.encode()
    for dialect in ("harmony", "ocml2.2"):
        expected = [(found.code, found.span, found.byte_span) for found in openchatml.parse(source, dialect).diagnostics]
        stray = [span for code, span, _ in expected if code == "E-PARSE-STRAY-TEXT"]
        assert stray == [(32, 33)]
        for at in range(len(source) + 1):
            for pieces in ([source[:at], source[at:]], [source[index : index + 1] for index in range(len(source))]):
                stream = openchatml.Stream(dialect)
                events = [event for piece in pieces for event in stream.feed(piece)] + stream.finish()
                found = [event for event in events if isinstance(event, openchatml.Diagnostic)]
                assert [(each.code, each.span, each.byte_span) for each in found] == expected


def test_everything_that_is_given_can_be_pickled():
    converted = openchatml.convert('[{"role":"user","content":"a","x":1}]', "sharegpt")
    recoverer = openchatml.Recoverer("assistant")
    deltas = recoverer.push_many(ENCODING.encode("<|channel|>final<|message|>x<|return|>", allowed_special="all"))
    with pytest.raises(openchatml.OpenChatMLError) as caught:
        openchatml.parse("<|start|>user<|message|>a<|end|>zz<|start|>user<|message|>b<|end|>", "harmony", strict=True)
    document = caught.value.document
    values = [converted, *converted.losses, *openchatml.scan("a <|end|>"), *deltas, document, openchatml.view(document)]
    for value in values:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(value, protocol))
            assert type(again) is type(value) and repr(again) == repr(value)
        assert repr(copy.deepcopy(value)) == repr(value)
    again = pickle.loads(pickle.dumps(document))
    assert again == document and list(again) == list(document)
    assert [found.code for found in again.diagnostics] == [found.code for found in document.diagnostics]
    assert pickle.loads(pickle.dumps(caught.value)).document == document


def test_names_and_defaults_of_tiktoken():
    assert openchatml.encoding_name_for_model("gpt-4o") == "o200k_base"
    assert openchatml.encoding_name_for_model("gpt-oss-20b") == "o200k_harmony"
    with pytest.raises(KeyError):
        openchatml.encoding_name_for_model("gpt-4")
    assert ENCODING.encode_batch(["a"], num_threads=None) == [[64]]
    assert ENCODING.decode_batch([[64]], num_threads=None) == ["a"]
    assert ENCODING.encode("<|end|>", disallowed_special=None) == ENCODING.encode_ordinary("<|end|>")
    with pytest.raises(ValueError):
        ENCODING.encode("<|end|>")
    with pytest.raises(TypeError):
        ENCODING.encode("<|end|>", allowed_special="<|end|>")
