// Nodes of Markdown, which the server has read, as elements.

import { copyText, el, iconButton } from "./dom.js";

const PLAIN = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "li", "em", "strong", "del", "code", "sup", "tr"]);

/** Returns nodes as elements. An unknown element is shown by its content. */
export function render(nodes) {
  return (nodes ?? []).flatMap((node) => (typeof node === "string" ? [document.createTextNode(node)] : one(node)));
}

function textOf(nodes) {
  return (nodes ?? []).map((node) => (typeof node === "string" ? node : textOf(node.children))).join("");
}

function one(node) {
  const { tag, children } = node;
  if (PLAIN.has(tag)) return [el(tag, {}, render(children))];
  switch (tag) {
    case "br":
    case "hr":
      return [el(tag)];
    case "ol":
      return [el("ol", { start: node.start }, render(children))];
    case "pre":
      return [code(textOf(children), node.language)];
    case "task":
      return [el("input", { type: "checkbox", checked: node.done, disabled: true, "aria-label": node.done ? "done" : "open" })];
    case "footnote":
      return [el("div", { class: "footnote" }, el("sup", {}, `[${node.name}]`), el("div", {}, render(children)))];
    case "table": {
      const [head, ...rows] = render(children);
      return [el("div", { class: "table", tabIndex: 0, role: "region", "aria-label": "Table" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows)))];
    }
    case "th":
    case "td":
      return [el(tag, { class: node.align === "right" || node.align === "center" ? node.align : "" }, render(children))];
    case "a":
      return link(node);
    case "img":
      return picture(node);
    default:
      return render(children);
  }
}

function link(node) {
  const content = render(node.children);
  if (!/^(https?|mailto):/i.test(node.href)) return content;
  if (content.length === 0) content.push(document.createTextNode(node.href));
  return [el("a", { href: node.href, title: node.href, target: "_blank", rel: "noopener noreferrer nofollow" }, content)];
}

function picture(node) {
  if (!/^data:image\/(png|jpeg|gif|webp);base64,/.test(node.src)) return render(node.children);
  return [el("img", { src: node.src, alt: textOf(node.children), loading: "lazy" })];
}

/** Creates a block of code with its language and a button, which copies the whole of it. */
export function code(text, language, whole = text) {
  const copy = iconButton("copy", "Copy code", () => copyText(whole));
  return el("figure", { class: "code" },
    el("figcaption", {}, el("span", {}, language ?? ""), copy),
    el("pre", { tabIndex: 0 }, el("code", {}, text)));
}
