"""A plugin of pytest that records what the tests of openai-harmony render.

`RECORDED` names the file: a line of JSON for each rendering, with the ids that the package returned.
"""

import functools
import json
import os

import openai_harmony

TEST = [""]
# A path, because the tests may start processes of their own.
PATH = os.environ["RECORDED"]


def pytest_runtest_setup(item):
    TEST[0] = item.name


def record(name):
    renders = getattr(openai_harmony.HarmonyEncoding, name)

    def recorded(self, what, *rest, **named):
        ids = renders(self, what, *rest, **named)
        rest = [*rest, *named.values()]
        role = next((value.value for value in rest if isinstance(value, openai_harmony.Role)), None)
        drop = all(getattr(value, "auto_drop_analysis", True) for value in rest)
        conversation = what.to_dict()
        if "messages" not in conversation:
            conversation = {"messages": [conversation]}
        line = {"test": TEST[0], "how": name, "role": role, "drop": drop, "conversation": conversation, "ids": ids}
        with open(PATH, "a", encoding="utf-8") as file:
            print(json.dumps(line), file=file)
        return ids

    setattr(openai_harmony.HarmonyEncoding, name, recorded)


for suffix in ("", "_conversation", "_conversation_for_completion", "_conversation_for_training"):
    record("render" + suffix)

# Every test loads the vocabulary again.
openai_harmony.load_harmony_encoding = functools.cache(openai_harmony.load_harmony_encoding)
