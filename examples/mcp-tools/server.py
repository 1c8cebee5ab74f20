"""A server of the Model Context Protocol with two tools, over standard input and output."""

import json
import sys

STOCK = {"raincoat": 3, "boots": 0}
TOOLS = [
    {
        "name": "stock",
        "description": "Returns how many pieces of an article are in the store.",
        "inputSchema": {
            "type": "object",
            "properties": {"article": {"type": "string"}},
            "required": ["article"],
        },
    },
    {
        "name": "reserve",
        "description": "Reserves pieces of an article for a customer.",
        "inputSchema": {
            "type": "object",
            "properties": {"article": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
            "required": ["article", "count"],
        },
    },
]


def call(name, arguments):
    """Returns the text of a result and whether it is an error."""
    article = arguments["article"]
    if article not in STOCK:
        return f"unknown article {article}; known: {', '.join(sorted(STOCK))}", True
    if name == "stock":
        return str(STOCK[article]), False
    if arguments["count"] > STOCK[article]:
        return f"only {STOCK[article]} of {article} are left", True
    STOCK[article] -= arguments["count"]
    return f"reserved {arguments['count']} of {article}; {STOCK[article]} are left", False


def answer(method, parameters):
    """Returns the result of a request, or nothing if the method is unknown."""
    if method == "initialize":
        return {
            "protocolVersion": parameters["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "store", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        text, is_error = call(parameters["name"], parameters.get("arguments", {}))
        return {"content": [{"type": "text", "text": text}], "isError": is_error}
    if method == "ping":
        return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": f"unknown method {message['method']}"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
