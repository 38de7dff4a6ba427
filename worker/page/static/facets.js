// The facets of an entity: a row for each, with its sentences and its last change.

import { cameWith } from "./changes.js";
import { el, foreign, many } from "./dom.js";

/** The name of a facet, with its language if it has one: unique among the facets, and as changes name it. */
export const labelOf = ({ name, language }) => (language ? `${name} (${language})` : name);

/** The languages of facets, that of the most sentences first: facets are in the order of their sentences. */
export const languagesOf = (facets) => [...new Set(facets.map((one) => one.language).filter(Boolean))];

/**
 * Rows of a view of facets, with headings of this kind. `drawn` has what draws a `sentence` and a `line` of a change, and what
 * names a facet: `named`.
 */
export function rows(view, changes, heading, drawn) {
  return view.facets.map((facet) => {
    const own = changes.filter((one) => one.tombstone || one.facet === labelOf(facet));
    const came = cameWith(own);
    const last = own.at(-1);
    const sentences = facet.sentences.map((one) => drawn.sentence(one, came.get(one.sentence_id)));
    return el("li", {},
      el("div", {}, el(heading, {}, foreign(drawn.named(facet))), el("p", { className: "facts" }, ...facts(facet, view.ratings))),
      el("div", {}, sentences.length ? el("ol", { className: "sentences" }, ...sentences) : el("p", { className: "note", textContent: "no sentence" }), ...sides(facet, drawn)),
      el("ul", { className: "changes", ariaLabel: `Last change of ${drawn.named(facet)}` }, last && !last.tombstone ? drawn.line({ ...last, facet: null }) : el("li", { className: "note", textContent: "no change known" })));
  });
}

/** The pros and cons of a facet that has them. */
function sides(facet, drawn) {
  return ["pros", "cons"].filter((side) => facet[side]?.length).flatMap((side) => [
    el("p", { className: `side ${side}`, textContent: side === "pros" ? "Pros" : "Cons" }),
    el("ol", { className: "sentences", ariaLabel: `${side === "pros" ? "Pros" : "Cons"} of ${drawn.named(facet)}` }, ...facet[side].map((one) => drawn.sentence(one))),
  ]);
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
  const known = new Map(before.map((one) => [labelOf(one), one.sentences]));
  const changes = body.facets.filter((one) => body.changed.includes(one.name) && known.has(labelOf(one))).map((facet) => {
    const added = missingIn(known.get(labelOf(facet)), facet.sentences);
    const removed = missingIn(facet.sentences, known.get(labelOf(facet)));
    return {
      isLive: true, tombstone: false, facet: labelOf(facet), sequence: body.sequence, occurred_at: body.occurred_at,
      published_at: new Date().toISOString(), cause: body.cause, added: [...added.keys()], removed: [...removed.keys()],
      added_texts: Object.fromEntries(added), removed_texts: Object.fromEntries(removed),
    };
  });
  return changes.filter((one) => one.added.length || one.removed.length); // a name in `changed` may be that of another language
}

/** Texts by id of those that are not among some. */
function missingIn(some, others) {
  const texts = new Map(some.map((one) => [one.sentence_id, one.text]));
  return new Map(others.filter((one) => texts.get(one.sentence_id) !== one.text).map((one) => [one.sentence_id, one.text]));
}
