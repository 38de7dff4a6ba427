// One entity: its overview, facets, short view or ranking, their history, and their changes as they happen.

import { areTooMany, asChange, asTombstone, cameWith, charted, dateOf, joined } from "./changes.js";
import { command, el, foreign, learnScale, many, moment, number, outOf, quoted, shorten } from "./dom.js";
import { asChanges, labelOf, languagesOf, rows } from "./facets.js";
import { blocks } from "./overview.js";
import { timeline } from "./timeline.js";
import { questions } from "./questions.js";
import { trends } from "./trends.js";
import { AGAIN_MS, MOST, about, ask, curl, entitiesOf, follow, ofEntity, showState } from "./server.js";

const VIEW_EVERY_MS = 5000; // a view reads the complete entity, so it is requested rarely
const HISTORY_EVERY_MS = 10000; // a history reads thousands of messages

const TABS = { overview: "Overview", facets: "Facets", short: "Short", ranking: "Ranking" };
const OF_FACETS = ["overview", "facets"];
const VIEWS = { overview: "summary?view=overview&sentences=30", facets: "facets", short: "summary?view=short" }; // the ranking is the summary
const NOTHING = "There is nothing to quote yet.";
const NO_QUOTE = "No facet quotes a sentence.";
const NEAR = 3; // ids that are named instead of an unknown one
const WORTH = 0.05; // share of reviews that the model does not read from which it is said

/** What is known of the history of the summary, or of the facets. */
class Past {
  constructor(query) {
    this.query = query;
    this.changes = [];
    this.before = null;
    this.isKnown = false;
    this.isAsking = false;
    this.note = "";
  }
}

/**
 * An entity in the element; `end` ends it, `go` shows another view. `chosen` has the `view`, the `language` of facets, and what
 * takes note of another choice, as a query, and of changes: `onChoose` and `onChange`. With `isBrief` it is its overview alone.
 */
export class Entity {
  constructor(id, shown, { view, language, onChoose, onChange, isBrief = false } = {}) {
    this.id = id;
    this.isMissing = false; // there is no such entity now
    this.stream = ["connecting", ""];
    this.onChoose = onChoose ?? (() => {});
    this.onChange = onChange ?? (() => {});
    this.summary = null;
    this.views = {}; // the last answer of each
    this.pasts = { summary: new Past({}), facets: new Past({ facets: 1 }) };
    this.reviewUrl = "";
    this.view = null; // until the worker says whether it has facets
    this.isOver = false;
    this.taken = 0; // changes that came live
    this.isAsking = false; // for the summary
    this.fresh = new Set();
    this.state = el("span", { className: "state", role: "status", textContent: "connecting" });
    this.counts = el("span", { className: "counts" });
    this.problem = el("p", { className: "problem", role: "status", hidden: true });
    this.content = el("div");
    this.unread = el("p", { className: "note", hidden: true });
    this.reads = []; // languages of the model, if they are declared
    this.language = language ?? null; // the chosen one; empty: all
    this.languages = el("div", { className: "views small", role: "group", ariaLabel: "Language", hidden: true });
    this.picture = el("div");
    this.list = el("ol", { className: "changes" });
    this.note = el("p", { className: "note" });
    this.older = el("button", { type: "button", textContent: "Older changes", hidden: true, onclick: () => this.loadHistory(this.past, this.past.before) });
    this.trends = trends(id);
    this.trends.hidden = true; // unless the worker has facets
    this.buttons = Object.entries(TABS).map(([value, textContent]) => el("button", { type: "button", value, textContent, onclick: () => this.choose(value) }));
    this.others = el("details", {}, el("summary", { textContent: "More" }));
    this.tabs = el("div", { className: "views tabs", role: "group", ariaLabel: "View" });
    this.questions = questions(id, (sentence) => this.review(sentence));
    this.questions.hidden = true; // unless the worker embeds them
    this.curl = el("details", { className: "curl" }, el("summary", { textContent: "curl" }));
    this.body = el("div", { className: "entity" });
    shown.replaceChildren(
      el("h1", {}, isBrief ? el("a", { href: `#/entity/${encodeURIComponent(id)}` }, foreign(id)) : foreign(id)),
      el("p", { className: "facts" }, this.counts, this.state), this.problem, this.body);
    this.body.append(...(isBrief ? [this.languages, this.content] : [
      this.questions, this.tabs, this.languages, this.unread, this.content, this.curl, this.trends,
      el("h2", { textContent: "How it came about" }), this.picture, this.list, this.note, this.older]));
    about().then((worker) => {
      if (this.isOver) return;
      this.reviewUrl = worker.review_url ?? "";
      this.reads = worker.reads ?? [];
      this.first = worker.facets ? "overview" : "short";
      this.trends.hidden = !worker.facets;
      this.questions.hidden = worker.embedder === "none";
      this.others.append(...this.buttons.slice(OF_FACETS.length)); // these are all tabs without facets
      this.tabs.append(...(worker.facets ? [...this.buttons.slice(0, OF_FACETS.length), this.others] : this.others.querySelectorAll("button")));
      this.open(view);
    });
    this.close = follow(ofEntity(id, "changes", "/page"), {
      state: (name, why) => this.setState(name, why),
      hello: () => this.load(),
      skipped: () => this.loadHistoryLater(HISTORY_EVERY_MS), // the last changes follow, with the summary
      change: (body) => this.take(body),
      facets: (body) => this.takeFacets(body),
    });
  }

  end() {
    this.isOver = true;
    for (const timer of [this.again, this.later, this.retry]) clearTimeout(timer);
    this.close();
  }

  setState(name, why) {
    this.stream = [name, why];
    this.drawState();
    if (name !== "waiting" || why || this.isAsking) return;
    this.loadSummary(); // shows the counts, or why there are none
    if (this.view in VIEWS && !this.views[this.view]) this.loadView();
  }

  drawState() {
    const [name, why] = this.stream;
    if (name !== "connecting") showState(this.state, name === "live" && this.isMissing ? "missing" : name, why);
  }

  /** The history beside the view. */
  get past() {
    return this.pasts[OF_FACETS.includes(this.view) ? "facets" : "summary"];
  }

  choose(view, language = this.language) {
    this.go({ view, language });
    this.tell();
  }

  /** Show what an address names. */
  go({ view, language = null }) {
    this.language = language;
    if (this.view) this.open(view);
  }

  /** Tell what the reader has chosen. */
  tell() {
    const { view, language } = this;
    const query = { view, ...(OF_FACETS.includes(view) && language !== null && { language }) };
    this.onChoose(new URLSearchParams(query));
  }

  open(view) {
    this.view = Object.hasOwn(TABS, view ?? "") ? view : this.first;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.value === this.view));
    this.others.open ||= !OF_FACETS.includes(this.view);
    if (this.views.overview?.asked !== this.language) this.views.overview = null;
    if (this.stream[0] !== "connecting") { // else when it is connected: no change is missed in between
      if (this.view in VIEWS) this.loadView();
      if (!this.past.isKnown) this.loadHistory(this.past, null);
    }
    this.draw();
  }

  load() {
    this.loadSummary();
    if (!this.view) return;
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
      if (this.view in VIEWS && !this.views[this.view]) this.loadView();
    } catch (error) {
      if (this.isOver || taken !== this.taken) return;
      this.refuse(error);
    } finally {
      this.isAsking = false;
    }
    this.draw();
  }

  /** Say why there is no answer, and ask again if there may be one soon. That nobody answers the page says. */
  refuse({ status, message }) {
    clearTimeout(this.retry);
    if (status === 503) this.retry = setTimeout(() => this.loadSummary(), AGAIN_MS);
    if (status === 404 && !this.isMissing) this.miss();
    else if (status && status !== 404) this.setProblem(message[0].toUpperCase() + message.slice(1));
  }

  /** There is no such entity: name the nearest ids. */
  async miss() {
    this.isMissing = true;
    this.summary = null;
    this.views = {};
    this.onChange({ entity_id: this.id, deleted: true });
    this.setProblem(`There is no entity “${this.id}”.`);
    const near = this.id.slice(0, 200);
    const { entities } = await entitiesOf({ near, limit: NEAR }).catch(() => ({ entities: [] }));
    if (!this.isMissing || this.isOver || !entities.length) return;
    const nearest = entities.sort((a, b) => likeness(b.entity_id, near) - likeness(a.entity_id, near)).slice(0, NEAR);
    const links = nearest.flatMap(({ entity_id }, at) => [at ? ", " : " The nearest ids: ", el("a", { href: `#/entity/${encodeURIComponent(entity_id)}` }, foreign(entity_id))]);
    this.problem.append(...links, ".");
  }

  async loadView() {
    const { view, language } = this;
    clearTimeout(this.again);
    this.again = undefined;
    try {
      const query = view === "overview" && language ? `&language=${encodeURIComponent(language)}` : "";
      const found = await ask(ofEntity(this.id, VIEWS[view] + query));
      if (found.language) this.views.facets ??= await ask(ofEntity(this.id, VIEWS.facets)); // says which languages there are
      if (this.isOver || (view === "overview" && language !== this.language)) return;
      this.views[view] = { ...found, asked: language };
      this.setProblem("");
    } catch (error) {
      if (this.isOver || language !== this.language) return;
      this.views[view] = null;
      if (error.status === 400 && language && view === this.view) return this.go({ view }); // the address has an unknown language
      if (error.status !== 404 || !this.summary) this.refuse(error);
    }
    this.draw();
  }

  loadViewLater() {
    if (this.view in VIEWS) this.again ??= setTimeout(() => this.view in VIEWS && this.loadView(), VIEW_EVERY_MS);
  }

  /** The last changes, or those before an offset. */
  async loadHistory(past, before) {
    if (past.isAsking) return;
    past.isAsking = true;
    this.older.disabled = true;
    try {
      const query = new URLSearchParams(before === null ? past.query : { ...past.query, before });
      const found = await ask(ofEntity(this.id, query.size ? `history?${query}` : "history", "/page"));
      if (this.isOver) return;
      past.changes = before === null ? joined(found.changes, past.changes) : [...found.changes, ...past.changes];
      past.before = found.before;
      past.isKnown = true;
      past.note = past.changes.length ? found.note ?? "" : `It did not change of late: ${many(found.looked_at, "change")} of entities were looked at.`;
    } catch (error) {
      if (this.isOver) return;
      past.note = `Its history is not available: ${error.message}`;
    } finally {
      past.isAsking = false;
    }
    this.older.disabled = false;
    this.draw();
  }

  /** A change, just published; null is the end of the entity. */
  take(body) {
    const past = this.pasts.summary, isShown = this.past === past;
    this.taken += 1;
    this.isMissing = body === null;
    clearTimeout(this.retry);
    if (body === null) {
      this.summary = null;
      this.views = {};
      past.changes.push(asTombstone());
      this.setProblem("It was deleted.");
    } else {
      this.grow(past, [asChange(body, this.summary?.sentences ?? [], past.changes)]);
      if (body.sequence > (this.summary?.sequence ?? -1)) {
        if (isShown) this.fresh = new Set(body.added);
        this.summary = body;
        this.setProblem("");
      }
    }
    this.onChange(body ?? { entity_id: this.id, deleted: true });
    this.loadViewLater();
    if (isShown || body === null) this.draw(); // what is drawn again is no longer marked as new
    else this.drawState();
  }

  /** A change of facets, just published; null is their end. */
  takeFacets(body) {
    const past = this.pasts.facets, isShown = this.past === past;
    const { facets, overview } = this.views, before = facets ?? overview;
    if (body === null) {
      past.changes.push(asTombstone());
    } else if (before && body.sequence > (before.sequence ?? -1)) {
      const changes = asChanges(body, before.facets);
      if (isShown) this.fresh = new Set(changes.flatMap((one) => one.added));
      this.grow(past, changes);
      if (facets) this.views.facets = { ...facets, ...body };
      if (overview) this.views.overview = { ...overview, ...body, facets: renewed(overview.facets, body.facets) };
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
    const known = this.view in VIEWS ? this.views[this.view] : this.summary;
    const [shown, past] = OF_FACETS.includes(this.view) && known ? this.ofLanguage(known) : [known, this.past];
    this.body.hidden = !this.summary && !this.problem.hidden; // unknown, or not yet there
    this.drawCurl();
    this.drawUnread();
    this.drawCounts(known ?? this.summary);
    this.languages.hidden = !OF_FACETS.includes(this.view) || !this.languages.childElementCount;
    this.picture.replaceChildren();
    this.content.replaceChildren(...(shown ? this.drawn(shown, past) : []));
    this.list.replaceChildren(...past.changes.slice(-MOST.changes).reverse().map(line));
    this.note.textContent = past.note;
    this.older.hidden = past.before === null;
    this.fresh = new Set();
    for (const one of [this.content, this.list]) shorten(one);
  }

  drawCounts(of) {
    const ratings = of?.ratings ?? this.summary?.ratings;
    learnScale(ratings?.histogram);
    const rated = ratings?.mean ?? null;
    const counts = of?.review_count === undefined ? [] : [many(of.review_count, "review"), many(of.sentence_count, "sentence")];
    this.counts.replaceChildren(
      ...(rated === null ? [] : [el("b", { textContent: outOf(rated, 1) })]),
      ...counts.map((textContent) => el("span", { textContent })));
  }

  /** The command that asks for what is shown. */
  drawCurl() {
    const { view, language } = this;
    if (!view) return;
    const query = view === "overview" && language ? `&language=${encodeURIComponent(language)}` : "";
    const text = curl(ofEntity(this.id, (VIEWS[view] ?? "summary") + query));
    if (this.curl.querySelector("code")?.textContent === text) return;
    this.curl.querySelector(".command")?.remove();
    this.curl.append(command(text));
  }

  /** The entity's reviews in languages that the model does not read, as [code, number]; empty where nothing is known. */
  get foreign() {
    const languages = Object.entries(this.views.overview?.languages ?? {});
    return this.reads.length ? languages.filter(([code]) => !this.reads.includes(code)) : [];
  }

  /** What the model does not read, in a sentence; empty if it is little. */
  drawUnread() {
    const count = this.foreign.reduce((sum, [, reviews]) => sum + reviews, 0);
    const isWorth = count && count >= WORTH * this.views.overview.review_count;
    const codes = this.foreign.slice(0, 4).map(([code]) => nameOf(code));
    this.unread.textContent = isWorth ? `${many(count, "review")} in ${codes.join(", ")}: this model reads ${this.reads.map(nameOf).join(", ")}.` : "";
    this.unread.hidden = !isWorth;
  }

  /** The view, as elements; draws its chart. */
  drawn(shown, past) {
    if (OF_FACETS.includes(this.view)) {
      const isOverview = this.view === "overview";
      const named = (facet) => (shown.language ? facet.name : labelOf(facet));
      const how = { sentence: (...of) => this.sentence(...of), review: (one) => this.review(one), line, named, fresh: this.fresh };
      const items = isOverview ? blocks(shown, "h2", how) : rows(shown, past.changes, "h2", how);
      if (!isOverview) this.drawChart(past, shown.facets.flatMap((facet) => facet.sentences.map((one) => ({ ...one, facet: labelOf(facet) }))));
      const list = items.length ? [el("ul", { className: `facets ${this.view}` }, ...items)] : [];
      return isOverview && !shown.sentences.length ? [...list, this.withoutQuotes(items)] : items.length ? list : [nothing()];
    }
    const came = cameWith(past.changes);
    if (this.view === "ranking") this.drawChart(past, shown.sentences);
    return [shown.sentences.length ? this.ordered(shown.sentences, came) : nothing()];
  }

  /** Why an overview has no quotes, and where all sentences are. */
  withoutQuotes() {
    const all = el("button", { type: "button", className: "more", textContent: "See all sentences.", onclick: () => this.choose("ranking") });
    return el("p", { className: "note" }, ...(this.unread.hidden ? [NO_QUOTE, " "] : []), all);
  }

  ordered(sentences, came) {
    return el("ol", { className: "sentences" }, ...sentences.map((one) => this.sentence(one, came.get(one.sentence_id))));
  }

  /** Facets and their history in the chosen language, at first that of the most sentences; draws the switch if there are several. */
  ofLanguage(view) {
    const isOverview = this.view === "overview"; // always of one language
    const several = languagesOf((this.views.facets ?? view).facets);
    if (several.length < 2) return [view, this.past];
    if (this.language && !several.includes(this.language)) this.language = null; // the address has an unknown one
    const chosen = isOverview ? view.language : this.language ?? several[0];
    const codes = isOverview ? several : [...several, ""], shown = [...this.languages.children];
    if (codes.join() !== shown.map((one) => one.value).join()) {
      this.languages.replaceChildren(...codes.map((code) =>
        el("button", { type: "button", value: code, textContent: code ? nameOf(code) : "All languages", onclick: () => this.choose(this.view, code) })));
    }
    for (const button of this.languages.children) button.ariaPressed = String(button.value === chosen);
    if (!chosen) return [view, this.past];
    const facets = view.facets.filter((one) => !one.language || one.language === chosen);
    const labels = new Set(facets.map(labelOf));
    const changes = this.past.changes.filter((one) => one.tombstone || labels.has(one.facet));
    return [{ ...view, facets, language: chosen }, { ...this.past, changes }];
  }

  drawChart(past, sentences) {
    const chart = charted(past.changes, sentences, MOST.rows);
    if (chart) this.picture.append(timeline(chart));
  }

  sentence(one, came, mark = "") {
    const facts = {};
    if (this.view === "ranking") facts.distance = one.distance.toFixed(3);
    if (one.support > 1) facts.copies = number(one.support);
    if (one.stands_for !== undefined) facts["stands for"] = `${number(one.stands_for)} (${many(one.stands_for_reviews, "review")})`;
    if (one.rating !== null) facts.rated = outOf(one.rating);
    const date = moment(one.occurred_at ?? dateOf(one, this.past.changes)); // the short view has none
    const since = came ? moment(came.occurred_at ?? came.published_at) : "";
    if (date) facts.date = date;
    if (since && since !== date) facts.since = since;
    const pairs = Object.entries(facts).map(([name, value]) => el("div", {}, el("dt", { textContent: name }), el("dd", { textContent: value })));
    return el("li", { className: this.fresh.has(one.sentence_id) ? "new" : "", title: one.sentence_id },
      el("span", { className: "rank", textContent: one.rank + 1 }), el("div", {}, quoted(one.text), el("div", { className: "source" }, ...(mark ? [el("span", { className: `mark ${mark}`, textContent: mark })] : []), ...(pairs.length ? [el("dl", {}, ...pairs)] : []), this.review(one))));
  }

  /** The review of a sentence, linked if the worker knows where reviews are. */
  review({ review_id }) {
    const ids = { entity_id: this.id, review_id };
    const href = this.reviewUrl.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(ids[name]));
    return el(href ? "a" : "span", href ? { href } : {}, "review ", foreign(review_id));
  }
}

const nothing = () => el("p", { className: "note", textContent: NOTHING });

/** How many pairs of characters two ids share: to choose among the first ids of several pages. */
function likeness(...ids) {
  const [a, b] = ids.map((id) => new Set([...id.toLowerCase()].map((character, at, all) => character + (all[at + 1] ?? ""))));
  return [...a].filter((pair) => b.has(pair)).length / (a.size + b.size);
}

/** Facets as a change has them, where it has them. */
function renewed(facets, changed) {
  const now = new Map(changed.map((one) => [labelOf(one), one]));
  return facets.map((one) => now.get(labelOf(one)) ?? one);
}

/** A language as its readers call it. */
function nameOf(code) {
  return new Intl.DisplayNames([], { type: "language" }).of(code);
}

/** A change in words: when it came, why, and when its review was written, if that was another day. */
function line(change) {
  const arrived = moment(change.published_at), written = moment(change.occurred_at, false);
  const at = arrived || written;
  if (change.tombstone) return el("li", {}, el("time", { textContent: at }), el("p", { textContent: "deleted" }));
  const isLater = written && moment(change.published_at, false) !== written;
  const why = [change.facet, whyOf(change) + (arrived && isLater ? `, written ${written}` : "")].filter(Boolean).join(" · ");
  const texts = (ids, from, className) => ids.map((one) => quoted(from[one] ?? one, className));
  const gap = change.incomplete ? [el("small", { className: "note", textContent: " · changes before it are not here" })] : [];
  return el("li", {}, el("time", { textContent: `${at} · ${why}` }), ...gap,
    ...texts(change.added, change.added_texts, "came"), ...texts(change.removed, change.removed_texts, "left"));
}

const WORDS = { "review.deleted": "deleted review", "sentences.deleted": "deleted sentences" };

/** The cause of a change in words. A review whose sentences left was edited. Whether another one is new or edited is not known. */
function whyOf({ cause, removed }) {
  if (cause.type !== "review.upserted") return WORDS[cause.type] ?? cause.type.replaceAll(".", " ");
  const isEdited = removed.some((id) => id.slice(0, id.lastIndexOf("#")) === cause.review_id);
  return `${isEdited ? "edited review" : "review"} ${cause.review_id}`;
}
