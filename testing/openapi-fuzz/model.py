"""A model server for the fuzzer: it answers at once, and calls a tool for messages with the word `work`."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        messages = json.loads(self.rfile.read(length))["messages"]
        last = messages[-1]
        delta = {"role": "assistant", "content": "done"}
        if last["role"] == "user" and "work" in str(last["content"]):
            call = {"index": 0, "id": "c1", "type": "function",
                    "function": {"name": "work", "arguments": "{}"}}
            delta["tool_calls"] = [call]
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "m", "object": "chat.completion.chunk", "created": 0, "model": "m",
                 "choices": [choice]}
        body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(server.server_address[1], flush=True)
server.serve_forever()
