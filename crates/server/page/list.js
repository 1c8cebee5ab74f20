// The field of a list: a row for each item.

import { el, icon, iconButton } from "./dom.js";

/** The most rows; longer lists are edited as JSON. */
const MOST = 50;

/** Returns the type of the items of a list; undefined if they have no type in common. */
export function itemType(schema, value) {
  const types = [schema.items?.type].flat().filter((type) => type && type !== "null");
  if (types.length > 1 || (value ?? []).length > MOST) return undefined;
  const own = new Set((value ?? []).map((item) => typeof item));
  const known = types[0] ?? [...own][0];
  const isText = known === "string" && [...own].every((type) => type === "string");
  const isNumber = (known === "number" || known === "integer") && [...own].every((type) => type === "number");
  return isText || isNumber ? known : undefined;
}

export class ListField {
  /** `type` is that of the items; `value` may be absent. */
  constructor(name, type, value) {
    this.name = name;
    this.type = type;
    this.rows = el("div", { class: "rows" });
    this.element = el("div", { class: "list", role: "group", "aria-label": name }, this.rows,
      el("button", { type: "button", class: "link", onclick: () => this.add("").querySelector(".item").focus() }, icon("plus"), "Add an item"));
    for (const item of value ?? []) this.add(String(item));
  }

  add(value) {
    const isLong = value.includes("\n") || value.length > 60;
    const control = isLong ? el("textarea", { class: "item", value, rows: Math.min(8, value.split("\n").length + 1), spellcheck: false })
      : el("input", { class: "item", type: this.type === "string" ? "text" : "number", step: this.type === "integer" ? "1" : "any", value, spellcheck: false });
    const row = el("div", { class: "row" }, control, iconButton("close", "Remove the item", () => {
      const next = row.nextElementSibling ?? row.previousElementSibling;
      row.remove();
      this.number();
      (next?.querySelector(".item") ?? this.element.lastElementChild).focus();
    }));
    this.rows.append(row);
    this.number();
    return row;
  }

  /** Names the items by their places. */
  number() {
    for (const [at, row] of [...this.rows.children].entries()) {
      row.firstElementChild.setAttribute("aria-label", `${this.name}, item ${at + 1}`);
      row.lastElementChild.setAttribute("aria-label", `Remove item ${at + 1}`);
    }
  }

  /** Returns the items, or an error. */
  read() {
    const items = [];
    for (const [at, row] of [...this.rows.children].entries()) {
      const text = row.firstElementChild.value;
      const item = this.type === "string" ? text : Number(text);
      const isWrong = this.type !== "string" && (text.trim() === "" || !Number.isFinite(item) || (this.type === "integer" && !Number.isInteger(item)));
      if (isWrong) return { error: `${this.name}, item ${at + 1}: not ${this.type === "integer" ? "an integer" : "a number"}` };
      items.push(item);
    }
    return { value: items };
  }
}
