// Questions to the worker, and its streams of events.

const AGAIN_MS = 1500;
const PREFIX = new URL("..", import.meta.url).pathname.slice(0, -1); // of paths, in front of the worker

/** How many changes, and sentences in the chart, are shown. */
export const MOST = { changes: 50, rows: 60 };

/** The JSON answer of the worker. Throws an Error with the worker's message; `status` is 0 if it does not answer. */
export async function ask(path) {
  let answer;
  try {
    answer = await fetch(PREFIX + path);
  } catch {
    throw Object.assign(new Error("the worker does not answer"), { status: 0 });
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw Object.assign(new Error(body.error ?? body.reason ?? `status ${answer.status}`), { status: answer.status });
  }
  return body;
}

let known;

/** What the worker says of itself; waits until it answers. */
export async function about() {
  for (;;) {
    try {
      return await (known ??= ask("/page/status"));
    } catch {
      known = undefined;
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }
}

/** The address of a view of an entity, or with `/page` before it of its history or changes. */
export const ofEntity = (id, what, before = "") =>
  id === "." || id === ".." // browsers remove these from paths
    ? `${before}/entities//${what}${what.includes("?") ? "&" : "?"}id=${id}`
    : `${before}/entities/${encodeURIComponent(id)}/${what}`;

/** The worker's reason for refusing a stream of events; empty if it does not refuse. */
async function whyNot(path) {
  const question = new AbortController();
  try {
    const answer = await fetch(PREFIX + path, { signal: question.signal });
    return answer.ok ? "" : (await answer.json()).error ?? `status ${answer.status}`;
  } catch {
    return "the worker does not answer";
  } finally {
    question.abort();
  }
}

/** Show the state of a stream in its element. */
export function showState(element, name, why = "") {
  const texts = { live: "live", missing: "waiting for it" };
  const text = texts[name] ?? `no connection, trying again${why && `: ${why}`}`;
  element.className = `state ${name}`;
  if (element.textContent !== text) element.textContent = text; // screen readers announce it
}

/**
 * Follow a stream of events and reopen it whenever it ends. `on` has a handler for each event, and `state` for "live" and
 * "waiting", the latter once more with the reason. Returns a function that closes the stream.
 * The stream is closed while the page is hidden, because a browser opens at most six connections to a worker.
 */
export function follow(path, on) {
  let source, again;
  let isOver = false;
  const close = () => {
    clearTimeout(again);
    source?.close();
  };
  const open = () => {
    source = new EventSource(PREFIX + path);
    for (const [name, take] of Object.entries(on)) {
      if (name !== "state") source.addEventListener(name, (event) => take(JSON.parse(event.data)));
    }
    source.addEventListener("hello", () => on.state("live"));
    source.onerror = async () => {
      const ended = source;
      on.state("waiting");
      close(); // EventSource never retries after a refusal
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
