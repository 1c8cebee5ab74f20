// Cards of calls that a person decides about.

import { begin } from "./api.js";
import { duration, el, errorText, exactText, icon, randomId, toast } from "./dom.js";
import { ArgumentsForm } from "./form.js";
import { argumentsText } from "./tools.js";

export class ApprovalCard {
  /** `signal` is the turn that waits; `mayApprove` is whether the login permits decisions. */
  constructor(signal, mayApprove) {
    this.signal = signal;
    this.keys = new Map();
    this.forms = new Map();
    this.mayApprove = mayApprove;
    this.error = el("p", { class: "error", role: "alert" });
    this.note = el("textarea", { rows: 2, placeholder: "Reason for the model (optional)", "aria-label": "Reason", maxLength: 4000 });
    this.noteBox = el("div", { class: "reason", hidden: true }, this.note,
      el("div", { class: "buttons" },
        el("button", { type: "button", class: "danger", onclick: () => this.decide("deny") }, "Deny"),
        el("button", { type: "button", onclick: () => this.askReason(false) }, "Back")));
    this.token = el("input", { type: "password", autocomplete: "off", placeholder: "Token with the scope approve", "aria-label": "Token with the scope approve", spellcheck: false });
    this.approveButton = el("button", { type: "button", class: "primary", onclick: () => this.decide("approve") }, icon("check"), "Approve");
    this.denyButton = el("button", { type: "button", class: "danger", onclick: () => this.askReason(true) }, icon("cross"), "Deny…");
    this.editButton = el("button", { type: "button", onclick: () => this.edit() }, icon("edit"), "Edit");
    this.resetButton = el("button", { type: "button", hidden: true, onclick: () => this.reset() }, icon("rerun"), "Discard changes");
    this.buttons = el("div", { class: "buttons" }, this.approveButton, this.denyButton, this.editButton, this.resetButton);
    const count = signal.calls?.length ?? 0;
    this.expiry = el("span", { class: "expiry" });
    this.element = el("section", { class: "approval", "aria-label": "Approval", tabIndex: -1, "data-signal": signal.signal_id },
      el("header", {}, icon("shield"), el("h3", {}, count === 1 ? "Approve this call?" : `Approve ${count} calls?`), this.expiry),
      (signal.calls ?? []).map((call) => this.call(call)),
      !mayApprove && el("div", { class: "other-token" }, el("p", { class: "muted" }, "Your login may not approve. A decision requires another token, which is used once and not kept."), this.token),
      this.error, this.buttons, this.noteBox);
    this.tick();
    this.timer = setInterval(() => this.tick(), 1000);
  }

  remove() {
    clearInterval(this.timer);
    this.element.remove();
  }

  call(call) {
    const form = new ArgumentsForm(call);
    this.forms.set(call.id, form);
    return el("div", { class: "approval-call" },
      el("div", { class: "approval-name" }, el("code", {}, exactText(call.name)), call.redacted && el("span", { class: "badge" }, "parts are hidden")),
      call.preview ? preview(call.preview) : el("pre", { class: "preview", tabIndex: 0 }, exactText(argumentsText(call.arguments))),
      form.element,
      el("p", { class: "why" }, reasonOf(call.why ?? {})),
      el("p", { class: "facts" },
        call.fingerprint && el("span", { title: call.fingerprint }, "Fingerprint ", el("code", {}, shortened(call.fingerprint)))));
  }

  tick() {
    if (!this.signal.expires_at) return;
    const left = this.signal.expires_at - Date.now();
    this.expiry.textContent = left > 0 ? `denied in ${duration(left).replace(/\.\d/, "")}` : "expired";
  }

  edit() {
    for (const form of this.forms.values()) form.show();
    this.editButton.hidden = true;
    this.resetButton.hidden = false;
    this.approveButton.lastChild.textContent = "Approve with changes";
    this.element.querySelector(".arguments input, .arguments textarea, .arguments select")?.focus();
  }

  /** Returns to the arguments of the model. */
  reset() {
    for (const form of this.forms.values()) form.hide();
    this.editButton.hidden = false;
    this.resetButton.hidden = true;
    this.error.textContent = "";
    this.approveButton.lastChild.textContent = "Approve";
    this.editButton.focus();
  }

  askReason(isAsked) {
    this.noteBox.hidden = !isAsked;
    this.buttons.hidden = isAsked;
    if (isAsked) this.note.focus();
    else this.denyButton.focus();
  }

  /** Returns the key of a decision: a repeated one is taken once, and a corrected one is another. */
  keyOf(body) {
    const text = JSON.stringify(body);
    if (!this.keys.has(text)) this.keys.set(text, randomId());
    return this.keys.get(text);
  }

  async decide(approval) {
    if (this.isBusy) return;
    this.error.textContent = "";
    const body = { approval };
    if (approval === "deny" && this.note.value.trim()) body.note = this.note.value.trim();
    if (approval === "approve") {
      const edits = {};
      for (const [id, form] of this.forms) {
        const { value, error, isEdited } = form.read();
        if (error) {
          this.error.textContent = error;
          return;
        }
        if (isEdited) edits[id] = value;
      }
      if (Object.keys(edits).length) body.edits = edits;
    }
    const token = this.token.value.trim();
    if (!this.mayApprove && !token) {
      this.error.textContent = "Enter a token with the scope approve: your login may not approve.";
      this.token.setAttribute("aria-invalid", "true");
      this.token.focus();
      return;
    }
    this.token.removeAttribute("aria-invalid");
    const headers = this.mayApprove ? {} : { authorization: `Bearer ${token}` };
    const focused = this.element.contains(document.activeElement) ? document.activeElement : null;
    // A disabled button would lose the focus.
    if (focused) this.element.focus({ preventScroll: true });
    this.busy(true);
    try {
      await begin(`signals/${encodeURIComponent(this.signal.signal_id)}`, body, { key: this.keyOf(body), headers });
      toast(approval === "approve" ? "Approved" : "Denied");
    } catch (problem) {
      this.error.textContent = errorText(problem);
      this.busy(false);
      focused?.focus();
    }
    this.token.value = "";
  }

  busy(isBusy) {
    this.isBusy = isBusy;
    for (const button of this.element.querySelectorAll("button")) button.disabled = isBusy;
    this.element.setAttribute("aria-busy", String(isBusy));
  }
}

/** Shows what a call will do; the lines of a difference have colours and words. */
function preview(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  const isDiff = lines.some((line) => line.startsWith("@@")) && lines.some((line) => /^[+-]/.test(line));
  if (!isDiff) return el("pre", { class: "preview", tabIndex: 0 }, exactText(text));
  const rows = lines.slice(0, 2000).map((line) => {
    const kind = /^(\+\+\+|---)/.test(line) ? "file" : { "+": "added", "-": "removed", "@": "place" }[line[0]] ?? "";
    const tag = kind === "added" ? "ins" : kind === "removed" ? "del" : "span";
    // A line without a sign, such as the summary of the changes, is shown as it is.
    if (kind === "place" || kind === "file" || !/^[+ -]/.test(line || " ")) return el(tag, { class: `line ${kind || "file"}` }, exactText(line));
    return el(tag, { class: `line ${kind}` }, el("span", { class: "sign" }, line[0] ?? " "), exactText(line.slice(1)));
  });
  if (lines.length > 2000) rows.push(el("span", { class: "line place" }, `… ${lines.length - 2000} more lines`));
  return el("pre", { class: "preview diff", tabIndex: 0, "aria-label": "Changes" }, rows);
}

/** Returns why a call requires approval. */
function reasonOf(why) {
  switch (why.kind) {
    case "flag":
      return ["Asks because of the rule ", el("code", {}, exactText(why.rule)), " of ", el("code", {}, "--permission"), "."];
    case "config":
      return ["Asks because of the rule ", el("code", {}, exactText(why.rule)), " of ", el("code", {}, exactText(why.path)), "."];
    case "not_trusted":
      return "Asks because the prompt is not trusted: tools of a trusted prompt are allowed, and those of another one require approval.";
    case "declared":
      return "Asks by default: the prompt declares the tool, and no rule applies.";
    case "interrupted":
      return "Asks because an equal call was interrupted, or ran in a turn that failed: its effect may have happened.";
    case "fork":
      return "Asks because a fork of the conversation makes the call, and it does more than read.";
    default:
      return "Asks because the tool requires approval.";
  }
}

function shortened(fingerprint) {
  return fingerprint.replace(/^sha256:/, "").slice(0, 12);
}
