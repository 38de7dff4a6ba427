// The entities of all workers of the group with the most reviews, and the search by their ids.

import { el, foreign, many, number } from "./dom.js";
import { entitiesOf } from "./server.js";

const LIMIT = 200; // shown at first, and more with each click
const MOST_SHOWN = 1000; // a worker answers no more
const AGAIN_MS = 2000; // without an entity or an answer

const found = document.querySelector("#found");
const notice = document.querySelector("#notice");
const more = document.querySelector("#more");

let run = 0;
let wanted = "";
let most = LIMIT;
let isComplete = false; // all entities are shown
let isKnown = false; // some answer has come
let again;
let open = null; // id of the entity that is shown beside the list

/** Show the entities whose ids contain this. The window gets the event `listed` for each answer. */
export async function search(contains) {
  wanted = contains;
  most = LIMIT;
  await go();
}

more.addEventListener("click", () => {
  if (more.value === "more") most = Math.min(most + LIMIT, MOST_SHOWN);
  go();
});

/** The ids of the entities that are listed, the one with the most reviews first. */
export const largest = () => lines().filter(({ entity }) => "reviews" in entity).map(({ entity }) => entity.entity_id);

/** Whether it is known that nothing is found. */
export const isEmpty = () => isKnown && !largest().length;

/** Update the numbers of an entity that changed, remove a deleted one; add a new one if all entities are shown. A change from
 * before the list was read has older numbers than the list. */
export function changed(change) {
  const { entity_id, sequence, sentence_count: sentences, review_count: reviews } = change;
  const shown = lineOf(entity_id);
  if (change.deleted && entity_id === open) open = null;
  if (change.deleted) return shown?.remove();
  const entity = { entity_id, sequence, sentences, reviews };
  if (shown && sequence > (shown.entity.sequence ?? -1)) {
    shown.entity = entity;
    shown.querySelector("small").replaceWith(counts(entity));
  } else if (!shown && isComplete && found.children.length < most && entity_id.includes(wanted)) {
    found.append(line(entity));
    say("");
    if (found.children.length === 1) dispatchEvent(new Event("listed"));
  }
}

/** Put the entities into their order, unless somebody is pointing at one. */
export function arrange() {
  if (found.matches(":hover, :focus-within")) return;
  const now = lines();
  const then = now.toSorted((a, b) => (b.entity.reviews ?? Infinity) - (a.entity.reviews ?? Infinity) || a.place - b.place);
  if (then.some((item, at) => item !== now[at])) found.append(...then);
}

/** Mark the entity that is shown, in a line of its own if it is not listed. */
export function mark(id) {
  open = id;
  for (const item of lines()) if (!("reviews" in item.entity)) item.remove();
  if (id !== null && !lineOf(id)) found.prepend(line({ entity_id: id }));
  for (const { firstChild, entity } of lines()) {
    if (entity.entity_id === id) firstChild.setAttribute("aria-current", "page");
    else firstChild.removeAttribute("aria-current");
  }
}

/** Move the focus through the list by arrows, from the field and back to it. */
export function walkFrom(field) {
  field.addEventListener("keydown", (event) => step(event, -1));
  found.addEventListener("keydown", (event) => step(event, lines().indexOf(event.target.closest("li"))));
  function step(event, at) {
    const to = at + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] ?? NaN);
    if (Number.isNaN(to) || to < -1 || to >= found.children.length) return;
    event.preventDefault();
    (to < 0 ? field : found.children[to].firstChild).focus();
  }
}

const lines = () => [...found.children];
const lineOf = (id) => lines().find(({ entity }) => entity.entity_id === id);

async function go(isAgain = false) {
  const mine = ++run;
  clearTimeout(again);
  isComplete = false;
  if (!isAgain) {
    more.hidden = true;
    say("Searching …");
  }
  let answer;
  try {
    answer = await entitiesOf({ contains: wanted, order: "reviews", limit: most }, () => mine !== run);
    if (mine !== run) return;
  } catch (error) {
    if (mine !== run) return;
    say([0, 503].includes(error.status) ? "" : error.message); // the page says that nobody answers, or not yet
    more.textContent = "Try again";
    more.value = "again";
    more.hidden = [0, 503].includes(error.status);
    return later();
  }
  isKnown = true;
  const { entities, after, missing, searched } = answer;
  const shown = entities.sort((a, b) => b.reviews - a.reviews).slice(0, most);
  const isFull = shown.length === most;
  found.replaceChildren(...shown.map(line));
  mark(open);
  isComplete = after === null && !missing.length && !isFull;
  tell(shown.length, { isFull, isCut: after !== null, missing, searched });
  dispatchEvent(new Event("listed"));
  if (isComplete && !shown.length && !wanted) later();
}

function later() {
  again = setTimeout(() => (document.hidden ? later() : go(true)), AGAIN_MS);
}

/** Sets the text only if it differs, because screen readers announce it. */
function say(text) {
  if (notice.textContent !== text) notice.textContent = text;
}

function tell(count, { isFull, isCut, missing, searched }) {
  const words = [];
  if (!count && !isCut) words.push(wanted ? `No id contains “${wanted}”.` : "No entity yet.");
  if (!count && isCut) words.push(`None among the first ${number(searched)}.`);
  if (isFull) words.push(`The ${number(count)} with the most reviews${isCut || wanted ? "" : ` of ${number(searched)}`}. Search for others by their ids.`);
  else if (count && isCut) words.push(`Among the first ${number(searched)}. Search for others by their ids.`);
  if (missing.length) words.push(`Some entities are missing: ${missing.map((one) => `${one.url} does not answer (${one.why})`).join("; ")}.`);
  say(words.join(" "));
  more.textContent = "More entities";
  more.value = "more";
  more.hidden = !isFull || most === MOST_SHOWN;
}

let places = 0; // lines so far: equal ones come in the order of ids

function line(entity) {
  const link = el("a", { href: `#/entity/${encodeURIComponent(entity.entity_id)}` }, foreign(entity.entity_id), counts(entity));
  link.dataset.id = entity.entity_id;
  return Object.assign(el("li", {}, link), { entity, place: places++ });
}

const counts = ({ reviews, sentences }) =>
  reviews === undefined ? el("small") : el("small", { textContent: number(reviews), title: `${many(sentences, "sentence")} of ${many(reviews, "review")}` });
