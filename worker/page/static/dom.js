// Elements, numbers and dates. Texts of reviews are set as text; no markup is ever parsed.

/** An element with properties and children (elements or texts). */
export function el(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** A text of unknown writing direction. */
export const foreign = (text) => el("bdi", { textContent: text });

/** A number in the format of the browser's locale. */
export const number = (value) => value.toLocaleString();

export const many = (count, one) => `${number(count)} ${count === 1 ? one : one.replace(/y$/, "ie") + "s"}`;

/** A date in the format of the browser's locale; empty where the text is no date. */
export function moment(text, withTime = true) {
  const at = new Date(text ?? NaN);
  if (Number.isNaN(at.valueOf())) return "";
  return withTime ? at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : at.toLocaleDateString([], { dateStyle: "medium" });
}
