// Changes at this worker as they happen, by subject.

import { el, foreign, many, quoted, shorten } from "./dom.js";
import { arrange, changed } from "./list.js";
import { follow, showState } from "./server.js";

const SHOWN = 12;

/** Show them in the element; returns a function that ends it. */
export function recent(shown) {
  const state = el("span", { className: "state", role: "status", textContent: "connecting" });
  const count = el("span");
  const list = el("ol", { className: "changes" });
  const note = el("p", { className: "note", textContent: "Nothing has changed yet. New changes appear here." });
  const pause = el("button", { type: "button", textContent: "Pause", onclick: () => setPaused(!isPaused) });
  shown.replaceChildren(el("h2", { textContent: "Latest changes" }), el("p", { className: "facts" }, state, count, pause), note, list);
  let total = 0;
  let isPaused = false;
  let waiting = []; // while it is paused

  function setPaused(now) {
    isPaused = now;
    pause.textContent = now ? "Resume" : "Pause";
    if (!now) add(waiting.splice(0));
  }

  /** The latest change of a subject of an entity takes the place of the one before. */
  function add(changes) {
    for (const change of changes.filter(({ text, deleted }) => text || deleted)) { // else only the ranking changed
      const before = [...list.children].find((item) => item.key === key(change));
      if (before && before.sequence === change.sequence) continue; // a stream that is opened again repeats the latest
      before?.remove();
      list.prepend(Object.assign(line(change), { key: key(change), sequence: change.sequence }));
    }
    while (list.children.length > SHOWN) list.lastChild.remove();
    shorten(list);
    arrange();
  }

  return follow("/page/changes", {
    state: (name, why) => showState(state, name, why),
    changes: (news) => {
      total += news.count;
      note.hidden ||= news.changes.some(({ text, deleted }) => text || deleted);
      count.textContent = total ? `${many(total, "change")} since this page is open` : "";
      news.changes.forEach(changed);
      if (isPaused) waiting = [...waiting, ...news.changes].slice(-SHOWN);
      else add(news.changes);
    },
  });
}

const key = ({ entity_id, subject }) => `${subject} ${entity_id}`;

function line(change) {
  const link = el("a", { href: `#/entity/${encodeURIComponent(change.entity_id)}` }, foreign(change.entity_id));
  if (change.deleted) return el("li", { className: "new" }, link, " was deleted");
  const subject = change.subject ? [el("b", { textContent: change.subject }), " · "] : [];
  return el("li", { className: "new" }, ...subject, link, quoted(change.text, "came"));
}
