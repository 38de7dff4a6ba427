// Cards of entities: rating, number of reviews, and three subjects.

import { el, foreign, many, outOf } from "./dom.js";
import { labelOf } from "./facets.js";
import { about, ask, ofEntity } from "./server.js";

const SUBJECTS = 3;

/** Show a card for each id in the element, one after the other, since each reads all of its entity. Returns what ends it. */
export function cards(ids, shown) {
  let isOver = false;
  const list = el("ul", { className: "cards" });
  if (ids.length) shown.replaceChildren(el("h2", { textContent: "More entities" }), list);
  about().then(async ({ facets }) => {
    for (const id of ids) {
      const view = await ask(ofEntity(id, facets ? "summary?view=overview&sentences=1" : "summary")).catch(() => null);
      if (isOver) return;
      if (view) list.append(card(id, view));
    }
  });
  return () => (isOver = true);
}

function card(id, view) {
  const facts = [...(view.ratings.mean === null ? [] : [outOf(view.ratings.mean, 1)]), many(view.review_count, "review")];
  const subjects = (view.facets ?? []).slice(0, SUBJECTS).map((facet) => (view.language ? facet.name : labelOf(facet)));
  return el("li", {}, el("a", { href: `#/entity/${encodeURIComponent(id)}` },
    el("b", {}, foreign(id)), el("span", { textContent: facts.join(" · ") }), el("span", { textContent: subjects.join(", ") })));
}
