"""Texts for comparisons: the conformance documents and random texts."""

import pathlib
import random
import sys
import unicodedata

SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\u00a0", "\u3000", "\u2028", "\u2003", "\v", "\f", "\u0085"]
WORDS = ["the", "Token", "don't", "I'LL", "we'Ve", "naïve", "straße", "ſ", "'ſ", "x_y", "HTTPServer", "der", "été", "e\u0301te\u0301", "a\u0316\u0301", "\u212b", "\u1100\u1161\u11a8", "한국어", "東京都", "你好", "ひらがな", "カタカナ", "привет", "مرحبا", "हिन्दी", "\u0958", "ไทย", "👩\u200d👩\u200d👧", "🦊", "👍🏽", "∑", "€", "½", "²³", "١٢٣", "Ⅷ", "\ufb01", "\u200b", "\u00ad", "\ufe0f", "a" * 70, "ab" * 60]
DIGITS = ["0", "7", "42", "123", "1234", "1234567", "3.14159", "1,000,000", "0xFF", "10^9"]
SIGNS = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["...", "->", "==", "{}", "/*", "\\n", "“", "”", "—", "…", "。", "、"]


def assigned(random):
    """Returns a character that is assigned in the Unicode version of Python."""
    while True:
        code = random.choice([random.randrange(0x20, 0x3000), random.randrange(0x3000, 0x10000), random.randrange(0x10000, 0x20000)])
        if 0xD800 <= code < 0xE000 or unicodedata.category(chr(code)) in ("Cn", "Cs", "Co"):
            continue
        return chr(code)


def random_text(random, specials):
    parts = []
    for _ in range(random.randrange(1, 24)):
        kind = random.random()
        if kind < 0.3:
            parts.append(random.choice(WORDS))
        elif kind < 0.5:
            parts.append(random.choice(SPACES))
        elif kind < 0.6:
            parts.append(random.choice(DIGITS))
        elif kind < 0.75:
            parts.append(random.choice(SIGNS))
        elif kind < 0.85:
            parts.append("".join(random.choice("abcdefghijklmnopqrstuvwxyzABCDE") for _ in range(random.randrange(1, 12))))
        elif kind < 0.95:
            parts.append("".join(assigned(random) for _ in range(random.randrange(1, 6))))
        else:
            parts.append(random.choice(specials))
    return "".join(parts)


def texts(specials, seed, count):
    for path in sorted(pathlib.Path("conformance").rglob("*")):
        if path.is_file():
            yield path.read_bytes().decode("utf-8", "replace")
    generator = random.Random(seed)
    for _ in range(count):
        yield random_text(generator, specials)
