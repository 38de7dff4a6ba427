// The page's addresses: "#/" for what changes now, "#/entity/ID" for one entity.

import { number } from "./dom.js";
import { entity } from "./entity.js";
import { mark, search } from "./list.js";
import { recent } from "./recent.js";
import { ask } from "./server.js";

const TYPING_MS = 250;
const ENTITY = "#/entity/";

const shown = document.querySelector("#shown");
const contains = document.querySelector("#contains");
let end = () => {};
let typing;

function show() {
  end();
  const id = chosen();
  document.body.classList.toggle("one", id !== null);
  document.title = id === null ? "Summaries" : `${id}: summary`;
  end = id === null ? recent(shown) : entity(id, shown);
  mark(id);
}

/** The entity that the address names; null where it names none. */
function chosen() {
  if (!location.hash.startsWith(ENTITY)) return null;
  try {
    return decodeURIComponent(location.hash.slice(ENTITY.length)) || null;
  } catch {
    return null; // not UTF-8
  }
}

async function find() {
  clearTimeout(typing);
  document.body.classList.remove("one");
  await search(contains.value);
  mark(chosen());
}

async function introduce() {
  const worker = document.querySelector("#worker");
  try {
    const status = await ask("/page/status");
    const held = Object.keys(status.lag).length;
    worker.textContent = `${status.instance_id} · epoch ${status.epoch} · ${number(held)} of ${number(status.partition_count)} partitions`;
    if (!status.ready) worker.textContent += ` · ${status.reason}`;
  } catch (error) {
    worker.textContent = error.message;
  }
}

addEventListener("hashchange", show);
contains.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(find, TYPING_MS);
});
document.querySelector("#search").addEventListener("submit", (event) => {
  event.preventDefault();
  find();
});
show();
search("").then(() => mark(chosen()));
introduce();
setInterval(() => document.hidden || introduce(), 30_000);
