// The page's addresses: "#/" for what changes now, "#/entity/ID" for one entity, "#/entity/ID?view=facets&language=fr" for a view.

import { el } from "./dom.js";
import { Entity } from "./entity.js";
import { arrange, changed, first, mark, search } from "./list.js";
import { recent } from "./recent.js";
import { ask } from "./server.js";

const TYPING_MS = 250;
const WIDE = "(min-width: 46rem)"; // the list is beside the content
const ENTITY = "#/entity/";

const shown = document.querySelector("#shown");
const contains = document.querySelector("#contains");
let page = { end: () => {} }; // an entity, or that of the latest changes
let typing;

/** Show what the address names; returns whether it is another page than before. */
function show() {
  const { id, view, language } = chosen();
  if (id !== null && page.id === id) return page.go({ view, language });
  page.end();
  document.body.classList.toggle("one", id !== null);
  document.title = id === null ? "Summaries" : `${id} · Summaries`;
  page = id === null ? { end: home() } : new Entity(id, shown, "h1", { view, language, onChoose: (query) => remember(id, query), onChange });
  mark(id);
  return true;
}

function onChange(change) {
  changed(change);
  arrange();
}

/** Show the latest changes and, where there is room, the first entity; returns a function that ends both. */
function home() {
  const changes = el("div");
  const one = el("section", { ariaLabel: "The first entity" });
  shown.replaceChildren(el("div", { className: "home-view" }, changes, one));
  const ends = [recent(changes)];
  let isOver = false;
  listed.then(() => {
    const id = first();
    if (!isOver && id !== null && matchMedia(WIDE).matches) {
      const view = new Entity(id, one, "h2", { onChange });
      ends.push(() => view.end());
    }
  });
  return () => {
    isOver = true;
    ends.forEach((close) => close());
  };
}

/** Move the focus to what is shown, so that the keyboard and a screen reader continue there. */
function enter() {
  const heading = shown.querySelector("h1");
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
  mark(chosen().id);
}

async function introduce() {
  const worker = document.querySelector("#worker");
  try {
    const status = await ask("/page/status");
    worker.textContent = status.ready ? "" : `This worker is not ready: ${status.reason}`;
    worker.title = `${status.instance_id}, epoch ${status.epoch}`;
  } catch (error) {
    worker.textContent = error.message;
  }
}

const listed = search("");
addEventListener("hashchange", () => {
  if (show()) enter();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address names no entity
  enter();
});
contains.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(find, TYPING_MS);
});
document.querySelector("#search").addEventListener("submit", (event) => {
  event.preventDefault();
  find();
});
show();
listed.then(() => mark(chosen().id));
introduce();
setInterval(() => document.hidden || introduce(), 30_000);
