// Calls of the service. Its errors are problems (RFC 9457), which say what was wrong and what would be right.

const ROOT = "/api/v1";
const OWN = { "X-Replan-Page": "1" };

export class Problem extends Error {
  constructor(status, document, retryAfter = 0) {
    super(document.detail || document.title || `HTTP ${status}`);
    this.status = status;
    this.kind = (document.type ?? "").split(":").at(-1);
    this.title = document.title ?? "";
    this.document = document;
    this.retryAfter = retryAfter;
  }
}

const said = { clock: 0 };

/** Milliseconds that the service's clock is before the browser's, by the answers so far; to about a second. */
export const clockOffset = () => said.clock;

/** `text`: the body as it is to be sent, where it is not what the browser would write. */
export async function call(path, { method = "GET", body, text = JSON.stringify(body), headers = {}, signal, accept = "application/json" } = {}) {
  const address = path.startsWith("/page/") ? path : path.startsWith(ROOT) ? path : ROOT + path;
  const response = await fetch(address, {
    method,
    signal,
    credentials: "same-origin",
    headers: { ...OWN, Accept: accept, ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    body: text,
  });
  const date = Date.parse(response.headers.get("date") ?? "");
  if (date) said.clock = date - Date.now();
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function json(path, how) {
  const response = await call(path, how);
  return response.status === 204 ? null : response.json();
}

export async function problemOf(response) {
  const retry = Number(response.headers.get("retry-after") ?? 0);
  let document = {};
  try {
    document = await response.json();
  } catch {
    // whoever stands between answers otherwise: its status is all there is
  }
  return new Problem(response.status, document, retry);
}

export const taskPath = (id, rest = "") => `/tasks/${encodeURIComponent(id)}${rest}`;
