// The page's addresses: "#/" for the largest entity and what changes now, "#/entity/ID" for one entity,
// "#/entity/ID?view=facets&language=fr" for a view.

import { cards } from "./cards.js";
import { command, el, many } from "./dom.js";
import { Entity } from "./entity.js";
import { arrange, changed, isEmpty, largest, mark, search, walkFrom } from "./list.js";
import { recent } from "./recent.js";
import { ask, behind, notYet } from "./server.js";

const TYPING_MS = 250;
const SOON_MS = 2000; // between two looks at a worker that starts or is behind
const RARELY_MS = 30_000;
const NOTHING_MS = 6000; // after which a worker without a record is taken to have no reviews
const BEHIND = 500; // records, from which the page says that they wait
const CARDS = 6;
const ENTITY = "#/entity/";

const shown = document.querySelector("#shown");
const contains = document.querySelector("#contains");
const worker = document.querySelector("#worker");
let page = { end: () => {} }; // an entity, or home
let status; // of the worker, as it was last seen
let idleSince = null; // when it was first seen with nothing to read
let typing, looking;

/** Show what the address names; returns whether it is another page than before. */
function show() {
  const { id, view, language } = chosen();
  if (id !== null && page.id === id) return page.go({ view, language });
  page.end();
  document.body.classList.toggle("one", id !== null);
  document.title = id === null ? "Summaries" : `${id} · Summaries`;
  page = id === null ? home() : new Entity(id, shown, { view, language, onChoose: (query) => remember(id, query), onChange });
  mark(id);
  return true;
}

function onChange(change) {
  changed(change);
  arrange();
}

/** The overview of the entity with the most reviews, cards of the next ones, and the latest changes. */
function home() {
  const largestOne = el("section", { ariaLabel: "The entity with the most reviews" });
  const others = el("section", { ariaLabel: "More entities" }), changes = el("section", { className: "news", ariaLabel: "Latest changes" });
  shown.replaceChildren(el("div", { className: "home-view" }, el("div", {}, largestOne, others), changes));
  const ends = [recent(changes)];
  let first = null;
  const draw = () => {
    const [id, ...next] = largest();
    if (first !== null || contains.value) return; // it stays while one reads or searches
    if (id === undefined) return largestOne.replaceChildren(...empty());
    first = new Entity(id, largestOne, { onChange: take, isBrief: true });
    ends.push(() => first.end(), cards(next.slice(0, CARDS), others));
  };
  const take = (change) => {
    onChange(change);
    if (change.deleted) restart(); // with the next one
  };
  addEventListener("listed", draw);
  ends.push(() => removeEventListener("listed", draw));
  draw();
  const restart = () => {
    if (first === null || largest()[0] === first.id) return;
    page.end();
    page = home();
  };
  return { redraw: draw, restart, end: () => ends.forEach((close) => close()) };
}

/** Why there is no entity, and what brings one. */
function empty() {
  const isIdle = idleSince !== null && Date.now() - idleSince > NOTHING_MS;
  const late = status && (notYet(status) || (isIdle ? "" : "Not yet: no record has come"));
  if (!status || (!late && !isEmpty())) return [el("h1", { textContent: "Summaries" })];
  if (late) return [el("h1", { textContent: "Starting" }), el("p", { className: "problem", role: "status", textContent: `${late}.` })];
  const code = (textContent) => el("code", { textContent });
  const facets = el("p", {}, "For subjects such as noise or parking, start the worker with ", code("COVERSUMM_FACETS=preset:stays"), ", another preset, or a file.");
  return [
    el("h1", { textContent: "No reviews yet" }), el("p", {}, "The worker reads the topic ", code(status.input_topic ?? ""), ". Send it a file:"),
    command(`COVERSUMM_INPUT_TOPIC=${status.input_topic} coversumm-worker send reviews.csv`), ...(status.facets ? [] : [facets])];
}

/** Move the focus to what is shown, so that the keyboard and a screen reader continue there. */
function enter() {
  const heading = shown.querySelector("h1");
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus();
}

/** The entity that the address names, null where it names none, and what of it is shown. */
function chosen() {
  if (!location.hash.startsWith(ENTITY)) return { id: null };
  const [path, query] = location.hash.slice(ENTITY.length).split("?", 2);
  try {
    return { id: decodeURIComponent(path) || null, ...Object.fromEntries(new URLSearchParams(query)) };
  } catch {
    return { id: null }; // not UTF-8
  }
}

/** Name in the address what is shown of the entity, so that a reload keeps it and the browser goes back to it. */
function remember(id, query) {
  const address = `${ENTITY}${encodeURIComponent(id)}?${query}`;
  if (address !== location.hash) history.pushState(null, "", address);
}

async function find() {
  clearTimeout(typing);
  document.body.classList.remove("one");
  await search(contains.value);
}

/** Show the state of the worker, more often while it starts. */
async function look() {
  clearTimeout(looking);
  let isLate = false;
  if (!document.hidden) {
    const wasLate = status && notYet(status) !== "";
    status = await ask("/page/status").catch(() => undefined);
    isLate = !status || notYet(status) !== "" || !largest().length;
    idleSince = status && !notYet(status) ? idleSince ?? Date.now() : null;
    const isSaid = status && (!status.ready || behind(status) >= BEHIND);
    worker.textContent = isSaid ? (status.ready ? `${many(behind(status), "record")} behind` : notYet(status)) : "";
    worker.title = status ? `${status.instance_id}, epoch ${status.epoch}` : "";
    if (status && !largest().length) page.redraw?.();
    else if (wasLate && idleSince !== null) {
      await search(contains.value); // all that was waiting is there
      page.restart?.();
    }
  }
  clearTimeout(looking);
  looking = setTimeout(look, isLate ? SOON_MS : RARELY_MS);
}

addEventListener("hashchange", () => {
  if (show()) enter();
});
addEventListener("back", () => {
  page.end();
  page = { end: () => {} }; // another worker may answer now
  show();
  search(contains.value);
  look();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address names no entity
  enter();
});
contains.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(find, TYPING_MS);
});
document.querySelector("#search").addEventListener("submit", async (event) => {
  event.preventDefault();
  await find();
  const [id] = largest();
  if (id !== undefined && contains.value) location.hash = ENTITY + encodeURIComponent(id);
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  event.preventDefault();
  contains.focus();
});
walkFrom(contains);
show();
search("");
look();
