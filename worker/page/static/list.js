// The entities of all workers of the group, searched and browsed page by page.

import { el, foreign, many, number } from "./dom.js";
import { ask } from "./server.js";

const LIMIT = 50;
const AGAIN_MS = 5000; // without an entity or an answer
const MOST_ASKED = 40; // a worker searches only briefly, so a rare id takes several requests

const found = document.querySelector("#found");
const told = document.querySelector("#told");
const more = document.querySelector("#more");

let run = 0;
let wanted = "";
let isComplete = false; // all entities are shown
let again;
let after = null;
let searched = 0;

/** Show the entities whose ids contain this. */
export async function search(contains) {
  found.replaceChildren();
  after = null;
  wanted = contains;
  searched = 0;
  more.onclick = () => go(contains);
  await go(contains);
}

/** Update the numbers of an entity that changed; add a new one if all entities are shown. A change from before the list
 * was read has older numbers than the list. */
export function changed(change) {
  if (change.deleted) return;
  const { entity_id, sequence, sentence_count: sentences, review_count: reviews } = change;
  const now = line({ entity_id, sequence, sentences, reviews });
  const shown = [...found.children].find((one) => one.firstChild.dataset.id === entity_id)?.firstChild;
  if (shown && sequence > Number(shown.dataset.sequence)) {
    shown.dataset.sequence = sequence;
    shown.querySelector("small").replaceWith(now.querySelector("small"));
  } else if (!shown && isComplete && found.children.length < LIMIT && entity_id.includes(wanted)) {
    found.append(now);
    say("");
  }
}

/** The id of the first entity; null without any. */
export const first = () => found.querySelector("a")?.dataset.id ?? null;

/** Mark the entity that is shown. */
export function mark(id) {
  for (const link of found.querySelectorAll("a")) {
    if (link.dataset.id === id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function go(contains, isAgain = false) {
  const mine = ++run;
  clearTimeout(again);
  isComplete = false;
  if (!isAgain) {
    more.hidden = true;
    say("searching …");
  }
  let room = LIMIT;
  let missing = [];
  try {
    for (let asked = 0; asked < MOST_ASKED && room > 0; asked += 1) {
      const query = new URLSearchParams({ contains, limit: room });
      if (after !== null) query.set("after", after);
      const page = await ask(`/page/entities?${query}`);
      if (mine !== run) return;
      found.append(...page.entities.map(line));
      room -= page.entities.length;
      searched += page.searched;
      ({ after, missing } = page);
      if (after === null) break;
    }
    isComplete = after === null && !missing.length;
    tell(missing);
    if (isComplete && !found.children.length && !contains) later(contains);
  } catch (error) {
    if (mine !== run) return;
    say(error.message);
    more.textContent = "Try again";
    more.hidden = false;
    later(contains);
  }
}

function later(contains) {
  const before = found.children.length;
  again = setTimeout(() => {
    if (document.hidden) later(contains);
    else if (found.children.length === before) go(contains, true);
  }, AGAIN_MS);
}

/** Sets the text only if it differs, because screen readers announce it. */
function say(text) {
  if (told.textContent !== text) told.textContent = text;
}

function tell(missing) {
  const words = [];
  if (!found.children.length) words.push(after === null ? "no entity" : "none yet");
  if (after !== null) words.push(`${number(searched)} looked at so far`);
  for (const one of missing) words.push(`partitions ${one.partitions.join(", ")} of ${one.url} are missing: ${one.why}`);
  say(words.join("; "));
  more.textContent = "More entities";
  more.hidden = after === null;
}

function line(entity) {
  const link = el("a", { href: `#/entity/${encodeURIComponent(entity.entity_id)}` }, foreign(entity.entity_id),
    el("small", { textContent: number(entity.sentences), title: `${many(entity.sentences, "sentence")} of ${many(entity.reviews, "review")}` }));
  link.dataset.id = entity.entity_id;
  link.dataset.sequence = entity.sequence ?? -1;
  return el("li", {}, link);
}
