// Requests to the server. All addresses are relative, so that a proxy may add a prefix.

const BASE = new URL("v1/", new URL(".", document.baseURI));

/** An error that the server reports as a problem document. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? `the server answered with ${status}`);
    this.status = status;
    this.code = body?.code ?? "";
    this.help = body?.help ?? [];
  }
}

let onUnauthorized = () => {};

/** Sets what happens when the server requires a login. */
export function whenUnauthorized(action) {
  onUnauthorized = action;
}

/** Sends a request; fails with a `Problem`, or with a `TypeError` without a connection. */
export async function request(method, path, { body, headers = {}, signal } = {}) {
  const init = { method, headers: { ...headers }, signal, cache: "no-store", redirect: "error", credentials: "same-origin" };
  if (body !== undefined) {
    init.headers["content-type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  const response = await fetch(new URL(path, BASE), init);
  if (response.ok) return response;
  const problem = new Problem(response.status, await response.json().catch(() => null));
  if (response.status === 401 && !headers.authorization) onUnauthorized();
  throw problem;
}

/** Returns the JSON of an answer. */
export async function get(path, options) {
  return (await request("GET", path, options)).json();
}

export async function post(path, body, options = {}) {
  const response = await request("POST", path, { body, ...options });
  return response.status === 204 ? null : response.json();
}

/** Returns the path of a session. */
export function session(id, rest = "") {
  return `sessions/${encodeURIComponent(id)}${rest}`;
}

/** Waits. */
export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Begins a turn and returns when the server has accepted it; its events come with the session's stream.
 *
 * Without a connection it is repeated: `key` makes the server accept it once.
 */
export async function begin(path, body, { key, headers = {}, onWait = () => {} } = {}) {
  const all = { accept: "text/event-stream", ...headers };
  if (key) all["idempotency-key"] = key;
  for (let attempt = 0; ; attempt += 1) {
    try {
      const response = await request("POST", path, { body, headers: all });
      const type = response.headers.get("content-type") ?? "";
      if (type.includes("json")) return await response.json();
      // Leaving is not cancelling.
      await response.body?.cancel();
      return null;
    } catch (error) {
      const isAway = error instanceof TypeError || error.status === 503 || error.status === 502;
      if (!isAway || !key) throw error;
      onWait();
      await pause(Math.min(800, 200 * 2 ** attempt));
    }
  }
}
