"""Compares the program with openai-harmony on the tests and the documentation of that package.

Run by `run`: examples.py PROGRAM DIFFERENCES SOURCES RECORDED [verbose]. SOURCES is the unpacked source
distribution, RECORDED has what its tests rendered (`recording.py`).

Every conversation and every text in Harmony there is rendered with `logue tokens render`, and converted
to Harmony, directly and by way of every other form. The ids must be those of openai-harmony. An example
with other ids is in the table of DIFFERENCES, and no example is there without need; a way through another
form may change something if a loss is listed.
"""

import collections
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM, DIFFERENCES, SOURCES, RECORDED = sys.argv[1:5]
VERBOSE = len(sys.argv) > 5
os.environ["RECORDED"] = RECORDED

import recording  # the documentation is recorded as the tests are
from openai_harmony import (
    Conversation, HarmonyEncodingName, RenderConversationConfig, Role, load_harmony_encoding,
)

ENCODING = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
PEER = ENCODING._inner  # takes JSON as it is
DOCUMENTATION = ("README.md", "docs/format.md", "docs/python.md", "docs/rust.md")
FORMS = (
    "ocml2.2", "ocml2.0", "ocml0.1", "chatml", "json", "json2.0",
    "openai", "sharegpt", "anthropic", "responses",
)
# Texts that no conversation of the package renders, and why.
NOT_RENDERED = (
    (r"Unknown role: functions\.", "a reply without a recipient"),
    (r"while expecting start token", "text between messages"),
    (r"Unexpected EOS", "a text that is cut"),
)


def program(arguments, text, name):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([PROGRAM, *arguments, path], stdout=-1, stderr=-1, check=False)
    return done.stdout.decode(), done.stderr.decode()


def rendered(arguments, text, name):
    out, errors = program(["tokens", "render", "--json", *arguments], text, name)
    try:
        return json.loads(out)
    except ValueError:
        return f"error: {errors}"


class Examples:
    def __init__(self, listed):
        self.listed = listed
        self.equal = collections.Counter()
        self.all = collections.Counter()
        self.differ = {}
        self.failures = []

    def compare(self, what, name, ours, theirs, losses=""):
        self.all[what] += 1
        if ours == theirs:
            self.equal[what] += 1
        elif losses:
            # Allowed and listed by the program; only counted.
            if VERBOSE:
                print(f"{what}: {name}: {losses[:300]}")
        else:
            show = lambda ids: ENCODING.decode(ids) if isinstance(ids, list) else str(ids)
            self.differ[f"{name}: {what}"] = f"\n  theirs: {show(theirs)!r}\n  ours:   {show(ours)!r}"

    def report(self):
        for what, count in self.all.items():
            print(f"{self.equal[what]:6} of {count} examples with the same ids by `{what}`")
        for name, detail in self.differ.items():
            if name not in self.listed:
                self.failures.append(f"{name}: {detail}")
        for name in self.listed - self.differ.keys():
            self.failures.append(f"{name} is listed as a difference, and is equal")
        for failure in self.failures:
            print(f"FAILED: {failure[:4000]}")
        return 1 if self.failures else 0


def blocks(text):
    """The code of a page: its first line, its language, the code."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text[: found.start()].count("\n") + 2, found[1], found[2]


# Conversations -------------------------------------------------------------------------------


def run_documentation():
    """Runs the examples in Python; they end where they need a model."""
    for name in DOCUMENTATION:
        with open(os.path.join(SOURCES, name), encoding="utf-8") as file:
            text = file.read()
        room = {}
        exec("from openai_harmony import *", room)
        for line, language, block in blocks(text):
            if language in ("py", "python"):
                recording.TEST[0] = f"{name}:{line}"
                with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                    exec(block, room)


def conversations(examples):
    run_documentation()
    with open(RECORDED, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    numbers = collections.Counter()
    seen = set()
    for record in records:
        test = record["test"].split("[")[0]
        numbers[test] += 1
        name = f"{test}, {numbers[test]}"
        text = json.dumps(record["conversation"])
        arguments = ["--bare"]
        if record["role"]:
            arguments += ["--next-role", record["role"]]
        if not record["drop"]:
            arguments.append("--keep-reasoning")
        if record["how"].endswith("training"):
            arguments.append("--training")
        ours = rendered(arguments, text, "it.json")
        examples.compare("tokens render", name, ours, record["ids"])
        if text not in seen:
            seen.add(text)
            converted(examples, name, text)


def converted(examples, name, text):
    config = {"auto_drop_analysis": False}
    theirs = PEER.render_conversation(conversation_json=text, config=config)
    out, _ = program(["convert", "--to", "harmony"], text, "it.json")
    ids = ENCODING.encode(without_lines(out), allowed_special="all")
    examples.compare("convert", name, ids, theirs)
    for form in FORMS:
        there, losses = program(["convert", "--to", form, "--allow-loss=content"], text, "it.json")
        arguments = ["convert", "--from", form, "--to", "harmony", "--allow-loss=content"]
        back, more = program(arguments, there, "it")
        ids = ENCODING.encode(without_lines(back), allowed_special="all")
        losses = "".join(
            line + "\n" for line in (losses + more).splitlines()
            if re.search(r": (content|structure|note: .* (dropped|left out))", line)
        )
        examples.compare(f"convert through {form}", name, ids, theirs, losses)


# Texts ---------------------------------------------------------------------------------------


def without_lines(text):
    """A text in Harmony without the line ends between its messages."""
    return re.sub(r"(<\|(?:end|call|return)\|>)\s*\n+(?=<\|start\|>|$)", r"\1", text.rstrip("\n"))


def texts():
    folder = os.path.join(SOURCES, "test-data")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            yield name, file.read()
    for name in DOCUMENTATION:
        with open(os.path.join(SOURCES, name), encoding="utf-8") as file:
            text = file.read()
        for line, language, block in blocks(text):
            if language in ("", "text") and "<|message|>" in block:
                yield f"{name}:{line}", block


def peer_renders(text, drop):
    config = RenderConversationConfig(auto_drop_analysis=drop)
    open_turn = re.search(r"<\|start\|>(\w+)$", text)
    body = text[: open_turn.start()] if open_turn else text
    ids = ENCODING.encode(body, allowed_special="all")
    conversation = Conversation(messages=ENCODING.parse_messages_from_completion_tokens(ids, None))
    if open_turn:
        role = Role(open_turn[1])
        arguments = ["--next-role", open_turn[1]]
        return arguments, ENCODING.render_conversation_for_completion(conversation, role, config)
    if text.endswith("<|return|>"):
        return ["--training"], ENCODING.render_conversation_for_training(conversation, config)
    return [], ENCODING.render_conversation(conversation, config)


def harmony_texts(examples):
    not_rendered = collections.defaultdict(list)
    for name, text in texts():
        text = without_lines(text)
        if not text.startswith("<|start|>"):
            text = "<|start|>assistant" + text
        if "<|start|>{" in text:
            not_rendered["a template"].append(name)
            continue
        try:
            both = [(drop, *peer_renders(text, drop)) for drop in (False, True)]
        except Exception as error:
            why = next((why for pattern, why in NOT_RENDERED if re.search(pattern, str(error))), None)
            if why is None:
                examples.failures.append(f"{name}: the package does not render it: {error}")
            else:
                not_rendered[why].append(name)
            continue
        for drop, arguments, theirs in both:
            arguments += [] if drop else ["--keep-reasoning"]
            what = "tokens render" + ("" if drop else " --keep-reasoning")
            examples.compare(what, name, rendered(arguments, text, "it.harmony"), theirs)
    for why, names in not_rendered.items():
        print(f"{len(names):6} not rendered by the package, {why}: {', '.join(names)}")


def main():
    with open(DIFFERENCES, encoding="utf-8") as file:
        section = file.read().split("\n# Examples of the package\n")[1].split("\n# ")[0]
    listed = set(re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE))
    examples = Examples(listed)
    conversations(examples)
    harmony_texts(examples)
    return examples.report()


if __name__ == "__main__":
    sys.exit(main())
