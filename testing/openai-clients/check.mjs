// Uses an agent with the OpenAI client of JavaScript.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "any", maxRetries: 0 });
const messages = [{ role: "user", content: "hi" }];

const whole = await client.chat.completions.create({ model: "agent", messages });
assert.equal(whole.choices[0].message.content, "1: hi");
const stream = await client.chat.completions.create({ model: "agent", messages, stream: true });
let text = "";
for await (const part of stream) text += part.choices[0]?.delta?.content ?? "";
assert.equal(text, "1: hi");
console.log("javascript: chat: ok");

const first = await client.responses.create({ model: "agent", input: "hi" });
assert.equal(first.output_text, "1: hi");
const previous_response_id = first.id;
const second = await client.responses.create({ model: "agent", input: "on", previous_response_id });
assert.equal(second.output_text, "2: on");
const kinds = [];
const events = await client.responses.create({ model: "agent", input: "hey", stream: true });
for await (const event of events) kinds.push(event.type);
assert.equal(kinds[0], "response.created");
assert.equal(kinds.at(-1), "response.completed");
await assert.rejects(client.responses.retrieve("resp_none"), OpenAI.NotFoundError);
console.log("javascript: responses: ok");
