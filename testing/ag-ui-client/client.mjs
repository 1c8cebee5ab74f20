// The published AG-UI client against a real server. Every stream passes the verification of the package.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { HttpAgent, buildResumeArray, isInterruptExpired, verifyEvents } from "@ag-ui/client";
import { from, lastValueFrom, toArray } from "rxjs";
import { startModel } from "./model.mjs";

const [program, room] = process.argv.slice(2);
fs.rmSync(room, { recursive: true, force: true });
fs.mkdirSync(room, { recursive: true });
fs.writeFileSync(
  path.join(room, "agent.md"),
  '<config model="m"/>\n<system>hidden instructions</system>\n<tool name="work" command="echo ran"/>\n',
);

// The client strips what it does not know with a warning.
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
// It logs failed runs, which are expected here.
console.error = () => {};

const model = await startModel();

async function serve() {
  const child = spawn(
    program,
    ["serve", "agent.md", "--listen", "127.0.0.1:0", "--store", "sqlite:s.db",
      "--permission", "work=ask", "--approval-timeout", "3600"],
    {
      cwd: room,
      stdio: ["ignore", "ignore", "pipe"],
      env: { PATH: process.env.PATH, HOME: room, LOGUE_TRUST: "all", OPENAI_BASE_URL: model.url },
    },
  );
  let said = "";
  const address = await new Promise((found, failed) => {
    child.stderr.on("data", (data) => {
      said += data;
      const match = said.match(/listening on (http:\S+)/);
      if (match) found(match[1]);
    });
    child.on("exit", () => failed(new Error(`the server ended: ${said}`)));
  });
  return { child, url: `${address}/v1/ag-ui/agent` };
}

let server = await serve();

/// Runs an agent and returns its events, verified by the package.
async function run(agent, parameters) {
  const events = [];
  let failure;
  const subscriber = { onEvent: ({ event }) => void events.push(structuredClone(event)) };
  try {
    await agent.runAgent(parameters, subscriber);
  } catch (error) {
    failure = error;
  }
  const verified = await lastValueFrom(from(events).pipe(verifyEvents(), toArray()), {
    defaultValue: [],
  });
  assert.equal(verified.length, events.length);
  return { events, failure, last: events.at(-1), kinds: events.map((event) => event.type) };
}

const agentOf = (threadId) => new HttpAgent({ url: server.url, threadId });

function say(agent, content) {
  agent.addMessage({ id: randomUUID(), role: "user", content });
}

const finalText = (agent) => agent.messages.filter((m) => m.role === "assistant").at(-1).content;

const tests = {
  async "a run streams its answer, and the thread continues"() {
    const agent = agentOf("t1");
    say(agent, "hello");
    const first = await run(agent, { runId: "r1" });
    assert.ok(first.kinds.filter((kind) => kind === "TEXT_MESSAGE_CONTENT").length >= 1);
    assert.equal(finalText(agent), "You said: hello");
    assert.deepEqual(first.last.outcome, { type: "success" });
    say(agent, "again");
    const second = await run(agent);
    assert.equal(finalText(agent), "You said: again");
    assert.ok(!second.kinds.includes("CUSTOM"), "the same thread continues");
    assert.equal(model.received.at(-1).filter((m) => m.role === "user").length, 2);

    // A run that is repeated has the same events, and asks no model.
    const asked = model.received.length;
    const repeated = agentOf("t1");
    say(repeated, "hello");
    const again = await run(repeated, { runId: "r1" });
    assert.deepEqual(again.events, first.events);
    assert.equal(model.received.length, asked);
  },

  async "an interrupt is edited, and the answer is repeated after a kill"() {
    const agent = agentOf("t2");
    say(agent, "work on it");
    const stopped = await run(agent);
    assert.equal(stopped.last.outcome.type, "interrupt", JSON.stringify(stopped.last));
    assert.equal(agent.pendingInterrupts.length, 1);
    const [interrupt] = agent.pendingInterrupts;
    assert.ok(interrupt.message.includes("echo ran original"), interrupt.message);
    assert.ok(!isInterruptExpired(interrupt) && !Number.isNaN(Date.parse(interrupt.expiresAt)));
    const { properties } = interrupt.responseSchema;
    assert.equal(properties.editedArgs.properties.arguments.type, "array");
    assert.ok(interrupt.metadata.logue.fingerprint);

    // The client itself refuses new input; one that has forgotten the interrupt gets an error.
    say(agent, "something else");
    await assert.rejects(agent.runAgent(), /pending interrupt/);
    const forgetful = agentOf("t2");
    forgetful.setMessages(agent.messages);
    const refused = await run(forgetful);
    assert.deepEqual(refused.kinds, ["RUN_STARTED", "RUN_ERROR"]);
    assert.equal(refused.last.code, "session_awaiting_signal");
    assert.equal(refused.last.metadata.logue.interrupts[0].id, interrupt.id);
    agent.setMessages(agent.messages.slice(0, -1));

    server.child.kill("SIGKILL");
    server = await serve();
    agent.url = server.url;
    const answers = (editedArgs) =>
      buildResumeArray([interrupt], {
        [interrupt.id]: { status: "resolved", payload: { approved: true, editedArgs } },
      });
    const unfit = await run(cloneOf(agent), { resume: answers({ arguments: 7 }) });
    assert.equal(unfit.last.code, "suspension_resume_payload_invalid");
    const resume = answers({ arguments: ["edited"] });
    const resumed = await run(agent, { resume });
    assert.deepEqual(resumed.last.outcome, { type: "success" }, JSON.stringify(resumed.last));
    assert.equal(agent.pendingInterrupts.length, 0);
    const result = agent.messages.find((message) => message.role === "tool");
    assert.equal(result.toolCallId, interrupt.toolCallId);
    assert.match(result.content, /replaced the arguments.*"edited"/s);
    assert.match(result.content, /ran edited/);
    const sent = model.received.at(-1);
    assert.ok(JSON.stringify(sent).includes("original"), "the model's own call is in the history");
    assert.match(sent.at(-1).content, /ran edited/);

    const asked = model.received.length;
    const again = await run(agentOf("t2"), { resume });
    assert.deepEqual(again.events.slice(1), resumed.events.slice(1).map((event) => ({
      ...event,
      ...(event.runId && { runId: again.last.runId }),
    })));
    assert.equal(model.received.length, asked);
    const other = await run(agentOf("t2"), { resume: answers({ arguments: ["other"] }) });
    assert.equal(other.last.code, "signal_contradicts_earlier");
    assert.match(other.last.message, /approved with edited arguments/);

    say(agent, "thanks");
    assert.equal((await run(agent)).last.type, "RUN_FINISHED");
    assert.equal(finalText(agent), "You said: thanks");
  },

  async "an interrupt is cancelled"() {
    const agent = agentOf("t3");
    say(agent, "work on it");
    await run(agent);
    const [interrupt] = agent.pendingInterrupts;
    const resume = buildResumeArray([interrupt], { [interrupt.id]: { status: "cancelled" } });
    const resumed = await run(agent, { resume });
    assert.deepEqual(resumed.last.outcome, { type: "success" });
    assert.match(finalText(agent), /denied/);
  },

  async "a client that comes later gets the history and the interrupts"() {
    const agent = agentOf("t4");
    say(agent, "work on it");
    await run(agent);
    const later = agentOf("t4");
    const shown = await run(later);
    assert.deepEqual(shown.kinds, ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    assert.deepEqual(later.pendingInterrupts, agent.pendingInterrupts);
    assert.deepEqual(later.messages.map((m) => m.role), ["user", "assistant"]);
    const [interrupt] = later.pendingInterrupts;
    const resume = buildResumeArray([interrupt], {
      [interrupt.id]: { status: "resolved", payload: { approved: true } },
    });
    await run(later, { resume });
    say(later, "next");
    const next = await run(later);
    assert.ok(!next.kinds.includes("CUSTOM"), JSON.stringify(next.events));
    assert.equal(finalText(later), "You said: next");
  },

  async "a failed run is an error, and the thread continues"() {
    const agent = agentOf("t5");
    say(agent, "fail");
    const failed = await run(agent);
    assert.equal(failed.last.type, "RUN_ERROR");
    assert.equal(failed.last.code, "provider_invalid_request");
    say(agent, "hello");
    const next = await run(agent);
    assert.equal(next.last.type, "RUN_FINISHED", JSON.stringify(next.last));
    assert.ok(!next.kinds.includes("CUSTOM"));
  },

  async "an edit of an earlier message begins a branch that continues"() {
    const agent = agentOf("t6");
    for (const text of ["one", "two"]) {
      say(agent, text);
      await run(agent);
    }
    agent.setMessages(agent.messages.slice(0, 2));
    say(agent, "other two");
    const forked = await run(agent);
    const branch = forked.events.find((event) => event.type === "CUSTOM");
    assert.equal(branch.name, "logue.forked");
    say(agent, "three");
    const next = await run(agent);
    assert.ok(!next.kinds.includes("CUSTOM"), JSON.stringify(next.events));
    const users = model.received.at(-1).filter((m) => m.role === "user").map((m) => m.content);
    assert.deepEqual(users, ["one", "other two", "three"]);
  },

  async "the verification of the package refuses an unfinished stream"() {
    const stream = [{ type: "RUN_STARTED", threadId: "t", runId: "r" },
      { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" },
      { type: "RUN_FINISHED", threadId: "t", runId: "r" }];
    await assert.rejects(lastValueFrom(from(stream).pipe(verifyEvents())));
  },
};

function cloneOf(agent) {
  const clone = agentOf(agent.threadId);
  clone.setMessages(agent.messages);
  return clone;
}

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    assert.deepEqual(warnings, [], "warnings of the client");
    console.log(`ok: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED: ${name}\n${error.stack}`);
  }
}
server.child.removeAllListeners("exit");
server.child.kill("SIGKILL");
model.close();
process.exit(failed ? 1 : 0);
