"""Holds what this workspace sends, and the answers that it is tested with, against the types of the
packages `openai` and `anthropic`: `check.py BODIES WIRE`.

BODIES is the output of the program `provider-types`, WIRE the folder of the wire shapes. A body must
fit the package's request type with no key that it does not know, and an event or a whole answer its
response type. What is spoilt on purpose must not fit, so that a checker which takes everything fails.
"""

import copy
import importlib
import json
import pathlib
import pkgutil
import sys
import typing

import anthropic.types
import openai.types
import openai.types.chat
import openai.types.responses
from pydantic import TypeAdapter, ValidationError
from typing_extensions import is_typeddict


def forbid_unknown_keys(package):
    """Makes each request type of a package refuse keys that it does not name, and read lists at
    once: an `Iterable` would be validated only during iteration."""
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(found.name)
        if hasattr(module, "Iterable"):
            module.Iterable = typing.List
        for value in list(vars(module).values()):
            if is_typeddict(value):
                value.__pydantic_config__ = {"extra": "forbid", "arbitrary_types_allowed": True}


forbid_unknown_keys(openai.types)
forbid_unknown_keys(anthropic.types)

from anthropic.types import Message, RawMessageStreamEvent  # noqa: E402
from anthropic.types.message_create_params import (  # noqa: E402
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)
from anthropic.types.shared import ErrorResponse  # noqa: E402
from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: E402
from openai.types.chat.completion_create_params import (  # noqa: E402
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.responses import Response, ResponseStreamEvent  # noqa: E402
from openai.types.responses.response_create_params import (  # noqa: E402
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

REQUESTS = {
    "chat": (CompletionCreateParamsStreaming, CompletionCreateParamsNonStreaming),
    "responses": (ResponseCreateParamsStreaming, ResponseCreateParamsNonStreaming),
    "anthropic": (MessageCreateParamsStreaming, MessageCreateParamsNonStreaming),
}
ANSWERS = {
    "chat": (ChatCompletionChunk, ChatCompletion),
    "responses": (ResponseStreamEvent, Response),
    "anthropic": (RawMessageStreamEvent, Message),
}
# What servers add to Chat Completions that the package does not know.
DIALECTS = {"reasoning", "reasoning_content"}
adapters = {}


def adapter(kind):
    key = str(kind)
    if key not in adapters:
        adapters[key] = TypeAdapter(kind)
    return adapters[key]


def exhaust(value):
    """Goes through everything that is validated late."""
    if isinstance(value, dict):
        for item in value.values():
            exhaust(item)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for item in value:
            exhaust(item)


def complaint(kind, value):
    """Why a value does not fit a type; None if it does."""
    try:
        exhaust(adapter(kind).validate_python(value))
    except ValidationError as error:
        return str(error)
    return None


def without_dialect(body, server):
    """The body without what only this kind of server knows."""
    body = copy.deepcopy(body)
    if server not in ("openai", "anthropic"):
        for message in body.get("messages", []):
            for key in DIALECTS:
                message.pop(key, None)
        if server == "openrouter":
            body.pop("reasoning", None)
    return body


def spoilt(body):
    """The same with one thing wrong in it, in several ways."""

    def change(path, value):
        changed = copy.deepcopy(body)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return changed

    listed = "input" if "input" in body else "messages"
    yield change(["unknown_key"], 1)
    yield change([listed, 0, "role"], "nobody")
    yield change([listed, 0, "unknown_key"], 1)
    yield change([listed, -1, "content" if listed == "messages" else "type"], 7)
    yield change(["stream"], "yes")
    if "tools" in body:
        yield change(["tools", 0, "unknown_key"], 1)
    for key in ("messages", "max_tokens"):
        if key in body and not (key == "max_tokens" and "system" not in body):
            changed = copy.deepcopy(body)
            del changed[key]
            yield changed


def check_requests(lines):
    seen, wrong = {}, []
    for line in lines:
        sent = json.loads(line)
        name = f"{sent['format']}, {sent['server']}, {sent['case']}"
        body = without_dialect(sent["body"], sent["server"])
        kind = REQUESTS[sent["format"]][0 if body["stream"] else 1]
        seen[sent["format"]] = seen.get(sent["format"], 0) + 1
        why = complaint(kind, body)
        if why:
            wrong.append(f"{name}: {why}\n{json.dumps(body)}")
            continue
        for number, bad in enumerate(spoilt(body)):
            if complaint(kind, bad) is None:
                wrong.append(f"{name}: spoilt in way {number} and still taken\n{json.dumps(bad)}")
    return seen, wrong


def events_of(text):
    for block in text.split("\n\n"):
        data = [line[6:] for line in block.split("\n") if line.startswith("data: ")]
        if data and data != ["[DONE]"]:
            yield json.loads("\n".join(data))


def check_shapes(folder):
    seen, wrong = {}, []
    for path in sorted(folder.glob("*/*")):
        wire = path.parent.name
        text = path.read_text(encoding="utf-8")
        event_type, whole_type = ANSWERS[wire]
        if path.suffix == ".json":
            values = [(whole_type, json.loads(text))]
        else:
            values = [(event_type, event) for event in events_of(text)]
        for kind, value in values:
            if wire == "chat" and "error" in value:
                continue  # the package reads this before it looks at types
            if wire == "anthropic" and value["type"] == "ping":
                continue  # so it does with this
            if wire == "anthropic" and value["type"] == "error":
                kind, value = ErrorResponse, {"request_id": None, **value}
            seen[wire] = seen.get(wire, 0) + 1
            why = complaint(kind, value)
            if why:
                wrong.append(f"{wire}/{path.name}: {why}\n{json.dumps(value)}")
            key = "object" if wire == "chat" else "type" if "type" in value else "object"
            if complaint(kind, {**value, key: "nothing"}) is None:
                wrong.append(f"{wire}/{path.name}: spoilt and still taken\n{json.dumps(value)}")
    return seen, wrong


def main():
    bodies, wire = sys.argv[1:]
    with open(bodies, encoding="utf-8") as file:
        requests, wrong = check_requests(file)
    shapes, more = check_shapes(pathlib.Path(wire))
    wrong += more
    for seen in (requests, shapes):
        missing = {"chat", "responses", "anthropic"} - set(seen)
        if missing:
            wrong.append(f"nothing to check of {', '.join(sorted(missing))}")
    for text in wrong:
        print(text, file=sys.stderr)
    print(f"provider-types: requests {requests}, answers {shapes}, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


main()
