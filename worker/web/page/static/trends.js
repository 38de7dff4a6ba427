// How many reviews mention each facet by quarter, and whose complaints rose.

import { el, number } from "./dom.js";
import { labelOf } from "./facets.js";
import { ask, ofEntity } from "./server.js";

const SHOWN = 6; // quarters

/** A table that is read when it is opened. */
export function trends(id) {
  const said = el("p", { className: "note", role: "status" });
  const box = el("details", { className: "trends" }, el("summary", { textContent: "Over time" }), said);
  box.ontoggle = async () => {
    if (!box.open) return;
    const found = await ask(ofEntity(id, "trend?by=quarter")).catch((why) => why);
    box.querySelector("table")?.remove();
    const periods = found.facets ? periodsOf(found.facets) : [];
    said.textContent = found instanceof Error ? found.message : periods.length ? "Reviews that mention it, by quarter of their own dates." : "No review with a date mentions a subject.";
    if (periods.length) box.append(table(found.facets, periods));
  };
  return box;
}

const periodsOf = (facets) =>
  [...new Set(facets.flatMap((facet) => facet.periods.map((one) => one.period)))].sort().slice(-SHOWN);

function table(facets, periods) {
  const cell = (textContent) => el("td", { textContent });
  const rows = facets.map((facet) => {
    const counts = new Map(facet.periods.map((one) => [one.period, one.review_count]));
    const { rose, may_have_risen, recent, before } = facet.complaints;
    const change = rose ? "complaints rose" : may_have_risen ? "complaints may have risen" : "";
    const title = change && `${number(recent)} in the last 90 days, ${number(before)} in the 365 before`;
    return el("tr", {}, el("th", { scope: "row", textContent: labelOf(facet) }), ...periods.map((name) => cell(number(counts.get(name) ?? 0))), el("td", { textContent: change, title }));
  });
  const heads = ["subject", ...periods, "change"].map((textContent) => el("th", { scope: "col", textContent }));
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows));
}
