// Many rows, of which those are made that are seen. All have one height.
import { html, useEffect, useLayoutEffect, useRef, useState } from "replan/shell/dom";

const MORE = 8; // rows beyond the edge

/** `row(index)` gives one; `stick`: stay at the end as more come, until somebody scrolls away from it. */
export function Rows({ count, height, row, label, role = "table", stick = false, reveal = -1, head = null, marks = 0 }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 400 });
  const atEnd = useRef(stick);

  useLayoutEffect(() => {
    const element = box.current;
    const look = () => {
      atEnd.current = stick && element.scrollTop + element.clientHeight > element.scrollHeight - height * 2;
      setView((before) =>
        before.top === element.scrollTop && before.height === element.clientHeight
          ? before
          : { top: element.scrollTop, height: element.clientHeight },
      );
    };
    look();
    const seen = new ResizeObserver(look);
    seen.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      seen.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [stick, height]);

  useLayoutEffect(() => {
    if (stick && atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [count, stick]);

  useEffect(() => {
    const element = box.current;
    if (reveal < 0 || !element) return;
    const top = reveal * height;
    const inset = element.querySelector(".rows-head")?.offsetHeight ?? 0;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height + inset > element.scrollTop + element.clientHeight) element.scrollTop = top + height + inset - element.clientHeight;
  }, [reveal, height]);

  const first = Math.max(0, Math.floor(view.top / height) - MORE);
  const last = Math.min(count, Math.ceil((view.top + view.height) / height) + MORE);
  const shown = [];
  for (let at = first; at < last; at += 1) shown.push(row(at));
  return html`<div class="rows" ref=${box} role=${role} aria-label=${label} aria-rowcount=${role === "table" ? count + marks : undefined} tabindex="0">
    ${head}
    <div class="rows-space" role=${role === "table" ? "rowgroup" : "presentation"} style=${{ height: `${count * height}px` }}>
      <div class="rows-shown" role="presentation" style=${{ transform: `translateY(${first * height}px)` }}>${shown}</div>
    </div>
  </div>`;
}
