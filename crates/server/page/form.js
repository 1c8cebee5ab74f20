// Arguments of a call as a form: fields by the JSON Schema, or by the values of the call.

import { el } from "./dom.js";
import { ListField, itemType } from "./list.js";
import { argumentsText } from "./tools.js";

/** The most fields; larger arguments are edited as JSON. */
const MOST = 24;

export class ArgumentsForm {
  constructor(call) {
    this.call = call;
    this.isShown = false;
    this.element = el("div", { class: "arguments", hidden: true });
  }

  show() {
    if (this.isShown) return;
    this.isShown = true;
    this.element.hidden = false;
    const fields = fieldsOf(this.call);
    if (fields) this.showFields(fields);
    else this.showText();
  }

  /** Removes the fields, and what was changed in them. */
  hide() {
    this.isShown = false;
    this.element.hidden = true;
    this.fields = null;
    this.text = null;
    this.element.replaceChildren();
  }

  showFields(fields) {
    this.fields = fields;
    const asText = el("button", { type: "button", class: "link", onclick: () => {
      const { value } = this.read();
      this.showText(value);
    } }, "Edit as JSON");
    this.element.replaceChildren(...fields.map((field) => field.element), asText);
  }

  showText(value = this.call.arguments) {
    this.fields = null;
    const text = argumentsText(value);
    this.text = el("textarea", { class: "json", spellcheck: false, value: text, rows: Math.min(16, text.split("\n").length + 1), "aria-label": `Arguments of ${this.call.name} as JSON`,
      oninput: () => this.check() });
    this.message = el("p", { class: "error", role: "alert" });
    this.element.replaceChildren(this.text, this.message);
  }

  check() {
    const { error } = this.read();
    this.message.textContent = error ?? "";
    this.text.setAttribute("aria-invalid", String(Boolean(error)));
  }

  /** Returns the arguments, whether they differ from those of the model, or an error. */
  read() {
    if (!this.isShown) return { value: this.call.arguments, isEdited: false };
    if (this.call.kind === "custom" && this.text) return compared(this.call, this.text.value);
    if (this.fields) {
      const value = typeof this.call.arguments === "object" ? { ...this.call.arguments } : {};
      for (const field of this.fields) {
        const read = field.read();
        if (read.error) return { error: read.error };
        if (read.isAbsent) delete value[field.name];
        else value[field.name] = read.value;
      }
      return compared(this.call, value);
    }
    try {
      const value = JSON.parse(this.text.value);
      if (!value || typeof value !== "object" || Array.isArray(value)) return { error: "The arguments are not a JSON object." };
      return compared(this.call, value);
    } catch (error) {
      return { error: `Invalid JSON: ${error.message}` };
    }
  }
}

function compared(call, value) {
  return { value, isEdited: JSON.stringify(value) !== JSON.stringify(call.arguments) };
}

/** Returns the fields of a call; null if its arguments are not an object of known types. */
function fieldsOf(call) {
  const given = call.arguments;
  if (call.kind === "custom" || !given || typeof given !== "object" || Array.isArray(given)) return null;
  const properties = call.parameters?.properties ?? {};
  const names = [...new Set([...Object.keys(properties), ...Object.keys(given)])];
  if (names.length === 0 || names.length > MOST) return null;
  const required = new Set(call.parameters?.required ?? []);
  return names.map((name) => new Field(name, given[name], properties[name] ?? {}, required.has(name)));
}

class Field {
  constructor(name, value, schema, isRequired) {
    this.name = name;
    this.isRequired = isRequired || value !== undefined;
    this.wasAbsent = value === undefined;
    this.type = typeOf(schema, value);
    const id = `field-${(Field.count = (Field.count ?? 0) + 1)}`;
    if (this.type === "list") this.list = new ListField(name, itemType(schema, value), value);
    this.control = this.list?.element ?? control(this.type, value, schema, id);
    const note = isRequired && el("span", { class: "muted" }, " (required)");
    this.element = el("div", { class: `field ${this.type}` },
      this.list ? el("span", { class: "label" }, name, note) : el("label", { for: id }, name, note),
      this.control,
      typeof schema.description === "string" && el("p", { class: "muted" }, schema.description.slice(0, 300)));
  }

  read() {
    if (this.type === "boolean") return this.wasAbsent && !this.control.checked ? { isAbsent: true } : { value: this.control.checked };
    if (this.list) {
      const read = this.list.read();
      return this.wasAbsent && read.value?.length === 0 ? { isAbsent: true } : read;
    }
    const text = this.control.value;
    if (this.wasAbsent && text === "") return { isAbsent: true };
    if (this.type === "string") return { value: text };
    if (this.type === "choice") return text === "" ? { isAbsent: true } : { value: JSON.parse(text) };
    if (this.type === "number" || this.type === "integer") {
      const number = Number(text);
      if (text.trim() === "" || !Number.isFinite(number) || (this.type === "integer" && !Number.isInteger(number))) return { error: `${this.name}: not ${this.type === "integer" ? "an integer" : "a number"}` };
      return { value: number };
    }
    try {
      return { value: JSON.parse(text) };
    } catch (error) {
      return { error: `${this.name}: invalid JSON: ${error.message}` };
    }
  }
}

function typeOf(schema, value) {
  if (Array.isArray(schema.enum) && schema.enum.length <= 50) return "choice";
  const types = [schema.type].flat().filter((type) => type && type !== "null");
  const known = types.length === 1 ? types[0] : undefined;
  const isList = Array.isArray(value) ? !known || known === "array" : value === undefined && known === "array";
  if (isList && itemType(schema, value)) return "list";
  const own = value === null || value === undefined ? undefined : typeof value;
  if (own === "string" && (!known || known === "string")) return "string";
  if (own === "boolean" && (!known || known === "boolean")) return "boolean";
  if (own === "number") return known === "integer" ? "integer" : "number";
  if (own === undefined && ["string", "boolean", "number", "integer"].includes(known)) return known;
  return "json";
}

function control(type, value, schema, id) {
  switch (type) {
    case "boolean":
      return el("input", { type: "checkbox", id, checked: value === true });
    case "number":
    case "integer":
      return el("input", { type: "number", id, step: type === "integer" ? "1" : "any", value: value === undefined ? "" : String(value), min: schema.minimum, max: schema.maximum });
    case "choice": {
      const options = schema.enum.map((one) => el("option", { value: JSON.stringify(one) }, typeof one === "string" ? one : JSON.stringify(one)));
      const isKnown = schema.enum.includes(value);
      if (!isKnown) options.unshift(el("option", { value: value === undefined ? "" : JSON.stringify(value) }, value === undefined ? "" : String(value)));
      const select = el("select", { id }, options);
      select.value = value === undefined ? "" : JSON.stringify(value);
      return select;
    }
    case "string": {
      const isLong = String(value ?? "").includes("\n") || String(value ?? "").length > 60;
      return isLong ? el("textarea", { id, value, rows: Math.min(12, value.split("\n").length + 1), spellcheck: false }) : el("input", { type: "text", id, value: value ?? "", spellcheck: false });
    }
    default:
      return el("textarea", { id, class: "json", rows: 3, spellcheck: false, value: value === undefined ? "" : JSON.stringify(value, null, 2) });
  }
}
