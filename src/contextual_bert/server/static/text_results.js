// Answers about a text, one column a person: labels, tags, a marked answer, a number, or another text.

import { column, remarks } from "./columns.js";
import { button, make, percent, rounded } from "./dom.js";

export const PERSON = "Person";
const MOST_LABELS = 12;
const NUM_COLOURS = 8; // in texts.css
const OUTSIDE = "O"; // what no entity is

// As people and Python split a text.
export const wordsOf = (text) => text.trim().split(/\s+/u);

// answers: [{name, answer or problem}]; about: the schema, the texts, and what "Why?" does.
export function answersAbout(answers, about) {
  const draw = { label: labels, labels, number, tags, answer: span, text: written, words: filled }[about.schema.gives];
  return answers.map(({ name, answer, problem }, person) =>
    column(name, { count: answers.length, problem, called: PERSON }, () => [
      ...draw(answer, { ...about, name, person }),
      ...remarks(answer.notes, answer),
    ]),
  );
}

function labels(answer, { schema, name, person, why, whyNot }) {
  const given = [answer.label].flat();
  let shown = schema.labels;
  if (shown.length > MOST_LABELS) {
    shown = [...shown].sort((a, b) => answer.probabilities[b] - answer.probabilities[a]).slice(0, MOST_LABELS);
  }
  const verdict = given.length ? given.join(", ") : "no label";
  const rest = schema.labels.length - shown.length;
  return [
    make("p", { class: "verdict" }, verdict),
    make(
      "ul",
      { class: "labels", "aria-label": "Probabilities" },
      shown.map((label) => {
        const share = answer.probabilities[label];
        const isGiven = given.includes(label);
        return make(
          "li",
          { class: isGiven ? "given" : "" },
          make("span", { class: "label" }, label),
          make("meter", { min: 0, max: 1, value: share, "aria-hidden": "true" }),
          make("span", { class: "number" }, percent(share)),
          button("Why?", () => why(label, person), {
            class: "plain",
            "aria-label": `Why ${label} for person ${name}?`,
            disabled: Boolean(whyNot),
            title: whyNot,
          }),
        );
      }),
    ),
    rest ? make("p", { class: "quiet" }, `${rest.toLocaleString("en")} labels are less likely.`) : null,
  ];
}

const number = (answer) => [
  make("p", { class: "verdict" }, [answer.label].flat().map(rounded).join(", ")),
  answer.interval ? make("p", {}, `Nine times in ten between ${answer.interval.map(rounded).join(" and ")}.`) : null,
];

// Words that follow each other in one entity (B-place I-place) are marked as one; its probability is that of its least likely word.
export function entities(words, tags, shares) {
  const found = [];
  words.forEach((word, place) => {
    const tag = tags[place];
    const [prefix, kind] = /^([BI])-(.+)$/u.exec(tag ?? "")?.slice(1) ?? ["", tag];
    const last = found.at(-1);
    if (prefix === "I" && last?.kind === kind) {
      last.words.push(word);
      last.share = Math.min(last.share, shares[place]);
    } else found.push({ kind, words: [word], share: shares[place] });
  });
  return found;
}

function tags(answer, { schema, texts }) {
  const kinds = [...new Set(schema.labels.map((tag) => tag.replace(/^[BI]-/u, "")))].filter((kind) => kind !== OUTSIDE);
  const parts = entities(wordsOf(texts.text), answer.label, answer.probabilities).flatMap(({ kind, words, share }) => {
    const said = words.join(" ");
    if (kind === null || kind === undefined) return [make("span", { class: "unread", title: "not read" }, said), " "];
    if (kind === OUTSIDE) return [said, " "];
    const colour = `colour-${kinds.indexOf(kind) % NUM_COLOURS}`;
    return [make("mark", { class: `tag ${colour}` }, said, make("small", {}, `${kind} ${percent(share)}`)), " "];
  });
  const isFound = parts.some((part) => part.tagName === "MARK");
  return [make("p", { class: "tagged" }, parts), isFound ? null : make("p", { class: "quiet" }, "No word has a tag.")];
}

function span(answer, { texts }) {
  const characters = [...texts.text]; // the server counts characters, not halves of them
  const part = (start, end) => characters.slice(start, end).join("");
  const shares = [
    { label: answer.answer || "(nothing)", share: answer.probability },
    { label: "no answer", share: answer.no_answer_probability },
  ];
  return [
    make("p", { class: "verdict" }, answer.answer || "The text has no answer."),
    make(
      "p",
      { class: "tagged" },
      part(0, answer.start),
      answer.answer ? make("mark", { class: "tag colour-0" }, part(answer.start, answer.end), make("small", {}, "answer")) : null,
      part(answer.end),
    ),
    bars(shares, "Probabilities"),
  ];
}

// The first of them is the answer.
const bars = (shares, called) =>
  make(
    "ul",
    { class: "labels", "aria-label": called },
    shares.map(({ label, share }, place) =>
      make(
        "li",
        { class: place === 0 ? "given" : "" },
        make("span", { class: "label" }, label),
        make("meter", { min: 0, max: 1, value: share, "aria-hidden": "true" }),
        make("span", { class: "number" }, percent(share)),
      ),
    ),
  );

function filled(answer) {
  const lists = answer.slots.map(({ candidates }, place) => {
    const called = answer.slots.length > 1 ? `[MASK] ${place + 1}` : "Words";
    return [
      answer.slots.length > 1 ? make("p", { class: "quiet" }, called) : null,
      bars(candidates.map(({ word, probability }) => ({ label: word, share: probability })), called),
    ];
  });
  return [make("p", { class: "verdict" }, answer.filled), ...lists.flat()];
}

const written = (answer) => [
  make("blockquote", { class: "written" }, answer.written || "(nothing)"),
  answer.is_whole ? null : make("p", { class: "quiet" }, "It ends here because no more tokens are written, not because the model ended it."),
];
