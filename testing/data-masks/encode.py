"""Compares ids and offsets with the package `tokenizers`: encode.py PROGRAM TOKENIZER SEED COUNT.

Offsets of that package are characters; ours are bytes. Two differences are rules of ours and are
counted: text that NFC joins to a character belongs to the token of that character (there it
belongs to no token).
"""

import bisect
import json
import subprocess
import sys

from tokenizers import Tokenizer

from texts import texts

program, path, seed, count = sys.argv[1:]
tokenizer = Tokenizer.from_file(path)
specials = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
specials = specials[:12] + specials[-12:]
samples = list(texts(specials, int(seed), int(count)))
child = subprocess.run(
    [program, "encode", path],
    input="".join(json.dumps(text) + "\n" for text in samples).encode(),
    stdout=subprocess.PIPE,
    check=True,
)
answers = child.stdout.decode().splitlines()
assert len(answers) == len(samples), (len(answers), len(samples))
joined = tokens = 0
for text, answer in zip(samples, answers):
    ids, ends = json.loads(answer)
    expected = tokenizer.encode(text, add_special_tokens=False)
    if ids != expected.ids:
        sys.exit(f"{path}: ids of {text!r} differ:\n  ours   {ids}\n  theirs {expected.ids}")
    # Byte positions of characters.
    starts = [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode()))
    begin = 0
    for index, (end, (first, last)) in enumerate(zip(ends, expected.offsets)):
        our_first = bisect.bisect_right(starts, begin) - 1
        our_last = bisect.bisect_left(starts, end)
        if (our_first, our_last) != (first, last):
            following = next((start for start, _ in expected.offsets[index:] if start > first), len(text))
            if first <= our_first and last < following and our_last <= following:
                joined += 1
            else:
                sys.exit(f"{path}: offsets of token {index} of {text!r} differ: ours {(our_first, our_last)}, theirs {(first, last)}")
        begin = end
    tokens += len(ids)
print(f"{path}: {len(samples)} texts, {tokens} tokens equal, {joined} with joined text")
