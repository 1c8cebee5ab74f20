"""The names of openai-harmony 0.0.8 over the readers and writers of this package.

A project changes one import::

    from openchatml.compat.openai_harmony import HarmonyEncodingName, load_harmony_encoding

What differs is listed in `docs/from-openai-harmony.md`. The classes are models of pydantic, as
those of openai-harmony are; pydantic is the one requirement of this module.
"""

from __future__ import annotations

import json
from enum import Enum
from functools import cached_property
from itertools import count
from typing import (
    AbstractSet,
    Any,
    Collection,
    Dict,
    Iterator,
    List,
    Literal,
    Optional,
    Sequence,
    Union,
)

from pydantic import BaseModel, Field

from openchatml import _openchatml as _native
from openchatml._errors import HarmonyError, OpenChatMLError

__all__ = [
    "Author",
    "ChannelConfig",
    "Content",
    "Conversation",
    "DeveloperContent",
    "HarmonyEncoding",
    "HarmonyEncodingName",
    "HarmonyError",
    "Message",
    "ReasoningEffort",
    "RenderConversationConfig",
    "RenderOptions",
    "Role",
    "StreamState",
    "StreamableParser",
    "SystemContent",
    "TextContent",
    "ToolDescription",
    "ToolNamespaceConfig",
    "load_harmony_encoding",
]


class Role(str, Enum):
    """The role of the author of a message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"
    TOOL = "tool"

    @classmethod
    def _missing_(cls, value: object) -> "Role":
        raise ValueError(f"Unknown role: {value!r}")


class Author(BaseModel):
    """The author of a message."""

    role: Role
    name: Optional[str] = None

    @classmethod
    def new(cls, role: Role, name: str) -> "Author":
        return cls(role=role, name=name)


class Content(BaseModel):
    """A part of a message."""

    def to_dict(self) -> Dict[str, Any]:
        raise NotImplementedError


class TextContent(Content):
    """Text."""

    text: str

    def to_dict(self) -> Dict[str, Any]:
        return {"type": "text", "text": self.text}


class ToolDescription(BaseModel):
    """A function that a model may call."""

    name: str
    description: str
    parameters: Optional[Dict[str, Any]] = None

    @classmethod
    def new(
        cls, name: str, description: str, parameters: Optional[Dict[str, Any]] = None
    ) -> "ToolDescription":
        return cls(name=name, description=description, parameters=parameters)


class ReasoningEffort(str, Enum):
    """The reasoning effort of the model."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"


class ChannelConfig(BaseModel):
    """The channels that a model may use."""

    valid_channels: List[str]
    channel_required: bool

    @classmethod
    def require_channels(cls, channels: List[str]) -> "ChannelConfig":
        return cls(valid_channels=channels, channel_required=True)


class ToolNamespaceConfig(BaseModel):
    """A namespace of functions."""

    name: str
    description: Optional[str] = None
    tools: List[ToolDescription]

    @staticmethod
    def browser() -> "ToolNamespaceConfig":
        return ToolNamespaceConfig(**_native.tool_namespace("browser"))

    @staticmethod
    def python() -> "ToolNamespaceConfig":
        return ToolNamespaceConfig(**_native.tool_namespace("python"))


class SystemContent(Content):
    """The content of a system message."""

    model_identity: Optional[str] = "You are ChatGPT, a large language model trained by OpenAI."
    reasoning_effort: Optional[ReasoningEffort] = ReasoningEffort.MEDIUM
    conversation_start_date: Optional[str] = None
    knowledge_cutoff: Optional[str] = "2024-06"
    channel_config: Optional[ChannelConfig] = Field(
        default_factory=lambda: ChannelConfig.require_channels(["analysis", "commentary", "final"])
    )
    tools: Optional[Dict[str, ToolNamespaceConfig]] = None

    @classmethod
    def new(cls) -> "SystemContent":
        return cls()

    def with_model_identity(self, model_identity: str) -> "SystemContent":
        self.model_identity = model_identity
        return self

    def with_reasoning_effort(self, reasoning_effort: ReasoningEffort) -> "SystemContent":
        self.reasoning_effort = reasoning_effort
        return self

    def with_conversation_start_date(self, conversation_start_date: str) -> "SystemContent":
        self.conversation_start_date = conversation_start_date
        return self

    def with_knowledge_cutoff(self, knowledge_cutoff: str) -> "SystemContent":
        self.knowledge_cutoff = knowledge_cutoff
        return self

    def with_channel_config(self, channel_config: ChannelConfig) -> "SystemContent":
        self.channel_config = channel_config
        return self

    def with_required_channels(self, channels: List[str]) -> "SystemContent":
        self.channel_config = ChannelConfig.require_channels(channels)
        return self

    def with_tools(self, ns_config: ToolNamespaceConfig) -> "SystemContent":
        if self.tools is None:
            self.tools = {}
        self.tools[ns_config.name] = ns_config
        return self

    def with_browser_tool(self) -> "SystemContent":
        return self.with_tools(ToolNamespaceConfig.browser())

    def with_python_tool(self) -> "SystemContent":
        return self.with_tools(ToolNamespaceConfig.python())

    def to_dict(self) -> Dict[str, Any]:
        out = self.model_dump(exclude_none=True)
        out["type"] = "system_content"
        return out

    @classmethod
    def from_dict(cls, raw: Dict[str, Any]) -> "SystemContent":
        return cls(**raw)


class DeveloperContent(Content):
    """The content of a developer message."""

    instructions: Optional[str] = None
    tools: Optional[Dict[str, ToolNamespaceConfig]] = None

    @classmethod
    def new(cls) -> "DeveloperContent":
        return cls()

    def with_instructions(self, instructions: str) -> "DeveloperContent":
        self.instructions = instructions
        return self

    def with_tools(self, ns_config: ToolNamespaceConfig) -> "DeveloperContent":
        if self.tools is None:
            self.tools = {}
        self.tools[ns_config.name] = ns_config
        return self

    def with_function_tools(self, tools: Sequence[ToolDescription]) -> "DeveloperContent":
        return self.with_tools(
            ToolNamespaceConfig(name="functions", description=None, tools=list(tools))
        )

    def to_dict(self) -> Dict[str, Any]:
        out = self.model_dump(exclude_none=True)
        out["type"] = "developer_content"
        return out

    @classmethod
    def from_dict(cls, raw: Dict[str, Any]) -> "DeveloperContent":
        return cls(**raw)


class Message(BaseModel):
    """A message."""

    author: Author
    content: List[Content] = Field(default_factory=list)
    channel: Optional[str] = None
    recipient: Optional[str] = None
    content_type: Optional[str] = None

    @classmethod
    def from_author_and_content(cls, author: Author, content: Union[str, Content]) -> "Message":
        if isinstance(content, str):
            content = TextContent(text=content)
        return cls(author=author, content=[content])

    @classmethod
    def from_role_and_content(cls, role: Role, content: Union[str, Content]) -> "Message":
        return cls.from_author_and_content(Author(role=role), content)

    @classmethod
    def from_role_and_contents(cls, role: Role, contents: Sequence[Content]) -> "Message":
        return cls(author=Author(role=role), content=list(contents))

    def adding_content(self, content: Union[str, Content]) -> "Message":
        if isinstance(content, str):
            content = TextContent(text=content)
        self.content.append(content)
        return self

    def with_channel(self, channel: str) -> "Message":
        self.channel = channel
        return self

    def with_recipient(self, recipient: str) -> "Message":
        self.recipient = recipient
        return self

    def with_content_type(self, content_type: str) -> "Message":
        self.content_type = content_type
        return self

    def to_dict(self) -> Dict[str, Any]:
        out: Dict[str, Any] = {
            **self.author.model_dump(),
            "content": [content.to_dict() for content in self.content],
        }
        if self.channel is not None:
            out["channel"] = self.channel
        if self.recipient is not None:
            out["recipient"] = self.recipient
        if self.content_type is not None:
            out["content_type"] = self.content_type
        return out

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> "Message":
        author = Author(role=Role(data["role"]), name=data.get("name"))
        raw_content = data["content"]
        if isinstance(raw_content, str):
            raw_content = [{"type": "text", "text": raw_content}]
        contents: List[Content] = []
        for raw in raw_content:
            if raw.get("type") == "text":
                contents.append(TextContent(**raw))
            elif raw.get("type") == "system_content":
                contents.append(SystemContent(**raw))
            elif raw.get("type") == "developer_content":
                contents.append(DeveloperContent(**raw))
            else:
                raise ValueError(f"Unknown content variant: {raw}")
        message = cls(author=author, content=contents)
        message.channel = data.get("channel")
        message.recipient = data.get("recipient")
        message.content_type = data.get("content_type")
        return message


class Conversation(BaseModel):
    """A conversation."""

    messages: List[Message] = Field(default_factory=list)

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> "Conversation":
        return cls(messages=list(messages))

    def __iter__(self) -> Iterator[Message]:  # type: ignore[override]
        return iter(self.messages)

    def to_dict(self) -> Dict[str, Any]:
        return {"messages": [message.to_dict() for message in self.messages]}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, payload: str) -> "Conversation":
        data = json.loads(payload)
        return cls(messages=[Message.from_dict(message) for message in data["messages"]])


class RenderConversationConfig(BaseModel):
    """The options of rendering a conversation.

    `compat` is a field of this package: `"openai-0.0.8"` renders what openai-harmony renders;
    `None` renders what was meant where that loses or breaks something.
    """

    auto_drop_analysis: bool = True
    compat: Optional[str] = "openai-0.0.8"


class RenderOptions(BaseModel):
    """The options of rendering a message."""

    conversation_has_function_tools: bool = False


_ROLES = {role.value: role for role in Role}


def _message(fields: Any) -> Message:
    """Build a message without validating what the reader made."""
    role, name, recipient, channel, content_type, text = fields
    return Message.model_construct(
        {"author", "content", "channel", "recipient", "content_type"},
        author=Author.model_construct({"role", "name"}, role=_ROLES[role], name=name),
        content=[TextContent.model_construct({"text"}, text=text)],
        channel=channel,
        recipient=recipient,
        content_type=content_type,
    )


def _harmony_error(error: OpenChatMLError) -> HarmonyError:
    made = HarmonyError(
        error.message, code=error.code, span=error.span, byte_span=error.byte_span
    )
    made.__dict__.update(error.__dict__)
    return made


def _payload(message: Message, index: int) -> str:
    """Return the JSON of a message. What JSON cannot hold raises `HarmonyError`."""
    code = "E-JSON-SHAPE"
    try:
        payload = json.dumps(message.to_dict(), ensure_ascii=False, allow_nan=False)
        if not payload.isascii():
            payload.encode("utf-8")
        return payload
    except UnicodeEncodeError:
        code = "E-SOURCE-NOT-UTF8"
        reason = "the text holds a lone surrogate, which is not a character"
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        reason = str(error)
    raised = HarmonyError(f"message {index + 1}: {reason}", code=code)
    raised.message_index = index
    raise raised


class HarmonyEncoding:
    """The encoding of gpt-oss models. Its vocabulary is in the package."""

    def __init__(self) -> None:
        self._encoding = _native.Encoding("o200k_harmony")

    @property
    def name(self) -> str:
        return "HarmonyGptOss"

    @cached_property
    def special_tokens_set(self) -> set[str]:
        return self._encoding.special_tokens_set

    def _render(
        self,
        conversation: Conversation,
        config: Optional[RenderConversationConfig],
        **named: Any,
    ) -> List[int]:
        config = config or RenderConversationConfig()
        if not config.auto_drop_analysis:
            named["reasoning"] = "keep"
        messages = [_payload(*each) for each in zip(conversation.messages, count())]
        payload = f'{{"messages":[{",".join(messages)}]}}'
        named["compat"] = config.compat
        try:
            return _native.render_ids(payload, form="harmony-json", **named)
        except OpenChatMLError as error:
            raise _harmony_error(error) from None

    def render_conversation_for_completion(
        self,
        conversation: Conversation,
        next_turn_role: Role,
        config: Optional[RenderConversationConfig] = None,
    ) -> List[int]:
        """Render a conversation and the beginning of the next message."""
        return self._render(conversation, config, next_role=next_turn_role)

    def render_conversation(
        self, conversation: Conversation, config: Optional[RenderConversationConfig] = None
    ) -> List[int]:
        """Render a conversation."""
        return self._render(conversation, config)

    def render_conversation_for_training(
        self, conversation: Conversation, config: Optional[RenderConversationConfig] = None
    ) -> List[int]:
        """Render a conversation whose final answer ends in `<|return|>`."""
        return self._render(conversation, config, training=True)

    def render(
        self, message: Message, render_options: Optional[RenderOptions] = None
    ) -> List[int]:
        """Render one message."""
        options = render_options or RenderOptions()
        try:
            return _native.render_message_ids(
                _payload(message, 0),
                has_functions=options.conversation_has_function_tools,
                compat="openai-0.0.8",
            )
        except OpenChatMLError as error:
            raise _harmony_error(error) from None

    def parse_messages_from_completion_tokens(
        self,
        tokens: Sequence[int],
        role: Optional[Role] = None,
        *,
        strict: Optional[bool] = None,
    ) -> List[Message]:
        """Read the messages of a completion.

        Malformed output is repaired. With `strict=True` the first error raises `HarmonyError`,
        whose `messages` are those that were read before.
        """
        parser = StreamableParser(self, role, strict=strict)
        try:
            parser.process_many(tokens if isinstance(tokens, list) else list(tokens))
            parser.process_eos()
        except HarmonyError as error:
            error.messages = parser.messages
            raise
        return parser.messages

    def decode_utf8(self, tokens: Sequence[int]) -> str:
        """Decode ids; raise `HarmonyError` for bytes that are not UTF-8."""
        try:
            return self._encoding.decode(list(tokens), "strict")
        except UnicodeDecodeError as error:
            raise HarmonyError(f"Invalid utf-8: {error}", code="E-SOURCE-NOT-UTF8") from None
        except OpenChatMLError as error:
            raise _harmony_error(error) from None

    def encode(
        self,
        text: str,
        *,
        allowed_special: Union[Literal["all"], AbstractSet[str]] = frozenset(),
        disallowed_special: Union[Literal["all"], Collection[str]] = "all",
    ) -> List[int]:
        """Encode text, as `openchatml.Encoding.encode` does."""
        try:
            return self._encoding.encode(
                text, allowed_special=allowed_special, disallowed_special=disallowed_special
            )
        except OpenChatMLError as error:
            raise _harmony_error(error) from None

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """Decode ids."""
        try:
            return self._encoding.decode(list(tokens), errors)
        except OpenChatMLError as error:
            raise _harmony_error(error) from None

    def is_special_token(self, token: int) -> bool:
        return self._encoding.is_special_token(token)

    def stop_tokens(self) -> List[int]:
        return [200002, 200007, 200012]

    def stop_tokens_for_assistant_actions(self) -> List[int]:
        return [200002, 200012]


class StreamState(Enum):
    """The token that a parser expects."""

    EXPECT_START = "ExpectStart"
    HEADER = "Header"
    CONTENT = "Content"


class StreamableParser(_native.HarmonyParser):
    """Reads the ids of a completion one by one.

    Malformed output is repaired, and listed in `diagnostics`. With `strict=True` the first error
    raises `HarmonyError`; then `messages` stay what they were, and each further id raises it
    again. `strict=False` and the default are the same.
    """

    # `process`, `process_many`, `process_eos`, `current_content`, `last_content_delta`, `tokens`,
    # `ends` and `diagnostics` are methods of the base class, which also sets the first three slots.
    __slots__ = (
        "current_channel",
        "current_recipient",
        "current_content_type",
        "_messages",
        "__dict__",
        "__weakref__",
    )

    def __init__(
        self,
        encoding: HarmonyEncoding,
        role: Optional[Role],
        *,
        strict: Optional[bool] = None,
        tools: Sequence[str] = (),
    ) -> None:
        # The base class took the arguments.
        self.current_channel: Optional[str] = None
        self.current_recipient: Optional[str] = None
        self.current_content_type: Optional[str] = None
        self._messages: List[Message] = []

    @property
    def _cached(self) -> List[Message]:
        cache = self._messages
        cache.extend(map(_message, self._messages_from(len(cache))))
        return cache

    @property
    def messages(self) -> List[Message]:
        """The finished messages. Each call returns the same objects in a new list."""
        return list(self._cached)

    @property
    def current_role(self) -> Optional[Role]:
        role = self._current_role
        return None if role is None else _ROLES[role]

    @property
    def state(self) -> StreamState:
        return StreamState(self._state)

    @property
    def state_data(self) -> Dict[str, Any]:
        """The state and, in a message, its header."""
        data: Dict[str, Any] = {"state": self._state}
        if self._state == "Content":
            data["header"] = {
                "author": {"role": self._current_role},
                "recipient": self.current_recipient,
                "channel": self.current_channel,
                "content_type": self.current_content_type,
            }
        return data


class HarmonyEncodingName(str, Enum):
    """The names of encodings."""

    HARMONY_GPT_OSS = "HarmonyGptOss"

    def __str__(self) -> str:
        return str(self.value)


_ENCODING = HarmonyEncoding()


def load_harmony_encoding(name: Union[str, HarmonyEncodingName]) -> HarmonyEncoding:
    """Return the encoding. Nothing is downloaded."""
    if str(name) != "HarmonyGptOss":
        raise HarmonyError(f"Unknown encoding: {name}", code="invalid-argument")
    return _ENCODING
