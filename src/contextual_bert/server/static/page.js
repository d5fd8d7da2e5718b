// The page: what it remembers, when it asks, and which part is drawn anew.

import * as api from "./api.js";
import { report, setUpAsking } from "./asking.js";
import { find, keepingFocus } from "./dom.js";
import { setUpSearch, showSet } from "./outfit.js";
import { showPeople, those } from "./people.js";
import { showGuidance, showTogether } from "./personal.js";
import { CUSTOMER, eachByItself, wholeSets } from "./results.js";
import { setUpTheme } from "./theme.js";
import { fit } from "./versions.js";
import { showWhy } from "./why_item.js";
import { queryConstraints, noConstraints, showConstraints } from "./constraints.js";

const MASK = "[MASK]";
const TOP = 5;

const state = {
  people: [
    { name: "A", context: {} },
    { name: "B", context: {} },
  ],
  hasTwo: false,
  places: [],
  constraints: noConstraints(),
  guidance: 1,
  mode: "each",
  together: { budget: "", num_completions: 3, diversity: 1 },
};
let schema;
let categories = [];

const blanks = () => state.places.filter((place) => place.blank);
const capability = (name) => schema.capabilities.find((each) => each.name === name);

function queryFor(person) {
  const query = {
    items: state.places.map((place) => (place.blank ? MASK : place.item)),
    context: person.context,
    ...queryConstraints(state.constraints, blanks()),
  };
  if (state.guidance !== 1) query.guidance = state.guidance;
  if (state.mode === "together" && state.together.budget !== "") query.budget = Number(state.together.budget);
  return query;
}

// Prices and stock of now, of what is proposed and of what the page shows already.
async function describe(answers) {
  const items = state.places.flatMap(({ item }) => item ?? []);
  const said = () => JSON.stringify(items.map(api.itemOf));
  const before = said();
  const proposals = answers.flatMap(({ answer }) => (answer ? proposed(answer) : []));
  await api.describe([...items, ...proposals, ...state.constraints.owned, ...state.constraints.deny], schema.limits.max_page).catch(() => {});
  if (said() !== before) keepingFocus(find("set"), drawSet);
}

// The server was reloaded: what it takes and what it shows may be others.
async function renew() {
  const before = schema;
  schema = await api.schema();
  fit(state, before, schema);
  draw();
}

const { soon, outOfDate } = setUpAsking({
  people: () => those(state),
  idle: () => (blanks().length ? null : "Add a blank to get proposals."),
  ask: (person, signal) =>
    state.mode === "each"
      ? api.complete(queryFor(person), Math.min(TOP, schema.limits.max_top_k), signal)
      : api.completeJointly(queryFor(person), jointly(), signal),
  settle: describe,
  draw: (answers) => (state.mode === "each" ? eachByItself : wholeSets)(answers, actions),
  said: (answers, milliseconds) => {
    const count = answers.reduce((sum, { answer }) => sum + (answer ? proposed(answer).length : 0), 0);
    return `${count} proposals in ${milliseconds} ms.`;
  },
  version: () => schema.version.number,
  renew,
  report,
});

const jointly = () => ({
  num_completions: state.together.num_completions,
  diversity: Math.min(state.together.diversity, Math.max(blanks().length, 1)),
});

const proposed = (answer) =>
  answer.slots
    ? answer.slots.flatMap((slot) => slot.candidates.map((each) => each.item))
    : answer.completions.flatMap((each) => each.filled);

function drawSet() {
  showSet(state.places, categories, {
    remove: (position) => changeSet(() => state.places.splice(position, 1)),
    clear: (position) => changeSet(() => (state.places[position] = { blank: true })),
    categorise: (position, category) => {
      state.places[position].category = category;
      soon();
    },
  });
}

function changeSet(change, focus = "set-title") {
  change();
  drawSet();
  if (focus) find(focus).focus();
  soon();
}

function fill(blank, item) {
  state.places[state.places.indexOf(blank)] = { item };
}

const actions = {
  take: (item, number) => changeSet(() => fill(blanks()[number], item), "answers-title"),
  takeAll: (items) => {
    const open = blanks();
    changeSet(() => items.forEach((item, number) => fill(open[number], item)));
  },
  deny: (item) => refuse("deny", item),
  own: (item) => refuse("owned", item),
  why: (item, blank, person) => showWhy(queryFor(state.people[person]), item, blank, state.people[person].name),
  get canExplain() {
    return capability("explain").is_available;
  },
  get whyNot() {
    return capability("explain").reason;
  },
};

function refuse(key, item) {
  if (!state.constraints[key].includes(item)) state.constraints[key].push(item);
  drawConstraints();
  find("answers-title").focus();
  soon();
}

const drawPeople = () => showPeople(state, schema, { called: CUSTOMER, nobody: "A guest", change: soon });

// Something to look at: two items that are far apart in the vocabulary, and a blank.
async function startOver() {
  outOfDate();
  const total = schema.counts.items;
  const places = [...new Set([Math.floor(total / 3), Math.floor((2 * total) / 3)])].filter((place) => place < total);
  const pages = await Promise.all(places.map((offset) => api.findItems("", 1, { offset })));
  state.places = [...pages.map(({ items: [found] }) => ({ item: found.item })), { blank: true }];
  state.constraints = noConstraints();
  drawSet();
  drawConstraints();
  soon();
}

const drawConstraints = () => showConstraints(schema, state.constraints, soon);

function drawMode() {
  const { is_available, reason } = capability("complete_jointly");
  const [each, together] = find("mode").querySelectorAll("input");
  together.disabled = !is_available;
  together.parentElement.title = reason ?? "";
  if (!is_available) {
    state.mode = "each";
    each.checked = true;
  }
  find("together").hidden = state.mode !== "together";
}

// All that follows from the schema.
function draw() {
  categories = schema.attributes.find((each) => each.name === "category")?.values ?? [];
  const { items } = schema.counts;
  find("served").textContent =
    `${items.toLocaleString("en")} items · ${schema.features.length} features · version ${schema.version.number}`;
  drawMode();
  const parts = {
    people: drawPeople,
    guidance: () => showGuidance(state, capability("guidance"), soon),
    together: () => showTogether(schema, state.together, soon),
    constraints: drawConstraints,
    set: drawSet,
  };
  for (const [id, drawPart] of Object.entries(parts)) keepingFocus(find(id), drawPart);
}

function wire() {
  find("compare").addEventListener("change", () => {
    drawPeople();
    soon();
  });
  find("add-blank").addEventListener("click", () => changeSet(() => state.places.push({ blank: true }), null));
  find("start-over").addEventListener("click", () => startOver().catch(report));
  find("mode").addEventListener("change", (event) => {
    state.mode = event.target.value;
    drawMode();
    soon();
  });
  setUpSearch((item) =>
    changeSet(() => {
      const at = state.places.findIndex((place) => place.blank);
      state.places.splice(at < 0 ? state.places.length : at, 0, { item });
    }, "search"),
  );
}

async function start() {
  setUpTheme(find("theme"));
  schema = await api.schema();
  find("allowed").open = matchMedia("(min-width: 60rem)").matches;
  wire();
  draw();
  await startOver();
}

start().catch(report);
