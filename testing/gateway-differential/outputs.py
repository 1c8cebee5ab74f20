"""Malformed outputs of a model: documented cases, and random corruptions of well-formed ones."""

import json
import re

from generate import Generator
from openai_harmony import HarmonyEncodingName, load_harmony_encoding

ENCODING = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
RETURN, CONSTRAIN, CHANNEL, START, END, MESSAGE, CALL = 200002, 200003, 200005, 200006, 200007, 200008, 200012
CONTROL = [RETURN, CONSTRAIN, CHANNEL, START, END, MESSAGE, CALL]
STOPS = (RETURN, CALL)
TOOLS = ["lamp", "get_weather", "a"]


class Output:
    """What a model emits; the server ends it at the first token that stops generation."""

    def __init__(self, name, ids, meant=None):
        stops = [at for at, token in enumerate(ids) if token in STOPS]
        self.name = name
        self.ids = ids[:stops[0] + 1] if stops else ids
        self.finish = "stop" if stops else "length"
        self.meant = meant


def special(text):
    return ENCODING.encode(text, allowed_special="all")


def plain(text):
    return ENCODING.encode(text, disallowed_special=())


def documented(path):
    """The cases of a document of `conformance`."""
    with open(path, encoding="utf-8") as file:
        parts = file.read().split("\n## ")[1:]
    for part in parts:
        title, rest = part.split("\n", 1)
        source = re.search(r"^```text.*\n((?:.*\n)*?)```$", rest, re.MULTILINE)
        yield Output(title, special(source[1][:-1]))


def listed(path):
    """The cases of a file with one JSON object in each line."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            case = json.loads(line)
            yield Output(case["name"], case.get("tokens") or special(case["raw_text"]))


class Corrupter(Generator):
    """Well-formed answers, and such with one to three corruptions."""

    def sound(self):
        """An answer as lists of ids, and its text, reasoning and calls."""
        parts, text, reasoning, calls = [], "", "", []

        def message(header, body, end):
            first = [] if not parts else [[START], plain("assistant")]
            parts.extend(first + header + [[MESSAGE], plain(body), [end]])

        for _ in range(self.random.randrange(1, 3)):
            body = self.text(10) or "Hm."
            reasoning += body
            message([[CHANNEL], plain("analysis")], body, END)
        if self.chance(0.2):
            body = self.text(6) or "Wait."
            text += body
            message([[CHANNEL], plain("commentary")], body, END)
        if self.chance(0.5):
            tool = self.pick(TOOLS)
            body = json.dumps({"x": self.text(6)}, ensure_ascii=False)
            calls.append([tool, body])
            if self.chance(0.5):
                header = [[CHANNEL], plain(f"commentary to=functions.{tool} "), [CONSTRAIN], plain("json")]
                message(header, body, CALL)
            else:
                parts.extend([[START], plain(f"assistant to=functions.{tool}"), [CHANNEL], plain("commentary "),
                              [CONSTRAIN], plain("json"), [MESSAGE], plain(body), [CALL]])
        else:
            body = self.text(20) or "Done."
            text += body
            message([[CHANNEL], plain("final")], body, RETURN)
        return parts, {"text": text, "reasoning": reasoning, "calls": calls}

    def corrupt(self, parts):
        """One change of a control token or of the text next to one."""
        at = self.random.randrange(len(parts))
        controls = [at for at, part in enumerate(parts) if len(part) == 1 and part[0] in CONTROL]
        near = self.pick(controls) if controls else at
        kind = self.random.randrange(9)
        if kind == 0:
            del parts[near]
        elif kind == 1:
            parts.insert(near, list(parts[near]))
        elif kind == 2:
            parts[near] = [self.pick(CONTROL)]
        elif kind == 3:
            parts.insert(at, [self.pick(CONTROL)])
        elif kind == 4:
            parts.insert(near, plain(self.pick([" ", "\n", "  \n", "json", "assistant", "to=functions.lamp", "final"])))
        elif kind == 5:
            del parts[at]
        elif kind == 6 and near + 1 < len(parts):
            parts[near], parts[near + 1] = parts[near + 1], parts[near]
        elif kind == 7:
            parts.insert(near, [self.random.randrange(201_088)])
        else:
            del parts[max(1, at):]

    def well_formed(self, count):
        for number in range(1, count + 1):
            parts, meant = self.sound()
            yield Output(f"well-formed {number}", sum(parts, []), meant)

    def outputs(self, count):
        number = 0
        while number < count:
            parts, meant = self.sound()
            before = sum(parts, [])
            for _ in range(self.pick([1, 1, 1, 2, 3])):
                if parts:
                    self.corrupt(parts)
            ids = sum(parts, [])
            if ids and ids != before:
                number += 1
                yield Output(f"corruption {number}", ids, meant)
