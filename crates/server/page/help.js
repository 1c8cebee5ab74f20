// Dialogs.

import { el } from "./dom.js";

const KEYS = [
  ["Enter", "Send the message"],
  ["Shift Enter", "New line"],
  ["Escape", "Stop the answer; close a list or dialog"],
  ["Alt N", "New session"],
  ["Ctrl K", "Search sessions"],
  ["Alt ↑ / Alt ↓", "Previous or next session"],
  ["Alt A", "Go to the approval"],
  ["/", "Go to the message field"],
  ["?", "Show this list"],
];

/** Shows a dialog until it is closed; the focus returns to where it was. */
export function dialog(title, ...content) {
  const element = el("dialog", { "aria-label": title }, el("h2", {}, title), content,
    el("form", { method: "dialog", class: "buttons" }, el("button", { type: "submit" }, "Close")));
  element.addEventListener("close", () => element.remove());
  element.addEventListener("click", (event) => event.target === element && element.close());
  document.body.append(element);
  element.showModal();
  return element;
}

export function helpDialog() {
  if (document.querySelector("dialog[open]")) return;
  dialog("Keyboard shortcuts", el("dl", { class: "keys" }, KEYS.map(([key, text]) => [el("dt", {}, key.split(" / ").map((one, at) => [at ? " / " : "", ...one.split(" ").map((part) => el("kbd", {}, part))])), el("dd", {}, text)])));
}

/** Asks before something that cannot be undone. */
export function confirmed(title, text, verb) {
  return new Promise((resolve) => {
    const element = el("dialog", { "aria-label": title }, el("h2", {}, title), el("p", {}, text),
      el("form", { method: "dialog", class: "buttons" }, el("button", { value: "yes", class: "danger" }, verb), el("button", { value: "no", autofocus: true }, "Keep it")));
    element.addEventListener("close", () => {
      element.remove();
      resolve(element.returnValue === "yes");
    });
    document.body.append(element);
    element.showModal();
  });
}
