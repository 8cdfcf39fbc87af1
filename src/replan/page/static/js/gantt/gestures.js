// Mouse, pen and fingers on the Gantt: press a row, drag for a range of time, Ctrl and the wheel for another scale.

/**
 * @param {{signal: AbortSignal, changed: () => void, press: (y: number) => void, open: (y: number) => void,
 *   range: (range: {from: number, to: number} | null, done: boolean) => void, hover: (x: number | null, y?: number) => void}} tell
 */
export function gestures(element, axis, tell) {
  const { signal } = tell;
  let from = null;
  let dragged = false;
  let drawn = null;
  const at = (event) => {
    const edge = element.getBoundingClientRect();
    return [event.clientX - edge.left, event.clientY - edge.top];
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    from = at(event);
    dragged = false;
    drawn = null;
  }, { signal });
  element.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    tell.hover(x, y);
    // A finger scrolls; a range is drawn by mouse or pen.
    if (!from || event.pointerType === "touch" || from[0] < axis.left) return;
    if (!dragged && Math.abs(x - from[0]) < 6) return;
    if (!dragged) element.setPointerCapture(event.pointerId);
    dragged = true;
    const [a, b] = x < from[0] ? [x, from[0]] : [from[0], x];
    drawn = { from: axis.time(Math.max(axis.left, a)), to: axis.time(Math.min(axis.left + axis.width, b)) };
    tell.range(drawn, false);
  }, { signal });
  element.addEventListener("pointerup", (event) => {
    if (from && dragged && drawn) tell.range(drawn, true);
    else if (from) {
      tell.range(null, true);
      tell.press(at(event)[1]);
    }
    from = null;
  }, { signal });
  element.addEventListener("pointercancel", () => {
    from = null;
  }, { signal });
  element.addEventListener("pointerleave", () => tell.hover(null), { signal });
  element.addEventListener("dblclick", (event) => tell.open(at(event)[1]), { signal });
  element.addEventListener("wheel", (event) => {
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    if (event.ctrlKey || event.metaKey) axis.zoom(Math.exp(-event.deltaY * unit * 0.002), at(event)[0]);
    else if (axis.zoomed && (event.shiftKey || event.deltaX)) axis.pan((event.deltaX || event.deltaY) * unit);
    else return;
    event.preventDefault();
    tell.changed();
  }, { signal, passive: false });
}
