"""Whatever is passed: an exception, never an abort; and no growth of memory."""

import os
import random
import resource
import subprocess
import sys

import pytest

import openchatml

LONG = bool(os.environ.get("OPENCHATML_LONG"))
CALLS = 1_000_000 if LONG else 30_000
IDS = 10_000_000 if LONG else 1_000_000

WORDS = [
    "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|call|>", "<|return|>", "<|constrain|>",
    "<|literal|>", "<|endliteral|>", "<|im_start|>", "<|im_end|>", "assistant", "user", "final",
    "analysis", " to=functions.f", "version: 2.2\n", "{", "}", "[", '"role"', ":", "é", "😀", "\n",
    "\x00", "\ud800", "\udfff", "<", "|", "<<|end|>", "json", "<|fim_prefix|>",
]


def value(generator, depth=0):
    """Return a random argument, mostly text."""
    kind = generator.randrange(14)
    if kind < 5:
        return "".join(generator.choice(WORDS) for _ in range(generator.randrange(12)))
    if kind < 7:
        return generator.randbytes(generator.randrange(40))
    if kind == 7:
        return generator.choice([None, True, 1.5, float("nan"), object(), b"", "", {}, (), set(), "harmony", "ocml2.2", "openai", "all", "user"])
    if kind == 8:
        return generator.choice([-1, 0, 5, 200_006, 201_088, 201_089, 2**31, 2**32, 2**63, 2**70])
    if kind == 9:
        return [generator.randrange(202_000) for _ in range(generator.randrange(20))]
    if depth > 3:
        return None
    if kind == 10:
        return [value(generator, depth + 1) for _ in range(generator.randrange(4))]
    if kind == 11:
        return {generator.choice(["role", "content", "messages", "name", "channel", 5]): value(generator, depth + 1) for _ in range(generator.randrange(4))}
    if kind == 12:
        return [{"role": generator.choice(["user", "assistant", "tool", "x"]), "content": value(generator, depth + 1)}]
    return bytearray(generator.randbytes(5))


def targets():
    encoding = openchatml.get_encoding("o200k_harmony")
    base = openchatml.get_encoding("o200k_base")
    functions = [
        openchatml.parse, openchatml.parse_ids, openchatml.view, openchatml.check,
        openchatml.convert, openchatml.render, openchatml.render_ids, openchatml.scan,
        openchatml.count, openchatml.detect, openchatml.get_encoding, openchatml.Stream,
        openchatml.Recoverer, openchatml.Encoding, openchatml.Diagnostic,
        openchatml.Message._restore,
    ]
    for one in (encoding, base):
        functions += [getattr(one, name) for name in dir(one) if not name.startswith("_") and callable(getattr(one, name)) and name != "token_byte_values"]
    return functions


NAMES = ["dialect", "start_role", "tools", "strict", "to", "form", "next_role", "reasoning", "allowed_special", "disallowed_special", "errors", "num_threads", "families", "show_hidden"]


def test_random_calls():
    generator = random.Random(int(os.environ.get("OPENCHATML_SEED", "1")))
    functions = targets()
    allowed = (TypeError, ValueError, OverflowError, KeyError, RecursionError, LookupError, UnicodeError, ModuleNotFoundError)
    calls = done = 0
    while calls < CALLS:
        calls += 1
        choice = generator.random()
        try:
            if choice < 0.7:
                arguments = [value(generator) for _ in range(generator.randrange(1, 4))]
                named = {generator.choice(NAMES): value(generator)} if generator.random() < 0.3 else {}
                result = generator.choice(functions)(*arguments, **named)
                repr(result)
            elif choice < 0.85:
                stream = openchatml.Stream(generator.choice(["harmony", "ocml2.2", "ocml2.0", "chatml", "ocml0.1"]))
                for _ in range(3):
                    generator.choice([stream.feed, stream.feed_id, stream.feed_ids])(value(generator))
                stream.finish()
            else:
                recoverer = openchatml.Recoverer(generator.choice([None, "assistant"]))
                for _ in range(3):
                    generator.choice([recoverer.push, recoverer.push_many])(value(generator))
                recoverer.finish()
            done += 1
        except allowed:
            pass
    assert done > calls // 50


def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


MEMORY = 2 * 1024 * 1024


def growth(feed):
    """Return by how much the memory of this process grows while ids are fed."""
    feed(IDS // 10)
    before = rss()
    feed(IDS)
    return rss() - before


def growth_of_many_messages():
    encoding = openchatml.get_encoding("o200k_harmony")
    text = "<|start|>assistant<|channel|>analysis<|message|>" + "wörd 漢 and more. " * 50 + "<|end|>"
    ids = encoding.encode(text, allowed_special="all")
    recoverer, stream = openchatml.Recoverer(), openchatml.Stream("harmony")

    def feed(count):
        for _ in range(count // (2 * len(ids))):
            for id in ids:
                recoverer.push(id)
            for id in ids:
                stream.feed_id(id)

    return growth(feed)


def endless():
    """Return a recoverer and a stream in one message, and ids of text."""
    encoding = openchatml.get_encoding("o200k_harmony")
    recoverer, stream = openchatml.Recoverer("assistant"), openchatml.Stream("harmony", start_role="assistant")
    start = encoding.encode("<|channel|>final<|message|>", allowed_special="all")
    recoverer.push_many(start)
    stream.feed_ids(start)
    return recoverer, stream, encoding.encode("wörd 漢 and more. " * 50)


def growth_of_one_message():
    recoverer, stream, ids = endless()

    def feed(count):
        for _ in range(count // (2 * len(ids))):
            recoverer.push_many(ids)
            for id in ids:
                stream.feed_id(id)

    return growth(feed)


def growth_of_one_message_id_by_id():
    recoverer, _, ids = endless()

    def feed(count):
        for _ in range(count // len(ids)):
            for id in ids:
                recoverer.push(id)

    return growth(feed)


@pytest.mark.parametrize("name", [name for name in globals() if name.startswith("growth_of")])
def test_ids_do_not_grow_memory(name):
    # In a process of its own: here the allocator has free memory of the tests before.
    code = f"import test_robust; print(test_robust.{name}())"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], cwd=os.path.dirname(__file__), stdout=subprocess.PIPE, check=True
    )
    assert int(done.stdout) < MEMORY


def test_import_opens_nothing():
    code = (
        "import sys\n"
        "import openchatml\n"
        "openchatml.count('x' * 1000); openchatml.parse('<|start|>user<|message|>x<|end|>')\n"
        "assert 'pydantic' not in sys.modules and 'socket' not in sys.modules\n"
    )
    trace = None
    try:
        done = subprocess.run(
            ["strace", "-f", "-e", "trace=openat,open,socket,connect,execve", "-o", "/dev/stdout", sys.executable, "-I", "-c", code],
            stdout=subprocess.PIPE, check=True, text=True,
        )
        trace = done.stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        pass
    if trace is not None:
        import pathlib

        package = str(pathlib.Path(openchatml.__file__).parent)
        assert "socket(" not in trace and "connect(" not in trace
        # Python's own start-up, the loader's libraries, and the package.
        own = (sys.prefix, sys.base_prefix, package, "/lib", "/usr/lib", "/lib64", "/etc/ld.so", "/usr/share/locale", "/usr/local/lib", "/etc/localtime", "/sys/fs/cgroup", "/proc/self", "/proc/cpuinfo", "/dev/null", "/etc/locale.alias")
        for line in trace.splitlines():
            if "openat(" in line and "ENOENT" not in line:
                path = line.split('"')[1]
                assert path.startswith(own) or path.endswith("pyvenv.cfg"), line
