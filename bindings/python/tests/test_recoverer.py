"""`Recoverer`: ids one by one, deltas by channel."""

import random

import pytest

import openchatml

ENCODING = openchatml.get_encoding("o200k_harmony")


def ids(text):
    return ENCODING.encode(text, allowed_special="all")


def test_deltas_by_channel():
    text = (
        "<|channel|>analysis<|message|>think 😀<|start|>assistant<|channel|>commentary "
        'to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>'
        "<|start|>assistant<|channel|>final<|message|>4<|return|>"
    )
    recoverer = openchatml.Recoverer("assistant")
    by_channel, ends = {}, []
    for id in ids(text):
        for delta in recoverer.push(id):
            key = (delta.index, delta.channel, delta.recipient, delta.visible)
            by_channel[key] = by_channel.get(key, "") + delta.text
            if delta.end:
                ends.append(delta.end)
    assert recoverer.finish() == ()
    assert by_channel == {
        (0, "analysis", None, False): "think 😀",
        (1, "commentary", "functions.f", False): '{"a":1}',
        (2, "final", None, True): "4",
    }
    assert ends == ["implicit", "call", "return"]
    assert recoverer.repairs == 1


def test_the_end_and_the_next_completion():
    recoverer = openchatml.Recoverer("assistant")
    recoverer.push_many(ids("<|channel|>final<|message|>cut"))
    assert [delta.end for delta in recoverer.finish()] == ["eos"]
    for call in (lambda: recoverer.push(1), lambda: recoverer.push_many([1]), recoverer.finish):
        with pytest.raises(openchatml.OpenChatMLError) as caught:
            call()
        assert caught.value.code == "stream-finished"
    recoverer.reset()
    (delta,) = recoverer.push_many(ids("<|channel|>final<|message|>next"))
    assert (delta.index, delta.text, delta.end) == (0, "next", None)


def test_wrong_ids_change_nothing():
    recoverer = openchatml.Recoverer("assistant")
    recoverer.push_many(ids("<|channel|>final<|message|>"))
    for wrong in (-1, 2**40, "a", None, 1.5):
        with pytest.raises((TypeError, OverflowError)):
            recoverer.push(wrong)
    with pytest.raises((TypeError, OverflowError)):
        recoverer.push_many([200_002, -1])
    (delta,) = recoverer.push(ids("x")[0])
    assert delta.text == "x"
    (delta,) = recoverer.push(999_999)
    assert delta.text == "\ufffd"


def test_many_ids_give_what_each_gives():
    sampled = ids(
        "<|channel|>analysis<|message|>a b<|end|><|start|>assistant<|channel|>final<|message|>c d<|end|><|return|>"
    )

    def joined(deltas):
        out = []
        for delta in deltas:
            if out and out[-1][2] is None and delta.end is None and out[-1][0] == delta.index:
                out[-1][1] += delta.text
            else:
                out.append([delta.index, delta.text, delta.end])
        return out

    one, many = openchatml.Recoverer("assistant"), openchatml.Recoverer("assistant")
    each = joined([delta for id in sampled for delta in one.push(id)] + list(one.finish()))
    assert joined([*many.push_many(sampled), *many.finish()]) == each
    assert each == [
        [0, "a b", None], [0, "", "end"], [1, "c d", None], [1, "", "end"], [1, "", "return"],
    ]


def test_the_same_ids_in_another_message_are_of_that_message():
    text = "<|channel|>analysis<|message|>a b a b<|end|><|start|>assistant<|channel|>final<|message|>a b a b<|end|>"
    recoverer = openchatml.Recoverer("assistant")
    for _ in range(2):
        deltas = [delta for id in ids(text) for delta in recoverer.push(id) if delta.text]
        found = [(delta.index, delta.channel, delta.visible, delta.text.strip()) for delta in deltas]
        assert found == [
            (index, channel, visible, letter)
            for index, channel, visible in [(0, "analysis", False), (1, "final", True)]
            for letter in "abab"
        ]
        recoverer.finish()
        recoverer.reset()


def test_random_ids_one_by_one_give_what_many_give():
    generator = random.Random(17)
    control = [200_002, 200_003, 200_005, 200_006, 200_007, 200_008, 200_012]
    words = ids("assistant analysis final user a b é 漢 😀 functions.f to=") + [9552, 94, 200, 201_000, 300_000]
    for _ in range(2000):
        sampled = ids("<|start|>assistant<|channel|>final<|message|>") + [
            generator.choice(control) if generator.random() < 0.1 else generator.choice(words)
            for _ in range(generator.randrange(1, 60))
        ]
        one, many = openchatml.Recoverer(), openchatml.Recoverer()
        each = [delta for id in sampled for delta in one.push(id)] + list(one.finish())
        together = [*many.push_many(sampled), *many.finish()]

        def plain(deltas):
            out = []
            for delta in deltas:
                key = (delta.index, delta.channel, delta.recipient, delta.visible)
                if out and out[-1][0] == key and out[-1][2] is None and delta.end is None:
                    out[-1][1] += delta.text
                else:
                    out.append([key, delta.text, delta.end])
            return out

        assert plain(each) == plain(together), sampled
        assert one.repairs == many.repairs


HEADERS = [
    ("<|channel|>analysis", ("analysis", None, False)),
    ("<|channel|>final", ("final", None, True)),
    ("<|channel|>commentary", ("commentary", None, False)),
    ("<|channel|>commentary to=functions.f", ("commentary", "functions.f", False)),
    ("<|channel|>commentary to=functions.g", ("commentary", "functions.g", False)),
    ("<|channel|>" + "x" * 100, ("x" * 100, None, False)),
]


def messages(headers, words):
    text = "".join(f"<|start|>assistant{header}<|message|>{words}<|end|>" for header in headers)
    return ids(text)


def test_messages_of_other_headers_share_no_deltas():
    # More ids than there is room for.
    generator = random.Random(5)
    words = ENCODING.decode([generator.randrange(200_000) for _ in range(12_000)], errors="ignore").replace("<|", "")
    expected = {}
    for _ in range(3):
        headers = generator.sample(HEADERS, len(HEADERS))
        recoverer, found = openchatml.Recoverer(), {}
        for id in messages([header for header, _ in headers], words):
            for delta in recoverer.push(id):
                key = (delta.index, delta.channel, delta.recipient, delta.visible)
                found[key] = found.get(key, "") + delta.text
        assert found == {
            (index, *header): words for index, (_, header) in enumerate(headers)
        }


def test_recoverers_share_deltas():
    one, other = openchatml.Recoverer("assistant"), openchatml.Recoverer("assistant")
    start, (word,) = ids("<|channel|>commentary to=functions.shared<|message|>"), ids(" shared")
    one.push_many(start), other.push_many(start)
    (delta,) = one.push(word)
    assert other.push(word)[0] is delta
    one.reset()
    one.push_many(start)
    assert one.push(word)[0] is delta


def test_later_texts_find_room_too():
    recoverer = openchatml.Recoverer()
    start = ids("<|start|>user<|channel|>room<|message|>")
    ordinary = [id for id in range(60_000) if ENCODING.decode([id]).isascii()]
    # The first ids take the room for results of such messages.
    for id in start + ordinary:
        recoverer.push(id)
    recoverer.reset()
    recoverer.push_many(start)
    latest = ordinary[-500:]
    shared = [recoverer.push(id) is recoverer.push(id) for id in latest]
    assert sum(shared) > 400
