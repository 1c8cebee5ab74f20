"""OpenChatML, Harmony and ChatML: read, check, stream, convert and render conversations.

Nothing is downloaded and no file is opened: the tokenizer of gpt-oss models is in the package.
Offsets count code points, as indices into `str` do; `byte_span` counts bytes of UTF-8.
"""

from openchatml._errors import OpenChatMLError, UnknownTokenError
from openchatml._openchatml import (
    Amended,
    ChannelDelta,
    Converted,
    Delta,
    Diagnostic,
    Document,
    Encoding,
    End,
    Head,
    Loss,
    Message,
    Opened,
    Recoverer,
    Start,
    TokenHit,
    __version__,
    check,
    convert,
    detect,
    parse,
    parse_ids,
    render,
    render_ids,
    scan,
)
from openchatml._stream import Stream
from openchatml._view import View, view

__all__ = [
    "Amended",
    "ChannelDelta",
    "Converted",
    "Delta",
    "Diagnostic",
    "Document",
    "Encoding",
    "End",
    "Head",
    "Loss",
    "Message",
    "OpenChatMLError",
    "Opened",
    "Recoverer",
    "Start",
    "Stream",
    "TokenHit",
    "UnknownTokenError",
    "View",
    "__version__",
    "check",
    "convert",
    "count",
    "detect",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
    "parse",
    "parse_ids",
    "render",
    "render_ids",
    "scan",
    "view",
]

_ENCODINGS = {}


def get_encoding(encoding_name):
    """Return the encoding `o200k_base` or `o200k_harmony`."""
    encoding = _ENCODINGS.get(encoding_name)
    if encoding is None:
        encoding = _ENCODINGS.setdefault(encoding_name, Encoding(encoding_name))
    return encoding


def list_encoding_names():
    """Return the names of the encodings."""
    return ["o200k_base", "o200k_harmony"]


def encoding_name_for_model(model_name):
    """Return the name of the encoding of a model.

    Raises `KeyError` for a model whose encoding is not in the package.
    """
    name = model_name.rsplit("/", 1)[-1].removeprefix("ft:")
    if name.startswith("gpt-oss"):
        return "o200k_harmony"
    if name.startswith(("gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "chatgpt-4o", "o1", "o3", "o4")):
        return "o200k_base"
    raise KeyError(f"no encoding of this package for the model {model_name!r}")


def encoding_for_model(model_name):
    """Return the encoding of a model.

    Raises `KeyError` for a model whose encoding is not in the package.
    """
    return get_encoding(encoding_name_for_model(model_name))


def count(text, *, allowed_special=()):
    """Return the number of tokens of a text in `o200k_harmony`.

    Text that spells a control token counts as text, unless `allowed_special` names it.
    """
    return get_encoding("o200k_harmony").count(text, allowed_special=allowed_special)
