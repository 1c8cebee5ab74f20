// The history of a session: a window of its messages, which moves when a person scrolls.

import { get, session } from "./api.js";
import { copyText, el, exactText, icon, iconButton } from "./dom.js";
import { render } from "./nodes.js";
import { ToolCard, pictures } from "./tools.js";

/** The number of messages that are loaded at once. */
const PAGE = 60;
/** The number of messages that are shown first. */
const FIRST = 24;
/** The most messages that have elements. */
const MOST = 180;
/** The name of the author of messages that only list pending calls. */
const APPROVAL = "logue-approval";

export class Transcript {
  /** `actions` has what a person may do with a message: `fork(position)` and `edit(item)`. */
  constructor(id, actions) {
    this.id = id;
    this.actions = actions;
    /** Whether hidden messages are shown, which the server allows some logins. */
    this.isDebug = false;
    this.items = [];
    this.start = 0;
    this.end = 0;
    this.total = 0;
    this.cards = new Map();
    this.list = el("div", { class: "messages" });
    this.queue = Promise.resolve();
  }

  /** Whether the window contains the last message. */
  get isAtEnd() {
    return this.end >= this.total;
  }

  /** Shows the last messages; earlier ones are loaded when they are near. */
  showEnd() {
    return this.enqueue(async () => this.replace(await this.page(undefined, FIRST)));
  }

  /** Adds messages up to a position of the history. */
  extend(to) {
    return this.enqueue(async () => {
      if (!this.isAtEnd || to <= this.end) {
        this.total = Math.max(this.total, to);
        return;
      }
      if (to - this.end > MOST) {
        this.replace(await this.page(to));
        return;
      }
      while (this.end < to) {
        const end = this.end;
        await this.append(Math.min(to, end + PAGE));
        if (this.end <= end) return;
      }
      this.trimTop();
    });
  }

  older() {
    return this.enqueue(async () => {
      if (this.start === 0) return false;
      const page = await this.page(this.start, Math.min(PAGE, this.start));
      this.prepend(page);
      while (this.items.length > MOST) this.remove(this.items.pop());
      this.end = this.items.length ? this.items.at(-1).position + 1 : this.end;
      return true;
    });
  }

  newer() {
    return this.enqueue(async () => {
      if (this.isAtEnd) return false;
      await this.append(Math.min(this.total, this.end + PAGE));
      this.trimTop();
      return true;
    });
  }

  /** Adds the messages up to a position, and removes the part of an answer that the next one replaces. */
  async append(to) {
    const last = this.items.at(-1);
    const isPart = last?.message.status === "interrupted" && last.position === this.end - 1;
    const from = isPart ? last.position : this.end;
    const page = await this.page(to, to - from);
    if (isPart && page.from === from && page.messages[0]?.position !== from) this.remove(this.items.pop());
    this.add(page);
  }

  enqueue(work) {
    const done = this.queue.then(work);
    this.queue = done.catch(() => {});
    return done;
  }

  page(before, limit = PAGE) {
    const view = this.isDebug ? "&view=debug" : "";
    const end = before === undefined ? "" : `&before=${before}`;
    return get(session(this.id, `/messages?form=nodes&limit=${limit}${end}${view}`));
  }

  replace(page) {
    this.items = [];
    this.cards.clear();
    this.list.replaceChildren();
    this.start = page.from;
    this.end = page.from;
    this.total = page.to;
    this.add(page);
  }

  add(page) {
    for (const item of page.messages) {
      if (item.position < this.end) continue;
      this.items.push(item);
      item.element = this.build(item, this.cards);
      if (item.element) this.list.append(item.element);
    }
    this.end = Math.max(this.end, page.to);
    this.total = Math.max(this.total, this.end);
  }

  prepend(page) {
    const cards = new Map();
    const elements = [];
    for (const item of page.messages) {
      item.element = this.build(item, cards);
      if (item.element) elements.push(item.element);
    }
    // Results whose calls were not loaded have cards of their own.
    for (const item of this.items) {
      if (item.message.role !== "tool") break;
      const card = cards.get(item.message.tool_call_id);
      if (card && !card.hasResult) {
        item.element?.remove();
        item.element = null;
        this.result(card, item);
      }
    }
    this.list.prepend(...elements);
    this.items.unshift(...page.messages);
    this.start = page.from;
    for (const [id, card] of cards) if (!this.cards.has(id)) this.cards.set(id, card);
  }

  trimTop() {
    while (this.items.length > MOST) this.remove(this.items.shift());
    if (this.items.length) this.start = this.items[0].position;
  }

  remove(item) {
    item.element?.remove();
    for (const call of item.message.tool_calls ?? []) this.cards.delete(call.id);
  }

  build(item, cards) {
    const { message } = item;
    if (message.name === APPROVAL) return null;
    if (message.role === "system") return hiddenPart(message.authority ?? "system", textOf(message), "article");
    if (message.role === "user") return this.user(item);
    if (message.role === "tool") {
      let card = cards.get(message.tool_call_id);
      const isNew = !card || card.isStored;
      if (isNew) card = new ToolCard({ id: message.tool_call_id, name: message.name ?? "tool", arguments: {} });
      this.result(card, item);
      return isNew ? card.element : null;
    }
    return assistant(item, cards, this.actions);
  }

  result(card, item) {
    const text = textOf(item.message);
    card.isStored = true;
    card.finish(text, { ok: !isFailure(item.message, text), content: item.message.content, milliseconds: item.milliseconds });
  }

  user(item) {
    const text = textOf(item.message);
    return el("article", { class: "message user", "aria-label": "You", "data-position": String(item.position) },
      el("div", { class: "bubble", dir: "auto" }, text, pictures(item.message.content)),
      this.actions.canSend() && el("div", { class: "actions" },
        iconButton("copy", "Copy message", () => copyText(text)),
        iconButton("edit", "Edit in a copy of the session", () => this.actions.edit(item, text)),
        iconButton("rerun", "Run again in a copy of the session", () => this.actions.rerun(item))));
  }
}

/** Creates the element of an answer, and the cards of its calls. */
export function assistant(item, cards, actions) {
  const text = textOf(item.message);
  const parts = reasoningOf(item.message).map((thought) => hiddenPart("reasoning", thought, "div"));
  if (text) parts.push(el("div", { class: "prose", dir: "auto" }, item.nodes ? render(item.nodes) : el("p", { class: "plain" }, text)));
  for (const call of item.message.tool_calls ?? []) {
    const card = new ToolCard(call);
    cards.set(call.id, card);
    parts.push(card.element);
  }
  const isInterrupted = item.message.status === "interrupted";
  if (isInterrupted) parts.push(el("p", { class: "interrupted" }, icon("stop"), "Interrupted: this answer is incomplete"));
  const isAnswer = text && !(item.message.tool_calls ?? []).length && item.position !== undefined;
  if (isAnswer) {
    parts.push(el("div", { class: "actions" },
      iconButton("copy", "Copy answer", () => copyText(text)),
      actions.canSend() && iconButton("fork", "Continue from here in a copy of the session", () => actions.fork(item.position + 1))));
  }
  return el("article", { class: "message assistant", "aria-label": isInterrupted ? "Interrupted answer" : "Answer" }, parts);
}

/** Returns the text of a message. */
export function textOf(message) {
  if (typeof message.content === "string") return message.content;
  return (message.content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");
}

/** Returns the first line of a message as the title of its session: of its last text, which follows instructions. */
export function titleOf(message) {
  const blocks = Array.isArray(message.content) ? message.content.filter((block) => block.type === "text" && block.text.trim()) : [];
  const text = blocks.at(-1)?.text ?? textOf(message);
  return text.split("\n").find((line) => line.trim())?.trim().slice(0, 90) ?? "";
}

/** Returns the reasoning of a message; only the debug view contains any. */
function reasoningOf(message) {
  if (!Array.isArray(message.content)) return [];
  const blocks = message.content.filter((block) => block.type === "thinking" || block.type === "redacted_thinking");
  return blocks.map((block) => block.text || "Only the provider can read this reasoning.");
}

/** Creates the element of something that other readers do not receive. */
function hiddenPart(kind, text, tag) {
  return el(tag, { class: "hidden-part", "aria-label": `Hidden: ${kind}` },
    el("p", { class: "hidden-label" }, icon("eye"), `Hidden · ${kind}`), el("div", { class: "hidden-text", dir: "auto" }, exactText(text)));
}

function isFailure(message, text) {
  return Boolean(message.is_error) || /^\s*(E-[A-Z-]+:|A person denied|No decision about)/.test(text) || /\[exit status [1-9]\d*\]\s*$/.test(text);
}
