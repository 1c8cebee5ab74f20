"""Reads malformed outputs through a gateway with the client `openai`: check.py PROGRAMS ROOM [SEED] [COUNT]."""

import collections
import concurrent.futures
import http.server
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading

import openai
from outputs import ENCODING, STOPS, TOOLS, Corrupter, documented, listed

CASES = "conformance/openchatml/harmony/malformed.md"
PAGE = "docs/gateway.md"
DEFAULTS = (1, 1000)
KEYS = ("text", "reasoning", "calls")


class Upstream(http.server.BaseHTTPRequestHandler):
    """A server of raw completions; the prompt names the output."""

    protocol_version = "HTTP/1.1"
    outputs = []

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert self.path == "/v1/completions" and body["stream"], (self.path, body)
        number = int(re.findall(r"output (\d+)", ENCODING.decode(body["prompt"]))[-1])
        events = [f"data: {event}\n\n" for event in self.events(self.outputs[number], number)]
        payload = ("".join(events) + "data: [DONE]\n\n").encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def events(self, output, seed):
        """The ids in parts of random sizes."""
        sizes, at = random.Random(seed), 0
        common = {"id": "c", "object": "text_completion", "created": 0, "model": "m"}
        while at < len(output.ids):
            part = output.ids[at:at + sizes.randrange(1, 6)]
            at += len(part)
            finish = output.finish if at >= len(output.ids) else None
            choice = {"index": 0, "text": "", "logprobs": None, "token_ids": part, "finish_reason": finish}
            yield json.dumps({**common, "choices": [choice]})
        size = len(output.ids)
        usage = {"prompt_tokens": 1, "completion_tokens": size, "total_tokens": 1 + size}
        yield json.dumps({**common, "choices": [], "usage": usage})


def library(program, outputs):
    """The library's reading of every output."""
    requests = [json.dumps({"op": "answer", "ids": output.ids, "tools": TOOLS}) for output in outputs]
    done = subprocess.run([program], input="\n".join(requests).encode() + b"\n", stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]
    assert len(answers) == len(outputs)
    return answers


def strict(output):
    """The reading of openai-harmony in its strict mode, by the same rules of channels."""
    try:
        messages = json.loads(ENCODING._inner.parse_messages_from_completion_tokens(output.ids, "assistant", True))
    except Exception:
        return None
    answer = {"text": "", "reasoning": "", "calls": []}
    for at, message in enumerate(messages):
        content = message["content"]
        if not isinstance(content, str):
            content = "".join(part["text"] for part in content)
        to, channel = message.get("recipient"), message.get("channel")
        is_cut = at == len(messages) - 1 and output.ids[-1] not in STOPS
        if message["role"] != "assistant":
            break
        if to not in (None, "all", "assistant", "user") and not is_cut:
            answer["calls"].append([to.removeprefix("functions."), content])
        elif channel == "final" or (channel == "commentary" and to is None and not is_cut):
            answer["text"] += content
        else:
            answer["reasoning"] += content
    return answer


class Client:
    """The official client of the gateway."""

    def __init__(self, address):
        self.client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=60)
        self.tools = [{"type": "function", "function": {"name": name}} for name in TOOLS]

    def ask(self, number, **options):
        messages = [{"role": "user", "content": f"output {number}"}]
        return self.client.chat.completions.create(model="m", messages=messages, tools=self.tools, **options)

    def whole(self, number):
        message = self.ask(number).choices[0].message
        calls = [[call.function.name, call.function.arguments] for call in message.tool_calls or []]
        reasoning = getattr(message, "reasoning_content", None)
        return {"text": message.content or "", "reasoning": reasoning or "", "calls": calls}

    def streamed(self, number):
        answer, finish = {"text": "", "reasoning": "", "calls": []}, None
        for chunk in self.ask(number, stream=True):
            choice = chunk.choices[0]
            finish = choice.finish_reason or finish
            answer["text"] += choice.delta.content or ""
            answer["reasoning"] += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or []:
                if call.index == len(answer["calls"]):
                    answer["calls"].append([call.function.name, ""])
                answer["calls"][call.index][1] += call.function.arguments or ""
        assert finish is not None
        return answer

    def responses(self, number):
        answer = {"text": "", "reasoning": "", "calls": [], "items": {}}
        tools = [{"type": "function", "name": name, "strict": False, "parameters": None} for name in TOOLS]
        last = None
        for last in self.client.responses.create(model="m", input=f"output {number}", tools=tools, stream=True):
            if last.type == "response.output_text.delta":
                answer["text"] += last.delta
                answer["items"][last.item_id] = answer["items"].get(last.item_id, "") + last.delta
            elif last.type == "response.reasoning_text.delta":
                answer["reasoning"] += last.delta
            elif last.type == "response.output_item.done" and last.item.type == "function_call":
                answer["calls"].append([last.item.name, last.item.arguments])
        assert last.type in ("response.completed", "response.incomplete"), last
        assert last.response.output_text == answer["text"]
        return answer


def gateway(program, room, upstream):
    """Starts a gateway; returns its process and address."""
    environment = {"PATH": os.environ["PATH"], "HOME": room, "XDG_CONFIG_HOME": room, "XDG_DATA_HOME": room}
    arguments = ["serve", "harmony:m", "--upstream", upstream, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([program, *arguments], cwd=room, env=environment, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("listening on "):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, line.split()[-1]
    sys.exit("gateway-differential: the gateway did not start")


def attempt(read, number):
    try:
        return read(number)
    except openai.APIError as error:
        print(f"{number}: {error}", file=sys.stderr)
        return None


def verdict(found, expected):
    if found is None:
        return "error"
    return "right" if all(found[key] == expected[key] for key in KEYS) else "wrong"


def table(rows):
    names = ("right", "wrong", "error", "as meant")
    lines = [f"| outputs | read by | {' | '.join(names)} |", "|---|---|--:|--:|--:|--:|"]
    for outputs, reader, counts in rows:
        figures = " | ".join(f"{counts[name]:,}" if name in counts else "" for name in names)
        lines.append(f"| {outputs} | {reader} | {figures} |")
    return "\n".join(lines) + "\n"


def main():
    programs, room = sys.argv[1:3]
    chosen = [int(word) for word in sys.argv[3:5]]
    seed, count = (*chosen, *DEFAULTS[len(chosen):])
    groups = [("well-formed answers", list(Corrupter(seed).well_formed(200))),
              ("malformed cases", list(documented(CASES)))]
    if os.environ.get("HARMONY_CASES"):
        groups.append(("further cases", list(listed(os.environ["HARMONY_CASES"]))))
    groups.append(("random corruptions", list(Corrupter(seed).outputs(count))))
    outputs = [output for _, group in groups for output in group]
    expected = library(f"{programs}/harmony-differential", outputs)

    Upstream.outputs = outputs
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    process, address = gateway(f"{programs}/logue", room, f"http://127.0.0.1:{server.server_port}")
    try:
        client = Client(address)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            numbers = range(len(outputs))
            streamed = list(pool.map(lambda number: attempt(client.streamed, number), numbers))
            whole = list(pool.map(lambda number: attempt(client.whole, number), numbers))
            responses = list(pool.map(lambda number: attempt(client.responses, number), numbers))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    for chat in (streamed, whole):
        for found, response in zip(chat, responses):
            # Chat Completions separates the texts of messages, which are items of a response, by a blank line.
            items = list(response["items"].values()) if response else []
            if found and found["text"] == "\n\n".join(items):
                found["text"] = "".join(items)
    readings = [("gateway, streamed", streamed), ("gateway, whole", whole), ("gateway, Responses", responses),
                ("openai-harmony, strict", [strict(output) for output in outputs])]

    rows, failures, start = [], [], 0
    for name, group in groups:
        for reader, found in readings:
            counts = collections.Counter(right=0, wrong=0, error=0)
            for number in range(start, start + len(group)):
                result = verdict(found[number], expected[number])
                counts[result] += 1
                if outputs[number].meant:
                    counts["as meant"] += verdict(found[number], outputs[number].meant) == "right"
                if result != "right" and reader.startswith("gateway"):
                    failures.append((reader, number))
            rows.append((f"{len(group):,} {name}", reader, counts))
        start += len(group)
    text = table(rows)
    print(text, end="")
    for reader, number in failures[:5]:
        output = outputs[number]
        found = dict(readings)[reader][number]
        print(f"FAILED: {reader}: {output.name}: {ENCODING.decode(output.ids)!r}\n  expected: {expected[number]}"
              f"\n  found:    {found}")
    if failures:
        return 1
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    is_default = (seed, count) == DEFAULTS and len(groups) == 3
    if is_default and text not in page:
        print(f"FAILED: {PAGE} has another table")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
