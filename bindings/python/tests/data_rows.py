"""Rows of data sets, with and without defects, for comparisons with `logue data`."""

from __future__ import annotations

import json
import random

CALL = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": '{"port":"Brest"}'}}
TOOL = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "The tide of a port.",
        "parameters": {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]},
    },
}
QUESTION = (
    "A ferry leaves the harbour at noon and sails twelve miles each hour. "
    "How far is it from the harbour at a quarter to four?"
)


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def messages(*found, **more):
    return json.dumps({"messages": list(found), **more}, ensure_ascii=False)


#: One row for each shape and defect. None has a line end.
ROWS = [
    messages(user("2+2?"), assistant("4")),
    messages({"role": "system", "content": "Be brief."}, user("naïve 東京 🦊?"), assistant("Oui.")),
    messages(user("a"), assistant("b", reasoning_content="Easy."), user("c"), assistant("d", reasoning_content="Hm.")),
    messages(user("Tide?"), assistant("", tool_calls=[CALL]), {"role": "tool", "tool_call_id": "c1", "content": "06:12"},
             assistant("At 06:12."), tools=[TOOL]),
    messages(user("Tide?"), assistant(None, tool_calls=[{**CALL, "function": {"name": "rain", "arguments": "{}"}}]),
             assistant("?"), tools=[TOOL]),
    messages(user("Tide?"), assistant("", tool_calls=[{**CALL, "function": {"name": "tide", "arguments": '{"port":5}'}}]),
             {"role": "tool", "tool_call_id": "c1", "content": "x"}, assistant("?"), tools=[TOOL]),
    messages(user("spelled <|end|> and <|im_end|>"), assistant("text")),
    messages(user("a"), assistant("b"), user("c")),
    messages(user("no answer")),
    messages(user("a"), assistant("b", weight=0), user("c"), assistant("d", weight=1)),
    messages(user("a"), assistant("b", train=False)),
    messages(user([{"type": "text", "text": "parts"}]), assistant([{"type": "text", "text": "of text"}])),
    messages(user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]), assistant("a picture")),
    messages(user("a"), {"role": "operator", "content": "b"}),
    json.dumps({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}),
    json.dumps({"instruction": "Add.", "input": "2, 2", "output": "4"}),
    json.dumps({"prompt": [user("Best?")], "chosen": [assistant("This.")], "rejected": [assistant("That.")]}),
    json.dumps({"text": "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"}),
    json.dumps({"text": "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Hello<|return|>"}),
    json.dumps({"text": "<|start|>user<|message|>unfinished"}),
    json.dumps({"messages": [{"role": "user", "content": "q"},
                             {"role": "assistant", "channel": "final", "content": [{"type": "text", "text": "native"}]}]}),
    json.dumps({"version": "2.2", "generation_settings": {"builtin_tools": "none"}, "messages": [user("a"), assistant("b")]}),
    '{"messages":[{"role":"user","content":"a"}',
    '{"messages":[{"role":"user","content":"<|im_start|>"}',
    '{"x":1}',
    "5",
    '"text"',
    "not JSON",
    messages(user("Please solve: " + QUESTION.upper()), assistant("45 miles")),
    messages(user("\u2028 line ends \\n and \t tabs"), assistant("kept \u0000 \"quotes\"")),
    messages(user("long " * 400), assistant("answer " * 300)),
]


def random_rows(number, seed=7):
    """Return conversations of random words, of which some are exact or near copies of earlier ones."""
    generator = random.Random(seed)
    words = [f"word{index}" for index in range(2000)]
    rows = []
    while len(rows) < number:
        kind = generator.random()
        if rows and kind < 0.1:
            rows.append(generator.choice(rows))
        elif rows and kind < 0.25:
            near = json.loads(generator.choice(rows))
            text = near["messages"][0]["content"].split()
            text[generator.randrange(len(text))] = "changed"
            near["messages"][0]["content"] = " ".join(text)
            rows.append(json.dumps(near))
        else:
            text = " ".join(generator.choices(words, k=generator.randrange(20, 200)))
            rows.append(messages(user(text), assistant(" ".join(generator.choices(words, k=20)))))
    return rows
