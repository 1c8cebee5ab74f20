// The events of a session, of which all tabs of a browser receive theirs by one connection.
//
// A browser opens at most six connections to a server without HTTP/2. So the tabs of a server elect one
// that is visible, by a lock that the browser gives to one tab at a time. It follows the sessions of all
// tabs and passes the events on. A hidden tab holds no connection; without locks, each visible one does.

import { Connection, SILENCE, numbers } from "./connection.js";
import { randomId } from "./dom.js";

/** The name of the lock and of the channel: a proxy may serve several servers at one origin. */
const NAME = `logue ${new URL(".", document.baseURI).pathname}`;
/** The time between two signs of life of the tab that is connected, in milliseconds. */
const BEAT = 5000;

export class EventStream {
  /** `onEvent` receives each event once and in order; `onState` receives whether it is connected. */
  constructor(id, after, { onEvent, onState, onGone }) {
    this.id = id;
    this.last = after;
    this.onEvent = onEvent;
    this.onState = onState;
    this.onGone = onGone;
    tabs.open(this);
  }

  close() {
    this.isClosed = true;
    tabs.close(this);
  }

  /** Takes the next event; an earlier one is known, and a later one causes a request for those before it. */
  take(id, event) {
    if (this.isClosed) return;
    if (event.type === "session.gone") {
      this.onGone();
      return;
    }
    if (event.type !== "reset") {
      const [next, last] = [numbers(id), numbers(this.last)];
      if (next.generation === last.generation && next.seq <= last.seq) return;
      if (next.generation === last.generation && next.seq > last.seq + 1 && this.missed !== this.last) {
        this.missed = this.last;
        tabs.ask();
        return;
      }
    }
    this.last = id;
    this.onEvent(event);
  }
}

/** This tab among those of the browser. */
class Tabs {
  constructor() {
    this.tab = randomId();
    this.stream = null;
    /** The sessions of other tabs, by their names. */
    this.others = new Map();
    /** The connection, if this tab is elected. */
    this.connection = null;
    this.candidacy = null;
    this.isConnected = null;
    this.heardAt = performance.now();
    this.canShare = "locks" in navigator && "BroadcastChannel" in window;
    document.addEventListener("visibilitychange", () => this.elect());
    if (!this.canShare) return;
    this.channel = new BroadcastChannel(NAME);
    this.channel.addEventListener("message", ({ data }) => this.receive(data));
    window.addEventListener("pagehide", () => {
      this.resign();
      this.channel.postMessage({ type: "leave", tab: this.tab });
    });
    window.addEventListener("pageshow", (event) => event.persisted && this.elect());
    setInterval(() => this.beat(), BEAT);
  }

  open(stream) {
    this.stream = stream;
    this.heardAt = performance.now();
    this.elect();
  }

  close(stream) {
    if (this.stream !== stream) return;
    this.stream = null;
    this.release(stream.id);
    this.channel?.postMessage({ type: "leave", tab: this.tab });
    // Another stream of this tab may follow at once.
    setTimeout(() => this.elect());
  }

  /** A visible tab with a session waits for the lock, and others leave it. */
  elect() {
    const isCandidate = !document.hidden && this.stream;
    if (!isCandidate) this.resign();
    this.ask();
    if (!isCandidate || this.candidacy) return;
    if (this.canShare) this.stand({});
    else this.lead({});
  }

  /** Asks the elected tab for the events after the last one. */
  ask() {
    if (!this.stream) return;
    const { id, last } = this.stream;
    if (this.connection) this.connection.follow(id, last);
    else this.channel?.postMessage({ type: "follow", tab: this.tab, session: id, after: last });
  }

  stand(options) {
    const abort = new AbortController();
    const candidacy = (this.candidacy = { abort, end: () => abort.abort() });
    // The lock of a tab that does not respond is taken without waiting, and so without a signal.
    const all = options.steal ? options : { signal: abort.signal };
    const held = navigator.locks.request(NAME, all, () => new Promise((resolve) => {
      if (this.candidacy !== candidacy) {
        resolve();
        return;
      }
      candidacy.end = resolve;
      this.lead(candidacy);
    }));
    held.catch(() => {
      if (this.candidacy !== candidacy) return;
      // Another tab has taken the lock.
      this.resign();
      this.elect();
    });
  }

  lead(candidacy) {
    this.candidacy = candidacy;
    this.others.clear();
    this.connection = new Connection({
      onEvent: (session, id, event) => {
        this.channel?.postMessage({ type: "event", session, id, event });
        this.deliver(session, id, event);
      },
      onState: (isConnected) => this.state(isConnected),
    });
    this.ask();
    this.channel?.postMessage({ type: "lead" });
  }

  resign() {
    const { candidacy, connection } = this;
    this.candidacy = null;
    this.connection = null;
    this.isConnected = null;
    connection?.close();
    candidacy?.end?.();
  }

  state(isConnected) {
    this.isConnected = isConnected;
    this.channel?.postMessage({ type: "state", isConnected });
    this.stream?.onState(isConnected);
  }

  deliver(session, id, event) {
    if (this.stream?.id === session) this.stream.take(id, event);
  }

  /** Stops following a session that no tab shows. */
  release(session) {
    const isShown = this.stream?.id === session || [...this.others.values()].includes(session);
    if (!isShown) this.connection?.unfollow(session);
  }

  receive(message) {
    if (message.type === "follow" || message.type === "leave") {
      if (this.connection) this.serve(message);
      return;
    }
    this.heardAt = performance.now();
    const isKnown = message.type === "state" && message.isConnected !== null;
    if (message.type === "lead") this.ask();
    if (message.type === "event") this.deliver(message.session, message.id, message.event);
    if (isKnown) this.stream?.onState(message.isConnected);
  }

  /** Follows the session of another tab. */
  serve({ type, tab, session, after }) {
    const earlier = this.others.get(tab);
    this.others.delete(tab);
    if (type === "follow") {
      this.others.set(tab, session);
      this.connection.follow(session, after);
      this.channel.postMessage({ type: "state", isConnected: this.isConnected });
    }
    if (earlier !== undefined && earlier !== session) this.release(earlier);
  }

  /** Shows that this tab is connected, or takes over from one that has shown nothing. */
  beat() {
    if (this.connection) {
      this.channel.postMessage({ type: "state", isConnected: this.isConnected });
      return;
    }
    if (!this.candidacy || performance.now() - this.heardAt < SILENCE) return;
    this.heardAt = performance.now();
    this.resign();
    this.stand({ steal: true });
  }
}

const tabs = new Tabs();
