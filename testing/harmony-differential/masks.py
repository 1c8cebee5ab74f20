"""Compares the ids of masks with openai-harmony 0.0.8, and masks with rules that are written here.

Run by `run`, in its virtual environment: masks.py ANSWERER [SEED] [COUNT]. Ids of COUNT random
conversations must be equal. The mask of each is computed a second time, from the ids of
openai-harmony and the messages alone.
"""

import json
import sys

from compare import ENCODING, RETURN, Checks, Ours, peer
from generate import Generator

START, END, MESSAGE, CALL = 200006, 200007, 200008, 200012
BATCH = 2000


def is_call(message):
    return message["role"] == "assistant" and message.get("recipient", "all") != "all"


def ends_turn(message):
    return message["role"] == "assistant" and (
        is_call(message) or message.get("channel", "final") == "final")


def parts(ids):
    """The places of each message: its start, its body, its last token."""
    out = []
    for at, token in enumerate(ids):
        if token == START:
            start = at
        elif token == MESSAGE:
            body = at + 1
        elif token in (END, CALL, RETURN):
            out.append((start, body, at))
    return out


def mask(ids, messages, trained):
    """The mask of a rendering, in which `trained` says which messages are trained."""
    out = [False] * len(ids)
    before = None
    for (start, body, end), message, wanted in zip(parts(ids), messages, trained, strict=True):
        if message["role"] != "assistant":
            out[body:end + 1] = [wanted] * (end + 1 - body)
        else:
            continues = before is not None and before["role"] == "assistant" and not ends_turn(before)
            first = start if continues else start + 2
            out[first:end] = [wanted] * (end - first)
            # The model never emits this token after an answer.
            out[end] = wanted and not (ids[end] == END and ends_turn(message))
        before = message
    return out


def kept(messages):
    """The messages without reasoning of earlier turns, and which of them are trained."""
    answers = [at for at, message in enumerate(messages)
               if message["role"] == "assistant" and message.get("channel") == "final" and not is_call(message)]
    finished = 0
    if answers and any(message["role"] == "assistant" for message in messages[answers[-1] + 1:]):
        finished = answers[-1]
    elif len(answers) > 1:
        finished = answers[-2]
    out, trained, incomplete = [], [], False
    for at, message in enumerate(messages):
        if message["role"] == "user":
            incomplete = False
        if at < finished and message.get("channel") == "analysis":
            incomplete = True
            continue
        out.append(message)
        trained.append(message["role"] == "assistant" and not incomplete)
    return out, trained


def refusal(ids, out):
    """The code with which a mask is refused."""
    if True not in out:
        return "E-DATA-MASK-EMPTY"
    last = len(out) - 1 - out[::-1].index(True)
    return None if ids[last] in (CALL, RETURN) else "E-DATA-STOP-UNTRAINED"


def batch(checks, ours, generator, count):
    todo = []
    for _ in range(count):
        conversation = generator.conversation(generator.alike)
        row = json.dumps(conversation, ensure_ascii=generator.chance(0.5))
        todo.append((conversation, ours.ask(op="mask", row=row, all=True), ours.ask(op="mask", row=row, all=False)))
    answers = ours.answers()
    ours.requests.clear()
    for conversation, everything, default in todo:
        messages = conversation["messages"]
        ids = peer("training", conversation, drop=False)
        found = answers[everything]
        if not messages:
            checks.check("nothing", found.get("code") == "E-DATA-MASK-EMPTY", lambda: str(found))
            continue
        checks.same("ids", found.get("ids"), ids, conversation)
        expected = mask(ids, messages, [True] * len(messages))
        checks.check("masks of all roles", found.get("trained") == expected,
                     lambda: difference(ids, expected, found, conversation))
        rest, trained = kept(messages)
        ids = peer("training", {"messages": rest}, drop=False)
        expected = mask(ids, rest, trained)
        code, found = refusal(ids, expected), answers[default]
        if code:
            checks.check(f"refused with {code}", found.get("code") == code,
                         lambda: f"{found}\n  {json.dumps(conversation)}")
        else:
            checks.same("ids without earlier reasoning", found.get("ids"), ids, conversation)
            checks.check("masks of the assistant", found.get("trained") == expected,
                         lambda: difference(ids, expected, found, conversation))


def difference(ids, expected, found, conversation):
    trained = found.get("trained") or []
    at = next((at for at, (one, other) in enumerate(zip(expected, trained)) if one != other), 0)
    around = ENCODING.decode(ids[max(0, at - 5):at + 5])
    return f"token {at} of {len(ids)}, {found.get('code')}, around {around!r}\n  {json.dumps(conversation)}"


def main():
    ours = Ours(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    checks, generator = Checks(), Generator(seed)
    for start in range(0, count, BATCH):
        batch(checks, ours, generator, min(BATCH, count - start))
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
