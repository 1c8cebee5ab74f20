// A scripted model server with the wire format of Chat Completions.
import http from "node:http";

const chunk = (delta, finish = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;

const text = (...pieces) => [...pieces.map((content) => chunk({ content })), chunk({}, "stop")];

const call = (id, args) => [
  chunk({ content: "May I?" }),
  chunk({
    tool_calls: [
      { index: 0, id, type: "function", function: { name: "work", arguments: JSON.stringify(args) } },
    ],
  }),
  chunk({}, "tool_calls"),
];

/// Returns the answer to the last message of a request.
function answer(messages) {
  const last = messages.at(-1);
  if (last.role === "tool") return text("The tool answered: ", last.content.slice(0, 200));
  const asked = typeof last.content === "string" ? last.content : last.content[0].text;
  if (asked.startsWith("work")) return call(`c${messages.length}`, { arguments: ["original"] });
  if (asked === "fail") return null;
  return text("You ", "said: ", asked);
}

/// Starts the server and returns its base address and the received requests.
export async function startModel() {
  const received = [];
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    if (request.method !== "POST") {
      response.writeHead(404).end();
      return;
    }
    const { messages } = JSON.parse(body);
    received.push(messages);
    const pieces = answer(messages);
    if (!pieces) {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "no", type: "invalid_request_error" } }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const piece of pieces) response.write(piece);
    response.end("data: [DONE]\n\n");
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, received, close: () => server.close() };
}
