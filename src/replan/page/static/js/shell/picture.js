// A view that draws by hand, within the components: it is told in one frame what is otherwise.
import { html, useLayoutEffect, useRef } from "replan/shell/dom";

export function Picture({ mount, frames, task, view, ...calls }) {
  const element = useRef(null);
  const drawn = useRef(null);
  const latest = useRef({});
  latest.current = { task, view };

  useLayoutEffect(() => {
    const picture = (drawn.current = mount(element.current, calls));
    picture.draw(latest.current.task, new Set(["*", ...latest.current.task.steps.keys()]), latest.current.view);
    const forget = frames.listen((marked) => picture.draw(latest.current.task, marked, latest.current.view));
    return () => {
      forget();
      picture.destroy();
    };
  }, [mount, task.id]);

  useLayoutEffect(() => {
    drawn.current?.draw(task, new Set(), view);
  });

  return html`<div class="picture" ref=${element}></div>`;
}
