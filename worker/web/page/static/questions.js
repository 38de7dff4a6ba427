// A reader's own question to an entity, and the sentences that answer it.

import { el, many, moment, number, outOf, quoted } from "./dom.js";
import { ask, ofEntity } from "./server.js";

/** A field for questions to the entity, and the last answer; `review` draws the review of a sentence. */
export function questions(id, review) {
  const field = el("input", { type: "search", name: "q", placeholder: "Ask its reviews: Is it quiet at night?", ariaLabel: "Ask its reviews", autocomplete: "off", maxLength: 500 });
  const said = el("p", { className: "note", role: "status" }), list = el("ol", { className: "answers" });
  let asked = 0;

  async function answer(question) {
    const turn = ++asked; // an earlier question may be answered later
    said.textContent = "Asking …";
    const shown = await ask(ofEntity(id, `ask?${new URLSearchParams({ q: question })}`)).catch((why) => why);
    if (turn !== asked) return;
    said.textContent = shown instanceof Error ? `No answer: ${shown.message}.` : summary(shown);
    list.replaceChildren(...(shown.sentences ?? []).map((sentence) => line(sentence, review)));
  }

  const submit = (event) => {
    event.preventDefault();
    if (field.value.trim()) answer(field.value);
  };
  return el("div", { className: "questions" }, el("form", { onsubmit: submit, role: "search" }, field), said, list);
}

function line(sentence, review) {
  const date = moment(sentence.occurred_at);
  const facts = [...(sentence.rating === null ? [] : [outOf(sentence.rating)]), ...(date ? [date] : [])];
  const texts = facts.map((textContent) => el("span", { textContent: `${textContent} ` }));
  return el("li", {}, el("div", {}, quoted(sentence.text), el("div", { className: "source" }, ...texts, review(sentence))));
}

function summary({ answered, asked_review_count, answer_review_count, mentions }) {
  const all = many(asked_review_count, "review");
  const word = mentions ? ` ${number(mentions.review_count)} of them ${mentions.review_count === 1 ? "has" : "have"} the word “${mentions.word}”.` : "";
  if (answered === null) return `The nearest sentences of ${all}.${word}`;
  if (!answered) return `Nobody says so in ${all}.${word}`;
  return `At least ${number(answer_review_count)} of ${all} ${answer_review_count === 1 ? "speaks" : "speak"} of it.${word}`;
}
