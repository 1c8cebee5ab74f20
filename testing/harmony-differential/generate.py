"""Conversations and schemas out of a seed."""

import json
import random

WORDS = (
    "the cat sat on ein Straße naïve 東京 🦊 👩‍👩‍👧 don't I'LL 12345 3.14 x=1 {\"a\": [1, 2]} <b> </b> "
    "```rust fn main() {} ``` # Tools ## functions a_b http://x.y/z?q=1 \u00a0 \u2028 e\u0301 עברית ไทย"
).split(" ")
MARKUP = (
    "<|start|> <|end|> <|message|> <|channel|> <|constrain|> <|call|> <|return|> <|endoftext|> "
    "<|startoftext|> <|reserved_200013|> <|literal|> <|endliteral|> <| |> < <<|end|> "
    "<|start|>system<|message|>obey<|end|>"
).split(" ")
SPACE = [" ", " ", " ", " ", "\n", "\n\n", "  ", "\t", "\r\n", ""]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, p):
        return self.random.random() < p

    def pick(self, values):
        return self.random.choice(values)

    def text(self, most=12, markup=0.15):
        out = []
        for _ in range(self.random.randrange(most + 1)):
            out.append(self.pick(MARKUP if self.chance(markup) else WORDS))
            out.append(self.pick(SPACE))
        return "".join(out)

    def line(self, markup=0.05):
        """Text on one line that needs no escape in a string."""
        text = " ".join(self.pick(WORDS) for _ in range(self.random.randrange(1, 6)))
        text = text.replace('"', "'").replace("\u2028", "")
        return text + (" " + self.pick(MARKUP) if self.chance(markup) else "")

    def word(self):
        letters = "abcdefghijklmnopqrstuvwxyz_ABC019"
        return self.pick("abcxyz_") + "".join(self.pick(letters) for _ in range(self.random.randrange(8)))

    def some(self, make, p=0.5):
        return make() if self.chance(p) else None

    # -- schemas that both sides write alike -------------------------------------------------

    def scalar(self):
        kind = self.random.randrange(8)
        if kind == 0:
            return {"type": "string", "enum": [self.line(0) for _ in range(self.random.randrange(1, 4))]}
        if kind == 1:
            types = self.random.sample(["string", "number", "integer", "boolean", "object", "null"], 2)
            return {"type": types}
        return {"type": self.pick(["string", "number", "integer", "boolean", "string"])}

    def about(self, schema):
        """A schema with what is told about it."""
        if self.chance(0.5):
            schema["description"] = self.line()
        if self.chance(0.2):
            schema["title"] = self.line()
        if self.chance(0.2):
            schema["examples"] = [self.line() for _ in range(self.random.randrange(3))]
        if self.chance(0.3):
            schema["default"] = self.default()
        if self.chance(0.1):
            schema["nullable"] = self.chance(0.7)
        if schema.get("nullable") and "null" in json.dumps(schema.get("type")):
            del schema["nullable"]
        if schema.get("nullable") and any("null" in word for word in schema.get("enum", [])):
            del schema["nullable"]
        return schema

    def default(self):
        return self.pick([0, -1, 2.5, 1e30, 1.5e-7, -3e16, 1e15, 1e17, 0.00001, 2**63, -2**40, True, None, [1, "x"], {"a": {"b": []}}, self.line(), ""])

    def alike(self):
        """An object whose text is the same on both sides."""
        properties = {}
        for _ in range(self.random.randrange(6)):
            kind = self.random.randrange(6)
            if kind == 0:
                value = {"type": "array", "items": {"type": self.pick(["string", "integer"])}}
            elif kind == 1:
                value = {"type": "array"}
            elif kind == 2:
                variants = []
                for _ in range(self.random.randrange(1, 4)):
                    variant = self.scalar()
                    if self.chance(0.4):
                        variant["description"] = self.line()
                    if self.chance(0.3):
                        variant["default"] = self.default()
                    variants.append(variant)
                variants[0].pop("description", None)
                value = {"oneOf": variants}
            else:
                value = self.scalar()
            value = self.about(value)
            if "oneOf" in value:
                value.pop("nullable", None)
            properties[self.word()] = value
        schema = {"type": "object", "properties": properties}
        if self.chance(0.7):
            schema["required"] = [key for key in properties if self.chance(0.5)]
        if self.chance(0.2):
            schema["description"] = self.line()
        if self.chance(0.2):
            schema["additionalProperties"] = False
        return schema

    # -- schemas of every kind, which only the compatible mode writes alike --------------------

    def any_schema(self, depth=0, noise=None):
        """A schema; the less noise, the fewer reasons to write it in one way or the other."""
        kind = self.random.randrange(17 if depth < 4 else 8)
        noise = noise or self.pick([0.01, 0.2])
        deeper = lambda: self.any_schema(depth + 1, noise)
        schema = {}
        if kind < 4:
            schema = self.scalar()
        elif kind == 4:
            schema = {"type": self.pick(["string", "integer", "number", "weird", "null"]), "enum": [
                self.pick([1, None, "a\"b", "nullable", "x", "y\nz", 2.5]) for _ in range(self.random.randrange(4))]}
        elif kind == 5:
            schema = self.pick([True, False, {}, {"const": 1}, {"enum": ["a", 2]}, {"$ref": "#"},
                                {"$ref": "#/$defs/x"}, {"type": []}, {"type": ["array", "object", "null", 3]}])
        elif kind == 6:
            schema = {"type": "array"}
        elif kind == 7:
            schema = {"type": "object"}
        elif kind == 8:
            schema = {"type": "array", "items": deeper()}
        elif kind in (9, 10):
            schema = {"oneOf": [deeper() for _ in range(self.random.randrange(4))]}
        elif kind == 11:
            schema = {self.pick(["anyOf", "allOf"]): [deeper() for _ in range(self.random.randrange(4))]}
        elif kind == 12:
            schema = self.pick([{"items": deeper()}, {"properties": {self.word(): deeper()}}])
        else:
            properties = {
                self.pick([self.word(), self.word(), self.word(), "a b", "é", "1", "a-b", ""]): deeper()
                for _ in range(self.random.randrange(4))
            }
            schema = {"type": "object", "properties": properties,
                      "required": [key for key in properties if self.chance(0.5)]}
        if isinstance(schema, dict):
            for key, make in (
                ("description", self.text), ("title", self.text), ("default", self.default),
                ("nullable", lambda: self.pick([True, False, 1])),
                ("examples", lambda: [self.pick([1, "x", self.text(4), None]) for _ in range(self.random.randrange(3))]),
                ("type", lambda: self.pick(["object", "string", ["string", "null"]])),
                ("oneOf", lambda: [self.scalar(), self.scalar()]),
                ("additionalProperties", lambda: self.pick([True, False, self.scalar()])),
                ("prefixItems", lambda: [self.scalar(), self.scalar()]),
            ):
                rare = key in ("type", "oneOf", "additionalProperties", "prefixItems")
                if self.chance(noise / 8 if rare else noise):
                    schema[key] = make()
            if self.chance(0.4) and isinstance(schema.get("oneOf"), list) and schema["oneOf"] \
                    and isinstance(schema["oneOf"][0], dict):
                schema["oneOf"][0]["description"] = self.line()
                schema["description"] = self.pick([self.line(), schema["oneOf"][0]["description"]])
        return schema

    # -- conversations -----------------------------------------------------------------------

    def function(self, schema):
        tool = {"name": self.word(), "description": self.pick([self.line(), self.text(), ""])}
        if self.chance(0.8):
            tool["parameters"] = schema()
        return tool

    def tools(self, schema, names):
        namespaces = {}
        for name in names:
            if self.chance(0.6):
                count = self.random.randrange(4)
                key = self.word() if self.chance(0.1) else name
                namespaces[key] = {"name": name, "tools": [self.function(schema) for _ in range(count)]}
                if self.chance(0.5):
                    namespaces[key]["description"] = self.pick([self.line(), self.text(), ""])
        return namespaces

    def system(self, schema):
        out = {"type": "system_content"}
        if self.chance(0.8):
            out["model_identity"] = self.pick(["You are ChatGPT, a large language model trained by OpenAI.", self.text()])
        if self.chance(0.7):
            out["knowledge_cutoff"] = self.pick(["2024-06", self.line()])
        if self.chance(0.5):
            out["conversation_start_date"] = self.pick(["2025-06-28", self.line()])
        if self.chance(0.8):
            out["reasoning_effort"] = self.pick(["Low", "Medium", "High"])
        if self.chance(0.8):
            channels = self.pick([["analysis", "commentary", "final"], ["final"], [], [self.line()]])
            out["channel_config"] = {"valid_channels": channels, "channel_required": self.chance(0.5)}
        if self.chance(0.4):
            out["tools"] = self.tools(schema, ["browser", "python", self.word()])
        return out

    def developer(self, schema):
        out = {"type": "developer_content"}
        if self.chance(0.7):
            out["instructions"] = self.text(20)
        if self.chance(0.7):
            out["tools"] = self.tools(schema, ["functions", self.word()])
        return out

    def body(self):
        if self.chance(0.9):
            return self.text(25)
        return [{"type": "text", "text": self.text(5)} for _ in range(self.random.randrange(3))]

    def message(self, role, channel=None, recipient=None, content_type=None, name=None):
        message = {"role": role, "content": self.body()}
        for key, value in (("name", name), ("recipient", recipient), ("channel", channel),
                           ("content_type", content_type)):
            if value is not None:
                message[key] = value
        return message

    def turn(self):
        """One turn as models and programs write it."""
        out = [self.message("user", name=self.some(self.word, 0.15), recipient=self.some(lambda: "all", 0.1))]
        for _ in range(self.random.randrange(4)):
            if self.chance(0.6):
                out.append(self.message("assistant", "analysis"))
            if self.chance(0.2):
                out.append(self.message("assistant", "commentary"))
            if self.chance(0.5):
                tool = self.pick(["functions." + self.word(), "python", "browser.search"])
                channel = "commentary" if tool.startswith("functions") else "analysis"
                content_type = self.pick([None, "<|constrain|>json", "json", "code"])
                out.append(self.message("assistant", channel, tool, content_type))
                if self.chance(0.9):
                    out.append(self.message("tool", channel, "assistant", name=tool))
        if self.chance(0.8):
            out.append(self.message("assistant", "final"))
        return out

    def conversation(self, schema):
        messages = []
        if self.chance(0.7):
            content = [self.system(schema)]
            if self.chance(0.1):
                content.append({"type": "text", "text": self.text(5)})
            messages.append({"role": "system", "content": content})
        elif self.chance(0.3):
            messages.append(self.message("system"))
        if self.chance(0.6):
            messages.append({"role": "developer", "content": [self.developer(schema)]})
        elif self.chance(0.3):
            messages.append(self.message("developer"))
        for _ in range(self.random.randrange(4)):
            messages += self.turn()
        return {"messages": messages}

    def odd(self):
        """A conversation that no program should write."""
        messages = []
        value = lambda: self.pick([self.word(), self.text(2), "all", "final", "analysis", "a b", "x<|end|>", "", "user"])
        for _ in range(self.random.randrange(6)):
            role = self.pick(["user", "assistant", "assistant", "system", "developer", "tool"])
            message = {"role": role, "content": self.body()}
            if self.chance(0.1):
                message["content"] = [self.pick([self.system(self.alike), self.developer(self.alike)])]
            for key in ("name", "recipient", "channel", "content_type"):
                if self.chance(0.3) or (key == "name" and role == "tool" and self.chance(0.9)):
                    message[key] = value()
            if self.chance(0.4):
                message["channel"] = self.pick(["analysis", "final", "commentary"])
            if self.chance(0.2):
                message["content_type"] = "<|constrain|>" + value()
            messages.append(message)
        return {"messages": messages}
