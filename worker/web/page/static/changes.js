// An entity's last changes, the oldest first, and what follows from them for its sentences.

import { moment, number } from "./dom.js";

const MOST_KEPT = 400;
const LAST = 96; // percent of the axis at which the last change is drawn

/** Changes read from the history and those that came live during the reading: each once, in order. */
export function joined(read, live) {
  const last = read.findLast((one) => !one.tombstone)?.sequence ?? -1;
  return [...read, ...live.filter((one) => one.isLive && one.sequence > last)];
}

/** Whether there are too many to keep; the history is then read again. */
export const areTooMany = (changes) => changes.length > MOST_KEPT;

/** A new `summary.changed` as a change of the history, with the texts of removed sentences from the summary and changes before. */
export function asChange(body, sentences, changes) {
  const texts = (shown) => new Map(shown.map((one) => [one.sentence_id, one.text]));
  const pick = (ids, from) => Object.fromEntries(ids.map((one) => [one, from.get(one) ?? null]));
  const before = new Map([...changes.flatMap((one) => Object.entries(one.added_texts)), ...texts(sentences)]);
  return {
    isLive: true, tombstone: false, sequence: body.sequence, occurred_at: body.occurred_at, published_at: now(),
    cause: body.cause, added: body.added, removed: body.removed,
    added_texts: pick(body.added, texts(body.sentences)), removed_texts: pick(body.removed, before),
  };
}

/** The deletion of an entity as a change of the history. */
export const asTombstone = () => ({
  isLive: true, tombstone: true, sequence: null, occurred_at: null, published_at: now(),
  cause: null, added: [], removed: [], added_texts: {}, removed_texts: {},
});

const now = () => new Date().toISOString();

/** By id, the change that brought each sentence that is still in the summary. */
export function cameWith(changes) {
  const came = new Map();
  for (const change of changes) {
    if (change.tombstone) came.clear();
    for (const id of change.removed) came.delete(id);
    for (const id of change.added) came.set(id, change);
  }
  return came;
}

/** The date of a sentence's review; null unless that review brought the sentence, with this text, into the summary. */
export function dateOf(sentence, changes) {
  const own = changes.findLast((change) =>
    change.cause?.type === "review.upserted" && change.cause.review_id === sentence.review_id &&
    change.occurred_at && change.added_texts[sentence.sentence_id] === sentence.text);
  return own?.occurred_at ?? null;
}

/**
 * The changes as `timeline` draws them, with the present sentences first, in their order; null without a sentence. A sentence of
 * several facets has a row in each.
 */
export function charted(changes, sentences, mostRows) {
  const last = Math.max(changes.length - 1, 0);
  const known = new Map();
  const named = (text, facet) => (facet ? `${facet}: ${text}` : text);
  const of = (id, text, facet) => {
    const key = named(id, facet);
    if (!known.has(key)) known.set(key, { id, text: named(text ?? id, facet), spans: [], since: null });
    return known.get(key);
  };
  const ends = (life, step) => {
    life.spans.push([life.since ?? 0, step, life.since !== null, true]);
    life.since = null;
  };
  const shown = () => [...known.values()].filter((life) => life.since !== null);
  const steps = changes.map((change, step) => {
    const left = change.tombstone ? shown() : change.removed.map((id) => of(id, change.removed_texts[id], change.facet));
    left.forEach((life) => ends(life, step));
    for (const id of change.added) of(id, change.added_texts[id], change.facet).since = step;
    return { came: change.added.length, left: left.length, isEnd: change.tombstone };
  });
  const now = sentences.map((one) => {
    const life = of(one.sentence_id, one.text, one.facet);
    const since = life.since ?? (life.spans.length ? last : 0);
    return Object.assign(life, { text: named(one.text, one.facet), rating: one.rating, isShown: true, spans: [...life.spans, [since, null, life.since !== null, true]] });
  });
  for (const life of shown().filter((one) => !one.isShown)) { // it left with a change that is missing
    const gap = changes.findIndex((change, step) => step > life.since && change.incomplete);
    if (gap > 0) life.spans.push([life.since, gap, true, false]);
  }
  const gone = [...known.values()].filter((life) => !life.isShown && life.spans.length);
  const rows = [...now, ...gone.reverse()].slice(0, mostRows);
  if (!changes.length || !rows.length) return null;
  return { steps, sentences: rows, axis: byTime(changes) ?? byNumber(changes.length) };
}

/** The axis of equidistant changes, labelled by their number. */
function byNumber(count) {
  const at = [...Array(count).keys()].map((step) => (LAST * step) / Math.max(count - 1, 1));
  return { at, ticks: [...new Set([0, count - 1])].map((step) => [at[step], `change ${number(step + 1)}`]) };
}

/** The axis of time, by the clock of the events if most have a date, else by that of publication; null if no clock tells changes apart. */
function byTime(changes) {
  for (const clock of ["occurred_at", "published_at"]) {
    const times = changes.map((one) => Date.parse(one[clock] ?? ""));
    const known = times.filter((one) => !Number.isNaN(one));
    const first = known[0];
    let latest = first;
    const ascending = times.map((one) => (latest = Number.isNaN(one) ? latest : Math.max(latest, one)));
    if (2 * known.length < changes.length || !(latest > first)) continue;
    const ticks = [[0, first], [LAST, latest]].map(([at, time]) => [at, moment(new Date(time).toISOString(), false)]);
    return { at: ascending.map((one) => (LAST * (one - first)) / (latest - first)), ticks };
  }
  return null;
}
