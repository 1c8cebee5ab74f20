"""Compares ids and masks of `logue data mask` with those of `transformers`.

mask.py LOGUE TOKENIZERS TEMPLATES FOLDER SEED COUNT. TOKENIZERS is the folder of the tokenizers,
TEMPLATES that of the templates; every template with `{% generation %}` is compared. Its control
tokens are added to the tokenizer, whose other tokens do not matter for a mask.

The reference is `apply_chat_template(return_assistant_tokens_mask=True)`. It trains a token that
crosses the first byte of a span; ours does not train it, since the model emits it only together
with text of the prompt. Such tokens are counted.

Each text and call has a word that is unique, which shows what a template leaves out. Two runs are
compared:

- with `--allow-dropped --allow-untrained-stop --train-without-reasoning`, all masks must be equal;
- with the defaults, answers whose reasoning was left out must not be trained, and all others must.
  Every refusal must have one of the reasons below, which is checked here.
"""

import collections
import json
import logging
import pathlib
import re
import subprocess
import sys

from transformers import PreTrainedTokenizerFast

from render_day import DATE, VARIABLES
from rows import rows

CONTROL = re.compile(r"<\|[A-Za-z_]+\|?>|<[A-Za-z_]+\|>|<｜[^<>]+?｜>|<(?:start|end)_of_[a-z]+>|</?s>")
NUMBER = re.compile(r"n\d+n")
STOPS = ("<|im_end|>", "<|eot_id|>", "<|return|>", "<|call|>", "<|end|>", "<|eot|>", "<|eom|>", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>", "<end_of_turn>", "<turn|>", "<end_of_utterance>", "<|endoftext|>", "</s>")
LENIENT = ["--allow-dropped", "--allow-untrained-stop", "--train-without-reasoning"]
# Templates of models that stop with the token of the next role, which is not trained, so that each row
# is refused by default.
WITHOUT_STOP = {"glm4moe_training"}

logue, tokenizers, templates, folder, seed, count = sys.argv[1:]
tokenizers, templates, folder = (pathlib.Path(path) for path in (tokenizers, templates, folder))
logging.getLogger("transformers").setLevel(logging.ERROR)


def tokenizer_of(template, source):
    """Returns a file with the tokenizer of the model, or of another one, and the control tokens."""
    name = next((name for name in ("llama3_1", "deepseek_v3") if template.stem[:6] == name[:6]), "qwen3")
    path = next(tokenizers.glob(f"{name}-*")) / "package/models/tokenizer.json"
    content = json.loads(path.read_text())
    known = {token["content"] for token in content["added_tokens"]}
    new = max(max(content["model"]["vocab"].values()), *(token["id"] for token in content["added_tokens"])) + 1
    spelled = set(CONTROL.findall(source)) | set(VARIABLES.values())
    for token in sorted(spelled - known):
        # A token that the vocabulary has keeps its id.
        number = content["model"]["vocab"].get(token, new)
        new += number == new
        content["added_tokens"].append({"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True})
    extended = folder / "tokenizer.json"
    extended.write_text(json.dumps(content))
    return extended


def masked(template, tokenizer, samples, options):
    """Returns for each row its ids and mask, or the code and message of its refusal."""
    data, output, refused = (folder / name for name in ("rows.jsonl", "masked.jsonl", "refused.jsonl"))
    data.write_text("".join(json.dumps(row) + "\n" for row in samples))
    for path in (output, refused):
        path.unlink(missing_ok=True)
    variables = [part for name, value in VARIABLES.items() for part in ("--variable", f"{name}={json.dumps(value)}")]
    command = [logue, "data", "mask", data, "-o", output, "--quarantine", refused, "--restart", "--to", "template", "--template", template, "--tokenizer", tokenizer, "--date", DATE.strftime("%Y-%m-%d"), *variables, *options]
    child = subprocess.run(command, capture_output=True, text=True)
    if child.returncode not in (0, 8):
        sys.exit(f"{template.name}: {child.stderr}")
    lines = refused.read_text().splitlines() if refused.exists() else []
    codes = {found["row_number"]: found for found in map(json.loads, lines)}
    written = map(json.loads, output.read_text().splitlines())
    return [codes.get(number) or next(written) for number in range(1, len(samples) + 1)]


def numbers(value):
    return set(NUMBER.findall(json.dumps(value)))


def reasoning_of(message):
    """Returns the words of the reasoning of a message."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else " ".join(part["text"] for part in content)
    before = text.rpartition("</think>")[0]
    return numbers(before) | numbers(message.get("reasoning_content", ""))


class Expected:
    """What a row may be refused for, and which of its messages may be trained by default."""

    def __init__(self, messages, text):
        shown = numbers(text)
        self.dropped = set()
        self.untrained = set()
        questions = [index for index, message in enumerate(messages) if message["role"] == "user"]
        is_incomplete = False
        for index, message in enumerate(messages):
            if message["role"] == "user":
                is_incomplete = False
            words = numbers({name: value for name, value in message.items() if name != "role"})
            reasoning = reasoning_of(message) if message["role"] == "assistant" else set()
            if reasoning and not reasoning & shown:
                is_incomplete = True
                if index > questions[-1]:
                    self.dropped |= reasoning
            elif reasoning - shown:
                self.dropped |= reasoning - shown
            self.dropped |= words - reasoning - shown
            if is_incomplete:
                self.untrained |= words
        self.trained = numbers([message for message in messages if message["role"] == "assistant"]) - self.untrained


class Different(Exception):
    """A row whose result is not that of the reference."""


def runs(mask):
    """Returns the places of consecutive trained tokens."""
    found = []
    for index, trained in enumerate(mask):
        if trained and (index == 0 or not mask[index - 1]):
            found.append([index, index])
        if trained:
            found[-1][1] = index + 1
    return found


def is_joined(tokenizer, ids, index):
    """Returns whether a token joins white space after a message to the begin of the next one."""
    before, token = (tokenizer.decode([ids[place]]) for place in (index - 1, index))
    return before in STOPS and token.isspace()


def compare(name, row, found, theirs, expected, tokenizer, is_default):
    """Returns the kind of the result of a row.

    Raises Different if it is not that of the reference.
    """
    def fail(why):
        raise Different(f"{name}: {why}: {json.dumps(row)}")

    code = found.get("code")
    if theirs is None:
        if code != "E-DATA-TEMPLATE":
            fail(f"only transformers refuses it, ours is {code}")
        return code
    ids, mask = theirs["input_ids"], theirs["assistant_masks"]
    texts = {tuple(run): tokenizer.decode(ids[run[0]:run[1]]) for run in runs(mask)}
    trained = {run for run, text in texts.items() if not is_default or not numbers(text) & expected.untrained}
    if code:
        ends = [text for run, text in texts.items() if run in trained]
        reasons = {
            "E-DATA-TEMPLATE-DROPPED": is_default and expected.dropped,
            "E-DATA-MASK-EMPTY": not trained or (is_default and not expected.trained),
            "E-DATA-STOP-UNTRAINED": ends and not ends[-1].rstrip().endswith(STOPS),
        }
        if not reasons.get(code):
            fail(f"only ours refuses it, {code}, {found['message']}")
        return code
    if is_default and expected.dropped:
        fail(f"{expected.dropped} are left out")
    if found["input_ids"] != ids:
        fail("ids differ")
    ours, kind = found["assistant_masks"], "equal"
    for first, end in texts:
        wanted = [int((first, end) in trained)] * (end - first)
        if ours[first:end] != wanted:
            others = [index for index in range(first, end) if ours[index] != wanted[index - first]]
            if not all(index == first or is_joined(tokenizer, ids, index) for index in others):
                fail(f"the mask of {texts[first, end]!r} differs")
            kind = "equal but for a token across the first byte"
        mask[first:end] = ours[first:end]
    if ours != mask:
        fail("a token outside of the assistant is trained")
    return kind


total = collections.Counter()
failures = 0
for template in sorted(templates.glob("*.jinja")):
    source = template.read_text()
    if not re.search(r"\{%-?\s*generation\s*-?%\}", source):
        continue
    is_visual = re.match(r"idefics|smolvlm|llava|gemma3|qwen.*vl", template.name)
    samples = rows(int(seed), int(count), numbered=True)
    if is_visual:
        samples += rows(int(seed) + 1, int(count), parts=True, numbered=True)
    file = tokenizer_of(template, source)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file))
    references = []
    for row in samples:
        try:
            theirs = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), chat_template=source, return_dict=True, return_assistant_tokens_mask=True, **VARIABLES)
        except Exception:
            theirs = None
        references.append(theirs)
    for is_default, options in ((False, LENIENT), (True, [])):
        counts = collections.Counter()
        for row, found, theirs in zip(samples, masked(template, file, samples, options), references):
            copy = theirs and {"input_ids": theirs["input_ids"], "assistant_masks": list(theirs["assistant_masks"])}
            expected = theirs and Expected(row["messages"], tokenizer.decode(theirs["input_ids"]))
            try:
                counts[compare(template.name, row, found, copy, expected, tokenizer, is_default)] += 1
            except Different as different:
                if not counts["DIFFERENT"]:
                    print(different)
                counts["DIFFERENT"] += 1
        print(f"{template.name}{'' if is_default else ' ' + ' '.join(LENIENT)}: {dict(counts)}")
        accepted = sum(number for kind, number in counts.items() if kind.startswith("equal"))
        if (accepted == 0) != (is_default and template.stem in WITHOUT_STOP):
            print(f"{template.name}: {accepted} of {len(samples)} rows are masked")
            failures += 1
        failures += counts["DIFFERENT"]
        total.update({f"{'by default' if is_default else 'lenient'}: {kind}": number for kind, number in counts.items()})
print(f"all templates: {dict(total)}")
sys.exit(1 if failures else 0)
