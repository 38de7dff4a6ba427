// Changes at this worker, as they happen.

import { el, foreign, many, number } from "./dom.js";
import { changed } from "./list.js";
import { follow, showState } from "./server.js";

const SHOWN = 30;

/** Show them in the element; returns a function that ends it. */
export function recent(shown) {
  const state = el("span", { className: "state", role: "status", textContent: "connecting" });
  const count = el("span");
  const list = el("ol", { className: "changes" });
  const note = el("p", { className: "note", textContent: "Summaries that change at this worker from now on appear here." });
  shown.replaceChildren(el("h1", { textContent: "Changing now" }), el("p", { className: "facts" }, state, count), note, list);
  let total = 0;
  return follow("/page/changes", {
    state: (name, why) => showState(state, name, why),
    changes: (news) => {
      total += news.count;
      note.hidden = true;
      count.textContent = many(total, "change");
      news.changes.forEach(changed);
      list.prepend(...news.changes.map(line).reverse());
      while (list.children.length > SHOWN) list.lastChild.remove();
    },
  });
}

function line(change) {
  const link = el("a", { href: `#/entity/${encodeURIComponent(change.entity_id)}` }, foreign(change.entity_id));
  if (change.deleted) return el("li", { className: "new" }, link, " was deleted");
  const counts = ` ${number(change.added)} in, ${number(change.removed)} out; ${many(change.review_count, "review")}`;
  const item = el("li", { className: "new" }, link, el("small", { className: "note", textContent: counts }));
  if (change.text !== null) item.append(el("p", { className: "came" }, foreign(change.text)));
  return item;
}
