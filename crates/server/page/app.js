// The page: its layout, its login, and the open session.

import { get, request, whenUnauthorized } from "./api.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { el, errorText, icon, iconButton, randomId, toast } from "./dom.js";
import { loginForm } from "./login.js";
import { helpDialog } from "./help.js";
import { Sidebar } from "./sidebar.js";

let me;
let app;

class App {
  constructor() {
    this.agents = [];
    this.sidebar = new Sidebar({ onOpen: (id) => this.open(id), onClose: () => this.drawer(false) });
    this.composer = new Composer({ onSend: (text, agent) => this.send(text, agent), onStop: () => this.conversation?.cancel() });
    this.title = el("h1", { class: "title", dir: "auto" });
    this.state = el("span", { class: "connection", role: "status" });
    this.tools = el("div", { class: "head-tools" });
    this.stage = el("div", { class: "stage" });
    this.main = el("main", {},
      el("header", { class: "head" }, iconButton("menu", "Sessions", () => this.drawer(true), { class: "icon-button only-phone" }), this.title, this.state, this.tools),
      this.stage, me.scopes.includes("send") && this.composer.element);
    this.shade = el("div", { class: "shade", onclick: () => this.drawer(false) });
    document.body.replaceChildren(el("a", { class: "skip", href: "#composer", onclick: (event) => { event.preventDefault(); this.composer.field.focus(); } }, "Skip to the message"), this.sidebar.element, this.shade, this.main);
    this.foot();
    this.listen = new AbortController();
    const options = { signal: this.listen.signal };
    window.addEventListener("hashchange", () => this.route(), options);
    document.addEventListener("keydown", (event) => this.key(event), options);
    document.addEventListener("visibilitychange", () => document.hidden || this.sidebar.later(0), options);
    this.poll = setInterval(() => document.hidden || this.sidebar.later(0), 5000);
  }

  async start() {
    // A session is readable before the lists are.
    this.route();
    const agents = get("agents");
    await this.conversation?.isRead;
    this.sidebar.later(0);
    this.agents = (await agents).agents;
    this.composer.offer(this.agents);
    if (this.conversation) this.composer.agent.hidden = true;
    else this.welcome();
  }

  stop() {
    this.listen.abort();
    clearInterval(this.poll);
    this.conversation?.close();
  }

  foot() {
    const parts = [iconButton("keyboard", "Keyboard shortcuts (?)", () => helpDialog())];
    if (me.token) {
      parts.unshift(el("span", { class: "muted grow", title: `Scopes: ${me.scopes.join(", ")}` }, me.token));
      parts.push(iconButton("logout", "Log out", async () => {
        await request("POST", "logout", { body: {} });
        boot();
      }));
    } else parts.unshift(el("span", { class: "muted grow" }, "On this machine"));
    this.sidebar.foot.append(...parts);
  }

  drawer(isOpen) {
    document.body.classList.toggle("drawer", isOpen);
    if (isOpen) this.sidebar.search.focus({ preventScroll: true });
  }

  open(id) {
    this.drawer(false);
    const hash = id ? `#/${encodeURIComponent(id)}` : "#/";
    if (location.hash === hash) this.route();
    else location.hash = hash;
  }

  route() {
    const id = idOf(location.hash);
    if (this.conversation?.id === id && id) return;
    this.conversation?.close();
    this.conversation = null;
    this.sidebar.select(id || null);
    this.tools.replaceChildren();
    this.connected(true);
    this.composer.running(false);
    // The requests of a session begin before its layout.
    if (id) this.show(id);
    else this.welcome();
    this.composer.open(id);
    if (matchMedia("(min-width: 761px)").matches) this.composer.field.focus({ preventScroll: true });
  }

  welcome() {
    this.retitle("");
    this.composer.offer(this.agents);
    const only = this.agents.length === 1 ? this.agents[0].title : null;
    this.stage.replaceChildren(el("div", { class: "welcome" },
      el("img", { src: "page/icon.svg", alt: "", width: 56, height: 56 }),
      el("h2", {}, only ? `Chat with ${only}` : "What can I do for you?"),
      el("p", { class: "muted" }, me.scopes.includes("send") ? "Write a message below to begin a session." : "This login may read sessions. Open one in the list."),
      me.scopes.includes("send") && el("ul", { class: "welcome-help" },
        el("li", {}, icon("clock"), "Answers continue on the server when this page is closed."),
        el("li", {}, icon("shield"), "A call that needs approval waits here, and nothing runs before it."),
        el("li", {}, icon("fork"), "Any message is edited or run again in a copy of its session.")),
      el("p", { class: "muted only-desktop" }, el("kbd", {}, "?"), " shows the keyboard shortcuts")));
  }

  show(id) {
    this.composer.agent.hidden = true;
    this.conversation = new Conversation(id, me, {
      onTitle: (title) => this.retitle(title),
      onConnection: (isOpen) => this.connected(isOpen),
      onRunning: (isRunning) => this.composer.running(isRunning),
      onChange: () => document.hidden || this.sidebar.later(),
      onDraft: (text) => this.composer.draft(text),
      onOpen: (other, draft) => {
        if (draft !== undefined) this.composer.drafts.set(other, draft);
        this.open(other);
      },
    }, this.begun === id);
    this.begun = null;
    this.tools.replaceChildren(...this.conversation.tools());
    this.stage.replaceChildren(this.conversation.element);
    this.conversation.isRead = this.conversation.open();
  }

  retitle(title) {
    this.title.textContent = title;
    if (title && this.conversation) this.sidebar.name(this.conversation.id, title);
    document.title = title ? `${title} · Logue` : "Logue";
  }

  connected(isOpen) {
    this.state.replaceChildren(...(isOpen ? [] : [icon("warn"), "Reconnecting…"]));
  }

  async send(text, agent) {
    const isNew = !this.conversation;
    const id = this.conversation?.id ?? randomId();
    try {
      if (isNew) {
        this.retitle("");
        await Conversation.send(id, text, this.agents.length > 1 ? agent : undefined, () => this.connected(false));
        this.begun = id;
        this.open(id);
      } else await this.conversation.send(text);
      this.sidebar.later();
      return true;
    } catch (error) {
      toast(errorText(error), "bad");
      return false;
    }
  }

  key(event) {
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (matchMedia("(max-width: 760px)").matches) this.drawer(true);
      this.sidebar.search.focus();
      this.sidebar.search.select();
    } else if (event.altKey && event.code === "KeyN") {
      event.preventDefault();
      this.open(null);
    } else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      event.preventDefault();
      this.sidebar.step(event.key === "ArrowUp" ? -1 : 1);
    } else if (event.altKey && event.code === "KeyA") {
      event.preventDefault();
      this.conversation?.focusApproval();
    } else if (event.key === "?" && !isTyping) {
      helpDialog();
    } else if (event.key === "/" && !isTyping) {
      event.preventDefault();
      this.composer.field.focus();
    } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
      this.escape(event);
    }
  }

  escape(event) {
    if (document.body.classList.contains("drawer")) this.drawer(false);
    else if (event.target === this.sidebar.search && this.sidebar.search.value) {
      this.sidebar.search.value = "";
      this.sidebar.later(0);
    } else if (event.target !== this.composer.field) this.composer.field.focus();
    else if (!this.composer.stopButton.hidden) this.conversation?.cancel();
  }
}

/** Shows the page, or the login if the server requires one. */
async function boot() {
  app?.stop();
  app = null;
  try {
    me = await get("me");
  } catch (error) {
    if (error.status === 401) {
      document.body.replaceChildren(loginForm(boot));
      document.querySelector("#token").focus();
      return;
    }
    unreachable(error);
    return;
  }
  app = new App();
  try {
    await app.start();
  } catch (error) {
    if (error.status !== 401) unreachable(error);
  }
}

/** Shows an error in place of the page, until the server answers. */
function unreachable(error) {
  app?.stop();
  app = null;
  document.body.replaceChildren(el("main", { class: "login-page" }, icon("warn"), el("p", { role: "alert" }, errorText(error)), el("button", { type: "button", class: "primary", onclick: boot }, "Try again")));
}

/** Returns the session that an address names; anyone may have written the address. */
function idOf(hash) {
  try {
    return decodeURIComponent(hash.replace(/^#\/?/, ""));
  } catch {
    return "";
  }
}

let isAsking = false;
whenUnauthorized(() => {
  // The token was revoked or has expired.
  if (!app || isAsking) return;
  isAsking = true;
  setTimeout(() => {
    isAsking = false;
    boot();
  });
});
window.addEventListener("unhandledrejection", (event) => toast(event.reason ? errorText(event.reason) : "Unexpected error", "bad"));
boot();
