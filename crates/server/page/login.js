// The login of a server that requires a token.

import { request } from "./api.js";
import { el } from "./dom.js";

/** Shows the form; `onLogin` follows a login. */
export function loginForm(onLogin) {
  const token = el("input", { type: "password", id: "token", name: "token", autocomplete: "current-password", required: true, spellcheck: false, "aria-describedby": "token-help" });
  const error = el("p", { class: "error", role: "alert" });
  const button = el("button", { type: "submit", class: "primary" }, "Log in");
  const form = el("form", { class: "login", "aria-label": "Log in" },
    el("img", { src: "page/icon.svg", alt: "", width: 44, height: 44 }),
    el("h1", {}, "Log in to Logue"),
    el("label", { for: "token" }, "Access token"), token,
    el("p", { class: "muted", id: "token-help" }, "Created on the server with ", el("code", {}, "logue serve token create")),
    error, button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    error.textContent = "";
    try {
      await request("POST", "login", { body: {}, headers: { authorization: `Bearer ${token.value.trim()}` } });
      token.value = "";
      onLogin();
    } catch (problem) {
      error.textContent = problem.status === 401 ? "This token is unknown or has expired." : problem.message;
      token.focus();
    }
    button.disabled = false;
  });
  return el("main", { class: "login-page" }, form);
}
