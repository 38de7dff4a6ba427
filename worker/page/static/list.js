// The entities: searched and browsed page by page, of all workers of the group.

import { ask, el, foreign, many, number } from "./dom.js";

const LIMIT = 50;
const MOST_ASKED = 40; // a worker looks for a moment only, so a rare id takes several pages

const found = document.querySelector("#found");
const told = document.querySelector("#told");
const more = document.querySelector("#more");

let run = 0;
let after = null;
let searched = 0;

/** Show the entities whose ids contain this. */
export async function search(contains) {
  found.replaceChildren();
  after = null;
  searched = 0;
  more.onclick = () => go(contains);
  await go(contains);
}

/** Mark the entity that is shown. */
export function mark(id) {
  for (const link of found.querySelectorAll("a")) {
    if (link.dataset.id === id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function go(contains) {
  const mine = ++run;
  more.hidden = true;
  told.textContent = "searching …";
  let wanted = LIMIT;
  let missing = [];
  try {
    for (let asked = 0; asked < MOST_ASKED && wanted > 0; asked += 1) {
      const query = new URLSearchParams({ contains, limit: wanted });
      if (after !== null) query.set("after", after);
      const page = await ask(`/page/entities?${query}`);
      if (mine !== run) return;
      found.append(...page.entities.map(line));
      wanted -= page.entities.length;
      searched += page.searched;
      ({ after, missing } = page);
      if (after === null) break;
    }
    tell(missing);
  } catch (error) {
    if (mine !== run) return;
    told.textContent = error.message;
    more.textContent = "Try again";
    more.hidden = false;
  }
}

function tell(missing) {
  const words = [];
  if (!found.children.length) words.push(after === null ? "no entity" : "none yet");
  if (after !== null) words.push(`${number(searched)} looked at so far`);
  for (const one of missing) words.push(`partitions ${one.partitions.join(", ")} of ${one.url} are missing: ${one.why}`);
  told.textContent = words.join("; ");
  more.textContent = "More entities";
  more.hidden = after === null;
}

function line(entity) {
  const link = el("a", { href: `#/entity/${encodeURIComponent(entity.entity_id)}` }, foreign(entity.entity_id),
    el("small", { textContent: number(entity.sentences), title: `${many(entity.sentences, "sentence")} of ${many(entity.reviews, "review")}` }));
  link.dataset.id = entity.entity_id;
  return el("li", {}, link);
}
