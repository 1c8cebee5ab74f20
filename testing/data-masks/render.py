"""Compares renderings and masks with `transformers`: render.py PROGRAM TEMPLATES SEED COUNT.

The reference text and the reference spans of `{% generation %}` are those of
`transformers.utils.chat_template_utils.render_jinja_template`, which `apply_chat_template` calls.
Rows that the template itself refuses have to be refused by both.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

from transformers.utils import chat_template_utils

from render_day import DATE, VARIABLES
from rows import rows

program, folder, seed, count = sys.argv[1:]
ALLOWED = {"E-DATA-TEMPLATE-DROPPED", "E-DATA-STOP-UNTRAINED", "E-DATA-TEMPLATE-SPANS"}


def reference(source, row, tagged):
    messages = chat_template_utils._normalize_chat_messages(row["messages"])
    texts, spans = chat_template_utils.render_jinja_template(
        [messages], tools=row.get("tools"), chat_template=source, return_assistant_tokens_mask=tagged, **VARIABLES
    )
    return texts[0], spans[0] if tagged else None


def covered(answer):
    """Returns for each byte whether a span contains it."""
    found = [False] * len(answer["text"].encode())
    for first, last, *_ in answer["spans"]:
        found[first:last] = [True] * (last - first)
    return found


# The original of a training template with the same text has marks only. Its spans end with the stop
# token; the reference has the line end after it too. DeepSeek's templates for training also train the
# token that asks for the answer.
untagged = {}
pairs = collections.Counter()
failures = 0
total = collections.Counter()
for path in sorted(pathlib.Path(folder).glob("*.jinja")):
    source = path.read_text()
    tagged = re.search(r"\{%-?\s*generation\s*-?%\}", source) is not None
    samples = rows(int(seed), int(count))
    if re.match(r"idefics|smolvlm|llava|gemma3|qwen.*vl|lfm2_2_5_vl", path.name):
        samples += rows(int(seed) + 1, int(count), parts=True)
    lines = [json.dumps(VARIABLES)] + [json.dumps(row) for row in samples]
    child = subprocess.run([program, "render", str(path), DATE.strftime("%Y-%m-%d")], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if child.returncode:
        print(f"{path.name}: {child.stderr.strip()}")
        failures += 1
        continue
    counts = collections.Counter()
    shown = 0
    for line_number, (row, line) in enumerate(zip(samples, child.stdout.split("\n")[:-1])):
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
        if not tagged:
            untagged[path.stem, line_number] = (ours["text"], covered(ours))
        elif ours["text"] == untagged.get((path.stem.removesuffix("_training"), line_number), [None])[0]:
            mine = untagged[path.stem.removesuffix("_training"), line_number][1]
            data = ours["text"].encode()
            theirs = covered(ours)
            extra = {data[i:i + 1] for i in range(len(data)) if theirs[i] and not mine[i]} - {b"\n"}
            missing = any(mine[i] and not theirs[i] for i in range(len(data)))
            if extra or missing:
                pairs[path.stem + (" has more" if extra else "") + (" has less" if missing else "")] += 1
            else:
                pairs["equal"] += 1
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
            if mask != covered(ours):
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
print(f"marks against tags: {dict(pairs)}")
sys.exit(1 if failures else 0)
