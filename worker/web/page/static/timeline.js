// The chart of the history of a summary or of facets: a strip of what came and left at each change, and a row for each sentence
// with a bar for each time it was shown.

import { el, foreign } from "./dom.js";

const END = 100; // percent, where the bar of a present sentence ends

/**
 * The chart as an element.
 *
 * steps      of each change the numbers `came` and `left`, and `isEnd` where nothing is shown after it
 * sentences  `text`, `id`, `rating`, `isShown` now, and `spans`: [first step, last step or null, is the start known, is the end known]
 * axis       `at`, the percentage of each step, and `ticks` of [percentage, label]
 */
export function timeline({ steps, sentences, axis }) {
  const ends = (first, last) => ({ a: axis.at[first], b: axis.at[last] ?? END });
  const most = Math.max(1, ...steps.flatMap((one) => [one.came, one.left]));
  const marks = steps.map((one, i) =>
    placed("step" + (one.isEnd ? " end" : ""), { ...ends(i), up: one.came / most, down: one.left / most }));
  const labels = axis.ticks.map(([at, label]) => placed(`tick${at < 1 ? " first" : at > 90 ? " last" : ""}`, { at }, label));
  const lines = axis.ticks.map(([at]) => placed("line", { at }));
  const head = el("div", { className: "head", ariaHidden: "true" },
    el("span", { className: "label" }, "new", el("b", { textContent: "gone" })), el("span", { className: "track" }, ...marks, ...labels));
  const rows = sentences.map((one) => el("div", { className: "row", role: "listitem" },
    label(one), el("span", { className: "track" }, ...one.spans.map((span) => bar(span, one.isShown, ends)))));
  const plot = el("div", { className: "plot", tabIndex: 0, role: "group", ariaLabel: "Timeline of sentences" }, head,
    el("div", { className: "rows", role: "list" }, ...rows),
    el("div", { className: "grid", ariaHidden: "true" }, ...lines));
  return el("figure", { className: "chart" }, el("figcaption", {}, "When each sentence was shown"), plot);
}

/** An element whose custom properties the style sheet reads. */
function placed(className, places, text = "") {
  const element = el("i", { className, textContent: text });
  for (const [name, value] of Object.entries(places)) element.style.setProperty(`--${name}`, value);
  return element;
}

function bar([first, last, isStartKnown, isEndKnown], isShown, ends) {
  const kinds = ["bar", !isShown || "now", isStartKnown || "from-before", isEndKnown || "gone-unseen", last !== null || "still"];
  return placed(kinds.filter((one) => one !== true).join(" "), ends(first, last ?? undefined));
}

function label(sentence) {
  const spoken = sentence.spans.map(([first, last]) => `from change ${first + 1} ${last === null ? "on" : `to ${last + 1}`}`).join(", ");
  return el("span", { className: "label", title: sentence.text },
    ...(typeof sentence.rating === "number" ? [el("b", { className: "rating", textContent: sentence.rating })] : []),
    el("q", {}, foreign(sentence.text)), el("small", {}, foreign(sentence.id)), el("span", { className: "hidden", textContent: `, ${spoken}` }));
}
