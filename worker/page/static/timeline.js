// The chart of the history of a summary or of facets: a strip of what came and left at each change, and a row for each sentence
// with a bar for each time it was shown. The live page draws it, and the file that `history --html` writes.

import { el, foreign } from "./dom.js";

const END = 100; // percent, where the bar of a present sentence ends
const SHADES = 5;
const MOST_NARROW = 4; // labels of the axis on a narrow screen

/**
 * The chart as an element.
 *
 * steps      of each change the numbers `came` and `left`, and `isEnd` where nothing is shown after it
 * sentences  `text`, `id`, `rating`, `shade` (a class), and `spans`: [first step, last step or null, is the start known, is the end known]
 * axes       `time` (null without a clock) and `steps`: `at`, the percentage of each step, and `ticks` of [percentage, label]
 * scale      the lowest and the highest rating, null without ratings
 */
export function timeline({ steps, sentences, axes, scale = null }) {
  const { at: byStep } = axes.steps;
  const { at: byTime } = axes.time ?? axes.steps;
  const ends = (first, last) => ({ a: byTime[first], b: byTime[last] ?? END, sa: byStep[first], sb: byStep[last] ?? END });
  const ticks = Object.entries(axes).flatMap(([name, axis]) => (axis?.ticks ?? []).map(([at, label], i, { length }) => ({ name, at, label, isSpare: length > MOST_NARROW && i % 2 === 1 })));
  const most = Math.max(1, ...steps.flatMap((one) => [one.came, one.left]));
  const marks = steps.map((one, i) =>
    placed("step" + (one.isEnd ? " end" : ""), { ...ends(i), up: one.came / most, down: one.left / most }));
  const labels = ticks.map(({ name, at, label, isSpare }) =>
    placed(`tick ${name}${at < 1 ? " first" : at > 90 ? " last" : ""}${isSpare ? " spare" : ""}`, { at }, label));
  const lines = ticks.map(({ name, at }) => placed(`line ${name}`, { at }));
  const head = el("div", { className: "head", ariaHidden: "true" },
    el("span", { className: "label" }, "came", el("b", { textContent: "left" })), el("span", { className: "track" }, ...marks, ...labels));
  const rows = sentences.map((one) => el("div", { className: "row", role: "listitem" },
    label(one), el("span", { className: "track" }, ...one.spans.map((span) => bar(span, one.shade ?? "r-none", ends)))));
  const plot = el("div", { className: "plot", tabIndex: 0, role: "group", ariaLabel: "Timeline of sentences" }, head,
    el("div", { className: "rows", role: "list" }, ...rows),
    el("div", { className: "grid", ariaHidden: "true" }, el("i", { className: "cursor" }), ...lines));
  const chart = el("figure", { className: "chart" },
    el("figcaption", {}, "When each sentence was shown", ...(scale ? [legend(scale)] : [])), plot);
  chart.dataset.axis = axes.time ? "time" : "steps";
  return chart;
}

/** An element whose custom properties the style sheet reads. */
function placed(className, places, text = "") {
  const element = el("i", { className, textContent: text });
  for (const [name, value] of Object.entries(places)) element.style.setProperty(`--${name}`, value);
  return element;
}

function bar([first, last, isStartKnown, isEndKnown], shade, ends) {
  const kinds = ["bar", shade, isStartKnown || "from-before", isEndKnown || "gone-unseen", last !== null || "still"];
  const element = placed(kinds.filter((one) => one !== true).join(" "), ends(first, last ?? undefined));
  Object.assign(element.dataset, { first: first + 1, ...(last === null ? {} : { last: last + 1 }) });
  return element;
}

function label(sentence) {
  const spoken = sentence.spans.map(([first, last]) => `from change ${first + 1} ${last === null ? "on" : `to ${last + 1}`}`).join(", ");
  return el("span", { className: "label", title: sentence.text },
    ...(typeof sentence.rating === "number" ? [el("b", { className: "rating", textContent: sentence.rating })] : []),
    el("q", {}, foreign(sentence.text)), el("small", {}, foreign(sentence.id)), el("span", { className: "hidden", textContent: `, ${spoken}` }));
}

function legend([lowest, highest]) {
  const shades = [...Array(SHADES).keys()].map((shade) => el("i", { className: `r${shade}` }));
  return lowest === highest
    ? el("span", { className: "legend" }, shades[SHADES - 1], ` rated ${highest}`)
    : el("span", { className: "legend" }, `rated ${lowest} `, ...shades, ` ${highest}`);
}
