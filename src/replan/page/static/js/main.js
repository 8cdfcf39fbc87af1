// Where it begins: the words first, then the page; of an exported file its own events in place of a service.
import { html, render } from "replan/shell/dom";
import { App } from "replan/app";
import { preferred, speak } from "replan/i18n";
import { json } from "replan/shell/api";
import { pref } from "replan/shell/prefs";
import { apply, newTask } from "replan/store";

function within(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

const words = within("words");
const load = words ? async (name) => words[name] : (name) => json(`${document.documentElement.dataset.base}/words/${name}.json`);

/** What stands in the file, as a session that asks nobody. */
function kept(data) {
  const task = newTask();
  for (const event of data.events) apply(task, event);
  return { task, events: data.events, result: data.result ?? null, readOnly: true, state: { kind: "ended" }, now: () => task.last, older() {}, go() {} };
}

const data = within("export");
await speak(preferred(pref("language")), load);
render(html`<${App} load=${load} given=${data ? kept(data) : null} />`, document.getElementById("app"));
document.documentElement.dataset.ready = "1";
