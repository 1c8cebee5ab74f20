"""Arrow producers that violate the C interface: an exception, never an abort."""

import ctypes

import pytest

import openchatml
from openchatml import batch

P = ctypes.c_void_p
HARMONY = openchatml.get_encoding("o200k_harmony")
NEW = ctypes.pythonapi.PyCapsule_New
NEW.restype, NEW.argtypes = ctypes.py_object, [P, ctypes.c_char_p, P]


class Schema(ctypes.Structure):
    _fields_ = [
        ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", P), ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64), ("children", P), ("dictionary", P), ("release", P), ("private", P),
    ]


class Array(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", P), ("children", P),
        ("dictionary", P), ("release", P), ("private", P),
    ]


class Stream(ctypes.Structure):
    _fields_ = [("get_schema", P), ("get_next", P), ("get_last_error", P), ("release", P), ("private", P)]


RELEASED = []


@ctypes.CFUNCTYPE(None, P)
def release_schema(pointer):
    Schema.from_address(pointer).release = None


@ctypes.CFUNCTYPE(None, P)
def release_array(pointer):
    RELEASED.append(pointer)
    Array.from_address(pointer).release = None


def address(function):
    return ctypes.cast(function, P).value


class Producer:
    """An array whose structures the test fills in. It owns all that they point to."""

    def __init__(self, format, buffers, length, children=(), **changes):
        self.children = list(children)
        self.buffers = [None if data is None else ctypes.create_string_buffer(data, max(1, len(data))) for data in buffers]
        self.pointers = (P * max(1, len(buffers)))(*[data and ctypes.addressof(data) for data in self.buffers])
        self.schemas = (P * max(1, len(self.children)))(*[ctypes.addressof(child.schema) for child in self.children])
        self.arrays = (P * max(1, len(self.children)))(*[ctypes.addressof(child.array) for child in self.children])
        number = len(self.children)
        self.schema = Schema(format, b"text", None, 0, number, ctypes.addressof(self.schemas), None, address(release_schema), None)
        self.array = Array(
            length, 0, 0, len(buffers), number, ctypes.addressof(self.pointers), ctypes.addressof(self.arrays),
            None, address(release_array), None,
        )
        for key, value in changes.items():
            part, field = key.split("__")
            setattr(getattr(self, part), field, value)

    def __arrow_c_array__(self, requested_schema=None):
        return (
            NEW(ctypes.addressof(self.schema), b"arrow_schema", None),
            NEW(ctypes.addressof(self.array), b"arrow_array", None),
        )


def numbers(*values, width=4):
    return b"".join(value.to_bytes(width, "little", signed=True) for value in values)


def text(**changes):
    return Producer(b"u", [None, numbers(0, 1, 3), b"abc"], 2, **changes)


def large(**changes):
    return Producer(b"U", [None, numbers(0, 1, 3, width=8), b"abc"], 2, **changes)


def views(data=(b"abcdefghijklmnopq",), sizes=None, view=None, **changes):
    view = view or numbers(17) + b"abcd" + numbers(0, 0)
    sizes = numbers(*map(len, data), width=8) if sizes is None else sizes
    return Producer(b"vu", [None, view, *data, sizes], 1, **changes)


def items(**changes):
    return Producer(b"I", [None, numbers(13225, 11, 2)], 3, **changes)


def lists(children=None, offsets=numbers(0, 2, 3), **changes):
    return Producer(b"+l", [None, offsets], 2, [items()] if children is None else children, **changes)


def table(children=None, length=2, **changes):
    return Producer(b"+s", [None], length, [text()] if children is None else children, **changes)


def test_the_producers_of_this_test_are_read():
    pyarrow = pytest.importorskip("pyarrow")
    expected = [HARMONY.count("a"), HARMONY.count("bc")]
    for producer in (text(), large(), table()):
        counts = batch.count(producer)
        assert len(counts) == 2
        assert pyarrow.array(counts).to_pylist() == expected
    assert len(batch.count(views())) == 1
    assert pyarrow.array(batch.decode(lists())).to_pylist() == ["Hello,", HARMONY.decode([2])]
    part = table([Producer(b"u", [None, numbers(0, 1, 3), b"abc"], 2)], 1, array__offset=1)
    assert pyarrow.array(batch.count(part)).to_pylist() == expected[1:]
    empty = Producer(b"u", [None, None, None], 0)
    assert len(batch.count(empty)) == 0
    nulls = Producer(b"u", [b"\x02", numbers(0, 0, 1), b"a"], 2, array__null_count=1)
    assert pyarrow.array(batch.count(nulls)).to_pylist() == [None, 1]


BIG = 2**62
TEXTS = {
    "negative length": lambda: text(array__length=-1),
    "length beyond memory": lambda: text(array__length=BIG),
    "negative offset": lambda: text(array__offset=-2),
    "offset beyond memory": lambda: text(array__offset=BIG),
    "sum beyond an integer": lambda: text(array__length=BIG, array__offset=BIG),
    "no buffers": lambda: text(array__buffers=None),
    "null offsets": lambda: Producer(b"u", [None, None, b"abc"], 2),
    "null values": lambda: Producer(b"u", [None, numbers(0, 1, 3), None], 2),
    "too few buffers": lambda: text(array__n_buffers=2),
    "no number of buffers": lambda: text(array__n_buffers=0),
    "too many buffers": lambda: text(array__n_buffers=4),
    "negative number of buffers": lambda: text(array__n_buffers=-1),
    "released array": lambda: text(array__release=None),
    "released schema": lambda: text(schema__release=None),
    "no format": lambda: text(schema__format=None),
    "format without meaning": lambda: text(schema__format=b"?"),
    "format that is not UTF-8": lambda: text(schema__format=b"\xff"),
    "a dictionary": lambda: text(array__dictionary=ctypes.addressof(KEPT.array)),
    "decreasing offsets": lambda: Producer(b"u", [None, numbers(0, 5, 3), b"abcde"], 2),
    "negative first offset": lambda: Producer(b"u", [None, numbers(-7, 1, 3), b"abc"], 2),
    "negative last offset": lambda: Producer(b"u", [None, numbers(0, 1, -3), b"abc"], 2),
    "offset within a character": lambda: Producer(b"u", [None, numbers(0, 1, 2), "é".encode()], 2),
    "invalid UTF-8": lambda: Producer(b"u", [None, numbers(0, 1, 3), b"a\xff\xfe"], 2),
    "large offset beyond memory": lambda: Producer(b"U", [None, numbers(0, 1, 2**60, width=8), b"abc"], 2),
    "negative large offset": lambda: Producer(b"U", [None, numbers(0, -1, 3, width=8), b"abc"], 2),
    "too many nulls": lambda: Producer(b"u", [b"\x01", numbers(0, 1, 3), b"abc"], 2, array__null_count=2),
    "nulls without a bitmap": lambda: text(array__null_count=1),
    "negative nulls": lambda: text(array__null_count=-5),
    "view beyond its buffer": lambda: views(view=numbers(17) + b"abcd" + numbers(0, 5)),
    "view of an unknown buffer": lambda: views(view=numbers(17) + b"abcd" + numbers(9, 0)),
    "view of a negative length": lambda: views(view=numbers(-17) + b"abcd" + numbers(0, 0)),
    "view with another prefix": lambda: views(view=numbers(17) + b"xxxx" + numbers(0, 0)),
    "view that is not UTF-8": lambda: views(view=numbers(4) + b"\xff\xfe\xfd\xfc" + bytes(8)),
    "negative size of a view's buffer": lambda: views(sizes=numbers(-1, width=8)),
    "size of a view's buffer beyond memory": lambda: views(sizes=numbers(2**60, width=8)),
    "null sizes of views": lambda: Producer(b"vu", [None, numbers(17) + b"abcd" + numbers(0, 0), b"abcdefghijklmnopq", None], 1),
    "views without sizes": lambda: views(array__n_buffers=2),
    "table without children": lambda: table(array__n_children=0),
    "table with null children": lambda: table(array__children=None),
    "table with a negative number": lambda: table(schema__n_children=-1),
    "table with null schemas": lambda: table(schema__children=None),
    "table with a null column": lambda: nulled(table()),
    "table longer than its column": lambda: table(length=3),
    "table beyond its column": lambda: table(array__offset=1),
    "table of itself": lambda: cyclic(table()),
}
LISTS = {
    "list without a child": lambda: lists(array__n_children=0),
    "list without a child in the schema": lambda: lists(schema__n_children=0),
    "list with a null child": lambda: nulled(lists()),
    "list beyond its items": lambda: lists(offsets=numbers(0, 2, 4)),
    "list of decreasing offsets": lambda: lists(offsets=numbers(0, 3, 2)),
    "list of negative offsets": lambda: lists(offsets=numbers(-1, 2, 3)),
    "list with null offsets": lambda: Producer(b"+l", [None, None], 2, [items()]),
    "list with items without memory": lambda: lists([Producer(b"I", [None, None], 3)]),
    "list with a negative number of items": lambda: lists([items(array__length=-3)]),
    "list of itself": lambda: cyclic(lists()),
    "list of texts": lambda: lists([text()]),
}
KEPT = text()


def nulled(producer):
    producer.arrays[0] = None
    return producer


def cyclic(producer):
    producer.schemas[0] = ctypes.addressof(producer.schema)
    producer.arrays[0] = ctypes.addressof(producer.array)
    return producer


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    for call in (batch.encode, batch.count, batch.parse):
        with pytest.raises((ValueError, TypeError)):
            call(TEXTS[name]())


@pytest.mark.parametrize("name", LISTS)
def test_lists(name):
    with pytest.raises((ValueError, TypeError)):
        batch.decode(LISTS[name]())


def test_a_refused_array_is_released_once():
    producer = text(array__n_buffers=2)
    RELEASED.clear()
    with pytest.raises(ValueError):
        batch.count(producer)
    assert len(RELEASED) == 1
    with pytest.raises(ValueError, match="released"):
        batch.count(producer)
    assert len(RELEASED) == 1


class Streaming:
    """A stream whose functions are those of the test."""

    def __init__(self, get_schema=None, get_next=None, get_last_error=None, release=True):
        get = ctypes.CFUNCTYPE(ctypes.c_int, P, P)
        self.functions = [get_schema and get(get_schema), get_next and get(get_next),
                          get_last_error and ctypes.CFUNCTYPE(P, P)(get_last_error), release and ctypes.CFUNCTYPE(None, P)(self.release)]
        self.stream = Stream(*[function and address(function) for function in self.functions])
        self.kept = []

    def release(self, pointer):
        Stream.from_address(pointer).release = None

    def __arrow_c_stream__(self, requested_schema=None):
        return NEW(ctypes.addressof(self.stream), b"arrow_array_stream", None)


def giving(kept, structure, make):
    def give(_, target):
        made = make()
        if made is None:
            return 0
        producer, part = made
        kept.append(producer)
        ctypes.memmove(target, ctypes.addressof(getattr(producer, part)), ctypes.sizeof(structure))
        return 0
    return give


def test_streams():
    kept = []
    schema = giving(kept, Schema, lambda: (table(), "schema"))
    batches = [table(), table()]
    following = giving(kept, Array, lambda: (batches.pop(), "array") if batches else None)
    assert len(batch.count(Streaming(schema, following))) == 4
    plain = giving(kept, Schema, lambda: (text(), "schema"))
    texts = [text()]
    assert len(batch.count(Streaming(plain, giving(kept, Array, lambda: (texts.pop(), "array") if texts else None)))) == 2
    message = ctypes.create_string_buffer(b"out of order")
    with pytest.raises(ValueError, match="code 5: out of order"):
        batch.count(Streaming(schema, lambda *_: 5, lambda _: ctypes.addressof(message)))
    bad = giving(kept, Array, lambda: (table(array__n_children=0), "array"))
    for wrong in (
        Streaming(), Streaming(schema), Streaming(schema, following, release=None), Streaming(lambda *_: 22, following),
        Streaming(lambda *_: 0, following), Streaming(schema, lambda *_: 1, lambda _: None), Streaming(schema, bad),
    ):
        with pytest.raises(ValueError, match="invalid Arrow data"):
            batch.count(wrong)
