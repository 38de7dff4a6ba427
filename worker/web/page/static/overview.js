// The overview: a block for each subject, with its counts, what reviews say about it, and pros and cons.

import { el, quoted } from "./dom.js";
import { labelOf, mentioned, rated, SIDES } from "./facets.js";

const MOST_QUOTES = 2; // of a subject

/**
 * Blocks of the facets of an overview, with headings of this kind. `drawn` has what draws the `review`
 * of a sentence, what names a facet, and which sentences are `fresh`.
 */
export const blocks = (view, heading, drawn) => view.facets.map((facet) => block(facet, quotesOf(facet, view), heading, drawn));

/** The quotes of a facet that are not among its pros and cons; its nearest sentence if another subject has said all. */
function quotesOf(facet, view) {
  const name = view.language ? facet.name : labelOf(facet);
  const own = view.sentences.filter((one) => one.facet === name);
  const atSides = new Set(SIDES.flatMap((side) => facet[side] ?? []).map((one) => one.sentence_id));
  const found = own.filter((one) => !atSides.has(one.sentence_id)).slice(0, MOST_QUOTES);
  return found.length || atSides.size ? found : facet.sentences.slice(0, 1);
}

function block(facet, quotes, heading, drawn) {
  const list = (sentences) => el("ul", { className: "quotes" }, ...sentences.map((one) => quote(one, drawn)));
  const sides = SIDES.filter((side) => facet[side]?.length).map((side) =>
    el("div", { className: side }, el("p", { className: "side", textContent: side }), list(facet[side])));
  return el("li", {},
    el("div", {}, el(heading, { dir: "auto", textContent: drawn.named(facet) }),
      el("p", { className: "facts" }, ...[mentioned(facet), ...rated((facet.mentions ?? facet).ratings)].map((textContent) => el("span", { textContent })))),
    el("div", {}, ...(quotes.length ? [list(quotes)] : []), ...(sides.length ? [el("div", { className: "sides" }, ...sides)] : [])));
}

function quote(one, drawn) {
  const rated = one.rating === null ? [] : [el("span", { textContent: `rated ${one.rating.toLocaleString()}` })];
  return el("li", { className: drawn.fresh.has(one.sentence_id) ? "new" : "" },
    el("blockquote", {}, quoted(one.text)), el("p", { className: "source" }, ...rated, drawn.review(one)));
}
