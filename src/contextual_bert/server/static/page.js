// The page: what it remembers, when it asks, and which part is drawn anew.

import * as api from "./api.js";
import { find, keepingFocus, later, make } from "./dom.js";
import { contextForm } from "./form.js";
import { setUpSearch, showSet } from "./outfit.js";
import { showGuidance, showTogether } from "./personal.js";
import { eachByItself, wholeSets } from "./results.js";
import { setUpTheme } from "./theme.js";
import { fit } from "./versions.js";
import { showWhy } from "./why.js";
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
let asked = null;

const people = () => (state.hasTwo ? state.people : state.people.slice(0, 1));
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

// Ask for what the page shows; again, once, if another version of the model answers than the one that is shown.
async function refresh(isAgain = false) {
  const mine = (asked = new AbortController());
  const status = find("status");
  if (!blanks().length) {
    find("results").replaceChildren();
    status.textContent = "Add a blank to get proposals.";
    markBusy(false);
    return;
  }
  const slow = setTimeout(() => (status.textContent = "The model computes …"), 400);
  const started = performance.now();
  const answers = await Promise.all(
    people().map(async (person) => {
      const query = queryFor(person);
      try {
        const answer =
          state.mode === "each"
            ? await api.complete(query, Math.min(TOP, schema.limits.max_top_k), mine.signal)
            : await api.completeJointly(query, jointly(), mine.signal);
        return { name: person.name, answer };
      } catch (error) {
        if (error.name === "AbortError") throw error;
        return { name: person.name, problem: error.message };
      }
    }),
  ).catch(() => null);
  clearTimeout(slow);
  if (mine.signal.aborted || answers === null) return;
  if (!isAgain && api.isOutdated(schema.version.number)) {
    await renew().catch(report);
    return mine.signal.aborted ? undefined : refresh(true);
  }
  const milliseconds = performance.now() - started;
  await describe(answers);
  if (mine.signal.aborted) return;
  const draw = state.mode === "each" ? eachByItself : wholeSets;
  find("results").replaceChildren(...draw(answers, actions));
  markBusy(false);
  const isRefused = answers.every(({ problem }) => problem);
  if (!isRefused) find("trouble").hidden = true;
  const count = answers.reduce((sum, { answer }) => sum + (answer ? proposed(answer).length : 0), 0);
  status.textContent = isRefused ? "" : `${count} proposals in ${Math.round(milliseconds)} ms.`;
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

const refreshLater = later(refresh, 120);

function soon() {
  outOfDate();
  refreshLater();
}

// From the change on, and not from the request on: what is shown, and an answer on its way.
function outOfDate() {
  asked?.abort();
  markBusy(true);
}

function markBusy(isBusy) {
  if (isBusy) find("results").setAttribute("aria-busy", "true");
  else find("results").removeAttribute("aria-busy");
}

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

function drawPeople() {
  const { is_available, reason } = capability("context");
  const compare = find("compare");
  compare.disabled = !is_available;
  compare.parentElement.title = reason ?? "";
  state.hasTwo = compare.checked &&= is_available;
  const opened = [...find("people").querySelectorAll(".person")].map((each) => each.open);
  const read = schema.features.filter((feature) => !feature.silenced);
  const forms = people().map((person, index) =>
    contextForm(read, person.context, {
      name: person.name,
      isOpen: opened[index],
      change: soon,
      clear: (context) => {
        person.context = context;
        keepingFocus(find("people"), drawPeople);
        soon();
      },
    }),
  );
  find("people").replaceChildren(...(is_available ? forms : [make("p", { class: "quiet" }, reason)]));
  find("people").classList.toggle("two", state.hasTwo);
}

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

function report(error) {
  const trouble = find("trouble");
  trouble.textContent = error.message;
  trouble.hidden = false;
  markBusy(false);
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
