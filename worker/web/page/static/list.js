// The entities of all workers of the group, searched and browsed page by page.

import { el, foreign, many, number } from "./dom.js";
import { ask } from "./server.js";

const LIMIT = 200;
const AGAIN_MS = 5000; // without an entity or an answer
const MOST_ASKED = 40; // a worker searches only briefly, so a rare id takes several requests

const found = document.querySelector("#found");
const notice = document.querySelector("#notice");
const more = document.querySelector("#more");
const order = document.querySelector("#order");
const touched = new Set(); // ids of the last entities that changed, the latest last
const MOST_TOUCHED = 1000;

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

/** Update the numbers of an entity that changed, remove a deleted one; add a new one if all entities are shown. A change from
 * before the list was read has older numbers than the list. */
export function changed(change) {
  const { entity_id, sequence, sentence_count: sentences, review_count: reviews } = change;
  const shown = [...found.children].find((one) => one.entity.entity_id === entity_id);
  touched.delete(entity_id);
  if (change.deleted) return shown?.remove();
  touched.add(entity_id);
  if (touched.size > MOST_TOUCHED) touched.delete(touched.values().next().value);
  if (shown && sequence > (shown.entity.sequence ?? -1)) {
    shown.entity = { entity_id, sequence, sentences, reviews };
    shown.querySelector("small").replaceWith(counts(shown.entity));
  } else if (!shown && isComplete && found.children.length < LIMIT && entity_id.includes(wanted)) {
    found.append(line({ entity_id, sequence, sentences, reviews }));
    say("");
  }
}

/** Put the entities into the chosen order, unless somebody is pointing at one. */
export function arrange() {
  if (found.matches(":hover, :focus-within")) return;
  const latest = new Map([...touched].map((id, at) => [id, at]));
  const rank = ({ entity }) => (order.value === "reviews" ? entity.reviews : latest.get(entity.entity_id) ?? -1);
  const now = [...found.children];
  const then = now.toSorted((one, other) => rank(other) - rank(one) || one.place - other.place);
  if (then.some((one, at) => one !== now[at])) found.append(...then);
}

order.addEventListener("change", arrange);

/** The id of the first entity; null without any. */
export const first = () => found.firstChild?.entity.entity_id ?? null;

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
    say("Searching …");
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
    arrange();
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
  if (notice.textContent !== text) notice.textContent = text;
}

function tell(missing) {
  const words = [];
  const count = found.children.length;
  if (!count && after === null) words.push(wanted ? `No id contains “${wanted}”.` : "There is no entity yet. The first one appears here with its first review.");
  if (after !== null) words.push(count ? `The order is among these ${number(count)}; there are more.` : `None among the first ${number(searched)}.`);
  if (missing.length) words.push(`Some entities are missing: ${missing.map((one) => `${one.url} does not answer (${one.why})`).join("; ")}.`);
  say(words.join(" "));
  more.textContent = "More entities";
  more.hidden = after === null;
}

let places = 0; // lines so far: they come in the order of ids

function line(entity) {
  const link = el("a", { href: `#/entity/${encodeURIComponent(entity.entity_id)}` }, foreign(entity.entity_id), counts(entity));
  link.dataset.id = entity.entity_id;
  return Object.assign(el("li", {}, link), { entity, place: places++ });
}

const counts = ({ reviews, sentences }) =>
  el("small", { textContent: number(reviews), title: `${many(sentences, "sentence")} of ${many(reviews, "review")}` });
