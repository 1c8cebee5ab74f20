"""Compares Harmony with openai-harmony 0.0.8 on generated conversations.

Run by `run`, in a virtual environment of its own: compare.py ANSWERER DIFFERENCES [SEED] [COUNT].

Every check below is exact. Where the two sides differ on purpose, the difference is one of
docs/harmony-differences.md, is named here by the same heading, and is checked to be what the
document says: no other difference passes.
"""

import collections
import json
import re
import subprocess
import sys

from generate import Generator
from openai_harmony import HarmonyEncodingName, Message, Role, SystemContent, load_harmony_encoding
from reasons import reasons

ENCODING = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
PEER = ENCODING._inner  # takes JSON as it is; the layer above it fills in defaults

RETURN = 200002


class Ours:
    """The other process; asked in one go."""

    def __init__(self, program):
        self.program = program
        self.requests = []

    def ask(self, **request):
        self.requests.append(json.dumps(request))
        return len(self.requests) - 1

    def answers(self):
        text = "\n".join(self.requests) + "\n"
        done = subprocess.run(
            [self.program], input=text.encode(), stdout=subprocess.PIPE, check=True
        )
        answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
        assert len(answers) == len(self.requests), "an answer for each request"
        return answers


# The peer -----------------------------------------------------------------------------------


def peer(form, conversation, drop=True):
    payload, config = json.dumps(conversation), {"auto_drop_analysis": drop}
    try:
        if form == "conversation":
            return PEER.render_conversation(conversation_json=payload, config=config)
        if form == "training":
            return PEER.render_conversation_for_training(conversation_json=payload, config=config)
        role = form.split(":")[1]
        return PEER.render_conversation_for_completion(
            conversation_json=payload, next_turn_role=role, config=config
        )
    except Exception as error:
        return f"error: {error}"


def peer_message(message, function_tools=False):
    options = {"conversation_has_function_tools": function_tools}
    return PEER.render(message_json=json.dumps(message), render_options=options)


def peer_read(ids, role):
    return json.loads(PEER.parse_messages_from_completion_tokens(ids, role, True))


# Checks -------------------------------------------------------------------------------------


class Checks:
    def __init__(self):
        self.counts = collections.Counter()
        self.failures = []

    def check(self, what, good, detail):
        self.counts[what] += 1
        if not good:
            self.failures.append((what, detail()))

    def same(self, what, ours, theirs, about):
        def detail():
            sides = [ENCODING.decode(ids) if isinstance(ids, list) else str(ids) for ids in (theirs, ours)]
            pairs = enumerate(zip(*sides))
            at = next((at for at, (one, other) in pairs if one != other), min(map(len, sides)))
            theirs_at, ours_at = (side[max(0, at - 200):at + 200] for side in sides)
            return f"theirs: {theirs_at!r}\n  ours:   {ours_at!r}\n  {json.dumps(about)}"

        self.check(what, ours == theirs, detail)

    def report(self):
        for what, count in sorted(self.counts.items()):
            print(f"{count:6} {what}")
        for what, detail in self.failures[:5]:
            print(f"FAILED: {what}\n  {detail[:4000]}")
        if self.failures:
            print(f"{len(self.failures)} of {sum(self.counts.values())} checks failed")
        return 1 if self.failures else 0


FORMS = ["conversation", "training", "completion:assistant", "completion:user", "completion:tool"]


def kept(messages):
    """What the ruling on reasoning keeps of a conversation."""
    answers = [
        index for index, message in enumerate(messages)
        if message["role"] == "assistant" and message.get("channel") == "final"
        and message.get("recipient", "all") == "all"
    ]
    last = answers[-1] if answers else 0
    return [
        message for index, message in enumerate(messages)
        if index >= last or message.get("channel") != "analysis"
    ]


def conversations(checks, ours, generator, count):
    """Conversations that both sides write alike, and what both read of them."""
    todo = []
    for _ in range(count):
        conversation = generator.conversation(generator.alike)
        form = generator.pick(FORMS)
        todo.append((conversation, form, [
            ours.ask(op="render", conversation=conversation, form=form, compat=False, reasoning="keep"),
            ours.ask(op="render", conversation=conversation, form=form, compat=False),
            ours.ask(op="render", conversation=conversation, form=form, compat=True),
        ]))
    answers = yield
    for conversation, form, (keep, default, compat) in todo:
        messages = conversation["messages"]
        ids = answers[keep].get("ids")
        checks.same("the same ids", ids, peer(form, conversation, drop=False), conversation)
        meant = {"messages": kept(messages)}
        theirs = peer(form, meant, drop=False)
        # Which functions there are does not depend on what is dropped.
        checks.same("the same ids without finished reasoning", answers[default].get("ids"), theirs, conversation)
        checks.same("compatible: the same ids", answers[compat].get("ids"), peer(form, conversation), conversation)


def builtins(checks, ours, generator, count):
    """What a system message says by default, and of the tools that models know."""
    asked = ours.ask(op="builtins")
    answers = yield
    content = SystemContent.new().with_browser_tool().with_python_tool()
    message = Message.from_role_and_content(Role.SYSTEM, content)
    checks.same("the built-in tools", answers[asked].get("ids"), ENCODING.render(message), "builtins")


def compatible(checks, ours, generator, count):
    """Whatever the tools are and the headers hold, the compatible mode writes the same."""
    todo = []
    for index in range(count):
        conversation = generator.odd() if index % 2 else generator.conversation(generator.any_schema)
        form = generator.pick(FORMS)
        todo.append((conversation, form, ours.ask(
            op="render", conversation=conversation, form=form, compat=True, check=False)))
    answers = yield
    for conversation, form, asked in todo:
        theirs = peer(form, conversation)
        mine = answers[asked].get("ids", answers[asked].get("error") and "error")
        if isinstance(theirs, str) and theirs.startswith("error"):
            theirs = "error"
        checks.same("compatible: the same ids of anything", mine, theirs, conversation)



# Schemas of every kind ------------------------------------------------------------------------


def schemas(checks, ours, generator, count):
    """Every difference between schemas has a reason."""
    todo = []
    for _ in range(4 * count):
        schema = generator.any_schema()
        tool = {"name": "f", "description": "", "parameters": schema}
        content = {"type": "developer_content", "tools": {"functions": {"name": "functions", "tools": [tool]}}}
        message = {"role": "developer", "content": [content]}
        todo.append((schema, message, ours.ask(op="message", message=message, function_tools=False, compat=False)))
    answers = yield
    for schema, message, asked in todo:
        theirs, mine = peer_message(message), answers[asked].get("ids")
        why = reasons(schema)
        if why:
            checks.check("a schema that is written otherwise", mine is not None, lambda: json.dumps(schema))
        else:
            checks.same("a schema that is written the same", mine, theirs, schema)


# Reading ------------------------------------------------------------------------------------


def as_theirs(message):
    """What we read, as the peer tells it."""
    message = {key: value for key, value in message.items() if value is not None}
    return message


def comparable(message):
    """What the peer reads, without the mark of a constraint, which we take away."""
    message = dict(message)
    if "content_type" in message:
        message["content_type"] = message["content_type"].removeprefix("<|constrain|>")
    if isinstance(message["content"], list):
        message["content"] = "".join(part["text"] for part in message["content"])
    return message


def reading(checks, ours, generator, count):
    """What both read of well-formed completions and conversations."""
    todo = []
    for _ in range(count):
        messages = [message for _ in range(generator.random.randrange(1, 4)) for message in generator.turn()]
        completion = generator.chance(0.5)
        if completion:
            messages = [message for message in messages if message["role"] == "assistant"] or messages[:1]
        for message in messages:
            if message["role"] == "user":
                message.pop("name", None)  # "Names after a role"
        conversation = {"messages": messages}
        ids = PEER.render_conversation(
            conversation_json=json.dumps(conversation), config={"auto_drop_analysis": False})
        if completion and messages[0]["role"] == "assistant":
            ids, role = ids[2:], "assistant"
        else:
            role = None
        if generator.chance(0.5) and role and messages[-1].get("channel") == "final":
            ids = ids[:-1] + [RETURN]
        todo.append((ids, role, ours.ask(op="read", ids=ids, role=role)))
    answers = yield
    for ids, role, asked in todo:
        theirs = [comparable(message) for message in peer_read(ids, role)]
        mine = [as_theirs(message) for message in answers[asked].get("messages", [])]
        checks.check("the same messages", mine == theirs,
                     lambda: f"{ENCODING.decode(ids)!r}\n  theirs: {theirs}\n  ours:   {mine}")
        broken = set(answers[asked]["diagnostics"]) - {"E-BODY-CONSTRAINT-VIOLATION"}
        checks.check("nothing found in what is well-formed", not broken, lambda: f"{ENCODING.decode(ids)!r} {broken}")


# The differences on purpose -------------------------------------------------------------------


class Difference:
    """One heading of harmony-differences.md: an input, what the peer makes of it, and what we do."""

    def __init__(self, heading, blocks):
        self.heading = heading
        (info, self.source), (theirs, self.theirs), (mine, self.mine) = blocks
        assert (theirs, mine) == ("text openai-harmony", "text here"), heading
        self.kind, *self.words = info.split()
        self.is_schema = "schema" in self.words

    @classmethod
    def all(cls, document):
        found = {}
        for part in document.split("\n## ")[1:]:
            heading, rest = part.split("\n", 1)
            blocks = re.findall(r"^```(.+)\n((?:.*\n)*?)```$", rest, re.MULTILINE)
            if blocks:
                found[heading] = cls(heading, [(info, text[:-1]) for info, text in blocks])
        return found

    def conversation(self):
        if not self.is_schema:
            return json.loads(self.source)
        tool = {"name": "f", "description": "", "parameters": json.loads(self.source)}
        content = {"type": "developer_content", "tools": {"functions": {"name": "functions", "tools": [tool]}}}
        return {"messages": [{"role": "developer", "content": [content]}]}

    def form(self):
        return "training" if "training" in self.words else "conversation"

    def ids(self):
        return ENCODING.encode(self.source, allowed_special="all")

    def role(self):
        return "assistant" if "completion" in self.words else None

    def ask(self, ours):
        if self.kind == "json":
            return ours.ask(op="render", conversation=self.conversation(), form=self.form(), compat=False)
        return ours.ask(op="read", ids=self.ids(), role=self.role())

    def shown(self, ids):
        if isinstance(ids, str):
            return ids
        text = ENCODING.decode(ids)
        if self.is_schema:
            text = text.split("type f = (_: ", 1)[1].rsplit(") => any;\n\n} //", 1)[0]
        return text

    def of_peer(self):
        if self.kind == "json":
            return self.shown(peer(self.form(), self.conversation()))
        try:
            return lines(peer_read(self.ids(), self.role()))
        except Exception as error:
            return f"error: {error}"

    def of_us(self, answer):
        if "error" in answer:
            return f"error: {answer['error']}"
        if self.kind == "json":
            return self.shown(answer["ids"])
        return lines(as_theirs(message) for message in answer["messages"])


def lines(messages):
    """One line for each message that was read."""
    keys = ("role", "name", "recipient", "channel", "content_type", "content")
    return "\n".join(
        json.dumps({key: message[key] for key in keys if message.get(key) is not None}, ensure_ascii=False)
        for message in messages)


def differences(checks, ours, generator, count):
    """Every difference is as its heading says."""
    todo = [(difference, difference.ask(ours)) for difference in DIFFERENCES.values()]
    answers = yield
    for difference, asked in todo:
        for side, found, told in (
            ("theirs", difference.of_peer(), difference.theirs),
            ("ours", difference.of_us(answers[asked]), difference.mine),
        ):
            checks.check("a difference that is as it is told", found == told,
                         lambda: f"{difference.heading}\n  told {side}: {told!r}\n  found: {found!r}")
        checks.check("a difference that is one", difference.theirs != difference.mine, lambda: difference.heading)
        if difference.is_schema:
            why = reasons(json.loads(difference.source))
            checks.check("a reason that alone makes a difference", why == {difference.heading},
                         lambda: f"{difference.heading}: {why}")


STEPS = (builtins, conversations, compatible, schemas, reading, differences)
DIFFERENCES = {}


def main():
    program, document = sys.argv[1:3]
    ours = Ours(program)
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 2000
    with open(document, encoding="utf-8") as file:
        DIFFERENCES.update(Difference.all(file.read()))
    checks = Checks()
    generator = Generator(seed)
    steps = [step(checks, ours, generator, count) for step in STEPS]
    for step in steps:
        next(step)
    answers = ours.answers()
    for step in steps:
        try:
            step.send(answers)
        except StopIteration:
            pass
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
