// Elements, numbers and dates. Texts of reviews are set as text; no markup is ever parsed.

const DAY_MS = 86_400_000;

/** An element with properties and children (elements or texts). */
export function el(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const opened = new Set(); // long texts that the reader has opened

/** A text of a review, of unknown writing direction. `shorten` closes it if it is long. */
export const quoted = (textContent, className = "") => el("p", { className: `quoted ${className}`, dir: "auto", textContent });

/** End texts that are longer than their boxes with a button. */
export function shorten(element) {
  for (const one of element.querySelectorAll(".quoted:not(:has(+ .more))")) {
    const text = one.textContent;
    if (one.scrollHeight <= one.clientHeight) continue;
    const button = el("button", { type: "button", className: "more", onclick: () => show(!opened.has(text)) });
    const show = (isOpen) => {
      opened[isOpen ? "add" : "delete"](text);
      one.classList.toggle("open", isOpen);
      button.textContent = isOpen ? "less" : "more";
      button.ariaExpanded = String(isOpen);
    };
    show(opened.has(text));
    one.after(button);
  }
}

/** A text of unknown writing direction. */
export const foreign = (text) => el("bdi", { textContent: text });

/** A number in the format of the browser's locale. */
export const number = (value) => value.toLocaleString();

let isOfFive = true; // until a greater rating is seen

/** Learn the scale from the numbers of reviews by rating. */
export function learnScale(histogram) {
  isOfFive &&= Object.keys(histogram ?? {}).every((rating) => rating <= 5);
}

/** A rating, or a mean of them: of 5, unless the scale is another one. */
export const outOf = (value, digits = 0) =>
  value.toLocaleString([], { minimumFractionDigits: digits, maximumFractionDigits: 1 }) + (isOfFive ? " of 5" : "");

/** A command, and a button that copies it where the browser lets it. */
export function command(text) {
  const copy = el("button", { type: "button", textContent: "Copy", hidden: !navigator.clipboard });
  copy.onclick = () => navigator.clipboard.writeText(text).then(() => (copy.textContent = "Copied"));
  return el("p", { className: "command" }, el("code", { textContent: text, tabIndex: 0 }), copy);
}

export const many = (count, one) => `${number(count)} ${count === 1 ? one : one.replace(/y$/, "ie") + "s"}`;

/** A date in the format of the browser's locale; empty where the text is no date. Midnight UTC is a date without a time. */
export function moment(text, withTime = true) {
  const at = new Date(text ?? NaN);
  if (Number.isNaN(at.valueOf())) return "";
  if (at.valueOf() % DAY_MS === 0) return at.toLocaleDateString([], { dateStyle: "medium", timeZone: "UTC" });
  return withTime ? at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : at.toLocaleDateString([], { dateStyle: "medium" });
}
