// The field for messages.

import { el, icon } from "./dom.js";

export class Composer {
  /** `onSend` receives a text and returns whether it was taken; `onStop` ends the running turn. */
  constructor({ onSend, onStop }) {
    this.drafts = new Map();
    this.key = "";
    this.field = el("textarea", { rows: 1, placeholder: "Message", "aria-label": "Message", dir: "auto", enterKeyHint: "send",
      oninput: () => this.resize(), onkeydown: (event) => this.pressed(event) });
    this.agent = el("select", { "aria-label": "Agent", hidden: true });
    this.sendButton = el("button", { type: "submit", class: "send", "aria-label": "Send", title: "Send (Enter)", disabled: true }, icon("send"));
    this.stopButton = el("button", { type: "button", class: "send stop", "aria-label": "Stop the answer", title: "Stop the answer (Escape)", hidden: true, onclick: onStop }, icon("stop"));
    this.element = el("form", { class: "composer", "aria-label": "Message" },
      el("div", { class: "composer-box" }, this.field, el("div", { class: "composer-row" }, this.agent, el("span", { class: "hint" }, "Enter to send, Shift+Enter for a new line"), this.stopButton, this.sendButton)));
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(onSend);
    });
  }

  pressed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.element.requestSubmit();
  }

  async submit(onSend) {
    const text = this.field.value;
    if (!text.trim() || this.isSending) return;
    this.isSending = true;
    this.set("");
    const isTaken = await onSend(text, this.agent.value);
    this.isSending = false;
    // A refused text is not lost.
    if (!isTaken && !this.field.value) this.set(text);
    this.resize();
  }

  /** Shows the draft of a session, and keeps that of the previous one. */
  open(key) {
    this.drafts.set(this.key, this.field.value);
    this.key = key;
    this.set(this.drafts.get(key) ?? "");
  }

  set(text) {
    this.field.value = text;
    this.resize();
  }

  /** Puts a text before what is being written, to send it again. */
  draft(text) {
    this.set([text, this.field.value].filter(Boolean).join("\n"));
    this.field.focus();
  }

  resize() {
    this.sendButton.disabled = this.field.value.trim() === "";
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, 240)}px`;
  }

  /** Shows the choice of agents for a new session. */
  offer(agents) {
    const chosen = this.agent.value;
    this.agent.replaceChildren(...agents.map((agent) => el("option", { value: agent.name }, agent.title)));
    if (agents.some((agent) => agent.name === chosen)) this.agent.value = chosen;
    this.agent.hidden = agents.length < 2;
  }

  running(isRunning) {
    this.stopButton.hidden = !isRunning;
  }
}
