// An entity's last changes as a picture: a line for each sentence, a bar from the change it came with to the one it left with.

import { moment, svg } from "./dom.js";

const [NARROWEST, WIDEST] = [320, 960];
const LABEL = 0.34; // of the width
const CHARACTER = 6.2;
const ROW = 20;
const HEAD = 24;
const MOST_ROWS = 60;

/** The picture of changes (the oldest first) and the sentences of now, in so many pixels; null where there is nothing to draw. */
export function timeline(changes, sentences, room) {
  const width = Math.min(Math.max(room, NARROWEST), WIDEST);
  const label = Math.round(LABEL * width);
  const rows = lives(changes, sentences).slice(0, MOST_ROWS);
  if (!changes.length || !rows.length) return null;
  const height = HEAD + rows.length * ROW + 6;
  const x = (step) => label + ((width - label - 12) * step) / changes.length;
  const picture = svg("svg", { class: "timeline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Which sentences were in the summary, change by change" });
  for (const [step, text, anchor] of [[0, when(changes[0]), "start"], [changes.length, "now", "end"]]) {
    const name = svg("text", { class: "axis", x: x(step), y: 15, "text-anchor": anchor });
    name.textContent = text;
    picture.append(svg("line", { class: "grid", x1: x(step), x2: x(step), y1: HEAD - 4, y2: height - 4 }), name);
  }
  rows.forEach((row, at) => picture.append(...line(row, HEAD + at * ROW, x, Math.floor(label / CHARACTER) - 2)));
  return picture;
}

function line(row, y, x, characters) {
  const label = svg("text", { x: 8, y: y + 14 });
  label.textContent = row.text.length > characters ? `${[...row.text].slice(0, characters - 1).join("")}…` : row.text;
  const title = svg("title");
  title.textContent = row.text;
  label.append(title);
  const bars = row.spans.map(([from, to]) =>
    svg("rect", { class: row.isShown && to === row.last ? "bar now" : "bar", x: x(from), y: y + 4, width: Math.max(x(to) - x(from), 3), height: ROW - 9, rx: 3 }));
  return [label, ...bars];
}

/** Of each sentence the spans of steps in which it was in the summary; those of now first, in their order. */
function lives(changes, sentences) {
  const known = new Map();
  const end = changes.length;
  const of = (id, text) => {
    if (!known.has(id)) known.set(id, { id, text: text ?? id, spans: [], since: null, last: end });
    return known.get(id);
  };
  const ends = (life, step) => {
    life.spans.push([life.since ?? 0, step]);
    life.since = null;
  };
  changes.forEach((change, step) => {
    for (const id of change.removed) ends(of(id, change.removed_texts[id]), step);
    if (change.tombstone) for (const life of known.values()) if (life.since !== null) ends(life, step);
    for (const id of change.added) of(id, change.added_texts[id]).since = step;
  });
  const now = sentences.map((one) => {
    const life = of(one.sentence_id, one.text);
    life.text = one.text;
    life.isShown = true;
    life.spans.push([life.since ?? (life.spans.length ? end : 0), end]);
    return life;
  });
  const gone = [...known.values()].filter((life) => !life.isShown && life.spans.length);
  return [...now, ...gone.reverse()];
}

const when = (change) => moment(change.occurred_at ?? change.published_at, false) || `offset ${change.sequence ?? change.offset}`;
