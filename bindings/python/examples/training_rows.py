"""Rows for training gpt-oss: conversations of any form to ids of Harmony with a mask.

    python training_rows.py IN.jsonl OUT.jsonl [trl|axolotl]

Each line of the input is a conversation in a form that `openchatml.convert` reads. A conversation
gives a row for its last turn: the prompt is context, what the assistant says after it is trained.

- `trl` (SFTTrainer): `input_ids` and `labels`; the trainer skips its own preparation.
- `axolotl`: `input_ids`, `labels` and `attention_mask`, its pre-tokenised form.

In `labels` the ids that are not trained are -100.
"""

from __future__ import annotations

import json
import sys

import openchatml


def masked(conversation: str) -> tuple[list[int], list[int]] | None:
    """Return the ids of a conversation and which of them are trained; `None` without an answer."""
    row = json.loads(openchatml.convert(conversation, "openai", thinking=True).text)
    row = {"messages": row} if isinstance(row, list) else row
    messages = row["messages"]
    last = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    if last + 1 == len(messages):
        return None
    # The reasoning of earlier turns is dropped, as in every prompt; that of the last one is kept.
    before = json.dumps({**row, "messages": messages[: last + 1]})
    prompt = openchatml.render_ids(before, form="openai", next_role="assistant")
    after = json.dumps(messages[last + 1 :])
    turn = openchatml.render_ids(after, form="openai", training=True, reasoning="keep")
    # Both have the beginning of the first message: `<|start|>assistant`.
    begun = prompt[-2:]
    if turn[:2] != begun:
        raise ValueError("the turn does not begin with the assistant")
    trained = turn[2:]
    return prompt + trained, [0] * len(prompt) + [1] * len(trained)


def trl_row(ids: list[int], mask: list[int]) -> dict[str, list[int]]:
    labels = [id if trained else -100 for id, trained in zip(ids, mask)]
    return {"input_ids": ids, "labels": labels}


def axolotl_row(ids: list[int], mask: list[int]) -> dict[str, list[int]]:
    return {**trl_row(ids, mask), "attention_mask": [1] * len(ids)}


def main(source: str, target: str, kind: str = "trl") -> None:
    row = {"trl": trl_row, "axolotl": axolotl_row}[kind]
    with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as out:
        for number, line in enumerate(lines, 1):
            try:
                result = masked(line)
            except ValueError as error:
                print(f"{source}:{number}: {error}", file=sys.stderr)
                continue
            if result is not None:
                out.write(json.dumps(row(*result)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
