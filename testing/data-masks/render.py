"""Compares renderings and masks with `transformers`: render.py PROGRAM TEMPLATES SEED COUNT.

The reference text and the reference spans of `{% generation %}` are those of
`transformers.utils.chat_template_utils.render_jinja_template`, which `apply_chat_template` calls.
Rows that the template itself refuses have to be refused by both.
"""

import collections
import datetime
import json
import pathlib
import re
import subprocess
import sys

from transformers.utils import chat_template_utils

from rows import rows

program, folder, seed, count = sys.argv[1:]
DATE = datetime.datetime(2026, 2, 5)


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return DATE


# `_compile_jinja_template` uses the class of its module.
chat_template_utils.datetime = Day
VARIABLES = {"bos_token": "<BOS>", "eos_token": "<|endoftext|>", "pad_token": "<pad>"}
ALLOWED = {"E-DATA-TEMPLATE-DROPPED", "E-DATA-STOP-UNTRAINED", "E-DATA-TEMPLATE-SPANS"}


def reference(source, row, tagged):
    messages = chat_template_utils._normalize_chat_messages(row["messages"])
    texts, spans = chat_template_utils.render_jinja_template(
        [messages], tools=row.get("tools"), chat_template=source, return_assistant_tokens_mask=tagged, **VARIABLES
    )
    return texts[0], spans[0] if tagged else None


failures = 0
total = collections.Counter()
for path in sorted(pathlib.Path(folder).glob("*.jinja")):
    source = path.read_text()
    tagged = re.search(r"\{%-?\s*generation\s*-?%\}", source) is not None
    samples = rows(int(seed), int(count))
    lines = [json.dumps(VARIABLES)] + [json.dumps(row) for row in samples]
    child = subprocess.run([program, "render", str(path), "2026-02-05"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if child.returncode:
        print(f"{path.name}: {child.stderr.strip()}")
        failures += 1
        continue
    counts = collections.Counter()
    shown = 0
    for row, line in zip(samples, child.stdout.splitlines()[1:]):
        ours = json.loads(line)
        try:
            text, spans = reference(source, row, tagged)
        except Exception as error:
            text, spans, why = None, None, error
        if text is None:
            if ours.get("code") != "E-DATA-TEMPLATE":
                counts["DIFFERENT refusal"] += 1
                if shown < 1:
                    shown += 1
                    print(f"{path.name}: only transformers refuses: {why!r}\n  {json.dumps(row)}\n  {str(ours)[:300]}")
            else:
                counts["refused by both"] += 1
            continue
        if "code" in ours:
            counts[ours["code"]] += 1
            if ours["code"] not in ALLOWED or (tagged and ours["code"] != "E-DATA-TEMPLATE-DROPPED"):
                counts["DIFFERENT only ours refuses"] += 1
                if shown < 1:
                    shown += 1
                    print(f"{path.name}: only ours refuses: {ours}\n  {json.dumps(row)}")
            continue
        if ours["text"] != text:
            counts["DIFFERENT text"] += 1
            if shown < 1:
                shown += 1
                at = next((i for i, (a, b) in enumerate(zip(ours["text"], text)) if a != b), min(len(text), len(ours["text"])))
                print(f"{path.name}: text differs:\n  {json.dumps(row)}\n  ours   {ours['text'][max(0, at - 40):at + 40]!r}\n  theirs {text[max(0, at - 40):at + 40]!r}")
            continue
        if tagged:
            data = text.encode()
            mask = [False] * len(data)
            for first, last in spans:
                mask[len(text[:first].encode()):len(text[:last].encode())] = [True] * len(text[first:last].encode())
            found = [False] * len(data)
            for first, last, *_ in ours["spans"]:
                found[first:last] = [True] * (last - first)
            if mask != found:
                counts["DIFFERENT mask"] += 1
                if shown < 1:
                    shown += 1
                    print(f"{path.name}: mask differs:\n  {json.dumps(row)}\n  text {text!r}\n  ours {[data[a:b].decode() for a, b, *_ in ours['spans']]}\n  theirs {[text[a:b] for a, b in spans]}")
                continue
        counts["equal"] += 1
    print(f"{path.name}{' (tagged)' if tagged else ''}: {dict(counts)}")
    total.update(counts)
    failures += sum(number for name, number in counts.items() if name.startswith("DIFFERENT"))
print(f"all templates: {dict(total)}")
sys.exit(1 if failures else 0)
