// The page of a run of texts: what it remembers, when it asks, and which part is drawn anew.

import * as api from "./api.js";
import { report, setUpAsking } from "./asking.js";
import { field, find, keepingFocus, make } from "./dom.js";
import { clearFaults, showFaults } from "./faults.js";
import { showPeople, those } from "./people.js";
import { showGuidance } from "./personal.js";
import { answersAbout, PERSON, wordsOf } from "./text_results.js";
import { setUpTheme } from "./theme.js";
import { fitPeople } from "./versions.js";
import { showWhy } from "./why_label.js";

const CALLED = { text: "Text", pair: "Second text", question: "Question" };
const SAID = { label: "a label", labels: "labels", number: "a number", tags: "tags", answer: "an answer", text: "a text", words: "words" };

const state = {
  people: [
    { name: "A", context: {} },
    { name: "B", context: {} },
  ],
  hasTwo: false,
  texts: {},
  guidance: 1,
};
let schema;

const capability = (name) => schema.capabilities.find((each) => each.name === name);
const BLANK = "[MASK]";
const lacksBlank = (key) => schema.gives === "words" && !state.texts[key].includes(BLANK);
const missing = () => schema.required.filter((key) => !state.texts[key]?.trim() || lacksBlank(key));

function queryFor(person) {
  const given = schema.texts.filter((key) => schema.required.includes(key) || state.texts[key]?.trim());
  const texts = Object.fromEntries(given.map((key) => [key, state.texts[key]]));
  if (schema.gives === "tags") texts.text = wordsOf(texts.text);
  const query = { ...texts, context: person.context };
  if (state.guidance !== 1) query.guidance = state.guidance;
  return query;
}

const { soon } = setUpAsking({
  people: () => those(state),
  idle: () => {
    clearFaults();
    const [first] = missing();
    const what = first && `${CALLED[first].toLowerCase()}${schema.gives === "words" ? ` with ${BLANK}` : ""}`;
    return first ? `Write a ${what} to get ${SAID[schema.gives]}.` : null;
  },
  ask: (person, signal) => api.predict(queryFor(person), signal),
  draw: (answers) => {
    for (const { name, faults } of answers) showFaults(faults ?? [], name);
    return answersAbout(answers, { schema, texts: state.texts, ...actions });
  },
  said: (answers, milliseconds) => `Answered in ${milliseconds} ms.`,
  version: () => schema.version.number,
  renew,
  report,
  wait: 250,
});

const actions = {
  why: (label, person) => showWhy(queryFor(state.people[person]), label, { texts: state.texts, name: state.people[person].name }),
  get whyNot() {
    return capability("explain").reason;
  },
};

// The server was reloaded: what it takes and what it shows may be others.
async function renew() {
  const before = schema;
  schema = await api.schema();
  fitPeople(state, before, schema);
  draw();
}

const drawPeople = () => showPeople(state, schema, { called: PERSON, nobody: "Anybody", change: soon });

function drawTexts() {
  const boxes = schema.texts.map((key) => {
    const properties = {
      maxlength: schema.limits.max_text_characters,
      spellcheck: "false",
      oninput: (event) => {
        state.texts[key] = event.target.value;
        soon();
      },
    };
    const box = key === "question" ? make("input", { ...properties, autocomplete: "off" }) : make("textarea", { ...properties, rows: 4 });
    box.value = state.texts[key] ?? "";
    const hints = { tags: "Words stand between spaces; each gets a tag.", words: `Write ${BLANK} where a word is wanted.` };
    const hint = schema.required.includes(key) ? hints[schema.gives] : "May be left out.";
    return field(`the-${key}`, CALLED[key], box, hint);
  });
  find("texts").replaceChildren(...boxes);
}

// All that follows from the schema.
function draw() {
  const parts = [
    schema.labels.length ? counted(schema.labels.length, schema.gives === "tags" ? "tag" : "label") : null,
    counted(schema.features.length, "feature"),
    schema.max_tokens < 1e6 ? `reads ${counted(schema.max_tokens, "token")}` : null,
    `version ${schema.version.number}`,
  ];
  find("served").textContent = parts.filter(Boolean).join(" · ");
  keepingFocus(find("people"), drawPeople);
  keepingFocus(find("texts"), drawTexts);
  find("guidance").hidden = !schema.keys.includes("guidance");
  keepingFocus(find("guidance"), () => showGuidance(state, capability("guidance"), soon));
}

const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

async function start() {
  setUpTheme(find("theme"));
  schema = await api.schema();
  find("compare").addEventListener("change", () => {
    drawPeople();
    soon();
  });
  draw();
  soon();
}

start().catch(report);
