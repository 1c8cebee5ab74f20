"""`Encoding`: the behaviour of tiktoken, and its ids where it is installed."""

import pathlib
import pickle
import random
import threading

import pytest

import openchatml

HARMONY = openchatml.get_encoding("o200k_harmony")
BASE = openchatml.get_encoding("o200k_base")


def test_names_and_sizes():
    assert (HARMONY.name, HARMONY.n_vocab, HARMONY.max_token_value) == ("o200k_harmony", 201089, 201088)
    assert (BASE.name, BASE.n_vocab, BASE.eot_token) == ("o200k_base", 200019, 199999)
    assert BASE.special_tokens_set == {"<|endoftext|>", "<|endofprompt|>"}
    assert len(HARMONY.special_tokens_set) == 1091
    assert openchatml.encoding_for_model("gpt-4o-mini") == BASE
    assert openchatml.encoding_for_model("openai/gpt-oss-20b") == HARMONY
    with pytest.raises(KeyError):
        openchatml.encoding_for_model("llama")
    assert pickle.loads(pickle.dumps(BASE)) == BASE


def test_specials():
    assert HARMONY.encode("user<|end|>", allowed_special={"<|end|>"}) == [1428, 200007]
    assert HARMONY.encode("user<|end|>", allowed_special="all") == [1428, 200007]
    with pytest.raises(ValueError, match="disallowed special token"):
        HARMONY.encode("é<|end|>")
    with pytest.raises(openchatml.OpenChatMLError) as caught:
        HARMONY.encode("é<|end|>", allowed_special={"<|start|>"})
    assert (caught.value.code, caught.value.span) == ("special-token", (1, 8))
    ordinary = HARMONY.encode("<|end|>", disallowed_special=())
    assert ordinary == HARMONY.encode_ordinary("<|end|>") and 200007 not in ordinary
    with pytest.raises(ValueError):
        HARMONY.encode("some word", disallowed_special={"word"})
    assert BASE.encode("<|end|>") == BASE.encode_ordinary("<|end|>")
    assert BASE.encode("<|endofprompt|>", allowed_special="all") == [200018]
    assert BASE.decode([200018]) == "<|endofprompt|>"
    assert HARMONY.decode([200018]) == "<|reserved_200018|>"
    assert HARMONY.is_special_token(200006) and not HARMONY.is_special_token(13)


def test_decode():
    ids = HARMONY.encode("naïve 🦊")
    assert HARMONY.decode(ids) == "naïve 🦊"
    assert b"".join(HARMONY.decode_tokens_bytes(ids)) == "naïve 🦊".encode()
    assert HARMONY.decode_with_offsets(HARMONY.encode("hello world")) == ("hello world", [0, 5])
    assert HARMONY.decode([9552]) == " \ufffd"
    with pytest.raises(UnicodeDecodeError):
        HARMONY.decode([9552], errors="strict")
    for call in (HARMONY.decode_bytes, HARMONY.decode):
        with pytest.raises(KeyError) as caught:
            call([999_999])
        assert isinstance(caught.value, openchatml.UnknownTokenError)
    with pytest.raises(KeyError):
        BASE.decode([200006])
    with pytest.raises(OverflowError):
        HARMONY.decode([-1])
    assert HARMONY.encode_single_token("hello") == HARMONY.encode_single_token(b"hello")
    assert HARMONY.decode_single_token_bytes(200006) == b"<|start|>"
    with pytest.raises(KeyError):
        HARMONY.encode_single_token("no such token")
    assert HARMONY.decode_batch([ids, []]) == ["naïve 🦊", ""]
    assert HARMONY.decode_bytes_batch([ids]) == ["naïve 🦊".encode()]


def test_lone_surrogates_are_replaced():
    assert HARMONY.encode("a\ud800b") == HARMONY.encode("a\ufffdb")
    assert HARMONY.encode("\ud83e\udd8a") == HARMONY.encode("🦊")
    assert HARMONY.encode_batch(["a\ud800b"]) == [HARMONY.encode("a\ufffdb")]


def test_batches_and_threads_agree():
    texts = [f"text {number} " * (number % 50) for number in range(500)]
    expected = [HARMONY.encode(text) for text in texts]
    assert HARMONY.encode_batch(texts, num_threads=4) == expected
    assert HARMONY.encode_ordinary_batch(texts) == expected
    results = {}

    def work(name):
        results[name] = [HARMONY.encode(text) for text in texts]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == expected for result in results.values())


def test_count():
    assert openchatml.count("Hello, world!") == 4
    assert openchatml.count("user<|end|>", allowed_special="all") == 2
    assert openchatml.count("user<|end|>") == len(HARMONY.encode_ordinary("user<|end|>"))


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    """Return the encoding of tiktoken, with the vocabulary that this package has."""
    tiktoken = pytest.importorskip("tiktoken")
    pattern = "|".join([
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""",
        r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
        r"""\s*[\r\n]+""",
        r"""\s+(?!\S)""",
        r"""\s+""",
    ])
    ranks = {token: rank for rank, token in enumerate(HARMONY.token_byte_values())}
    return tiktoken.Encoding(
        "o200k_base",
        pat_str=pattern,
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    )


def texts():
    root = pathlib.Path(__file__).resolve().parents[3]
    yield from (path.read_text() for path in sorted(root.glob("conformance/**/*.md")))
    generator = random.Random(11)
    alphabet = "abc XYZ 012\n\t é ж 漢字 ' 's 'LL 😀 \u0301 \u200d <|endoftext|> <|end|> // \r\n"
    for _ in range(3000):
        yield "".join(generator.choice(alphabet) for _ in range(generator.randrange(60)))
    for _ in range(3000):
        yield "".join(chr(generator.choice([0x20, 0x61, 0x300, 0x4E00, 0x1F600]) + generator.randrange(80)) for _ in range(20))


def test_ids_of_tiktoken(peer):
    for text in texts():
        assert BASE.encode_ordinary(text) == peer.encode_ordinary(text)
        expected = peer.encode(text, allowed_special="all")
        assert BASE.encode(text, allowed_special="all") == expected
        assert BASE.decode(expected) == peer.decode(expected)
        cut = expected[: len(expected) // 2]
        assert BASE.decode(cut) == peer.decode(cut)
        assert BASE.decode_bytes(cut) == peer.decode_bytes(cut)


def test_errors_of_tiktoken(peer):
    for call in (
        lambda encoding: encoding.encode("<|endoftext|>"),
        lambda encoding: encoding.encode("a <|endofprompt|>", allowed_special={"<|endoftext|>"}),
        lambda encoding: encoding.decode([200_006]),
        lambda encoding: encoding.decode([-1]),
        lambda encoding: encoding.decode(["a"]),
        lambda encoding: encoding.encode(5),
        lambda encoding: encoding.encode_single_token("two words"),
        lambda encoding: encoding.decode_single_token_bytes(999_999),
    ):
        with pytest.raises(Exception) as theirs:
            call(peer)
        with pytest.raises(type(theirs.value)):
            call(BASE)
