// What reviews say about an entity, on a page of any site: <script src="https://WORKER/widget.js" data-entity="ID"></script>
// It appears behind its script. data-language chooses a language of the facets, data-theme "light" or "dark" instead of what the
// reader prefers, and data-words translates: {"mentions": "Erwähnungen"}.

(() => {
  "use strict";
  const REVIEW_URL = ""; // the worker fills it in
  const STYLE = `
    :host { display: block; container-type: inline-size; color-scheme: light dark; --ink: light-dark(#1d1f24, #e9e8e3); --soft: light-dark(#5f636c, #a3a6af);
      --line: light-dark(#e4e1d9, #2c2f38); --paper: light-dark(#fff, #1a1c22); --good: light-dark(#13804a, #4cc38a); --bad: light-dark(#b3362b, #f2786c);
      color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
    :host([theme=light]) { color-scheme: light; }
    :host([theme=dark]) { color-scheme: dark; }
    section { padding: 1.2em; border: 1px solid var(--line); border-radius: .8em; background: var(--paper); }
    p, h3, ul { margin: 0; padding: 0; list-style: none; }
    .counts { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1em; color: var(--soft); }
    .counts b { color: var(--ink); font-size: 1.6em; line-height: 1.2; }
    .subject { display: grid; gap: .5em 1.5em; padding: 1em 0; border-top: 1px solid var(--line); }
    .counts + ul { margin-top: .9em; }
    .subject:last-child { padding-bottom: 0; }
    h3 { font-size: 1em; overflow-wrap: anywhere; }
    small, a, .side { color: var(--soft); font-size: .85em; }
    .quotes, .sides, .said { display: grid; gap: .6em 1.2em; align-content: start; }
    .quotes > li { padding-inline-start: .8em; border-inline-start: 3px solid var(--line); overflow-wrap: anywhere; }
    .side { font-weight: 600; }
    .pros .quotes > li { border-color: var(--good); }
    .cons .quotes > li { border-color: var(--bad); }
    a:focus-visible { outline: 2px solid; outline-offset: 2px; }
    @media (pointer: coarse) { a { display: inline-flex; align-items: center; min-height: 44px; } }
    @container (min-width: 34rem) {
      .subject { grid-template-columns: 9rem minmax(0, 1fr); }
      .sides { grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); }
    }`;
  const script = document.currentScript;
  const { entity, language, theme, words } = script.dataset;

  const say = (text) => translated[text] ?? text;
  let translated = {};
  const el = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const count = (value, one) => `${value.toLocaleString(locale())} ${say(value === 1 ? one : `${one}s`)}`;
  const mean = (value) => value.toLocaleString(locale(), { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const locale = () => document.documentElement.lang || [];

  const link = (id) => {
    const ids = { entity_id: entity, review_id: id };
    const href = REVIEW_URL.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(ids[name]));
    return href ? [el("a", { href, textContent: say("Read the review") })] : [];
  };
  const quotes = (sentences, lang) =>
    el("ul", { className: "quotes" }, ...sentences.map((one) => el("li", {}, el("p", { dir: "auto", lang, textContent: one.text }), ...link(one.review_id))));

  function subject(facet, { sentences, language: lang = "" }) {
    const label = facet.language && !lang ? `${facet.name} (${facet.language})` : facet.name;
    const sides = ["pros", "cons"].filter((side) => facet[side]?.length);
    const atSides = new Set(sides.flatMap((side) => facet[side]).map((one) => one.sentence_id));
    const neither = sentences.filter((one) => one.facet === label && !atSides.has(one.sentence_id)).slice(0, 2 - sides.length);
    const shown = neither.length || sides.length ? neither : facet.sentences.slice(0, 1);
    const counted = facet.mentions ? count(facet.mentions.review_count, "mention") : count(facet.review_count, "review");
    const { mean: rated } = (facet.mentions ?? facet).ratings;
    const texts = sides.map((side) => el("div", { className: side }, el("p", { className: "side", textContent: say(side === "pros" ? "Pros" : "Cons") }), quotes(facet[side].slice(0, 2), lang)));
    return el("li", { className: "subject" },
      el("div", {}, el("h3", { dir: "auto", textContent: say(facet.name) }), el("small", { textContent: [counted, ...(rated === null ? [] : [`${say("in reviews with")} ★ ${mean(rated)}`])].join(" · ") })),
      el("div", { className: "said" }, ...(shown.length ? [quotes(shown, lang)] : []), ...(sides.length ? [el("div", { className: "sides" }, ...texts)] : [])));
  }

  async function show() {
    translated = JSON.parse(words ?? "{}");
    const query = new URLSearchParams({ view: "overview", sentences: 30, ...(language && { language }) });
    const isDots = entity === "." || entity === ".."; // browsers remove these from paths
    if (isDots) query.set("id", entity);
    const answer = await fetch(new URL(`entities/${isDots ? "" : encodeURIComponent(entity)}/summary?${query}`, script.src), { credentials: "omit" }).catch((error) => {
      throw new Error(`${error.message}: the worker does not answer, or its COVERSUMM_WEB_ORIGINS does not name ${location.origin}`); // a browser does not say which
    });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    if (!found.facets.length) return;
    const host = el("div");
    if (theme) host.setAttribute("theme", theme);
    const root = host.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet(); // a policy of the page does not refuse it, as it would an element
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    const rated = found.ratings.mean === null ? [] : [el("b", { textContent: `★ ${mean(found.ratings.mean)}` })];
    root.append(el("section", { ariaLabel: say("What reviews say") },
      el("p", { className: "counts" }, ...rated, count(found.review_count, "review")), el("ul", {}, ...found.facets.map((one) => subject(one, found)))));
    script.after(host);
  }

  // The page of a shop is complete without it.
  show().catch((error) => console.warn(`${script.src}: ${entity}: ${error.message}`));
})();
