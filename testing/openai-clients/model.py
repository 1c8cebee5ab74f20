"""A model server for the clients: it repeats the last message in two pieces, and calls a tool for `work`."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        messages = json.loads(self.rfile.read(length))["messages"]
        last = messages[-1]
        if last["role"] == "user" and last["content"] == "work":
            call = {"index": 0, "id": "c1", "type": "function",
                    "function": {"name": "work", "arguments": "{}"}}
            deltas = [{"role": "assistant", "reasoning_content": "HIDDEN"}, {"tool_calls": [call]}]
        else:
            users = sum(message["role"] == "user" for message in messages)
            said = "result" if last["role"] == "tool" else last["content"]
            deltas = [{"role": "assistant", "reasoning_content": "HIDDEN"},
                      {"content": f"{users}: "}, {"content": str(said)}]
        reason = "tool_calls" if "tool_calls" in deltas[-1] else "stop"
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
        chunks = [{"id": "m", "object": "chat.completion.chunk", "created": 0, "model": "m",
                   "choices": [choice]} for choice in choices]
        chunks[-1]["usage"] = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        body = body.encode()
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
