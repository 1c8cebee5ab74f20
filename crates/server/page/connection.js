// One connection for the events of sessions. It continues each after the last event that arrived.

import { pause, request } from "./api.js";

/** The longest wait between two attempts to connect, in milliseconds. */
const LONGEST = 600;
/** The silence after which a connection is lost: the server sends something every 8 seconds. */
export const SILENCE = 20_000;
/** The most sessions of one connection, and the most characters of their names. */
const MOST = 64;
const LONGEST_QUERY = 6000;

export class Connection {
  /** `onEvent` receives a session, an id and an event; `onState` receives whether it is connected. */
  constructor({ onEvent, onState }) {
    this.onEvent = onEvent;
    this.onState = onState;
    /** The last id of each session; sessions that were added last are at the end. */
    this.cursors = new Map();
    this.abort = new AbortController();
  }

  /** Sends the events of a session after an id, also if later ones have arrived. */
  follow(session, after) {
    const known = this.cursors.get(session);
    const isCovered = known !== undefined && isUpTo(known, after);
    this.cursors.delete(session);
    this.cursors.set(session, isCovered ? known : after);
    if (!isCovered) this.restart();
  }

  unfollow(session) {
    if (this.cursors.delete(session)) this.restart();
  }

  close() {
    this.isClosed = true;
    this.abort.abort();
  }

  /** Connects again; changes at about the same time cause one connection. */
  restart() {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.hasChanged = true;
      this.abort.abort();
      if (!this.isRunning) this.run();
    }, 5);
  }

  get path() {
    const query = new URLSearchParams();
    let length = 0;
    for (const [session, after] of [...this.cursors].reverse().slice(0, MOST)) {
      length += encodeURIComponent(session).length + after.length + 12;
      if (length > LONGEST_QUERY && query.size) break;
      query.append("session", `${session}:${after}`);
    }
    return `events?${query}`;
  }

  async run() {
    this.isRunning = true;
    let attempt = 0;
    while (!this.isClosed && this.cursors.size) {
      this.abort = new AbortController();
      this.hasChanged = false;
      try {
        const response = await request("GET", this.path, { headers: { accept: "text/event-stream" }, signal: this.abort.signal });
        attempt = 0;
        this.onState(true);
        await this.read(response.body.getReader());
      } catch (error) {
        // The page shows its login, or reads nothing.
        if (error.status === 401 || error.status === 403) this.isClosed = true;
      }
      if (this.isClosed || this.hasChanged) continue;
      this.onState(false);
      await pause(Math.min(LONGEST, 100 * 2 ** attempt));
      attempt += 1;
    }
    this.isRunning = false;
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let buffer = "";
    for (;;) {
      const watch = setTimeout(() => this.abort.abort(), SILENCE);
      let part;
      try {
        part = await reader.read();
      } finally {
        clearTimeout(watch);
      }
      if (part.done) return;
      buffer += decoder.decode(part.value, { stream: true });
      const blocks = buffer.split("\n\n");
      buffer = blocks.pop();
      for (const block of blocks) this.dispatch(block);
    }
  }

  dispatch(block) {
    const data = block.split("\n").find((line) => line.startsWith("data: "));
    if (!data || this.isClosed || this.hasChanged) return;
    const { session, id, event } = JSON.parse(data.slice(6));
    if (!this.cursors.has(session)) return;
    if (event.type === "session.gone") this.cursors.delete(session);
    else this.cursors.set(session, id);
    this.onEvent(session, id, event);
  }
}

/** Returns the number of an event and the generation of its log. */
export function numbers(id) {
  const [seq, generation] = id.split("-").map(Number);
  return { seq, generation };
}

/** Returns whether the events after `id` include those after `after`. */
function isUpTo(id, after) {
  const [first, second] = [numbers(id), numbers(after)];
  return first.generation === second.generation && first.seq <= second.seq;
}
