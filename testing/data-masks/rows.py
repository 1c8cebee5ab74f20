"""Random conversations for templates."""

import itertools
import random

TEXTS = ["Hello", "At 06:12.", "naïve 東京 🦊", "a\n\nb", "  padded  ", "\nnewline first", "{\"a\": 1}", "x < y & z", "1. one\n2. two\n", "it's \"quoted\" \\ back", "tab\tend", "<tool_response>", "é\u200b", "user\nassistant", "None", "0"]
NAMES = ["tide", "search_web", "add", "get.weather"]


class Generator(random.Random):
    """A random generator that may give each text and call a word that is unique."""

    numbers = None

    def number(self):
        return f"n{next(self.numbers)}n"


def arguments(generator):
    values = [1, -2.5, True, None, "Brest", "a \"b\"\n", "", [1, "x"], {"deep": {"er": "y"}}, 1e20, "日本"]
    found = {name: generator.choice(values) for name in generator.sample(["port", "query", "count", "items", "mode"], generator.randrange(0, 4))}
    if generator.numbers:
        found["number"] = generator.number()
    return found


def tools(generator):
    found = []
    for name in generator.sample(NAMES, generator.randrange(1, 3)):
        found.append({"type": "function", "function": {"name": name, "description": "Does it, \"well\" & <fast>.", "parameters": {"type": "object", "properties": {"port": {"type": "string", "description": "A port", "enum": ["a", "é"]}, "count": {"type": "integer", "default": 3}, "list": {"type": "array", "items": {"type": "string"}}}, "required": ["port"]}}})
    return found


def text(generator):
    words = [generator.choice(TEXTS) for _ in range(generator.randrange(1, 3))]
    if generator.numbers:
        words.insert(generator.randrange(len(words) + 1), generator.number())
    return " ".join(words)


def row(generator):
    messages = []
    has_tools = generator.random() < 0.5
    if generator.random() < 0.5:
        messages.append({"role": "system", "content": text(generator)})
    for _ in range(generator.randrange(1, 4)):
        messages.append({"role": "user", "content": text(generator)})
        if has_tools and generator.random() < 0.6:
            for _ in range(generator.randrange(1, 3)):
                calls = [{"type": "function", "function": {"name": generator.choice(NAMES), "arguments": arguments(generator)}} for _ in range(generator.choice([1, 1, 2]))]
                message = {"role": "assistant", "content": generator.choice(["", "", text(generator)]), "tool_calls": calls}
                if generator.random() < 0.3:
                    del message["content"]
                if generator.random() < 0.4:
                    message["reasoning_content"] = text(generator)
                messages.append(message)
                for call in calls:
                    messages.append({"role": "tool", "name": call["function"]["name"], "content": text(generator)})
        message = {"role": "assistant", "content": text(generator)}
        kind = generator.random()
        if kind < 0.3:
            message["reasoning_content"] = text(generator)
        elif kind < 0.5:
            message["content"] = f"<think>\n{text(generator)}\n</think>\n\n{text(generator)}"
        messages.append(message)
    found = {"messages": messages}
    if has_tools:
        found["tools"] = tools(generator)
    return found


def as_parts(found):
    """Returns the row with lists of parts for content, as templates of vision models require it."""
    for message in found["messages"]:
        if "content" in message:
            message["content"] = [{"type": "text", "text": message["content"]}]
        for name in ("tool_calls", "reasoning_content"):
            message.pop(name, None)
    found["messages"] = [message for message in found["messages"] if message["role"] != "tool" and "content" in message]
    found.pop("tools", None)
    return found


def rows(seed, count, parts=False, numbered=False):
    """Returns random rows; the texts and calls of numbered ones have a word that is unique."""
    generator = Generator(seed)
    generator.numbers = itertools.count() if numbered else None
    found = [row(generator) for _ in range(count)]
    return [as_parts(row) for row in found] if parts else found
