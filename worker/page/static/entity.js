// One entity: its summary, short view or facets, their history, and their changes as they happen.

import { areTooMany, asChange, asTombstone, cameWith, charted, dateOf, joined } from "./changes.js";
import { el, foreign, letScroll, many, moment, number } from "./dom.js";
import { asChanges, labelOf, languagesOf, rows } from "./facets.js";
import { timeline } from "./timeline.js";
import { MOST, ask, follow, ofEntity, showState } from "./server.js";

const VIEW_EVERY_MS = 5000; // a short view, and that of facets, reads the complete entity, so it is requested rarely
const HISTORY_EVERY_MS = 10000; // a history reads thousands of messages

const VIEWS = { short: "summary?view=short", facets: "facets" };

/** What is known of the history of the summary, or of the facets. */
class Past {
  constructor(query) {
    this.query = query;
    this.changes = [];
    this.before = null;
    this.isKnown = false;
    this.note = "";
  }
}

/**
 * Show an entity in the element, with a heading of this kind; returns a function that ends it. `chosen` has the `view`, the
 * `language` of facets, and what takes note, as a query, when another is chosen: `onChoose`.
 */
export function entity(id, shown, heading = "h1", chosen = {}) {
  const page = new Entity(id, shown, heading, chosen);
  return () => page.end();
}

class Entity {
  constructor(id, shown, heading, { view, language, onChoose }) {
    this.id = id;
    this.isMissing = false; // there is no such entity now
    this.stream = ["connecting", ""];
    this.onChoose = onChoose ?? (() => {});
    this.summary = null;
    this.views = { short: null, facets: null };
    this.pasts = { set: new Past({}), facets: new Past({ facets: 1 }) };
    this.isOver = false;
    this.taken = 0; // changes that came live
    this.isAsking = false; // for the summary
    this.fresh = new Set();
    this.state = el("span", { className: "state", role: "status", textContent: "connecting" });
    this.counts = el("span");
    this.problem = el("p", { className: "problem", role: "alert", hidden: true });
    this.sentences = el("ol", { className: "sentences" });
    this.facets = el("ul", { className: "facets" });
    this.language = language ?? null; // the chosen one; empty: all
    this.languages = el("div", { className: "views", role: "group", ariaLabel: "Language" });
    this.picture = el("div");
    this.list = el("ol", { className: "changes" });
    this.note = el("p", { className: "note" });
    this.older = el("button", { type: "button", textContent: "Older changes", hidden: true, onclick: () => this.loadHistory(this.past, this.past.before) });
    this.buttons = { set: "The summary", short: "Short view", facets: "Facets" };
    for (const [name, text] of Object.entries(this.buttons)) {
      this.buttons[name] = el("button", { type: "button", textContent: text, onclick: () => this.choose(name) });
    }
    this.buttons.facets.hidden = true;
    this.heading = heading === "h1" ? "h2" : "h3";
    shown.replaceChildren(
      el(heading, {}, foreign(id)), el("p", { className: "facts" }, this.state, this.counts), this.problem,
      el("div", { className: "views" }, ...Object.values(this.buttons)), this.languages, this.sentences, this.facets,
      el(this.heading, { textContent: "How it came about" }), this.picture, this.list, this.note, this.older);
    this.open(Object.hasOwn(this.buttons, view) ? view : "set");
    ask("/page/status").then((status) => (this.buttons.facets.hidden = !status.facets), () => {});
    this.close = follow(ofEntity(id, "changes"), {
      state: (name, why) => this.setState(name, why),
      hello: () => this.load(),
      skipped: () => this.loadHistoryLater(HISTORY_EVERY_MS), // the last changes follow, with the summary
      change: (body) => this.take(body),
      facets: (body) => this.takeFacets(body),
    });
  }

  end() {
    this.isOver = true;
    clearTimeout(this.again);
    clearTimeout(this.later);
    this.close();
  }

  setState(name, why) {
    this.stream = [name, why];
    this.drawState();
    if (name === "waiting" && !why && !this.isAsking) this.loadSummary(); // shows the summary, or why there is none
  }

  drawState() {
    const [name, why] = this.stream;
    if (name !== "connecting") showState(this.state, name === "live" && this.isMissing ? "missing" : name, why);
  }

  /** The history beside the view. */
  get past() {
    return this.pasts[this.view === "facets" ? "facets" : "set"];
  }

  choose(view) {
    this.open(view);
    this.tell();
  }

  chooseLanguage(code) {
    this.language = code;
    this.draw();
    this.tell();
  }

  /** Tell what the reader has chosen. */
  tell() {
    const { view, language } = this;
    const query = { ...(view !== "set" && { view }), ...(view === "facets" && language !== null && { language }) };
    this.onChoose(new URLSearchParams(query));
  }

  open(view) {
    this.view = view;
    for (const [name, button] of Object.entries(this.buttons)) button.setAttribute("aria-pressed", String(name === view));
    if (view in VIEWS) this.loadView();
    if (view === "facets" && !this.past.isKnown) this.loadHistory(this.past, null);
    this.draw();
  }

  load() {
    this.loadSummary();
    if (this.past.isKnown) this.loadHistoryLater(Math.random() * HISTORY_EVERY_MS); // all pages of a restarted worker reconnect at once
    else this.loadHistory(this.past, null);
    if (this.view in VIEWS) this.loadView();
  }

  loadHistoryLater(ms) {
    this.later ??= setTimeout(() => {
      this.later = undefined;
      for (const past of Object.values(this.pasts)) if (past.isKnown || past === this.past) this.loadHistory(past, null);
    }, ms);
  }

  async loadSummary() {
    const taken = this.taken;
    this.isAsking = true;
    try {
      const summary = await ask(ofEntity(this.id, "summary"));
      if (this.isOver || taken !== this.taken) return; // a change that came since is newer
      this.summary = summary;
      this.isMissing = false;
      this.setProblem("");
    } catch (error) {
      if (this.isOver || taken !== this.taken) return;
      if (error.status === 404) this.summary = null;
      this.isMissing = error.status === 404;
      this.setProblem(error.message);
    } finally {
      this.isAsking = false;
    }
    this.draw();
  }

  async loadView() {
    const view = this.view;
    clearTimeout(this.again);
    this.again = undefined;
    try {
      this.views[view] = await ask(ofEntity(this.id, VIEWS[view]));
      if (!this.isOver) this.setProblem("");
    } catch (error) {
      this.views[view] = null;
      if (!this.isOver) this.setProblem(error.message);
    }
    if (!this.isOver) this.draw();
  }

  loadViewLater() {
    if (this.view in VIEWS) this.again ??= setTimeout(() => this.view in VIEWS && this.loadView(), VIEW_EVERY_MS);
  }

  /** The last changes, or those before an offset. */
  async loadHistory(past, before) {
    this.older.disabled = true;
    try {
      const query = new URLSearchParams(before === null ? past.query : { ...past.query, before });
      const found = await ask(ofEntity(this.id, query.size ? `history?${query}` : "history"));
      if (this.isOver) return;
      past.changes = before === null ? joined(found.changes, past.changes) : [...found.changes, ...past.changes];
      past.before = found.before;
      past.isKnown = true;
      past.note = past.changes.length ? found.note ?? "" : `no change of it among the last ${number(found.looked_at)} that were published in its partition`;
    } catch (error) {
      if (this.isOver) return;
      past.note = `its history is not available: ${error.message}`;
    }
    this.older.disabled = false;
    this.draw();
  }

  /** A change, just published; null is the end of the entity. */
  take(body) {
    const past = this.pasts.set, isShown = this.past === past;
    this.taken += 1;
    this.isMissing = body === null;
    if (body === null) {
      this.summary = null;
      this.views = { short: null, facets: null };
      past.changes.push(asTombstone());
      this.setProblem("it was deleted");
    } else {
      this.grow(past, [asChange(body, this.summary?.sentences ?? [], past.changes)]);
      if (body.sequence > (this.summary?.sequence ?? -1)) {
        if (isShown) this.fresh = new Set(body.added);
        this.summary = body;
        this.setProblem("");
      }
    }
    this.loadViewLater();
    if (isShown || body === null) this.draw(); // what is drawn again is no longer marked as new
    else this.drawState();
  }

  /** A change of facets, just published; null is their end. */
  takeFacets(body) {
    const past = this.pasts.facets, isShown = this.past === past, before = this.views.facets;
    if (body === null) {
      past.changes.push(asTombstone());
    } else if (before !== null && body.sequence > (before.sequence ?? -1)) {
      const changes = asChanges(body, before.facets);
      if (isShown) this.fresh = new Set(changes.flatMap((one) => one.added));
      this.grow(past, changes);
      this.views.facets = { ...before, ...body };
      this.loadViewLater();
    }
    if (isShown) this.draw();
  }

  /** Add changes that came live. */
  grow(past, changes) {
    past.changes = joined(past.changes, changes);
    past.note = "";
    if (areTooMany(past.changes)) this.loadHistoryLater(HISTORY_EVERY_MS);
  }

  setProblem(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }

  draw() {
    this.drawState();
    const isOfFacets = this.view === "facets";
    const known = this.view in VIEWS ? this.views[this.view] : this.summary;
    const [shown, past] = isOfFacets && known ? this.ofLanguage(known) : [known, this.past];
    this.counts.textContent = shown?.review_count !== undefined ? `${many(shown.review_count, "review")}, ${many(shown.sentence_count, "sentence")}` : "";
    this.languages.hidden = !isOfFacets || this.languages.childElementCount === 0;
    this.sentences.hidden = isOfFacets;
    this.facets.hidden = !isOfFacets;
    this.sentences.replaceChildren();
    this.facets.replaceChildren();
    this.picture.replaceChildren();
    if (isOfFacets) this.drawFacets(shown, past);
    else this.drawSentences(shown, past);
    this.list.replaceChildren(...past.changes.slice(-MOST.changes).reverse().map(line));
    this.note.textContent = past.note;
    this.older.hidden = past.before === null;
    this.fresh = new Set();
    for (const one of [this.sentences, this.facets, this.list]) letScroll(one);
  }

  drawSentences(shown, past) {
    const came = cameWith(past.changes);
    this.sentences.append(...(shown?.sentences ?? []).map((one) => this.sentence(one, came.get(one.sentence_id))));
    if (shown && !shown.sentences.length) this.sentences.append(el("li", { className: "note", textContent: "no sentence" }));
    this.drawChart(past, this.summary?.sentences ?? []);
  }

  /** Facets and their history in the chosen language, at first that of the most sentences; draws the switch if there are several. */
  ofLanguage(view) {
    const several = languagesOf(view.facets);
    if (several.length < 2) return [view, this.past];
    if (this.language && !several.includes(this.language)) this.language = null; // the address has an unknown one
    const chosen = (this.language ??= several[0]);
    if (!this.languages.childElementCount) {
      this.languages.append(...[...several, ""].map((code) =>
        el("button", { type: "button", value: code, textContent: code ? nameOf(code) : "All languages", onclick: () => this.chooseLanguage(code) })));
    }
    for (const button of this.languages.children) button.setAttribute("aria-pressed", String(button.value === chosen));
    if (!chosen) return [view, this.past];
    const facets = view.facets.filter((one) => !one.language || one.language === chosen);
    const labels = new Set(facets.map(labelOf));
    const changes = this.past.changes.filter((one) => one.tombstone || labels.has(one.facet));
    return [{ ...view, facets, language: chosen }, { ...this.past, changes }];
  }

  drawFacets(shown, past) {
    const named = (facet) => (shown.language ? facet.name : labelOf(facet));
    const drawn = { sentence: (one, came) => this.sentence(one, came), line, named };
    if (shown) this.facets.append(...rows(shown, past.changes, this.heading, drawn));
    this.drawChart(past, (shown?.facets ?? []).flatMap((facet) => facet.sentences.map((one) => ({ ...one, facet: labelOf(facet) }))));
  }

  drawChart(past, sentences) {
    const chart = charted(past.changes, sentences, MOST.rows);
    if (chart) this.picture.append(timeline(chart));
  }

  sentence(one, came) {
    const facts = { distance: one.distance.toFixed(3) };
    if (one.support > 1) facts["copies"] = number(one.support);
    if (one.stands_for !== undefined) facts["stands for"] = `${number(one.stands_for)} (${many(one.stands_for_reviews, "review")})`;
    if (one.rating !== null) facts["rating"] = number(one.rating);
    const date = moment(one.occurred_at ?? dateOf(one, this.past.changes)); // the short view has none
    const since = came ? moment(came.occurred_at ?? came.published_at) || `offset ${came.sequence}` : "";
    if (date) facts["date"] = date;
    if (since && since !== date) facts["since"] = since;
    const pairs = Object.entries(facts).map(([name, value]) => el("div", {}, el("dt", { textContent: name }), el("dd", { textContent: value })));
    return el("li", { className: this.fresh.has(one.sentence_id) ? "new" : "", title: one.sentence_id },
      el("span", { className: "rank", textContent: one.rank + 1 }), el("p", {}, foreign(one.text)), el("dl", {}, ...pairs));
  }
}

/** A language as its readers call it. */
function nameOf(code) {
  return new Intl.DisplayNames([], { type: "language" }).of(code);
}

function line(change) {
  const at = moment(change.occurred_at ?? change.published_at);
  if (change.tombstone) return el("li", {}, el("time", { textContent: at }), el("p", { textContent: "deleted" }));
  const why = [change.facet, change.cause.type.replaceAll(".", " ")].filter(Boolean).join(" · ");
  const texts = (ids, from, className) => ids.map((one) => el("p", { className }, foreign(from[one] ?? one)));
  const gap = change.incomplete ? [el("small", { className: "note", textContent: " · changes before it are not here" })] : [];
  return el("li", {}, el("time", { textContent: `${at} · ${why}` }), ...gap,
    ...texts(change.added, change.added_texts, "came"), ...texts(change.removed, change.removed_texts, "left"));
}
