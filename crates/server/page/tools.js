// Cards of tool calls, folded until a person opens them.

import { code } from "./nodes.js";
import { duration, el, exactText, icon } from "./dom.js";

/** The characters of a result that are shown first. */
const LONG = 50_000;

const STATES = {
  waiting: ["clock", "waits"],
  approval: ["shield", "needs approval"],
  running: [null, "running"],
  done: ["check", "done"],
  failed: ["warn", "failed"],
  denied: ["cross", "denied"],
};

/** Times of calls, which histories do not contain. */
const times = new Map();

/** A card of one call. */
export class ToolCard {
  constructor(call) {
    this.id = call.id;
    this.name = call.name;
    this.hasResult = false;
    /** Whether the result is that of the history; one of an event is received again with the history. */
    this.isStored = false;
    this.stateIcon = el("span", { class: "tool-state" });
    this.stateText = el("span", { class: "tool-time" });
    this.brief = el("span", { class: "tool-brief" });
    this.body = el("div", { class: "tool-body" });
    this.nested = el("div", { class: "tool-nested" });
    this.element = el("details", { class: "tool", "data-call": call.id },
      el("summary", {}, this.stateIcon, el("span", { class: "tool-name" }, exactText(call.name ?? "tool")), this.brief, this.stateText, icon("chevron")),
      this.body);
    this.element.addEventListener("toggle", () => this.fill());
    this.arguments = call.arguments;
    this.brief.append(...exactText(briefOf(call.arguments)));
    this.set("waiting");
  }

  /** Shows a state; `milliseconds` is the time that the call took. */
  set(state, milliseconds) {
    clearInterval(this.timer);
    this.state = state;
    const [name, text] = STATES[state];
    this.element.dataset.state = state;
    this.stateIcon.replaceChildren(name ? icon(name) : el("span", { class: "spinner" }));
    const took = milliseconds ?? times.get(this.id);
    if (milliseconds !== undefined) times.set(this.id, milliseconds);
    const isOver = state === "done" || state === "failed";
    this.stateText.textContent = isOver && took !== undefined ? (state === "done" ? duration(took) : `failed · ${duration(took)}`) : text;
    if (state === "running") {
      const begun = performance.now();
      this.timer = setInterval(() => {
        if (!this.element.isConnected) clearInterval(this.timer);
        this.stateText.textContent = duration(performance.now() - begun);
      }, 500);
    }
  }

  /** Adds the result. */
  finish(text, { ok = true, milliseconds, content } = {}) {
    this.hasResult = true;
    this.result = { text, content };
    const isDenied = /^\s*(A person denied|No decision about)/.test(text);
    this.set(isDenied ? "denied" : ok ? "done" : "failed", milliseconds);
    this.fill();
  }

  /** Adds a call that an agent made for this one. */
  nest(card) {
    if (!this.nested.isConnected) this.element.after(this.nested);
    this.nested.append(card.element);
  }

  fill() {
    if (!this.element.open) {
      this.body.replaceChildren();
      return;
    }
    const parts = [el("h4", {}, "Arguments"), code(argumentsText(this.arguments), "json")];
    if (this.result) {
      parts.push(el("h4", {}, "Result"));
      if (this.result.text) parts.push(output(this.result.text));
      parts.push(...pictures(this.result.content));
      if (!this.result.text && parts.length === 3) parts.push(el("p", { class: "muted" }, "No output"));
    }
    this.body.replaceChildren(...parts);
  }
}

/** Returns the text of a result; a long one is shown in parts, because its layout takes time. */
function output(text) {
  if (text.length <= LONG) return code(text, "");
  const box = el("div", {}, code(text.slice(0, LONG), "", text));
  const left = (text.length - LONG).toLocaleString("en");
  box.append(el("button", { type: "button", class: "link", onclick: () => box.replaceChildren(code(text, "")) }, `Show ${left} more characters`));
  return box;
}

/** Returns the arguments of a call as text. */
export function argumentsText(value) {
  if (typeof value !== "string") return JSON.stringify(value ?? {}, null, 2);
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

function briefOf(value) {
  let object = value;
  if (typeof value === "string") {
    try {
      object = JSON.parse(value);
    } catch {
      return value.slice(0, 100);
    }
  }
  if (!object || typeof object !== "object") return "";
  const values = Object.entries(object).map(([name, one]) => `${name}: ${typeof one === "string" ? one : JSON.stringify(one)}`);
  return values.join(", ").replaceAll("\n", " ").slice(0, 100);
}

/** Returns the pictures of a message's content. */
export function pictures(content) {
  if (!Array.isArray(content)) return [];
  return content.filter((block) => block.type === "image" || block.type === "image_url").map((block) => {
    const source = addressOf(block);
    if (/^data:image\/(png|jpeg|gif|webp);base64,/.test(source)) return el("img", { src: source, alt: "Image", loading: "lazy" });
    return el("span", { class: "muted" }, `Image: ${source.slice(0, 200)}`);
  });
}

function addressOf(block) {
  const source = block.source ?? block.image_url ?? {};
  if (typeof source === "string") return source;
  if (source.data) return `data:${source.media_type ?? block.media_type ?? "image/png"};base64,${source.data}`;
  return source.url ?? "";
}
