// Why this label: the contributions of fields and words, and what others would get.

import { make, percent, spoken } from "./dom.js";
import { bars, fieldBars, footer, or, showReasons } from "./why.js";

const MOST_WORDS = 10; // in the table; all are marked in the text
const MOST_VALUES = 10; // of a field in a line

export const showWhy = (query, label, { texts, name }) =>
  showReasons(query, {
    title: `Why ${label} for person ${name}?`,
    parameters: { label },
    report: (found) => report(found, texts),
    best: (found) => (found.label === found.best_label ? "" : `The likeliest label is ${found.best_label}.`),
  });

function report(found, texts) {
  return [
    fieldBars(found.fields, "person"),
    ...(found.words.length ? ofTheWords(found, texts) : []),
    others(found),
    make("p", { class: "quiet" }, footer(found)),
    ...found.notes.map((note) => make("p", { class: "quiet" }, note)),
  ];
}

function ofTheWords(found, texts) {
  const largest = Math.max(...found.words.map((each) => Math.abs(each.log_odds)), 1e-9);
  const byText = grouped(found.words);
  const strongest = [...found.words].sort((a, b) => Math.abs(b.log_odds) - Math.abs(a.log_odds)).slice(0, MOST_WORDS);
  const rows = found.words.filter((each) => strongest.includes(each)).map((each) => ({ ...each, name: each.word }));
  return [
    make(
      "section",
      {},
      make("h3", {}, "Which words pulled"),
      ...Object.entries(byText).map(([key, words]) => make("p", { class: "pulled" }, marked([...texts[key]], words, largest))),
      make(
        "p",
        { class: "quiet" },
        make("mark", { class: "pull more" }, "solid line"),
        ` pulled towards ${found.label}, `,
        make("mark", { class: "pull less" }, "dashed line"),
        ` pulled away. Each word is hidden in turn as ${found.hidden_as}; words may say the same, so this need not sum up.`,
      ),
    ),
    bars(rows.length < found.words.length ? `The ${MOST_WORDS} words that count most` : "What the words do", "word", rows),
  ];
}

function grouped(words) {
  const found = {};
  for (const each of words) (found[each.key] ??= []).push(each);
  return found;
}

// The text with each word marked as strongly as it pulled; the server counts characters, not halves of them.
function marked(characters, words, largest) {
  const parts = [];
  let end = 0;
  for (const word of words) {
    parts.push(characters.slice(end, word.start).join(""));
    end = word.end;
    const said = characters.slice(word.start, end).join("");
    const strength = Math.abs(word.log_odds) / largest;
    if (strength < 0.1) {
      parts.push(said);
      continue;
    }
    const mark = make("mark", { class: `pull ${word.log_odds < 0 ? "less" : "more"}` }, said);
    mark.style.setProperty("--strength", `${Math.round(40 * strength)}%`);
    parts.push(mark);
  }
  parts.push(characters.slice(end).join(""));
  return parts;
}

function others(found) {
  if (!found.counterfactuals.length) return null;
  const groups = new Map();
  for (const each of found.counterfactuals) {
    const key = JSON.stringify([each.field, each.label]);
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  const lines = [...groups].map(([key, given]) => {
    const [field, label] = JSON.parse(key);
    const shares = given.map((each) => each.explained_probability);
    const [low, high] = [percent(Math.min(...shares)), percent(Math.max(...shares))];
    const range = low === high ? low : `${low} to ${high}`;
    return make(
      "li",
      {},
      `If ${spoken(field)} were ${or(named(given.map((each) => each.value)))}: `,
      make("strong", {}, label),
      label === found.label ? `, with ${range}` : `; ${found.label} has ${range}`,
    );
  });
  return make("section", {}, make("h3", {}, "What others would get"), make("ul", {}, ...lines));
}

function named(values) {
  if (values.length <= MOST_VALUES) return values;
  const shown = values.slice(0, MOST_VALUES - 2);
  return [...shown, `${(values.length - shown.length).toLocaleString("en")} other values`];
}
