// The facets of an entity: a row for each, with its sentences and its last change.

import { cameWith } from "./changes.js";
import { el, foreign, many, number, outOf } from "./dom.js";

export const SIDES = ["pros", "cons"];

/** The name of a facet, with its language if it has one: unique among the facets, and as changes name it. */
export const labelOf = ({ name, language }) => (language ? `${name} (${language})` : name);

/** How often reviews mention a facet; those with a sentence of it if it has no words. */
export const mentioned = (facet) => (facet.mentions ? many(facet.mentions.review_count, "mention") : many(facet.review_count, "review"));

/** The mean of ratings, and how many reviews gave each; nothing without any. */
export function rated({ mean, histogram }) {
  const stars = Object.entries(histogram ?? {}).sort(([a], [b]) => a - b).map(([rating, count]) => `${rating}★ ${number(count)}`);
  return mean === null ? [] : [outOf(mean, 1), ...(stars.length ? [stars.join(", ")] : [])];
}

/** `pro` or `con` for a sentence that is among those of its facet; empty for others. */
export const markOf = (sentence, facet) =>
  SIDES.find((side) => facet[side]?.some((one) => one.sentence_id === sentence.sentence_id))?.slice(0, -1) ?? "";

/** The languages of facets, that of the facet with the most sentences first. */
export function languagesOf(facets) {
  const ordered = facets.toSorted((a, b) => b.sentence_count - a.sentence_count);
  return [...new Set(ordered.map((one) => one.language).filter(Boolean))];
}

/**
 * Rows of a view of facets, with headings of this kind. `drawn` has what draws a `sentence` and a `line` of a change, and what
 * names a facet: `named`.
 */
export function rows(view, changes, heading, drawn) {
  return view.facets.filter((one) => one.sentence_count || one.mentions?.review_count).map((facet) => {
    const own = changes.filter((one) => one.tombstone || one.facet === labelOf(facet));
    const came = cameWith(own);
    const last = own.at(-1);
    const sentences = facet.sentences.map((one) => drawn.sentence(one, came.get(one.sentence_id), markOf(one, facet)));
    return el("li", {},
      el("div", {}, el(heading, {}, foreign(drawn.named(facet))), el("p", { className: "facts" }, ...facts(facet))),
      el("div", {}, el("ol", { className: "sentences" }, ...sentences), ...sides(facet, drawn)),
      el("ul", { className: "changes", ariaLabel: `Last change of ${drawn.named(facet)}` }, last && !last.tombstone ? drawn.line({ ...last, facet: null }) : el("li", { className: "note", textContent: "No change that is known here." })));
  });
}

/** The pros and cons of a facet that are not among its sentences. */
function sides(facet, drawn) {
  const shown = new Set(facet.sentences.map((one) => one.sentence_id));
  const others = SIDES.map((side) => [side, (facet[side] ?? []).filter((one) => !shown.has(one.sentence_id))]);
  return others.filter(([, sentences]) => sentences.length).map(([side, sentences]) => el("div", { className: side },
    el("p", { className: "side", textContent: side }),
    el("ol", { className: "sentences", ariaLabel: `${side} of ${drawn.named(facet)}` }, ...sentences.map((one) => drawn.sentence(one)))));
}

function facts(facet) {
  const counts = [mentioned(facet), ...rated((facet.mentions ?? facet).ratings), many(facet.sentence_count, "sentence")];
  return counts.map((textContent) => el("span", { textContent }));
}

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
