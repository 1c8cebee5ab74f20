"""Servers of the package whose tools a `logue run` calls: `servers.py PROGRAM`."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PROGRAM = sys.argv[1]
SERVER = Path(__file__).with_name("server.py")


class Model(ThreadingHTTPServer):
    """A model that makes the calls that it was given, one after the other, and then says `done`."""

    def __init__(self, calls: list[tuple[str, dict]]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.calls = calls
        self.requests: list[dict] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(BaseHTTPRequestHandler):
    """Answers as Chat Completions servers do."""

    def do_POST(self) -> None:  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number = len(self.server.requests)
        self.server.requests.append(body)
        if number < len(self.server.calls):
            name, arguments = self.server.calls[number]
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"c{number}", "type": "function", "function": function}
            delta, why = {"role": "assistant", "tool_calls": [call]}, "tool_calls"
        else:
            delta, why = {"role": "assistant", "content": "done"}, "stop"
        events = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": why}]},
        ]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


def run(folder: Path, address: str, calls: list[tuple[str, dict]], *flags: str, seconds: int = 60):
    """What the model was sent in each request, and what the program said."""
    model = Model(calls)
    (folder / "p.md").write_text(f'<tool mcp_server="{address}"/>\n<user>Go.</user>\n')
    (folder / "logue.toml").write_text(f"[mcp]\ncall_timeout_seconds = {seconds}\n")
    # Servers run in the sandbox of commands, which sees neither the package nor the script.
    readable = [str(SERVER.parent), sys.prefix, sys.base_prefix]
    config = folder / ".config" / "logue"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text(f"[tools]\nreadable = {json.dumps(readable)}\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    url = f"http://127.0.0.1:{model.server_port}/v1"
    command = [PROGRAM, "run", "--trust", "--no-save", "-m", "m", "--base-url", url, *flags, "p.md"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    model.shutdown()
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "done\n", done.stdout
    return model.requests, done.stderr


def offered(request: dict) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]


def result(request: dict) -> str:
    return request["messages"][-1]["content"]


def talk(folder: Path, address: str, how: str, *flags: str) -> None:
    calls = [
        ("add", {"a": 40, "b": 2}),
        ("fail", {}),
        ("weather", {"place": "Bergen"}),
        ("add", {"a": "no number"}),
        ("grow", {}),
        ("grown", {}),
    ]
    requests, stderr = run(folder, address, calls, *flags)
    assert offered(requests[0]) == ["add", "fail", "weather", "slow", "grow"], offered(requests[0])
    assert "E-MCP" not in stderr, stderr
    results = [result(request) for request in requests[1:]]
    assert results[0] == "42", results
    assert "the disk is full" in results[1], results
    assert '"degrees": 21.5' in results[2].replace('":21.5', '": 21.5'), results
    assert results[4] == "look again", results
    assert "grown" not in offered(requests[4]), "it was not there yet"
    assert "grown" in offered(requests[5]), offered(requests[5])
    assert results[5] == "I have grown", results
    print(f"mcp-peers: server over {how}: understood")

    requests, _ = run(folder, address, [("slow", {})], *flags, seconds=2)
    assert result(requests[1]).startswith("E-TOOL-TIMEOUT"), result(requests[1])
    for _ in range(200):
        if (folder / "cancelled").exists():
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the server was not told that nobody waits")
    (folder / "cancelled").unlink()
    print(f"mcp-peers: server over {how}: cancelled")


def over_stdio(folder: Path) -> None:
    talk(folder, f"stdio:'{sys.executable}' -B '{SERVER}' stdio", "stdio")


def over_http(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-B", str(SERVER), "http", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            host = f"127.0.0.1:{port}"
            talk(folder, f"http://{host}/mcp", "HTTP", "--allow-host", host)
        finally:
            process.terminate()


for transport in (over_stdio, over_http):
    with tempfile.TemporaryDirectory() as name:
        transport(Path(name))
