// The page: what it remembers, when it asks, and which part is drawn anew.

import * as api from "./api.js";
import { field, find, later, make } from "./dom.js";
import { contextForm } from "./form.js";
import { setUpSearch, showSet } from "./outfit.js";
import { eachByItself, wholeSets } from "./results.js";
import { setUpTheme } from "./theme.js";
import { showWhy } from "./why.js";
import { constraintsOf, noWishes, showWishes } from "./wishes.js";

const MASK = "[MASK]";
const TOP = 5;
const MOST_GUIDANCE = 4;

const state = {
  people: [
    { name: "A", context: {} },
    { name: "B", context: {} },
  ],
  hasTwo: false,
  places: [],
  wishes: noWishes(),
  guidance: 1,
  mode: "each",
  together: { budget: "", num_completions: 3, diversity: 1 },
};
let schema;
let categories = [];
let asked = null;

const people = () => (state.hasTwo ? state.people : state.people.slice(0, 1));
const blanks = () => state.places.filter((place) => place.blank);
const ability = (name) => schema.abilities.find((each) => each.name === name);

function queryFor(person) {
  const query = {
    items: state.places.map((place) => (place.blank ? MASK : place.item)),
    context: person.context,
    ...constraintsOf(state.wishes, blanks()),
  };
  if (state.guidance !== 1) query.guidance = state.guidance;
  if (state.mode === "together" && state.together.budget !== "") query.budget = Number(state.together.budget);
  return query;
}

// Ask for what the page shows.
async function refresh() {
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
  const milliseconds = performance.now() - started;
  await api.describe(answers.flatMap(({ answer }) => (answer ? proposed(answer) : [])), schema.limits.max_page).catch(() => {});
  if (mine.signal.aborted) return;
  const draw = state.mode === "each" ? eachByItself : wholeSets;
  find("results").replaceChildren(...draw(answers, actions));
  markBusy(false);
  const count = answers.reduce((sum, { answer }) => sum + (answer ? proposed(answer).length : 0), 0);
  status.textContent = `${count} proposals in ${Math.round(milliseconds)} ms.`;
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
    return ability("explain").is_available;
  },
  get whyNot() {
    return ability("explain").reason;
  },
};

function refuse(key, item) {
  if (!state.wishes[key].includes(item)) state.wishes[key].push(item);
  showWishes(schema, state.wishes, soon);
  find("answers-title").focus();
  soon();
}

function drawPeople() {
  const forms = people().map((person) =>
    contextForm(schema.features, person.context, {
      name: person.name,
      change: soon,
      clear: (context) => {
        person.context = context;
        drawPeople();
        soon();
      },
    }),
  );
  const { is_available, reason } = ability("context");
  find("people").replaceChildren(...(is_available ? forms : [make("p", { class: "quiet" }, reason)]));
  find("people").classList.toggle("two", state.hasTwo);
}

function drawGuidance() {
  const { is_available, reason } = ability("guidance");
  const value = make("output", { for: "guidance-slider" }, spokenGuidance());
  const slider = make("input", {
    type: "range",
    min: 0,
    max: MOST_GUIDANCE,
    step: 0.25,
    value: state.guidance,
    disabled: !is_available,
    oninput: (event) => {
      state.guidance = event.target.valueAsNumber;
      value.textContent = spokenGuidance();
      slider.setAttribute("aria-valuetext", spokenGuidance());
      soon();
    },
  });
  const row = field("guidance-slider", "How personal", slider, is_available ? undefined : reason);
  row.append(value);
  find("guidance").replaceChildren(row);
}

function spokenGuidance() {
  const words = state.guidance === 0 ? "as for anybody" : state.guidance === 1 ? "as learned" : state.guidance < 1 ? "less" : "more";
  return `${state.guidance} · ${words}`;
}

function drawTogether() {
  const box = (id, label, key, properties) =>
    field(
      id,
      label,
      make("input", {
        type: "number",
        value: state.together[key],
        oninput: (event) => {
          state.together[key] = key === "budget" ? event.target.value : Math.max(1, event.target.valueAsNumber || 1);
          soon();
        },
        ...properties,
      }),
    );
  const hasPrices = schema.attributes.some((each) => each.name === "price");
  find("together").replaceChildren(
    ...[
      hasPrices ? box("budget", "Budget", "budget", { min: 0, step: "any", placeholder: "any" }) : null,
      box("ways", "Ways to show", "num_completions", { min: 1, max: schema.limits.max_completions }),
      box("diversity", "Items that differ", "diversity", { min: 1, max: schema.limits.max_blanks }),
    ].filter(Boolean),
  );
}

// Something to look at: two items that are far apart in the vocabulary, and a blank.
async function startOver() {
  outOfDate();
  const total = schema.counts.items;
  const places = [...new Set([Math.floor(total / 3), Math.floor((2 * total) / 3)])].filter((place) => place < total);
  const pages = await Promise.all(places.map((offset) => api.findItems("", 1, { offset })));
  state.places = [...pages.map(({ items: [found] }) => ({ item: found.item })), { blank: true }];
  state.wishes = noWishes();
  drawSet();
  showWishes(schema, state.wishes, soon);
  soon();
}

function wire() {
  find("compare").addEventListener("change", (event) => {
    state.hasTwo = event.target.checked;
    drawPeople();
    soon();
  });
  find("add-blank").addEventListener("click", () => changeSet(() => state.places.push({ blank: true }), null));
  find("start-over").addEventListener("click", () => startOver().catch(report));
  find("mode").addEventListener("change", (event) => {
    state.mode = event.target.value;
    find("together").hidden = state.mode !== "together";
    soon();
  });
  const joint = ability("complete_jointly");
  const together = find("mode").querySelector("[value=together]");
  together.disabled = !joint.is_available;
  if (!joint.is_available) together.parentElement.title = joint.reason;
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
}

async function start() {
  setUpTheme(find("theme"));
  schema = await api.schema();
  categories = schema.attributes.find((each) => each.name === "category")?.values ?? [];
  const { items } = schema.counts;
  find("served").textContent =
    `${items.toLocaleString("en")} items · ${schema.features.length} features · version ${schema.version.number}`;
  find("allowed").open = matchMedia("(min-width: 60rem)").matches;
  wire();
  drawPeople();
  drawGuidance();
  drawTogether();
  await startOver();
}

start().catch(report);
