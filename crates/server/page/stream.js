// The events of a session. Each connection continues after the last event that arrived.

import { pause, request, session } from "./api.js";

/** The longest wait between two attempts to connect, in milliseconds. */
const LONGEST = 600;
/** The silence after which a connection is lost: the server sends something every 8 seconds. */
const SILENCE = 20_000;

export class EventStream {
  /** `onEvent` receives each event once and in order; `onState` receives whether it is connected. */
  constructor(id, after, { onEvent, onState, onGone }) {
    this.id = id;
    this.last = after;
    this.onEvent = onEvent;
    this.onState = onState;
    this.onGone = onGone;
    this.isClosed = false;
    this.abort = new AbortController();
    this.run();
  }

  close() {
    this.isClosed = true;
    this.abort.abort();
  }

  async run() {
    let attempt = 0;
    while (!this.isClosed) {
      this.abort = new AbortController();
      try {
        const headers = { accept: "text/event-stream", "last-event-id": this.last };
        const response = await request("GET", session(this.id, "/events"), { headers, signal: this.abort.signal });
        attempt = 0;
        this.onState(true);
        await this.read(response.body.getReader());
      } catch (error) {
        if (this.isClosed) return;
        if (error.status === 401 || error.status === 403 || error.status === 404) {
          this.onGone(error);
          return;
        }
      }
      if (this.isClosed) return;
      this.onState(false);
      await pause(Math.min(LONGEST, 100 * 2 ** attempt));
      attempt += 1;
    }
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
    if (this.isClosed) return;
    let id = "";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("id: ")) id = line.slice(4);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (!id || !data) return;
    this.last = id;
    this.onEvent(JSON.parse(data));
  }
}
