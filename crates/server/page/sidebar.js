// The list of sessions with its search.

import { get } from "./api.js";
import { age, el, errorText, icon, iconButton } from "./dom.js";

/** The number of sessions that are listed first, and that are added at once. */
const PAGE = 100;
/** The most sessions of the list. */
const MOST = 1000;

export class Sidebar {
  /** `onOpen` receives the id of a selected session; null begins a new one. */
  constructor({ onOpen, onClose }) {
    this.onOpen = onOpen;
    this.selected = null;
    this.names = new Map();
    this.search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search sessions", autocomplete: "off", spellcheck: false, maxLength: 200,
      oninput: () => this.later(180) });
    this.list = el("ul", { class: "session-list" });
    this.note = el("p", { class: "muted session-note", role: "status" });
    this.limit = PAGE;
    this.more = el("button", { type: "button", class: "link more", hidden: true, onclick: () => {
      this.limit = Math.min(this.limit + PAGE, MOST);
      this.later(0);
    } }, icon("down"), "Older sessions");
    this.foot = el("div", { class: "sidebar-foot" });
    this.element = el("aside", { class: "sidebar", "aria-label": "Sessions" },
      el("header", {},
        el("span", { class: "brand" }, el("img", { src: "page/icon.svg", alt: "", width: 26, height: 26 }), "Logue"),
        iconButton("close", "Close the list", onClose, { class: "icon-button only-phone" })),
      el("button", { type: "button", class: "new-session", onclick: () => onOpen(null) }, icon("plus"), "New session", el("kbd", {}, "Alt N")),
      el("div", { class: "search" }, icon("search"), this.search, el("kbd", {}, "Ctrl K")),
      el("nav", { "aria-label": "Sessions" }, this.list, this.more, this.note),
      this.foot);
    this.list.addEventListener("keydown", (event) => this.move(event));
  }

  /** Reads the list again, soon. */
  later(milliseconds = 100) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), milliseconds);
  }

  async refresh() {
    const words = this.search.value.trim();
    const query = words ? `&search=${encodeURIComponent(words)}` : "";
    const number = (this.number = (this.number ?? 0) + 1);
    try {
      const [listed, waiting] = await Promise.all([get(`sessions?titles=true&limit=${this.limit}${query}`), get("signals")]);
      if (number !== this.number) return;
      this.sessions = listed.sessions;
      this.show(listed, new Set(waiting.signals.map((signal) => signal.session)));
    } catch (error) {
      if (number === this.number && error.status !== 401) this.note.textContent = error.status ? errorText(error) : "The server cannot be reached. Trying again…";
    }
  }

  /** Sets the title of a session whose first message is not stored yet. */
  name(id, title) {
    if (this.names.get(id) === title) return;
    this.names.set(id, title);
    if (this.sessions?.some((session) => session.session === id && !session.title)) this.later(0);
  }

  select(id) {
    this.selected = id;
    for (const item of this.list.children) mark(item.firstChild, item.firstChild.dataset.session === id);
  }

  show(listed, waiting) {
    const shown = JSON.stringify([listed, [...waiting], listed.sessions.map((session) => [age(session.updated_at), this.titleOf(session)])]);
    // A list that did not change keeps its elements, and the place of a pointer.
    if (shown === this.shown && this.list.children.length === listed.sessions.length) {
      this.noted(listed);
      return;
    }
    this.shown = shown;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.session : null;
    const agents = new Set(listed.sessions.map((session) => session.agent));
    this.list.replaceChildren(...listed.sessions.map((session) => this.entry(session, waiting, agents.size > 1)));
    this.select(this.selected);
    if (focused) this.list.querySelector(`[data-session="${CSS.escape(focused)}"]`)?.focus();
    this.noted(listed);
  }

  noted(listed) {
    const isWhole = this.limit === MOST;
    this.more.hidden = !listed.has_more || isWhole;
    let note = listed.has_more && isWhole ? "Older sessions are found by search" : "";
    if (listed.sessions.length === 0) note = this.search.value ? "Nothing found. A session is found if one of its messages contains all words." : "No sessions yet";
    if (listed.search_cut) note = `${note} Older messages were not searched.`.trim();
    if (this.note.textContent !== note) this.note.textContent = note;
  }

  titleOf({ session, title }) {
    if (title) return title;
    return this.names.get(session) ?? (/^[0-9a-f]{32}$/.test(session) ? "New session" : session);
  }

  entry(session, waiting, hasAgents) {
    const isWaiting = waiting.has(session.session);
    const isRunning = session.pending > 0;
    const state = isWaiting ? "needs approval" : isRunning ? "running" : "";
    return el("li", {}, el("a", { href: `#/${encodeURIComponent(session.session)}`, class: "session", "data-session": session.session,
      onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        this.onOpen(session.session);
      } },
      el("span", { class: "session-title", dir: "auto" }, this.titleOf(session)),
      el("span", { class: "session-meta" },
        state && el("span", { class: `badge ${isWaiting ? "waits" : "running"}` }, state),
        hasAgents && el("span", { class: "agent" }, session.agent),
        el("span", {}, age(session.updated_at))),
      session.excerpt && el("span", { class: "excerpt", dir: "auto" }, session.excerpt)));
  }

  /** Moves the focus in the list by arrow keys. */
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const item = event.target.closest("li");
    if (!step || !item) return;
    event.preventDefault();
    const next = step > 0 ? item.nextElementSibling : item.previousElementSibling;
    (next?.firstChild ?? this.search).focus();
  }

  /** Opens the next or previous session. */
  step(by) {
    const all = (this.sessions ?? []).map((session) => session.session);
    const next = all[all.indexOf(this.selected) + by];
    if (next) this.onOpen(next);
  }
}

function mark(link, isSelected) {
  if (isSelected) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}
