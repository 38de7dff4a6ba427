// Elements, answers and dates. What people wrote goes in as text and nothing else: no markup is ever parsed.

const AGAIN_MS = 1500;
const SVG = "http://www.w3.org/2000/svg";

/** An element; `properties` are set as they are, children are elements or texts. */
export function el(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** A text by somebody else, whatever its direction. */
export const foreign = (text) => el("bdi", { textContent: text });

/** An SVG element; `attributes` are set as such. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** What the worker answers, as JSON. Throws an Error with its words where it has no answer; `status` is 0 without one. */
export async function ask(path) {
  let answer;
  try {
    answer = await fetch(path);
  } catch {
    throw Object.assign(new Error("the worker does not answer"), { status: 0 });
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw Object.assign(new Error(body.error ?? body.reason ?? `status ${answer.status}`), { status: answer.status });
  }
  return body;
}

/** The address of what the worker knows of an entity. */
export const ofEntity = (id, what) =>
  id === "." || id === ".." // no browser leaves these in a path
    ? `/page/entities//${what}${what.includes("?") ? "&" : "?"}id=${id}`
    : `/page/entities/${encodeURIComponent(id)}/${what}`;

/** A number as people here write it. */
export const number = (value) => value.toLocaleString();

export const many = (count, one) => `${number(count)} ${count === 1 ? one : one.replace(/y$/, "ie") + "s"}`;

/** A moment as people here write it; empty where it is none. */
export function moment(text, withTime = true) {
  const at = new Date(text ?? NaN);
  if (Number.isNaN(at.valueOf())) return "";
  return withTime ? at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : at.toLocaleDateString([], { dateStyle: "medium" });
}

/** Why there is no stream of events at this address, in the worker's words; empty where there is one after all. */
async function whyNot(path) {
  const question = new AbortController();
  try {
    const answer = await fetch(path, { signal: question.signal });
    return answer.ok ? "" : (await answer.json()).error ?? `status ${answer.status}`;
  } catch {
    return "the worker does not answer";
  } finally {
    question.abort();
  }
}

/** How a stream is, in words, in the element that says so. */
export function tellState(element, name, why = "") {
  element.className = `state ${name}`;
  element.textContent = name === "live" ? "live" : `no connection, trying again${why && `: ${why}`}`;
}

/**
 * Events of a stream, opened again whenever it ends; `on` by name, and `state` of "live" or "waiting", then once more with why.
 * Returns what closes it.
 * While the page is hidden it is closed: a browser keeps six connections to a worker, and with six tabs a seventh would get none.
 */
export function follow(path, on) {
  let source, again;
  let isOver = false;
  const close = () => {
    clearTimeout(again);
    source?.close();
  };
  const open = () => {
    source = new EventSource(path);
    for (const [name, take] of Object.entries(on)) {
      if (name !== "state") source.addEventListener(name, (event) => take(JSON.parse(event.data)));
    }
    source.addEventListener("hello", () => on.state("live"));
    source.onerror = async () => {
      const ended = source;
      on.state("waiting");
      close(); // a refusal ends it for good: ask again
      again = setTimeout(open, AGAIN_MS);
      const why = await whyNot(path);
      if (why && source === ended && !isOver) on.state("waiting", why);
    };
  };
  const look = () => {
    close();
    if (!document.hidden) open();
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    isOver = true;
    document.removeEventListener("visibilitychange", look);
    close();
  };
}
