// Where the page is: all of it stands in the address, so that it can be sent to somebody.

const DEFAULTS = { v: "", diff: "", step: "", tab: "", q: "", state: "", open: "", pane: "", event: "", group: "", critical: "", range: "", type: "", session: "" };

export function readRoute(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  const said = Object.fromEntries(new URLSearchParams(query));
  const known = { ...DEFAULTS, ...said };
  if (parts[0] === "task" && parts[1]) return { name: "task", id: parts[1], ...known };
  if (parts[0] === "tools") return { name: "tools", id: parts[1] ?? null, ...known };
  if (["new", "waiting", "help"].includes(parts[0])) return { name: parts[0], id: null, ...known };
  return { name: "list", id: null, ...known };
}

export function hashOf(route) {
  const { name, id, ...rest } = route;
  const path = name === "list" ? "#/" : id ? `#/${name}/${encodeURIComponent(id)}` : `#/${name}`;
  const said = new URLSearchParams(Object.entries(rest).filter(([, value]) => value !== "" && value != null));
  const query = said.toString();
  return query ? `${path}?${query}` : path;
}

/** Goes on to the same place with these changes; what is only looked at otherwise makes no step of the history. */
export function change(changes, { push = false } = {}) {
  const next = hashOf({ ...readRoute(), ...changes });
  if (next === location.hash) return;
  if (push) location.hash = next;
  else history.replaceState(null, "", next);
  dispatchEvent(new Event("replan:route"));
}
