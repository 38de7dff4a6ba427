// In place of server.js, where the page is a file with its data inside: nothing is asked and nothing follows.

const saved = JSON.parse(document.querySelector("#saved").textContent);
const GAPS =
  "Some changes are missing: only the last change of an entity is sure to survive compaction, and limits of number or time leave " +
  "out more. A hatched end of a bar means that the change with which the sentence came or left is missing.";

export const MOST = { changes: Infinity, rows: Infinity };

export const about = async () => ({ facets: false, review_url: "" });

export const ofEntity = (_id, what) => what;

export async function ask(what) {
  if (what === "summary" && saved.view === "ranking" && saved.summary === null)
    throw Object.assign(new Error("It was deleted."), { status: 404 });
  if (what in saved) return saved[what];
  return { changes: saved.changes, before: null, note: saved.is_incomplete ? GAPS : "" };
}

export function showState(element) {
  element.className = "";
  element.replaceChildren(`${many(saved.changes.length, "change")} from `, foreign(saved.source));
}

export function follow(_path, on) {
  on.hello();
  on.state("live");
  return () => {};
}

document.title = `${saved.entity_id}: history of its ${saved.view === "ranking" ? "summary" : "facets"}`;
new Entity(saved.entity_id, document.querySelector("#shown"), "h1", { view: saved.view });
