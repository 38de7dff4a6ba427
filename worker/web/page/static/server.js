// Questions to the worker, its streams of events, and whether it answers.

export const AGAIN_MS = 1500;
const SILENT_MS = 5000; // a stream says something every 2 s
const TICK_MS = 1000;
const PREFIX = new URL("..", import.meta.url).pathname.slice(0, -1); // of paths, in front of the worker

/** How many changes, and sentences in the chart, are shown. */
export const MOST = { changes: 50, rows: 60 };

const away = document.querySelector("#away");
let heardAt = Date.now();
let tickedAt = heardAt;

/** The worker has said something. After a silence the window gets the event `back`, since it may be another worker. */
function heard() {
  heardAt = Date.now();
  if (away.hidden) return;
  away.hidden = true;
  document.body.classList.remove("away");
  known = undefined;
  dispatchEvent(new Event("back"));
}

/** The worker does not answer: say so once, with the time of its last answer. */
function lost() {
  if (!away.hidden) return;
  away.textContent = `The worker has not answered since ${new Date(heardAt).toLocaleTimeString()}. This page waits for it.`;
  away.hidden = false;
  document.body.classList.add("away");
}

setInterval(() => {
  const now = Date.now();
  if (document.hidden || now - tickedAt > 3 * TICK_MS) heardAt = now; // nothing was followed, or this machine slept
  tickedAt = now;
  if (now - heardAt <= SILENT_MS || !away.hidden) return;
  lost();
  dispatchEvent(new Event("silent"));
}, TICK_MS);

/** The answer to a request, also one of an error. Throws an Error with `status` 0 if the worker does not answer. */
async function fetched(path, options) {
  try {
    const answer = await fetch(PREFIX + path, options);
    heard();
    return answer;
  } catch {
    lost();
    throw Object.assign(new Error("the worker does not answer"), { status: 0 });
  }
}

/** The JSON answer of the worker. Throws an Error with the worker's message; `status` is 0 if it does not answer. */
export async function ask(path) {
  const answer = await fetched(path);
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw Object.assign(new Error(body.error ?? body.reason ?? `status ${answer.status}`), { status: answer.status });
  }
  return body;
}

const MOST_ASKED = 40; // a worker searches only briefly, so many entities take several requests

/**
 * The entities of all pages for a query, with `after` and `missing` of the last one, and how many were searched. It ends before
 * if `isOver`.
 */
export async function entitiesOf(query, isOver = () => false) {
  const all = { entities: [], searched: 0, after: null, missing: [] };
  for (let asked = 0; asked < MOST_ASKED; asked += 1) {
    const { entities, searched, after, missing } = await ask(`/page/entities?${new URLSearchParams(query)}`);
    all.entities.push(...entities);
    all.searched += searched;
    Object.assign(all, { after, missing });
    if (after === null || isOver()) break;
    query = { ...query, after };
  }
  return all;
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

/** The records that wait, from a worker's status. */
export const behind = ({ lag }) => Object.values(lag ?? {}).reduce((sum, records) => sum + (records ?? 0), 0);

/** Why nothing may be shown yet: the worker starts, or records wait; empty if it has read all. */
export function notYet(status) {
  if (!status.ready) return `Not yet: ${status.reason}`;
  return behind(status) ? `Not yet: ${behind(status).toLocaleString()} records behind` : "";
}

/** The address of a view of an entity, or with `/page` before it of its history or changes. */
export const ofEntity = (id, what, before = "") =>
  id === "." || id === ".." // browsers remove these from paths
    ? `${before}/entities//${what}${what.includes("?") ? "&" : "?"}id=${id}`
    : `${before}/entities/${encodeURIComponent(id)}/${what}`;

/** A command that asks for what a path answers. */
export const curl = (path) => `curl -s '${(location.origin + PREFIX + path).replaceAll("'", "%27")}'`;

/** The worker's reason for refusing a stream of events; empty if it does not refuse, or does not answer. */
async function whyNot(path) {
  const question = new AbortController();
  try {
    const answer = await fetched(path, { signal: question.signal });
    return answer.ok ? "" : (await answer.json()).error ?? `status ${answer.status}`;
  } catch {
    return "";
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
    const { state, ...handlers } = { hello: () => {}, quiet: () => {}, ...on };
    for (const [name, take] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => {
        heard(); // which may end this
        if (!isOver) take(JSON.parse(event.data));
      });
    }
    source.addEventListener("hello", () => isOver || state("live"));
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
  const end = () => {
    isOver = true;
    document.removeEventListener("visibilitychange", look);
    removeEventListener("silent", look);
    close();
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("silent", look);
  look();
  return end;
}
