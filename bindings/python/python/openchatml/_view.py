"""The part of a conversation that a person may see."""

from __future__ import annotations

from openchatml._errors import OpenChatMLError
from openchatml._openchatml import Document, parse


class View:
    """The visible messages of a document, in order."""

    __slots__ = ("document", "show_hidden", "_messages")

    def __init__(self, document, *, show_hidden=False):
        self.document = document
        self.show_hidden = show_hidden
        self._messages = tuple(
            message for message in document.messages if show_hidden or message.visible
        )

    def text(self, message):
        """Return the text of a message.

        Raises `OpenChatMLError` with the code `E-PERM-VISIBILITY` for a hidden one.
        """
        if message.hidden is not None and not self.show_hidden:
            raise OpenChatMLError(
                f"the frame cannot be shown: {message.hidden}",
                code="E-PERM-VISIBILITY",
                span=message.span,
                byte_span=message.byte_span,
            )
        return message.text

    def __iter__(self):
        return iter(self._messages)

    def __len__(self):
        return len(self._messages)

    def __getitem__(self, index):
        return self._messages[index]

    def __str__(self):
        return "\n\n".join(f"{message.role or '?'}: {message.text}" for message in self._messages)

    def __reduce__(self):
        return (_view_again, (self.document, self.show_hidden))

    def __repr__(self):
        return f"<View {len(self)} of {len(self.document)} messages>"

    def _repr_html_(self):
        return self.document._repr_html_()


def _view_again(document, show_hidden):
    return View(document, show_hidden=show_hidden)


def view(text, dialect=None, *, show_hidden=False, start_role=None):
    """Return the visible part of a text or of a document that was parsed."""
    if not isinstance(text, Document):
        text = parse(text, dialect, start_role=start_role)
    return View(text, show_hidden=show_hidden)
