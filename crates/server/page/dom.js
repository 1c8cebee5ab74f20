// Elements and texts. Nothing here interprets a text as HTML.

/** Creates an element: properties, `on…` listeners, `data-…`/`aria-…` attributes, then children. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name.includes("-") || name === "role" || name === "for" || name === "list") element.setAttribute(name, value === true ? "" : value);
    else element[name] = value;
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM20 20l-4-4",
  send: "M12 19V5M5 12l7-7 7 7",
  stop: "M7 7h10v10H7z",
  menu: "M4 7h16M4 12h16M4 17h16",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  close: "M6 6l12 12M18 6L6 18",
  check: "M5 13l4 4L19 7",
  cross: "M7 7l10 10M17 7L7 17",
  tool: "M14.5 6.5a4 4 0 0 0-5.2 5.2L4 17l3 3 5.300-5.300a4 4 0 0 0 5.200-5.200l-2.500 2.500-2.500-.5-.5-2.500z",
  chevron: "M9 6l6 6-6 6",
  down: "M12 5v14M5 12l7 7 7-7",
  copy: "M9 9h10v10H9zM5 15V5h10",
  fork: "M7 4v16M7 14c0-4 10-3 10-9M17 8V4M14 6l3-3 3 3",
  rerun: "M4 12a8 8 0 1 0 2.500-5.800M4 4v4.500h4.500",
  shield: "M12 3l8 3v6c0 4.500-3.300 8-8 9-4.700-1-8-4.500-8-9V6z",
  clock: "M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16zM12 8v4l3 2",
  warn: "M12 4l9 16H3zM12 10v4M12 17h.01",
  export: "M12 15V4M7 9l5-5 5 5M5 15v4h14v-4",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  edit: "M4 20h4L19 9l-4-4L4 16z",
  keyboard: "M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8",
  eye: "M2.500 12C5 7.500 8.300 5.500 12 5.500s7 2 9.500 6.500c-2.500 4.500-5.800 6.500-9.500 6.500S5 16.500 2.500 12zM12 9a3 3 0 1 1 0 6 3 3 0 0 1 0-6z",
  logout: "M10 4H5v16h5M15 8l4 4-4 4M19 12H9",
};

/** Creates an icon that assistive technology ignores. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name] ?? "");
  svg.append(path);
  return svg;
}

/** Creates a button with an icon and a name. */
export function iconButton(name, label, onclick, properties = {}) {
  return el("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...properties }, icon(name));
}

// Characters that change the order of a text or have no width could hide what will run.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** Returns a text as nodes in which hidden characters are visible. */
export function exactText(text) {
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(HIDDEN)) {
    nodes.push(text.slice(at, match.index));
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    nodes.push(el("span", { class: "hidden-character", title: "hidden character" }, `U+${code}`));
    at = match.index + match[0].length;
  }
  nodes.push(text.slice(at));
  return nodes.filter((node) => node !== "");
}

/** Returns a random name of 128 bits; `crypto.randomUUID` requires TLS. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns the age of a time in milliseconds since 1970. */
export function age(time) {
  const seconds = Math.max(0, (Date.now() - time) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 7 * 86400) return `${Math.floor(seconds / 86400)} d`;
  return new Date(time).toLocaleDateString(undefined, { month: "short", day: "numeric" });
}

/** Returns a duration for people. */
export function duration(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60000)} min ${Math.round((milliseconds % 60000) / 1000)} s`;
}

let toasts;

/** Shows a note for some seconds, which assistive technology reads. */
export function toast(text, kind = "info") {
  // The login replaces the whole page.
  if (!toasts?.isConnected) {
    toasts = el("div", { class: "toasts", role: "status", "aria-live": "polite" });
    document.body.append(toasts);
  }
  const note = el("div", { class: `toast ${kind}` }, text);
  toasts.append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 4000);
}

/** Copies a text; pages without TLS have no clipboard. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { value: text, class: "off-screen" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast("Copied");
}

/** Returns an error of a request as a sentence with its remedy. */
export function errorText(error) {
  const isAway = error instanceof TypeError;
  const text = isAway ? "The server cannot be reached. Check that it runs, and try again." : [error.message, ...(error.help ?? [])].join(" – ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
