// The overview: a block for each subject, with its counts, what reviews say about it, and pros and cons.

import { el, moment, outOf, quoted } from "./dom.js";
import { labelOf, markOf, mentioned, rated, SIDES } from "./facets.js";

const MOST_QUOTES = 2; // of a subject

/**
 * Blocks of the facets of an overview, with headings of this kind. `drawn` has what draws the `review`
 * of a sentence, what names a facet, and which sentences are `fresh`.
 */
export const blocks = (view, heading, drawn) => view.facets.map((facet) => block(facet, quotesOf(facet, view), heading, drawn));

/** The quotes of a facet; its nearest sentence if another subject has said all. */
function quotesOf(facet, view) {
  const name = view.language ? facet.name : labelOf(facet);
  const own = view.sentences.filter((sentence) => sentence.facet === name).slice(0, MOST_QUOTES);
  return own.length || SIDES.some((side) => facet[side]?.length) ? own : facet.sentences.slice(0, 1);
}

function block(facet, quotes, heading, drawn) {
  const list = (sentences, mark = () => "") => el("ul", { className: "quotes" }, ...sentences.map((one) => quote(one, mark(one), drawn)));
  const said = new Set(quotes.map((one) => one.sentence_id));
  const others = SIDES.map((side) => [side, (facet[side] ?? []).filter((one) => !said.has(one.sentence_id))]);
  const sides = others.filter(([, sentences]) => sentences.length).map(([side, sentences]) =>
    el("div", { className: side }, el("p", { className: "side", textContent: side }), list(sentences)));
  return el("li", {},
    el("div", {}, el(heading, { dir: "auto", textContent: drawn.named(facet) }),
      el("p", { className: "facts" }, ...[mentioned(facet), ...rated((facet.mentions ?? facet).ratings)].map((textContent) => el("span", { textContent })))),
    el("div", {}, ...(quotes.length ? [list(quotes, (one) => markOf(one, facet))] : []), ...(sides.length ? [el("div", { className: "sides" }, ...sides)] : [])));
}

function quote(sentence, mark, drawn) {
  const date = moment(sentence.occurred_at);
  const facts = [mark, sentence.rating === null ? "" : outOf(sentence.rating), date].filter(Boolean);
  return el("li", { className: drawn.fresh.has(sentence.sentence_id) ? "new" : "" },
    el("blockquote", {}, quoted(sentence.text)),
    el("p", { className: "source" }, ...facts.map((textContent) => el("span", { className: textContent === mark ? `mark ${mark}` : "", textContent })), drawn.review(sentence)));
}
