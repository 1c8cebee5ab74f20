"""Reasoning and tool parsers of gpt-oss for vLLM, over `openchatml.Recoverer`.

    vllm serve MODEL --reasoning-parser-plugin vllm_plugin.py --reasoning-parser openchatml \
        --tool-parser-plugin vllm_plugin.py --enable-auto-tool-choice --tool-call-parser openchatml

vLLM reads gpt-oss with a parser of its own, over openai-harmony; to use that one with this package,
put `openchatml.compat.openai_harmony` in its place before vLLM is imported::

    import sys, openchatml.compat.openai_harmony as compat
    sys.modules["openai_harmony"] = compat
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from vllm.entrypoints.generate.base.protocol import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)
from vllm.reasoning import ReasoningParser, ReasoningParserManager
from vllm.tool_parsers import ToolParser, ToolParserManager

import openchatml

# `<|message|>`: after it, and on another channel than `analysis`, reasoning is over.
MESSAGE = 200008
ASSISTANT: Final = "assistant"


def read(text: str) -> openchatml.Document:
    """Read a completion, whose prompt ended in `<|start|>assistant`."""
    return openchatml.parse(text, "harmony", start_role=ASSISTANT)


def words(document: openchatml.Document, visible: bool) -> str | None:
    """Return the visible or the hidden words of the assistant that are not calls."""
    parts = [
        message.text
        for message in document
        if message.visible == visible and not message.is_call and not message.stray
    ]
    return "".join(parts) or None


def function(recipient: str) -> str:
    return recipient.removeprefix("functions.")


class OpenChatMLReasoningParser(ReasoningParser):
    """Separates reasoning from answers; repairs what a model emits malformed."""

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self._recoverer = openchatml.Recoverer(ASSISTANT)

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        document = openchatml.parse_ids(list(input_ids), start_role=ASSISTANT)
        return any(message.channel != "analysis" for message in document) and MESSAGE in input_ids

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        document = openchatml.parse_ids(input_ids, start_role=ASSISTANT)
        content = words(document, visible=True) or ""
        return openchatml.get_encoding("o200k_harmony").encode_ordinary(content)

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        document = openchatml.parse_ids(list(token_ids), start_role=ASSISTANT)
        return openchatml.count(words(document, visible=False) or "")

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        document = read(model_output)
        return words(document, visible=False), words(document, visible=True)

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> DeltaMessage | None:
        if not previous_token_ids:
            self._recoverer.reset()
        reasoning = content = ""
        for delta in self._recoverer.push_many(list(delta_token_ids)):
            if delta.visible:
                content += delta.text
            elif delta.recipient is None:
                reasoning += delta.text
        if not reasoning and not content:
            return None
        return DeltaMessage(reasoning=reasoning or None, content=content or None)


class OpenChatMLToolParser(ToolParser):
    """Finds the calls of a completion; a call counts only if its stop token is `<|call|>`."""

    def __init__(self, tokenizer: Any, tools: Any = None) -> None:
        super().__init__(tokenizer, tools)
        self._recoverer = openchatml.Recoverer(ASSISTANT)
        self._calls: dict[int, int] = {}

    def extract_tool_calls(self, model_output: str, request: Any) -> ExtractedToolCallInformation:
        document = read(model_output)
        calls = [
            ToolCall(function=FunctionCall(name=function(message.recipient), arguments=message.text))
            for message in document
            if message.is_call and message.recipient
        ]
        return ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=words(document, visible=True)
        )

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> DeltaMessage | None:
        if not previous_token_ids:
            self._recoverer.reset()
            self._calls.clear()
        content = ""
        calls: list[DeltaToolCall] = []
        for delta in self._recoverer.push_many(list(delta_token_ids)):
            if delta.visible:
                content += delta.text
            elif delta.recipient and delta.text:
                new = delta.index not in self._calls
                index = self._calls.setdefault(delta.index, len(self._calls))
                name = function(delta.recipient) if new else None
                part = DeltaFunctionCall(name=name, arguments=delta.text)
                calls.append(
                    DeltaToolCall(
                        id=f"call_{index}" if new else None,
                        type="function" if new else None,
                        index=index,
                        function=part,
                    )
                )
        if not content and not calls:
            return None
        return DeltaMessage(content=content or None, tool_calls=calls)


ReasoningParserManager.register_module("openchatml", module=OpenChatMLReasoningParser)
ToolParserManager.register_module("openchatml", module=OpenChatMLToolParser)
