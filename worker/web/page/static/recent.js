// Changes at this worker, as they happen.

import { el, foreign, many, number, quoted, shorten } from "./dom.js";
import { arrange, changed } from "./list.js";
import { follow, showState } from "./server.js";

const SHOWN = 30;

/** Show them in the element; returns a function that ends it. */
export function recent(shown) {
  const state = el("span", { className: "state", role: "status", textContent: "connecting" });
  const count = el("span");
  const list = el("ol", { className: "changes" });
  const note = el("p", { className: "note", textContent: "Nothing has changed yet. New changes appear here." });
  const pause = el("button", { type: "button", textContent: "Pause", onclick: () => setPaused(!isPaused) });
  shown.replaceChildren(el("h1", { textContent: "Latest changes" }), el("p", { className: "facts" }, state, count, pause), note, list);
  let total = 0;
  let isPaused = false;
  let waiting = []; // while it is paused

  function setPaused(now) {
    isPaused = now;
    pause.textContent = now ? "Resume" : "Pause";
    if (!now) add(waiting.splice(0));
  }

  function add(changes) {
    const known = new Set([...list.children].map((one) => one.dataset.key));
    const lines = changes.filter((one) => !known.has(key(one))).map(line);
    list.prepend(...lines.reverse());
    while (list.children.length > SHOWN) list.lastChild.remove();
    shorten(list);
    arrange();
  }

  return follow("/page/changes", {
    state: (name, why) => showState(state, name, why),
    changes: (news) => {
      total += news.count;
      note.hidden = true;
      count.textContent = total ? `${many(total, "change")} since this page is open` : "";
      news.changes.forEach(changed);
      if (isPaused) waiting = [...waiting, ...news.changes].slice(-SHOWN);
      else add(news.changes);
    },
  });
}

/** Names a change; the stream repeats the latest ones when it is opened again. */
const key = (change) => `${change.sequence ?? "deleted"} ${change.entity_id}`;

function line(change) {
  const item = described(change);
  item.dataset.key = key(change);
  return item;
}

function described(change) {
  const link = el("a", { href: `#/entity/${encodeURIComponent(change.entity_id)}` }, foreign(change.entity_id));
  if (change.deleted) return el("li", { className: "new" }, link, " was deleted");
  const counts = ` ${number(change.added)} new, ${number(change.removed)} gone; ${many(change.review_count, "review")}`;
  const item = el("li", { className: "new" }, link, el("small", { className: "note", textContent: counts }));
  if (change.text !== null) item.append(quoted(change.text, "came"));
  return item;
}
