"""Compares ids and masks of tokens: mask.py PROGRAM TOKENIZER TEMPLATES SEED COUNT.

TEMPLATES is a pattern of files, all for the model of the tokenizer.

The reference is `apply_chat_template(return_assistant_tokens_mask=True)` of `transformers`. It trains a
token that crosses the first byte of a span; ours does not train it, since the model emits it
only together with text of the prompt. Such tokens are counted.
"""

import collections
import glob
import json
import logging
import pathlib
import re
import subprocess
import sys

from transformers import PreTrainedTokenizerFast

from render_day import DATE, VARIABLES
from rows import rows

program, path, pattern, seed, count = sys.argv[1:]
logging.getLogger("transformers").setLevel(logging.ERROR)
tokenizer = PreTrainedTokenizerFast(tokenizer_file=path)
total = collections.Counter()
for template in sorted(glob.glob(pattern)):
    source = pathlib.Path(template).read_text()
    if not re.search(r"\{%-?\s*generation\s*-?%\}", source):
        continue
    samples = rows(int(seed), int(count))
    lines = [json.dumps(VARIABLES)] + [json.dumps(row) for row in samples]
    child = subprocess.run([program, "mask", template, DATE.strftime("%Y-%m-%d"), path], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    for row, line in zip(samples, child.stdout.split("\n")):
        ours = json.loads(line)
        if "code" in ours:
            total["refused"] += 1
            continue
        theirs = tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), chat_template=source, return_dict=True, return_assistant_tokens_mask=True, **VARIABLES)
        if ours["ids"] != theirs["input_ids"]:
            sys.exit(f"{template}: ids differ: {json.dumps(row)}")
        mask = [int(trained) for trained in ours["trained"]]
        if mask == theirs["assistant_masks"]:
            total["equal"] += 1
            continue
        edges = [index for index, (mine, other) in enumerate(zip(mask, theirs["assistant_masks"])) if mine != other]
        for index in edges:
            begins = theirs["assistant_masks"][index] == 1 and (index == 0 or theirs["assistant_masks"][index - 1] == 0)
            if not begins:
                sys.exit(f"{template}: mask of token {index} ({tokenizer.decode([ours['ids'][index]])!r}) differs: {json.dumps(row)}")
        total["equal but for a token across the first byte"] += 1
print(f"{path}: masks of tokens: {dict(total)}")
