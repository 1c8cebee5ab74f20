// Turns that have not ended, from their events.

import { post } from "./api.js";
import { el } from "./dom.js";
import { render } from "./nodes.js";
import { ToolCard, pictures } from "./tools.js";
import { assistant, textOf } from "./transcript.js";

/** The time between two renderings of an answer that arrives, in milliseconds. */
const INTERVAL = 120;

export class LiveTurns {
  /** `history` is the transcript, whose cards show calls that continue. */
  constructor(history, actions) {
    this.history = history;
    this.actions = actions;
    this.turns = new Map();
    this.element = el("div", { class: "live" });
  }

  get isRunning() {
    return [...this.turns.values()].some((turn) => !turn.isOver);
  }

  clear() {
    for (const turn of this.turns.values()) turn.answer?.stop();
    this.turns.clear();
    this.element.replaceChildren();
  }

  /** Removes the elements of a turn that is in the history. */
  remove(entry) {
    const turn = this.turns.get(entry);
    turn?.answer?.stop();
    turn?.element.remove();
    this.turns.delete(entry);
  }

  turn(entry) {
    let turn = this.turns.get(entry);
    if (!turn) {
      const status = el("div", { class: "thinking" }, el("span", { class: "dots", "aria-hidden": "true" }, el("i"), el("i"), el("i")), el("span", { class: "thinking-text" }, "Queued"));
      turn = { entry, cards: new Map(), status, element: el("section", { class: "turn" }, status) };
      this.turns.set(entry, turn);
      this.element.append(turn.element);
    }
    return turn;
  }

  event(event) {
    const turn = this.turn(event.turn);
    const say = (text) => {
      turn.status.lastChild.textContent = text;
      turn.status.hidden = text === "";
    };
    switch (event.type) {
      case "turn.accepted":
        turn.from = this.history.total;
        if (event.message) {
          turn.text = textOf(event.message);
          turn.status.before(el("article", { class: "message user", "aria-label": "You" }, el("div", { class: "bubble", dir: "auto" }, turn.text, pictures(event.message.content))));
        }
        say("Waiting for the model");
        break;
      case "turn.recovered":
        this.drop(turn);
        say("Continuing after a restart");
        break;
      case "answer.started":
        this.drop(turn);
        say("Waiting for the model");
        break;
      case "answer.thinking":
        say("Thinking");
        break;
      case "answer.delta":
        say("");
        if (!turn.answer) {
          turn.answer = new StreamedAnswer();
          turn.status.before(turn.answer.element);
        }
        turn.answer.add(event.text);
        break;
      case "answer.calling":
        say(`Preparing ${event.name}`);
        break;
      case "answer.withdrawn":
        this.drop(turn);
        say(event.wait_seconds ? `Trying again in ${Math.ceil(event.wait_seconds)} s` : "Asking again");
        break;
      case "answer.completed":
        this.completed(turn, event.message);
        say(event.message.tool_calls?.length ? "Running tools" : "");
        break;
      case "tool.started":
        this.started(turn, event);
        say("");
        break;
      case "tool.ended":
        if (event.interrupted) this.card(turn, event.call_id)?.finish("interrupted", { ok: false });
        else this.card(turn, event.call_id)?.finish(event.text ?? "", { ok: event.ok, milliseconds: event.milliseconds });
        say("Waiting for the model");
        break;
      default:
    }
  }

  /** Removes an answer that will not be completed. */
  drop(turn) {
    turn.answer?.stop();
    turn.answer?.element.remove();
    turn.answer = null;
  }

  completed(turn, message) {
    const own = turn.answer;
    const element = assistant({ message }, turn.cards, this.actions);
    // The Markdown that is shown stays until the history replaces it.
    const shown = own?.finish(textOf(message));
    if (shown) element.firstElementChild?.replaceWith(shown);
    if (own) own.element.replaceWith(element);
    else turn.status.before(element);
    turn.answer = null;
  }

  card(turn, id) {
    return turn.cards.get(id) ?? this.history.cards.get(id);
  }

  started(turn, event) {
    let card = event.agent ? null : this.card(turn, event.call_id);
    if (!card || card.hasResult) {
      card = new ToolCard({ id: event.call_id, name: event.name, arguments: event.arguments });
      turn.cards.set(event.call_id, card);
      const parent = event.agent && this.card(turn, event.agent.call_id);
      if (parent) parent.nest(card);
      else turn.status.before(card.element);
    }
    card.set("running");
  }
}

/**
 * An answer that arrives: text at once, and Markdown soon after it.
 *
 * Finished blocks are rendered once, so that the work does not grow with the answer.
 */
class StreamedAnswer {
  constructor() {
    this.prose = el("div", { class: "prose streaming", dir: "auto" });
    this.tail = el("div", { class: "tail" });
    this.prose.append(this.tail);
    this.element = el("article", { class: "message assistant", "aria-label": "Answer", "aria-busy": "true" }, this.prose);
    this.text = "";
    this.settled = 0;
    this.isStopped = false;
  }

  add(text) {
    this.text += text;
    if (this.tail.dataset.plain !== "no") this.tail.textContent = this.text.slice(this.settled);
    if (!this.timer) this.timer = setTimeout(() => this.render(), INTERVAL);
  }

  async render() {
    const to = blocksEnd(this.text, this.settled);
    const from = this.settled;
    const until = this.text.length;
    try {
      const [done, rest] = await Promise.all([nodes(this.text.slice(from, to)), nodes(this.text.slice(to, until))]);
      if (this.isStopped) return;
      this.tail.before(...render(done));
      this.settled = to;
      this.tail.dataset.plain = "no";
      this.tail.replaceChildren(...render(rest));
    } catch {
      this.tail.dataset.plain = "";
      this.tail.textContent = this.text.slice(this.settled);
    }
    this.timer = null;
    if (!this.isStopped && this.text.length > until) this.timer = setTimeout(() => this.render(), INTERVAL);
  }

  stop() {
    this.isStopped = true;
    clearTimeout(this.timer);
  }

  /** Ends the answer and returns its element with the Markdown of the whole text. */
  finish(text) {
    this.stop();
    if (!text) return null;
    this.prose.classList.remove("streaming");
    nodes(text).then((all) => this.prose.replaceChildren(...render(all))).catch(() => {});
    if (this.tail.dataset.plain !== "no") this.tail.textContent = text.slice(this.settled);
    return this.prose;
  }
}

async function nodes(text) {
  return text.trim() ? (await post("markdown", { text })).nodes : [];
}

/** Returns the end of the blocks that later text does not change. */
function blocksEnd(text, from) {
  let isFenced = false;
  let end = from;
  let at = from;
  for (const line of text.slice(from).split("\n")) {
    if (/^\s*(```|~~~)/.test(line)) isFenced = !isFenced;
    const next = at + line.length + 1;
    // The next line begins a paragraph or a heading, not a part of a list, a table or a quotation.
    if (line === "" && !isFenced && /^[A-Za-z#]/.test(text.slice(next, next + 1))) end = next;
    at = next;
  }
  return Math.min(end, text.length);
}
