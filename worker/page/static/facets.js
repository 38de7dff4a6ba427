// The facets of an entity: a row for each, with its sentences and its last change.

import { cameWith } from "./changes.js";
import { el, foreign, many } from "./dom.js";

/** Rows of a view of facets, with headings of this kind. `drawn` has what draws a `sentence` and a `line` of a change. */
export function rows(view, changes, heading, drawn) {
  return view.facets.map((facet) => {
    const own = changes.filter((one) => one.tombstone || one.facet === facet.name);
    const came = cameWith(own);
    const last = own.at(-1);
    const sentences = facet.sentences.map((one) => drawn.sentence(one, came.get(one.sentence_id)));
    return el("li", {},
      el("div", {}, el(heading, {}, foreign(facet.name)), el("p", { className: "facts" }, ...facts(facet, view.ratings))),
      sentences.length ? el("ol", { className: "sentences" }, ...sentences) : el("p", { className: "note", textContent: "no sentence" }),
      el("ul", { className: "changes", ariaLabel: `Last change of ${facet.name}` }, last && !last.tombstone ? drawn.line({ ...last, facet: null }) : el("li", { className: "note", textContent: "no change known" })));
  });
}

function facts(facet, ratings) {
  const counts = [many(facet.sentence_count, "sentence"), many(facet.review_count, "review")];
  if (facet.ratings.mean !== null) counts.push(`rated ${mean(facet.ratings)}${ratings.mean === null ? "" : `, all reviews ${mean(ratings)}`}`);
  if (facet.mentions) counts.push(`${many(facet.mentions.review_count, "mention")}${facet.mentions.ratings.mean === null ? "" : `, rated ${mean(facet.mentions.ratings)}`}`);
  return counts.map((textContent) => el("span", { textContent }));
}

const mean = (ratings) => ratings.mean.toLocaleString([], { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** A new `facets.changed` as changes of the history: what came to a facet and left it follows from the facets before. */
export function asChanges(body, before) {
  const known = new Map(before.map((one) => [one.name, one.sentences]));
  return body.facets.filter((one) => body.changed.includes(one.name) && known.has(one.name)).map((facet) => {
    const added = missingIn(known.get(facet.name), facet.sentences);
    const removed = missingIn(facet.sentences, known.get(facet.name));
    return {
      isLive: true, tombstone: false, facet: facet.name, sequence: body.sequence, occurred_at: body.occurred_at,
      published_at: new Date().toISOString(), cause: body.cause, added: [...added.keys()], removed: [...removed.keys()],
      added_texts: Object.fromEntries(added), removed_texts: Object.fromEntries(removed),
    };
  });
}

/** Texts by id of those that are not among some. */
function missingIn(some, others) {
  const texts = new Map(some.map((one) => [one.sentence_id, one.text]));
  return new Map(others.filter((one) => texts.get(one.sentence_id) !== one.text).map((one) => [one.sentence_id, one.text]));
}
