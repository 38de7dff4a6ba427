// Elements, answers and dates. What people wrote goes in as text and nothing else: no markup is ever parsed.

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
export const ofEntity = (id, what) => `/page/entities/${encodeURIComponent(id)}/${what}`;

/** A number as people here write it. */
export const number = (value) => value.toLocaleString();

export const many = (count, one) => `${number(count)} ${count === 1 ? one : one.replace(/y$/, "ie") + "s"}`;

/** A moment as people here write it; empty where it is none. */
export function moment(text, withTime = true) {
  const at = new Date(text ?? NaN);
  if (Number.isNaN(at.valueOf())) return "";
  return withTime ? at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : at.toLocaleDateString([], { dateStyle: "medium" });
}

/**
 * Events of a stream, opened again whenever it ends; `on` by name, and `state` of "live" or "waiting". Returns what closes it.
 * While the page is hidden it is closed: a browser keeps six connections to a worker, and with six tabs a seventh would get none.
 */
export function follow(path, on) {
  let source, again;
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
    source.onerror = () => {
      on.state("waiting");
      close(); // a refusal ends it for good: ask again
      again = setTimeout(open, 1500);
    };
  };
  const look = () => {
    close();
    if (!document.hidden) open();
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    close();
  };
}
