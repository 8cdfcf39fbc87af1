// A tool server written from docs/reference/tool-service.md alone, with nothing but Node's own modules.
// It has an in-memory store of keys. FAULTS names rules that it breaks on purpose. Prints its port.
import http from "node:http";
import { randomBytes } from "node:crypto";

const FAULTS = new Set((process.env.FAULTS ?? "").split(","));
const TOKEN = process.env.TEST_TOKEN ?? "";
const STORE = randomBytes(8).toString("hex");
const FIELDS = new Set(["tool", "parameters", "key", "key_store", "task_id", "step_id", "attempt", "call_id", "deadline_secs"]);
const counts = new Map();
const cancelled = new Set();
const calls = new Map(); // key -> {content, promise, answer, waiters, abort}
const byCallId = new Map(); // call_id -> function that calls it off

const object = (properties, required = Object.keys(properties)) => ({
  type: "object", properties, required, additionalProperties: false,
});
const name = { type: "string" };

const sleep = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); reject(new Error("cancelled")); });
});

const tools = {
  conformance_echo: { effect: FAULTS.has("effect") ? "once" : "reads", parameters: object({ value: {} }),
    run: async ({ value }) => {
      if (FAULTS.has("values") && value === null) return 0;
      return FAULTS.has("mixed up") && value === 7 ? 8 : value;
    } },
  conformance_count: { effect: "once", parameters: object({ name, wait_ms: { type: "integer" } }, ["name"]),
    run: async ({ name, wait_ms = 0 }, { signal }) => {
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      await sleep(wait_ms, signal);
      return { count };
    } },
  conformance_counted: { effect: "reads", volatile: true, parameters: object({ name }),
    run: async ({ name }) => ({ count: counts.get(name) ?? 0 }) },
  conformance_wait: { effect: "reads", parameters: object({ name }),
    run: async ({ name }, { signal }) => {
      try { await sleep(2 ** 30, signal); } finally { cancelled.add(name); }
    } },
  conformance_cancelled: { effect: "reads", volatile: true, parameters: object({ name }),
    run: async ({ name }) => cancelled.has(name) },
  conformance_fail: { effect: "once", parameters: object({ message: { type: "string" } }),
    run: async ({ message }) => { throw new Error(FAULTS.has("words") ? "it failed" : message); } },
  conformance_progress: { effect: "reads", parameters: object({}),
    run: async (_, { report }) => {
      if (!FAULTS.has("progress")) report({ message: "half", progress: 1, total: 2 });
      report({ message: "done", progress: 2, total: 2 });
      return { ok: true };
    } },
};
if (FAULTS.has("schema")) tools.conformance_fail.parameters = { type: "object", properties: { message: { type: "words" } } };

class Refusal extends Error {
  constructor(status, kind, message) { super(message); this.status = status; this.kind = kind; }
}

const fits = (value, { type }) =>
  type === undefined || (type === "integer" ? Number.isInteger(value) : typeof value === type);

function check(schema, parameters) {
  for (const each of schema.required ?? [])
    if (!(each in parameters)) throw new Refusal(422, "parameter", `${each} is missing`);
  for (const [each, value] of Object.entries(parameters)) {
    if (!(each in schema.properties)) throw new Refusal(422, "parameter", `${each} is unknown`);
    if (!fits(value, schema.properties[each])) throw new Refusal(422, "parameter", `${each} is of a wrong type`);
  }
}

// Big whole numbers lose digits in JSON.parse: they are kept as text in between, which shows that a server may have to.
const parse = (text) => JSON.parse(text.replace(/([:\[,]\s*)(-?\d{16,})(?=\s*[,\]}])/g, '$1"\\u0001$2"'));
const write = (value) => JSON.stringify(value).replace(/"\\u0001(-?\d+)"/g, "$1");

function start(tool, body, listeners) {
  const controller = new AbortController();
  const report = (progress) => listeners.forEach((each) => each(progress));
  // Later, so that whoever waits for it hears its first report.
  const promise = Promise.resolve().then(() => tool.run(body.parameters, { signal: controller.signal, report })).then(
    (output) => ({ output: output ?? null }),
    (error) => controller.signal.aborted
      ? { error: { kind: "cancelled", message: "cancelled", happened: "unknown" } }
      : { error: { kind: "tool", message: error.message, happened: FAULTS.has("happened") ? "unknown" : "no" } });
  return { promise, controller };
}

function admit(body) {
  const tool = tools[body.tool];
  if (!tool) throw new Refusal(404, FAULTS.has("unknown tool") ? "tool" : "unknown_tool", `there is no tool ${body.tool}`);
  if (!FAULTS.has("parameters")) check(tool.parameters, body.parameters);
  if (!FAULTS.has("store") && body.key_store && body.key_store !== STORE)
    throw new Refusal(409, "unavailable", "another memory of keys");
  const keyed = body.key && tool.effect !== "reads" && !FAULTS.has("keys");
  const content = body.tool + JSON.stringify(body.parameters);
  let call = keyed ? calls.get(body.key) : undefined;
  if (call && call.content !== content && !FAULTS.has("content"))
    throw new Refusal(422, "parameter", "the key was used for another call");
  if (call && FAULTS.has("join") && !call.ended) call = undefined;
  if (call?.inDoubt && !FAULTS.has("in doubt"))
    return { promise: Promise.resolve({ error: { kind: "in_doubt", message: "its end is not known", happened: "unknown" } }),
      controller: call.controller, listeners: new Set(), waiters: 0, ended: true };
  if (!call) {
    call = { content, waiters: 0, listeners: new Set(), ended: false };
    Object.assign(call, start(tool, body, call.listeners));
    call.promise.then((answer) => {
      call.ended = true;
      if (answer.error?.happened === "unknown") call.inDoubt = true;
      if (keyed && answer.error?.happened === "no" && !FAULTS.has("freed")) calls.delete(body.key);
    });
    if (keyed) calls.set(body.key, call);
  }
  return call;
}

let running = 0;
let queue = Promise.resolve();

async function takeUp(request, response, body) {
  if (running >= 30) throw new Refusal(429, "unavailable", "busy");
  if (FAULTS.has("too many") && running >= 1) throw new Refusal(429, "unavailable", "too many calls at once");
  running += 1;
  try {
    if (!FAULTS.has("one by one")) await execute(request, response, body);
    else await (queue = queue.then(() => execute(request, response, body)));
  } finally { running -= 1; }
}

async function execute(request, response, body) {
  if (typeof body !== "object" || Array.isArray(body) || typeof body.tool !== "string")
    throw new Refusal(400, "parameter", "`tool` is missing");
  if (!FAULTS.has("fields"))
    for (const each of Object.keys(body))
      if (!FIELDS.has(each)) throw new Refusal(400, "parameter", `there is no field ${each}`);
  body.parameters ??= {};
  const call = admit(body);
  const streaming = (request.headers.accept ?? "").includes("application/x-ndjson") || FAULTS.has("plain");
  const line = (event) => response.write(write(event) + "\n");
  response.writeHead(200, { "content-type": streaming ? "application/x-ndjson" : "application/json" });
  const listener = (progress) => streaming && line({ progress });
  call.listeners.add(listener);
  call.waiters += 1;
  let left = false;
  const leave = () => {
    if (left) return;
    left = true;
    call.waiters -= 1;
    call.listeners.delete(listener);
    if ((call.waiters === 0 || FAULTS.has("cancel all")) && !call.ended) call.controller.abort();
  };
  const ends = [call.promise];
  let timer;
  if (body.deadline_secs && !FAULTS.has("deadline")) ends.push(new Promise((resolve) => {
    timer = setTimeout(() => resolve({ error: { kind: "timeout", message: "no answer in time", happened: "unknown" } }),
      body.deadline_secs * 1000);
  }));
  ends.push(new Promise((resolve) => byCallId.set(body.call_id ?? randomBytes(8).toString("hex"), () => {
    if (FAULTS.has("cancel")) return;
    resolve({ error: { kind: "cancelled", message: "cancelled by its caller", happened: "unknown" } });
  })));
  if (!FAULTS.has("disconnect")) response.on("close", leave);
  const answer = await Promise.race(ends);
  clearTimeout(timer);
  byCallId.delete(body.call_id);
  leave();
  if (FAULTS.has("outcome twice") && streaming) line(answer);
  response.end(write(answer) + "\n");
}

function listing(request, response) {
  const list = Object.entries(tools).map(([id, { run, ...rest }]) => ({ id, description: "", ...rest }));
  const revision = "1";
  const headers = { "content-type": "application/json", etag: FAULTS.has("tag") ? '"0"' : `"${revision}"` };
  if (request.headers["if-none-match"] === `"${revision}"` && !FAULTS.has("unchanged")) {
    response.writeHead(304, headers).end();
    return;
  }
  response.writeHead(200, headers).end(JSON.stringify({
    protocol: "replan-tools/1", revision, tools: list, max_request_bytes: 1048576,
    ...(FAULTS.has("no keys") ? {} : { keys: { store: STORE, durable: false } }),
  }));
}

async function route(request, response) {
  const { pathname } = new URL(request.url, "http://localhost");
  if (pathname === "/healthz" && !FAULTS.has("health")) { response.end('{"status":"ok"}'); return; }
  if (TOKEN && !FAULTS.has("token") && request.headers.authorization !== `Bearer ${TOKEN}`)
    throw new Refusal(401, "http", "a bearer token is missing or wrong");
  if (!TOKEN && !FAULTS.has("origin") && request.headers.origin) throw new Refusal(403, "http", "no web pages");
  if (pathname === "/v1/tools") { listing(request, response); return; }
  const parts = [];
  for await (const part of request) parts.push(part);
  let body;
  try { body = parse(Buffer.concat(parts).toString() || "null"); }
  catch { throw new Refusal(FAULTS.has("malformed") ? 500 : 400, "parameter", "the body is no JSON"); }
  if (pathname === "/v1/execute") await takeUp(request, response, body);
  else if (pathname === "/v1/cancel") { byCallId.get(body.call_id)?.(); response.end("{}"); }
  else throw new Refusal(FAULTS.has("nowhere") ? 200 : 404, "http", `there is nothing at ${pathname}`);
}

const server = http.createServer((request, response) => {
  route(request, response).catch((error) => {
    if (response.headersSent) { response.destroy(); return; }
    const status = error.status ?? 500;
    const told = { kind: error.kind ?? "http", message: error.message, happened: status < 500 ? "no" : "unknown", status };
    const shown = (status === 422 && FAULTS.has("422")) ? 500 : (status === 401 && FAULTS.has("401")) ? 200 : status;
    const away = (status === 429 || status === 503) && !FAULTS.has("away") ? { "retry-after": "1" } : {};
    response.writeHead(shown, { "content-type": "application/json", ...away }).end(JSON.stringify({ error: told }));
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
