"""`Stream`, with iterators over events."""

from __future__ import annotations

from openchatml._openchatml import Stream as _Stream


def _feed(stream, piece):
    if isinstance(piece, int):
        return stream.feed_id(piece)
    if isinstance(piece, (str, bytes, bytearray, memoryview)):
        return stream.feed(piece)
    return stream.feed_ids(piece)


class Stream(_Stream):
    """Reads a conversation as it arrives. The events are the same however it is split."""

    __slots__ = ()

    def iter(self, pieces):
        """Yield the events of pieces (text, bytes, an id, or ids), and those of the end."""
        for piece in pieces:
            yield from _feed(self, piece)
        yield from self.finish()

    async def aiter(self, pieces):
        """Yield the events of pieces that an asynchronous iterator gives, and those of the end."""
        async for piece in pieces:
            for event in _feed(self, piece):
                yield event
        for event in self.finish():
            yield event
