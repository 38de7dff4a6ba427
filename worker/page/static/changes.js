// An entity's last changes, the oldest first, and what they tell of its sentences.

const MOST_KEPT = 400;

/** Changes read from the history, and those that came live while it was read: each once, in their order. */
export function joined(read, live) {
  const last = read.findLast((one) => !one.tombstone)?.sequence ?? -1;
  return [...read, ...live.filter((one) => one.isLive && one.sequence > last)];
}

/** Whether there are more than need be kept: then they are read anew. */
export const areTooMany = (changes) => changes.length > MOST_KEPT;

/** A body that was just published, as the history would tell it; texts that left are of the summary and the changes before it. */
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

/** The same of the end of an entity. */
export const asTombstone = () => ({
  isLive: true, tombstone: true, sequence: null, occurred_at: null, published_at: now(),
  cause: null, added: [], removed: [], added_texts: {}, removed_texts: {},
});

const now = () => new Date().toISOString();

/** By id, the change with which each sentence came into the summary and did not leave it since. */
export function cameWith(changes) {
  const came = new Map();
  for (const change of changes) {
    if (change.tombstone) came.clear();
    for (const id of change.removed) came.delete(id);
    for (const id of change.added) came.set(id, change);
  }
  return came;
}

/** The date of a sentence's review: known where that review itself brought the sentence, with this text, into the summary. */
export function dateOf(sentence, changes) {
  const own = changes.findLast((change) =>
    change.cause?.type === "review.upserted" && change.cause.review_id === sentence.review_id &&
    change.occurred_at && change.added_texts[sentence.sentence_id] === sentence.text);
  return own?.occurred_at ?? null;
}
