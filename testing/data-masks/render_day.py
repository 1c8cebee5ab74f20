"""Fixes the day of `strftime_now` in `transformers`, and the variables of templates."""

import datetime

from transformers.utils import chat_template_utils

DATE = datetime.datetime(2026, 2, 5)
VARIABLES = {"bos_token": "<BOS>", "eos_token": "<|endoftext|>", "pad_token": "<pad>"}


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return DATE


# The function that compiles templates uses the class of its module.
chat_template_utils.datetime = Day
