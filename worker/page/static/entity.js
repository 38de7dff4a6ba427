// One entity: its summary or short view, its history, and its changes as they happen.

import { areTooMany, asChange, asTombstone, cameWith, charted, dateOf, joined } from "./changes.js";
import { el, foreign, letScroll, many, moment, number } from "./dom.js";
import { timeline } from "./timeline.js";
import { ask, follow, ofEntity, showState } from "./server.js";

const CHANGES_SHOWN = 50;
const SHORT_EVERY_MS = 5000; // a short view reads the complete entity, so it is requested rarely
const HISTORY_EVERY_MS = 10000; // a history reads thousands of messages

/** Show the entity in the element, with a heading of this kind; returns a function that ends it. */
export function entity(id, shown, heading = "h1") {
  const page = new Entity(id, shown, heading);
  return () => page.end();
}

class Entity {
  constructor(id, shown, heading) {
    this.id = id;
    this.isMissing = false; // there is no such entity now
    this.stream = ["connecting", ""];
    this.view = "set";
    this.summary = null;
    this.short = null;
    this.changes = [];
    this.before = null;
    this.isOver = false;
    this.taken = 0; // changes that came live
    this.isKnown = false; // the history
    this.isAsking = false; // for the summary
    this.fresh = new Set();
    this.state = el("span", { className: "state", role: "status", textContent: "connecting" });
    this.counts = el("span");
    this.problem = el("p", { className: "problem", role: "alert", hidden: true });
    this.sentences = el("ol", { className: "sentences" });
    this.picture = el("div");
    this.list = el("ol", { className: "changes" });
    this.note = el("p", { className: "note" });
    this.older = el("button", { type: "button", textContent: "Older changes", hidden: true, onclick: () => this.loadHistory(this.before) });
    this.buttons = { set: "The summary", short: "Short view" };
    for (const [name, text] of Object.entries(this.buttons)) {
      this.buttons[name] = el("button", { type: "button", textContent: text, onclick: () => this.choose(name) });
    }
    shown.replaceChildren(
      el(heading, {}, foreign(id)), el("p", { className: "facts" }, this.state, this.counts), this.problem,
      el("div", { className: "views" }, ...Object.values(this.buttons)), this.sentences,
      el(heading === "h1" ? "h2" : "h3", { textContent: "How it came about" }), this.picture, this.list, this.note, this.older);
    this.choose("set");
    this.close = follow(ofEntity(id, "changes"), {
      state: (name, why) => this.setState(name, why),
      hello: () => this.load(),
      skipped: () => this.loadHistoryLater(HISTORY_EVERY_MS), // the last changes follow, with the summary
      change: (body) => this.take(body),
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

  choose(view) {
    this.view = view;
    for (const [name, button] of Object.entries(this.buttons)) button.setAttribute("aria-pressed", String(name === view));
    if (view === "short") this.loadShort();
    this.draw();
  }

  load() {
    this.loadSummary();
    if (this.isKnown) this.loadHistoryLater(Math.random() * HISTORY_EVERY_MS); // all pages of a restarted worker reconnect at once
    else this.loadHistory(null);
    if (this.view === "short") this.loadShort();
  }

  loadHistoryLater(ms) {
    this.later ??= setTimeout(() => {
      this.later = undefined;
      this.loadHistory(null);
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

  async loadShort() {
    clearTimeout(this.again);
    this.again = undefined;
    try {
      this.short = await ask(ofEntity(this.id, "summary?view=short"));
      if (!this.isOver) this.setProblem("");
    } catch (error) {
      this.short = null;
      if (!this.isOver) this.setProblem(error.message);
    }
    if (!this.isOver) this.draw();
  }

  /** The last changes, or those before an offset. */
  async loadHistory(before) {
    this.older.disabled = true;
    try {
      const found = await ask(ofEntity(this.id, before === null ? "history" : `history?before=${before}`));
      if (this.isOver) return;
      this.changes = before === null ? joined(found.changes, this.changes) : [...found.changes, ...this.changes];
      this.before = found.before;
      this.isKnown = true;
      this.note.textContent = this.changes.length ? "" : `no change of it among the last ${number(found.looked_at)} that were published in its partition`;
    } catch (error) {
      if (this.isOver) return;
      this.note.textContent = `its history is not available: ${error.message}`;
    }
    this.older.disabled = false;
    this.older.hidden = this.before === null;
    this.draw();
  }

  /** A change, just published; null is the end of the entity. */
  take(body) {
    this.taken += 1;
    this.isMissing = body === null;
    if (body === null) {
      this.summary = this.short = null;
      this.changes.push(asTombstone());
      this.setProblem("it was deleted");
    } else {
      this.changes = joined(this.changes, [asChange(body, this.summary?.sentences ?? [], this.changes)]);
      this.note.textContent = "";
      if (body.sequence > (this.summary?.sequence ?? -1)) {
        this.fresh = new Set(body.added);
        this.summary = body;
        this.setProblem("");
      }
      if (areTooMany(this.changes)) this.loadHistoryLater(HISTORY_EVERY_MS);
    }
    if (this.view === "short") this.again ??= setTimeout(() => this.loadShort(), SHORT_EVERY_MS);
    this.draw();
  }

  setProblem(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }

  draw() {
    this.drawState();
    const shown = this.view === "short" ? this.short : this.summary;
    this.counts.textContent = shown ? `${many(shown.review_count, "review")}, ${many(shown.sentence_count, "sentence")}` : "";
    const came = cameWith(this.changes);
    this.sentences.replaceChildren(...(shown?.sentences ?? []).map((one) => this.sentence(one, came.get(one.sentence_id))));
    if (shown && !shown.sentences.length) this.sentences.append(el("li", { className: "note", textContent: "no sentence" }));
    const chart = charted(this.changes, this.summary?.sentences ?? []);
    this.picture.replaceChildren(...(chart ? [timeline(chart)] : []));
    this.list.replaceChildren(...this.changes.slice(-CHANGES_SHOWN).reverse().map(line));
    this.fresh = new Set();
    letScroll(this.sentences);
    letScroll(this.list);
  }

  sentence(one, came) {
    const facts = { distance: one.distance.toFixed(3) };
    if (one.support > 1) facts["copies"] = number(one.support);
    if (one.stands_for !== undefined) facts["stands for"] = `${number(one.stands_for)} (${many(one.stands_for_reviews, "review")})`;
    if (one.rating !== null) facts["rating"] = number(one.rating);
    const date = moment(dateOf(one, this.changes));
    const since = came ? moment(came.occurred_at ?? came.published_at) || `offset ${came.sequence}` : "";
    if (date) facts["date"] = date;
    if (since && since !== date) facts["since"] = since;
    const pairs = Object.entries(facts).map(([name, value]) => el("div", {}, el("dt", { textContent: name }), el("dd", { textContent: value })));
    return el("li", { className: this.fresh.has(one.sentence_id) ? "new" : "", title: one.sentence_id },
      el("span", { className: "rank", textContent: one.rank + 1 }), el("p", {}, foreign(one.text)), el("dl", {}, ...pairs));
  }
}

function line(change) {
  const at = moment(change.occurred_at ?? change.published_at);
  if (change.tombstone) return el("li", {}, el("time", { textContent: at }), el("p", { textContent: "deleted" }));
  const why = change.cause.type.replaceAll(".", " ");
  const texts = (ids, from, className) => ids.map((one) => el("p", { className }, foreign(from[one] ?? one)));
  return el("li", {}, el("time", { textContent: `${at} · ${why}` }),
    ...texts(change.added, change.added_texts, "came"), ...texts(change.removed, change.removed_texts, "left"));
}
