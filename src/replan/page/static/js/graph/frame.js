// What stands around the cards: the sheet that they are drawn on, buttons, and what is said where there is nothing to draw.

import { MARGIN } from "replan/graph/camera";
import { make, put } from "replan/graph/svg";

const TOOLS = [
  ["+", "+", "graph.zoom_in"],
  ["-", "−", "graph.zoom_out"],
  ["0", "", "graph.fit"],
  ["T", "", "graph.tidy"],
];

export function frame(element, words) {
  element.classList.add("graph");
  const sheet = make("svg", { class: "graph-sheet", role: "graphics-document", focusable: "false" });
  sheet.style.left = sheet.style.top = `${-MARGIN}px`;
  sheet.style.transformOrigin = `${MARGIN}px ${MARGIN}px`;
  const world = make("g", {}, sheet);
  const lines = make("g", { class: "lines", "aria-hidden": "true" }, world);
  const cards = make("g", { class: "cards" }, world);
  const note = document.createElement("div");
  note.className = "graph-note";
  note.hidden = true;
  const noteText = document.createElement("p");
  const clear = button("", "graph-clear");
  note.append(noteText, clear);
  const tools = document.createElement("div");
  tools.className = "graph-tools";
  const buttons = TOOLS.map(([key]) => {
    const one = button(key, "graph-tool");
    tools.append(one);
    return one;
  });
  element.replaceChildren(sheet, note, tools);

  const relabel = () => {
    const { t } = words;
    put(sheet, "aria-label", t("graph.label"));
    TOOLS.forEach(([, sign, key], i) => {
      buttons[i].textContent = sign || t(key);
      buttons[i].title = t(key);
      if (sign) buttons[i].setAttribute("aria-label", t(key));
    });
    clear.textContent = t("graph.clear");
  };
  relabel();

  return {
    sheet,
    lines,
    cards,
    relabel,
    size(w, h) {
      put(sheet, "width", w + 2 * MARGIN);
      put(sheet, "height", h + 2 * MARGIN);
    },
    look(x, y, zoom) {
      put(world, "transform", `translate(${x + MARGIN} ${y + MARGIN}) scale(${zoom})`);
    },
    /** Says why there is nothing to see; an empty text takes it away. */
    say(text, clearable = false) {
      if (note.hidden === Boolean(text)) note.hidden = !text;
      if (noteText.textContent !== text) noteText.textContent = text;
      if (clear.hidden === clearable) clear.hidden = !clearable;
    },
    onTool(act) {
      tools.addEventListener("click", (event) => {
        const name = event.target.closest("button")?.dataset.act;
        if (name) act(name);
      });
    },
    onClear(act) {
      clear.addEventListener("click", act);
    },
  };
}

function button(act, name) {
  const one = document.createElement("button");
  one.type = "button";
  one.className = name;
  one.dataset.act = act;
  return one;
}
