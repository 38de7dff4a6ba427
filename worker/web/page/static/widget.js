// What reviews say about an entity, on a page of any site: <script src="https://WORKER/widget.js" data-entity="ID"></script>
// It appears behind its script. docs/page.md has its other attributes.

(() => {
  "use strict";
  // The worker fills it in.
  const REVIEW_URL = "";
  const STYLE = `
  :host { display: block; container-type: inline-size; --ink: var(--coversumm-ink, light-dark(#1d1f24, #e9e8e3)); --paper: var(--coversumm-paper, light-dark(#fff, #1a1c22));
    --accent: var(--coversumm-accent, light-dark(#8a5a00, #e8b54a)); --soft: color-mix(in srgb, var(--ink) 72%, var(--paper)); --line: color-mix(in srgb, var(--ink) 15%, var(--paper));
    color: var(--ink); font: 1rem/1.5 var(--coversumm-font, system-ui, sans-serif); }
  section { padding: 1.2em; border: 1px solid var(--line); border-radius: .8em; background: var(--paper); overflow-wrap: anywhere; }
  p, ul, h2, h3 { margin: 0; padding: 0; list-style: none; }
  h2 { font-size: 1.25em; }
  h3 { font-size: 1em; }
  b { font-size: 1.6em; }
  small, .source, .side { color: var(--soft); font-size: .85em; }
  .subject { display: grid; gap: .5em 1.5em; margin-top: 1em; padding-top: 1em; border-top: 1px solid var(--line); }
  .quotes, .sides, .said { display: grid; gap: .6em 1.2em; align-content: start; }
  .quotes > li { padding-inline-start: .8em; border-inline-start: 3px solid var(--line); }
  .pros li { border-color: light-dark(#13804a, #4cc38a); }
  .cons li { border-color: light-dark(#b3362b, #f2786c); }
  .source { display: flex; flex-wrap: wrap; gap: 0 .8em; }
  .stars { color: var(--accent); }
  a { color: inherit; }
  form { display: flex; gap: .5em; margin: .9em 0 .5em; }
  input, button { min-width: 0; min-height: 44px; padding: 0 .8em; border: 1px solid; border-radius: .5em; background: var(--paper); color: inherit; font: inherit; }
  input { flex: 1; }
  button { background: var(--accent); color: var(--paper); }
  ::placeholder { color: var(--soft); }
  :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
  @media (pointer: coarse) { .source { line-height: 44px; } }
  @container (min-width: 34rem) {
    .subject { grid-template-columns: 9rem minmax(0, 1fr); }
    .sides { grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); }
  }`;
  const script = document.currentScript;
  const { entity, language, theme, words, heading, ask } = script.dataset;
  const warn = (why) => console.warn(`${script.src}: ${entity}: ${why}`);
  const made = (name, text, make) => {
    try {
      return text && make(text);
    } catch {
      warn(`${name} cannot be used: ${text}`);
    }
  };
  const locale = made("lang", document.documentElement.lang, Intl.getCanonicalLocales) || [];
  const translated = made("data-words", words, (text) => new Map(Object.entries(JSON.parse(text))));
  // Whether no rating is higher.
  let ofFive;

  const say = (text) => translated?.get(text) ?? text;
  const el = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const block = (className, ...children) => el("div", { className }, ...children);
  const count = (value, noun) => `${value.toLocaleString(locale)} ${say(value === 1 ? noun : `${noun}s`)}`;
  const rated = (value) => {
    const text = value.toLocaleString(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
    return ofFive ? `${text} ${say("of 5")}`.replaceAll(" ", "\xa0") : `★ ${text}`;
  };

  async function read(view, given) {
    // Browsers remove dots from paths.
    const id = /^\.\.?$/.test(entity) ? "" : encodeURIComponent(entity);
    const query = new URLSearchParams({ ...given, ...(!id && { id: entity }) });
    const answer = await fetch(new URL(`entities/${id}/${view}?${query}`, script.src), { credentials: "omit" }).catch((error) => {
      throw new Error(`${error.message}: the worker does not answer, or its COVERSUMM_WEB_ORIGINS does not name ${location.origin}`);
    });
    const found = await answer.json().catch(() => ({}));
    if (!found.entity_id) throw new Error(found.error ?? `no worker's answer, status ${answer.status}`);
    return found;
  }

  const overview = (language) => read("summary", { view: "overview", sentences: 30, ...language }).catch((error) => {
    if (!language || !error.message.startsWith("language")) throw error;
    warn(`data-language: ${error.message}`);
    return overview();
  });

  const quotes = (sentences, lang = "") => el("ul", { className: "quotes" }, ...sentences.map(({ text, language, rating, occurred_at, review_id }) => {
    const facts = [], full = Math.round(rating), ids = { entity_id: entity, review_id };
    if (rating !== null) facts.push(ofFive ? el("span", { className: "stars", role: "img", ariaLabel: rated(rating), textContent: "★".repeat(full) + "☆".repeat(5 - full) }) : rated(rating));
    if (occurred_at) facts.push(new Date(occurred_at).toLocaleDateString(locale, { dateStyle: "medium", timeZone: "UTC" }));
    const href = REVIEW_URL.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(ids[name]));
    if (href) facts.push(el("a", { href, textContent: say("Read the review") }));
    return el("li", {}, el("p", { dir: "auto", lang: language || lang, textContent: text }), block("source", ...facts));
  }));

  function subject(facet, { sentences, language: lang = "" }) {
    const label = facet.language && !lang ? `${facet.name} (${facet.language})` : facet.name;
    const sides = ["pros", "cons"].filter((side) => facet[side]?.length);
    const atSides = new Set(sides.flatMap((side) => facet[side]).map((sentence) => sentence.sentence_id));
    const neither = sentences.filter((sentence) => sentence.facet === label && !atSides.has(sentence.sentence_id)).slice(0, 2 - sides.length);
    const shown = neither.length || sides.length ? neither : facet.sentences.slice(0, 1);
    const { mean } = (facet.mentions ?? facet).ratings;
    const counted = facet.mentions ? count(facet.mentions.review_count, "mention") : count(facet.review_count, "review");
    const texts = sides.map((side) => block(side, el("p", { className: "side", textContent: say(side === "pros" ? "Pros" : "Cons") }), quotes(facet[side].slice(0, 2), lang)));
    return el("li", { className: "subject" },
      block("", el("h3", { dir: "auto", textContent: say(facet.name) }), el("small", { textContent: mean === null ? counted : `${counted}, ${rated(mean)}` })),
      block("said", ...(shown.length ? [quotes(shown, lang)] : []), ...(sides.length ? [block("sides", ...texts)] : [])));
  }

  function questions() {
    const ariaLabel = say("Ask the reviews"), status = el("p", { role: "status" }), answers = block("");
    const field = el("input", { type: "search", placeholder: ask || ariaLabel, ariaLabel, maxLength: 500, required: true });
    // An earlier question may be answered later.
    let last;
    async function onsubmit(event) {
      event.preventDefault();
      last = event;
      const { answered, sentences } = await read("ask", { q: field.value, sentences: 3 }).catch((error) => (warn(error.message), {}));
      if (last !== event) return;
      status.textContent = answered === false ? say("Nobody says so") : sentences ? count(sentences.length, "answer") : say("No answer now");
      answers.replaceChildren(quotes(sentences ?? []));
    }
    return [el("form", { onsubmit }, field, el("button", { textContent: say("Ask") })), status, answers];
  }

  async function show() {
    if (!entity) throw new Error("data-entity is missing");
    const { facets, ratings: { mean, histogram }, review_count, ...found } = await overview(language && { language });
    if (!facets.length) return;
    ofFive = Math.max(mean, ...Object.keys(histogram ?? {})) <= 5;
    const host = block("");
    if (/^(light|dark)$/.test(theme)) host.style.colorScheme = theme;
    else if (theme) warn(`data-theme is light or dark, not ${theme}`);
    const root = host.attachShadow({ mode: "open" });
    // A policy of the page does not refuse it, as it would an element.
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    root.append(el("section", { ariaLabel: heading || say("What reviews say") }, ...(heading ? [el("h2", { textContent: heading })] : []),
      el("p", {}, ...(mean === null ? [] : [el("b", { textContent: rated(mean) }), " · "]), count(review_count, "review")),
      ...(ask === undefined ? [] : questions()), el("ul", {}, ...facets.map((facet) => subject(facet, found)))));
    script.after(host);
  }

  // The page of a shop is complete without it.
  show().catch((error) => warn(error.message));
})();
