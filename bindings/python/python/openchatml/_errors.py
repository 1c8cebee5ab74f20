"""Exceptions of the package."""

from __future__ import annotations


class OpenChatMLError(ValueError):
    """An error with a stable code and, where it is about a text, its place."""

    def __init__(self, message, *, code=None, span=None, byte_span=None):
        super().__init__(message)
        self.message = message
        #: The stable code, such as `E-PARSE-HEADER`.
        self.code = code
        #: The place in code points, `(start, end)`; `None` if there is none.
        self.span = span
        #: The place in bytes of UTF-8.
        self.byte_span = byte_span
        #: The index of the message that cannot be written; `None` if the error is about no message.
        self.message_index = None

    def __str__(self):
        return self.message

    def __reduce__(self):
        state = {key: value for key, value in self.__dict__.items() if key != "message"}
        return (type(self), (self.message,), state)


class UnknownTokenError(OpenChatMLError, KeyError):
    """An id that is not in the vocabulary."""


class HarmonyError(OpenChatMLError, RuntimeError):
    """An error of `openchatml.compat.openai_harmony`."""

    #: The messages that were read before, where a completion was read.
    messages: list = []


def _parse_again(source, named):
    from openchatml import parse

    try:
        return parse(source, **named)
    except OpenChatMLError as error:
        # Strict reading gave this document with its error.
        return error.document
