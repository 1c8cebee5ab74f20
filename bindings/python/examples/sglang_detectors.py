"""Reasoning and function-call detectors of gpt-oss for SGLang, over `openchatml.Stream`.

SGLang has no plugin files; `register()` puts the detectors into its tables under `openchatml`.
Call it before the server is started, then pass `--reasoning-parser openchatml
--tool-call-parser openchatml`.
"""

from __future__ import annotations

from typing import Any

from sglang.srt.entrypoints.openai.protocol import Tool
from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, ToolCallItem
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import (
    BaseReasoningFormatDetector,
    ReasoningParser,
)
from sglang.srt.parser.reasoning_parser import StreamingParseResult as ReasoningResult

import openchatml


class OpenChatMLReasoningDetector(BaseReasoningFormatDetector):
    """Separates reasoning from what follows; calls stay text for the function-call detector."""

    def __init__(
        self,
        stream_reasoning: bool = True,
        force_reasoning: bool = True,
        continue_final_message: bool = False,
        previous_content: str = "",
        force_nonempty_content: bool = False,
    ) -> None:
        super().__init__(
            "<|channel|>analysis<|message|>",
            "<|end|>",
            force_reasoning=force_reasoning,
            stream_reasoning=stream_reasoning,
            continue_final_message=continue_final_message,
            previous_content=previous_content,
            force_nonempty_content=force_nonempty_content,
        )
        self._stream = openchatml.Stream("harmony", start_role="assistant")

    def _split(self, events: list[Any]) -> ReasoningResult:
        reasoning = normal = ""
        for event in events:
            match event:
                case openchatml.Start(head) if head.recipient:
                    normal += f"<|channel|>{head.channel} to={head.recipient} <|constrain|>json<|message|>"
                case openchatml.Delta(text) if event.head.channel == "analysis" and not event.head.recipient:
                    reasoning += text
                case openchatml.Delta(text):
                    normal += text
                case openchatml.End() if event.head.recipient:
                    normal += "<|call|>"
        return ReasoningResult(normal_text=normal, reasoning_text=reasoning)

    def detect_and_parse(self, text: str) -> ReasoningResult:
        stream = openchatml.Stream("harmony", start_role="assistant")
        result = self._split(stream.feed(text) + stream.finish())
        return self._maybe_apply_force_nonempty_content(result)

    def parse_streaming_increment(self, new_text: str) -> ReasoningResult:
        return self._split(self._stream.feed(new_text))


class OpenChatMLDetector(BaseFormatDetector):
    """Finds the calls of a completion."""

    def __init__(self) -> None:
        super().__init__()
        self.bot_token = "<|channel|>commentary"
        self.eot_token = "<|call|>"
        self._stream = openchatml.Stream("harmony", start_role="assistant")
        self._calls = -1

    def has_tool_call(self, text: str) -> bool:
        return " to=" in text and "<|message|>" in text

    def _collect(self, events: list[Any]) -> StreamingParseResult:
        normal = ""
        calls: list[ToolCallItem] = []
        for event in events:
            match event:
                case openchatml.Start(head) if head.recipient:
                    self._calls += 1
                    name = head.recipient.removeprefix("functions.")
                    calls.append(ToolCallItem(tool_index=self._calls, name=name, parameters=""))
                case openchatml.Delta(text) if event.head.recipient:
                    calls.append(ToolCallItem(tool_index=self._calls, name=None, parameters=text))
                case openchatml.Delta(text) if event.head.visible or event.head.stray:
                    normal += text
        return StreamingParseResult(normal_text=normal, calls=calls)

    def detect_and_parse(self, text: str, tools: list[Tool]) -> StreamingParseResult:
        document = openchatml.parse(text, "harmony", start_role="assistant")
        calls = [
            ToolCallItem(
                tool_index=index,
                name=(message.recipient or "").removeprefix("functions."),
                parameters=message.text,
            )
            for index, message in enumerate(message for message in document if message.is_call)
        ]
        normal = "".join(message.text for message in document if message.visible or message.stray)
        return StreamingParseResult(normal_text=normal, calls=calls)

    def parse_streaming_increment(self, new_text: str, tools: list[Tool]) -> StreamingParseResult:
        return self._collect(self._stream.feed(new_text))

    def supports_structural_tag(self) -> bool:
        return False

    def structure_info(self) -> Any:
        raise NotImplementedError("the detector makes no grammar")


def register() -> None:
    """Put the detectors into the tables of SGLang."""
    ReasoningParser.DetectorMap["openchatml"] = OpenChatMLReasoningDetector
    FunctionCallParser.ToolCallParserEnum["openchatml"] = OpenChatMLDetector
