// Elements, numbers and dates. Texts of reviews are set as text; no markup is ever parsed.

const DAY_MS = 86_400_000;

/** An element with properties and children (elements or texts). */
export function el(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Let the keyboard scroll texts that are longer than their boxes. */
export function letScroll(element) {
  for (const one of element.querySelectorAll("p")) {
    if (one.scrollHeight > one.clientHeight) one.tabIndex = 0;
  }
}

/** A text of unknown writing direction. */
export const foreign = (text) => el("bdi", { textContent: text });

/** A number in the format of the browser's locale. */
export const number = (value) => value.toLocaleString();

export const many = (count, one) => `${number(count)} ${count === 1 ? one : one.replace(/y$/, "ie") + "s"}`;

/** A date in the format of the browser's locale; empty where the text is no date. Midnight UTC is a date without a time. */
export function moment(text, withTime = true) {
  const at = new Date(text ?? NaN);
  if (Number.isNaN(at.valueOf())) return "";
  if (at.valueOf() % DAY_MS === 0) return at.toLocaleDateString([], { dateStyle: "medium", timeZone: "UTC" });
  return withTime ? at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : at.toLocaleDateString([], { dateStyle: "medium" });
}
