"""The examples that need no other package."""

import json
import pathlib
import runpy
import sys
import types

import openchatml

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def test_training_rows(tmp_path):
    rows = [
        {"messages": [
            {"role": "user", "content": "2+2? <|end|>"},
            {"role": "assistant", "content": "4", "reasoning_content": "Easy."},
            {"role": "user", "content": "Again"},
            {"role": "assistant", "content": "Still 4", "reasoning_content": "Same."},
        ]},
        {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
        {"messages": [{"role": "user", "content": "no answer"}]},
    ]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    main = runpy.run_path(str(EXAMPLES / "training_rows.py"))["main"]
    for kind in ("trl", "axolotl"):
        main(str(source), str(target), kind)
        written = [json.loads(line) for line in target.read_text().splitlines()]
        assert len(written) == 2
        encoding = openchatml.get_encoding("o200k_harmony")
        for row in written:
            ids, labels = row["input_ids"], row["labels"]
            assert len(ids) == len(labels) and labels[-1] == 200002
            assert all(label in (-100, id) for id, label in zip(ids, labels))
        trained = encoding.decode([label for label in written[0]["labels"] if label >= 0])
        assert trained == "<|channel|>analysis<|message|>Same.<|end|><|start|>assistant<|channel|>final<|message|>Still 4<|return|>"
        context = encoding.decode(written[0]["input_ids"][: -sum(label >= 0 for label in written[0]["labels"])])
        assert "Easy" not in context and context.endswith("<|start|>assistant")
        hello = encoding.decode([label for label in written[1]["labels"] if label >= 0])
        assert hello == "<|channel|>final<|message|>Hello<|return|>"


class Record:
    """A model of the server, as far as the adapters fill it in."""

    def __init__(self, **fields):
        self.__dict__.update({"name": None, "content": None, "reasoning": None, "tool_calls": []}, **fields)


def test_the_parsers_for_vllm(monkeypatch):
    class Parser:
        def __init__(self, tokenizer, *rest, **named):
            pass

    registered = {}

    class Manager:
        @staticmethod
        def register_module(name, module):
            registered[name, module.__name__] = module

    def module(name, **contents):
        made = types.ModuleType(name)
        made.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, made)

    names = ["DeltaFunctionCall", "DeltaMessage", "DeltaToolCall", "ExtractedToolCallInformation", "FunctionCall", "ToolCall"]
    for name in ("vllm", "vllm.entrypoints", "vllm.entrypoints.generate", "vllm.entrypoints.generate.base"):
        module(name)
    module("vllm.entrypoints.generate.base.protocol", **dict.fromkeys(names, Record))
    module("vllm.reasoning", ReasoningParser=Parser, ReasoningParserManager=Manager)
    module("vllm.tool_parsers", ToolParser=Parser, ToolParserManager=Manager)
    runpy.run_path(str(EXAMPLES / "vllm_plugin.py"))
    reasoning = registered["openchatml", "OpenChatMLReasoningParser"](None)
    tools = registered["openchatml", "OpenChatMLToolParser"](None)

    # The `<|end|>` of the reasoning is missing.
    text = (
        "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>commentary to=functions.f "
        '<|constrain|>json<|message|>{"a":1}<|call|><|start|>assistant<|channel|>final<|message|>4<|return|>'
    )
    assert reasoning.extract_reasoning(text, None) == ("Hm.", "4")
    found = tools.extract_tool_calls(text, None)
    assert found.tools_called and found.content == "4"
    assert [(call.function.name, call.function.arguments) for call in found.tool_calls] == [("f", '{"a":1}')]

    ids = openchatml.get_encoding("o200k_harmony").encode(text, allowed_special="all")
    for _ in range(2):
        thought = answer = arguments = ""
        names = []
        for at, id in enumerate(ids):
            before = ids[:at]
            delta = reasoning.extract_reasoning_streaming("", "", "", before, ids[: at + 1], [id])
            if delta:
                thought += delta.reasoning or ""
                answer += delta.content or ""
            delta = tools.extract_tool_calls_streaming("", "", "", before, ids[: at + 1], [id], None)
            for call in delta.tool_calls if delta else []:
                arguments += call.function.arguments
                names += [call.function.name] if call.function.name else []
        assert (thought, answer, arguments, names) == ("Hm.", "4", '{"a":1}', ["f"])
    assert not reasoning.is_reasoning_end(ids[:4])
    assert reasoning.is_reasoning_end(ids)
