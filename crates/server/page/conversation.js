// The open session: its history, running turns, approvals, and their order on the page.

import { ApprovalCard } from "./approval.js";
import { begin, get, post, request, session } from "./api.js";
import { el, errorText, icon, iconButton, randomId, toast } from "./dom.js";
import { confirmed, dialog } from "./help.js";
import { LiveTurns } from "./live.js";
import { EventStream } from "./stream.js";
import { Transcript, textOf, titleOf } from "./transcript.js";

/** The distance to the end within which new text is followed, in pixels. */
const NEAR = 80;
/** The time after which a session that does not exist is read again, in milliseconds. */
const AGAIN = 2000;

export class Conversation {
  /** `isNew` is whether this page has begun the session, whose turn may have failed already. */
  constructor(id, me, listeners, isNew = false) {
    this.id = id;
    this.isNew = isNew;
    this.me = me;
    this.listeners = listeners;
    const actions = {
      canSend: () => me.scopes.includes("send"),
      fork: (position) => this.fork(position),
      edit: (item, text) => this.fork(item.position, text),
      rerun: (item) => this.rerun(item),
    };
    this.history = new Transcript(id, actions);
    this.history.isDebug = Boolean(me.debug_view && me.isDebugging);
    this.live = new LiveTurns(this.history, actions);
    this.approvals = new Map();
    this.waiting = el("div", { class: "approvals" });
    this.failure = el("div", { class: "failures" });
    this.announcer = el("div", { class: "off-screen", role: "status", "aria-live": "polite" });
    this.column = el("div", { class: "column", role: "log", "aria-live": "off", "aria-label": "Messages" }, this.history.list, this.live.element, this.failure, this.waiting);
    this.jump = el("button", { type: "button", class: "jump", hidden: true, onclick: () => this.toEnd() }, icon("down"), "Latest");
    this.scroller = el("div", { class: "scroller", tabIndex: 0, "aria-label": "Session", role: "region" }, this.column);
    this.element = el("div", { class: "conversation" }, this.scroller, this.jump, this.announcer);
    this.isFollowing = true;
    /** The end of the events that were received. */
    this.handled = Promise.resolve();
    /** Outcomes whose messages could not be read. */
    this.unread = [];
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
      this.scroller.addEventListener(kind, () => (this.movedAt = performance.now()), { passive: true });
    }
    this.sizes = new ResizeObserver(() => this.isFollowing && this.down());
    this.sizes.observe(this.column);
    this.sizes.observe(this.scroller);
  }

  /** Reads the session and follows its events. */
  async open() {
    let info;
    try {
      const shown = this.history.showEnd();
      [info] = await Promise.all([get(session(this.id)), shown]);
      // The messages may have been read before the session.
      await this.history.extend(info.messages);
    } catch (error) {
      if (this.isClosed) return;
      if (error instanceof TypeError || error.status >= 500) {
        this.listeners.onConnection(false);
        setTimeout(() => this.isClosed || this.open(), 500);
        return;
      }
      this.missing(error);
      return;
    }
    if (this.isClosed) return;
    if (this.isMissing) this.column.replaceChildren(this.history.list, this.live.element, this.failure, this.waiting);
    this.isMissing = false;
    this.unread = [];
    this.live.clear();
    this.showSignals(info.signals);
    this.titled();
    this.down();
    this.stream?.close();
    const after = this.isNew ? info.events_after.replace(/^\d+/, "0") : info.events_after;
    this.isNew = false;
    const stream = new EventStream(this.id, after, {
      // An event finds the history as its predecessors have left it.
      onEvent: (event) => (this.handled = this.handled.then(() => stream.isClosed || this.event(event)).catch(reportError)),
      onState: (isOpen) => this.connected(isOpen),
      onGone: () => this.listeners.onOpen(null),
    });
    this.stream = stream;
    this.running();
    this.element.dataset.ready = "true";
    performance.mark("readable");
  }

  /** Shows that the session does not exist, until another client begins it. */
  missing(error) {
    if (error.status === 404) setTimeout(() => this.isClosed || this.open(), AGAIN);
    if (this.isMissing) return;
    this.isMissing = true;
    const text = error.status === 404 ? "This session does not exist, or this login may not read it." : errorText(error);
    this.column.replaceChildren(el("div", { class: "failure quiet", role: "alert" }, icon("warn"), el("span", {}, text),
      el("button", { type: "button", onclick: () => this.listeners.onOpen(null) }, icon("plus"), "New session")));
  }

  connected(isOpen) {
    this.listeners.onConnection(isOpen);
    if (!isOpen) return;
    for (const event of this.unread.splice(0)) this.ended(event);
  }

  close() {
    this.isClosed = true;
    this.stream?.close();
    this.sizes.disconnect();
    for (const card of this.approvals.values()) card.remove();
  }

  async titled() {
    const own = this.history.items.find((item) => item.position === 0);
    const first = own ?? (await this.history.page(1, 1).catch(() => null))?.messages[0];
    if (!this.isClosed && first) this.listeners.onTitle(titleOf(first.message));
  }

  async event(event) {
    if (event.type === "reset") {
      this.open();
      return;
    }
    const isEnd = event.type === "turn.completed" || event.type === "turn.suspended" || event.type === "turn.failed";
    if (event.type === "turn.accepted") {
      this.failure.replaceChildren();
      this.announce("");
      if (this.history.total === 0 && event.message) this.listeners.onTitle(titleOf(event.message));
    }
    if (isEnd) await this.ended(event);
    else this.live.event(event);
    if (isEnd || event.type === "turn.accepted" || (event.type === "tool.started" && this.approvals.size)) {
      this.refreshSignals();
      this.listeners.onChange();
    }
    this.running();
    if (this.isFollowing) this.down();
  }

  /** Replaces what was shown of a turn by its messages in the history. */
  async ended(event) {
    const turn = this.live.turns.get(event.turn);
    if (turn) {
      turn.isOver = true;
      turn.status.hidden = true;
    }
    const isFirst = this.history.total === 0;
    try {
      await this.history.extend(event.to ?? this.history.total);
    } catch {
      // Without a connection what was shown stays until the next one.
      if (!this.isClosed) this.unread.push(event);
      return;
    }
    this.live.remove(event.turn);
    if (isFirst) this.titled();
    if (event.type === "turn.failed") this.failed(event, turn);
    this.announce({ "turn.completed": "The answer is complete", "turn.suspended": "A call needs approval. Alt A moves to it.", "turn.failed": "" }[event.type]);
    if (this.isFollowing) this.down();
  }

  /** Shows why a turn failed, and its message if the history does not contain it. */
  failed(event, turn) {
    const error = event.error ?? {};
    const isCancelled = error.code === "turn_cancelled";
    const text = isCancelled ? "Stopped" : errorText({ message: error.message ?? "the turn failed" });
    const isKept = !turn?.text || this.history.items.some((item) => item.position >= turn.from && item.message.role === "user");
    const maySend = this.me.scopes.includes("send");
    this.failure.replaceChildren(
      ...(isKept ? [] : [el("article", { class: "message user lost", "aria-label": "You" }, el("div", { class: "bubble", dir: "auto" }, turn.text))]),
      el("div", { class: isCancelled ? "failure quiet" : "failure", role: "alert" }, icon(isCancelled ? "stop" : "warn"),
        el("span", {}, isKept ? text : `${text}. The message is not part of the session.`, !isCancelled && error.code && el("code", {}, error.code)),
        maySend && error.resumable && el("button", { type: "button", onclick: () => this.retry() }, icon("rerun"), "Try again"),
        maySend && !isKept && el("button", { type: "button", onclick: () => {
          this.failure.replaceChildren();
          this.listeners.onDraft(turn.text);
        } }, icon("edit"), "Edit and send again")));
  }

  announce(text) {
    this.announcer.textContent = text;
  }

  running() {
    this.listeners.onRunning(this.live.isRunning);
  }

  refreshSignals() {
    clearTimeout(this.signalTimer);
    this.signalTimer = setTimeout(async () => {
      const info = await get(session(this.id)).catch(() => null);
      if (info && !this.isClosed) this.showSignals(info.signals);
    }, 30);
  }

  async showSignals(signals) {
    const ids = new Set(signals.map((signal) => signal.signal_id));
    for (const [id, card] of this.approvals) {
      if (ids.has(id)) continue;
      // The focus does not get lost with the card.
      const hadFocus = card.element.contains(document.activeElement);
      card.remove();
      this.approvals.delete(id);
      if (hadFocus) this.scroller.focus({ preventScroll: true, focusVisible: false });
    }
    for (const signal of signals) {
      for (const call of signal.calls ?? []) this.history.cards.get(call.id)?.set("approval");
      if (this.approvals.has(signal.signal_id)) continue;
      const card = new ApprovalCard(signal, this.me.scopes.includes("approve"));
      this.approvals.set(signal.signal_id, card);
      this.waiting.append(card.element);
      this.announce("A call needs approval. Alt A moves to it.");
    }
    if (this.isFollowing) this.down();
  }

  focusApproval() {
    const card = this.approvals.values().next().value;
    card?.element.scrollIntoView({ block: "nearest" });
    card?.element.focus();
  }

  down() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.lastTop = this.scroller.scrollTop;
    this.lastHeight = this.scroller.scrollHeight;
  }

  async toEnd() {
    if (!this.history.isAtEnd) await this.history.showEnd();
    this.isFollowing = true;
    this.live.element.hidden = false;
    this.down();
  }

  /** Loads messages near the ends of the window, and keeps the place of what is shown. */
  async scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const left = scrollHeight - scrollTop - clientHeight;
    // Content that grows or shrinks moves the end away; a person who reads moves up.
    const isMoved = scrollHeight === this.lastHeight || performance.now() - (this.movedAt ?? -Infinity) < 500;
    if (left < NEAR && this.history.isAtEnd) this.isFollowing = true;
    else if (left >= NEAR && scrollTop < this.lastTop - 1 && isMoved) this.isFollowing = false;
    this.lastTop = scrollTop;
    this.lastHeight = scrollHeight;
    this.jump.hidden = left < 400 && this.history.isAtEnd;
    if (this.isLoading) return;
    const isTop = scrollTop < 600 && this.history.start > 0;
    const isBottom = left < 600 && !this.history.isAtEnd;
    if (!isTop && !isBottom) return;
    this.isLoading = true;
    const anchor = this.anchor();
    await (isTop ? this.history.older() : this.history.newer()).catch(() => {});
    this.live.element.hidden = !this.history.isAtEnd;
    if (anchor?.element.isConnected) this.scroller.scrollTop += anchor.element.getBoundingClientRect().top - anchor.top;
    this.isLoading = false;
  }

  /** Returns an element that is visible, with its place. */
  anchor() {
    const top = this.scroller.getBoundingClientRect().top;
    for (const element of this.history.list.children) {
      const box = element.getBoundingClientRect();
      if (box.bottom > top) return { element, top: box.top };
    }
    return null;
  }

  /** Sends a message; it is accepted once, however often the connection fails. */
  static send(id, text, agent, onWait) {
    const body = agent ? { message: text, agent } : { message: text };
    return begin(session(id, "/send"), body, { key: randomId(), onWait });
  }

  async send(text) {
    this.isFollowing = true;
    if (!this.history.isAtEnd) await this.toEnd();
    await Conversation.send(this.id, text, undefined, () => this.listeners.onConnection(false));
  }

  async cancel() {
    await post(session(this.id, "/cancel"), {}).catch((error) => toast(errorText(error), "bad"));
  }

  async retry() {
    this.failure.replaceChildren();
    await begin(session(this.id, "/retry"), {}).catch((error) => toast(errorText(error), "bad"));
  }

  /** Copies the session up to a position, and opens the copy. */
  async fork(position, draft) {
    try {
      const copy = await post(session(this.id, "/fork"), { messages: position });
      this.listeners.onOpen(copy.session, draft);
      toast("A copy of the session was opened");
    } catch (error) {
      toast(errorText(error), "bad");
    }
  }

  async rerun(item) {
    try {
      const copy = await post(session(this.id, "/fork"), { messages: item.position });
      await begin(session(copy.session, "/send"), { message: item.message }, { key: randomId() });
      this.listeners.onOpen(copy.session);
    } catch (error) {
      toast(errorText(error), "bad");
    }
  }

  async remove() {
    const isSure = await confirmed("Delete this session?", "Its messages are removed from the server. Copies of it stay.", "Delete");
    if (!isSure) return;
    try {
      await request("DELETE", session(this.id));
      this.listeners.onOpen(null);
      this.listeners.onChange();
    } catch (error) {
      toast(errorText(error), "bad");
    }
  }

  /** Offers the forms in which the session is saved as a file. */
  export() {
    const save = (form) => el("button", { type: "button", "data-form": form, onclick: () => {
      const link = el("a", { href: new URL(`v1/${session(this.id, `/export?form=${form}`)}`, new URL(".", document.baseURI)).href, download: "" });
      document.body.append(link);
      link.click();
      link.remove();
    } });
    const forms = [["chatmd", "ChatMD"], ["openchatml", "OpenChatML"], ["json", "JSON"]];
    dialog("Save the session", el("p", { class: "muted" }, "The visible messages, as a file that other programs continue."),
      el("div", { class: "buttons" }, forms.map(([form, name]) => {
        const button = save(form);
        button.append(icon("export"), name);
        return button;
      })));
  }

  /** Returns the switch of the debug view. */
  debugSwitch() {
    const button = iconButton("eye", "Show hidden messages", async () => {
      this.me.isDebugging = !this.me.isDebugging;
      this.history.isDebug = this.me.isDebugging;
      show();
      await this.history.showEnd().catch((error) => toast(errorText(error), "bad"));
      this.refreshSignals();
      this.down();
    }, { class: "icon-button debug-switch" });
    const show = () => {
      button.setAttribute("aria-pressed", String(Boolean(this.me.isDebugging)));
      this.element.classList.toggle("debugging", Boolean(this.me.isDebugging));
    };
    show();
    return button;
  }

  /** Returns the buttons of the session. */
  tools() {
    const save = iconButton("export", "Save the session as a file", () => this.export());
    const first = this.me.debug_view ? [this.debugSwitch(), save] : [save];
    if (!this.me.scopes.includes("send")) return first;
    return [
      ...first,
      iconButton("fork", "Continue in a copy of the session", () => this.fork(this.history.total)),
      iconButton("trash", "Delete the session", () => this.remove()),
    ];
  }
}
