// Who is it for: a form made from the features of the schema. It reads and writes contexts, and asks nothing.

import { button, choice, field, make, rounded, spoken, spokenAmong, tickChips } from "./dom.js";

const MANY = 24; // values that are still ticked one by one

// context: a mapping that is changed in place; a feature that is not in it is missing.
export function contextForm(features, context, { name, called, nobody, isOpen, change, clear }) {
  const known = features.filter((feature) => feature.name in context).length;
  const count = make("span", { class: "quiet" }, `${known} of ${features.length} known`);
  const changed = (feature, value) => {
    if (value === undefined) delete context[feature];
    else context[feature] = value;
    count.textContent = `${Object.keys(context).length} of ${features.length} known`;
    change();
  };
  const controls = features.map((feature) => control(feature, context[feature.name], name, changed));
  return make(
    "details",
    { class: "person", open: isOpen ?? (matchMedia("(min-width: 60rem)").matches || known > 0) },
    make("summary", {}, make("strong", {}, `${called} ${name}`), " ", count),
    make(
      "div",
      { class: "row" },
      button("Somebody at random", () => clear(randomContext(features)), { class: "plain" }),
      button(nobody, () => clear({}), { class: "plain" }),
    ),
    make("div", { class: "fields", role: "group", "aria-label": `${called} ${name}` }, ...controls),
  );
}

function control(feature, value, person, changed) {
  const id = `${person}-${feature.name}`;
  const label = spoken(feature.name);
  // Of a sensitive feature the server withholds the values.
  if (feature.kind.endsWith("categorical")) feature = { ...feature, values: feature.values ?? [] };
  if (feature.kind === "multi_categorical") return several(feature, value, id, label, changed);
  if (feature.values) return one(feature, value, id, label, changed);
  if (feature.kind === "numerical") return number(feature, value, id, label, changed);
  if (feature.kind === "history") return history(feature, value, id, label, changed);
  const box = make("input", {
    value: value ? value.join(", ") : "",
    placeholder: "not known",
    onchange: (event) => {
      const text = event.target.value.trim();
      changed(feature.name, text ? text.split(/[\s,]+/).map(Number) : undefined);
    },
  });
  return field(id, label, box, `${feature.size} numbers with commas between them`);
}

function one(feature, value, id, label, changed) {
  if (feature.values.length && feature.values.length <= 4 * MANY) {
    const onchange = (event) => changed(feature.name, event.target.value || undefined);
    return field(id, label, choice(feature.values, { selected: value ?? "", empty: "not known", onchange }));
  }
  const list = `${id}-values`;
  const box = make("input", {
    value: value ?? "",
    list,
    placeholder: "not known",
    onchange: (event) => changed(feature.name, event.target.value || undefined),
  });
  const known = field(id, label, box, feature.values.length ? `${feature.values.length} values are known` : undefined);
  known.append(make("datalist", { id: list }, ...feature.values.map((each) => make("option", { value: each }))));
  return known;
}

function number(feature, value, id, label, changed) {
  const edges = feature.edges ?? [];
  const hint = edges.length ? `learned from ${rounded(edges[0])} to ${rounded(edges.at(-1))}` : undefined;
  const box = make("input", {
    type: "number",
    step: "any",
    value: value ?? "",
    placeholder: "not known",
    oninput: (event) => changed(feature.name, event.target.value === "" ? undefined : event.target.valueAsNumber),
  });
  return field(id, label, box, hint);
}

// What somebody had before: a line a basket, the oldest first.
function history(feature, value, id, label, changed) {
  const line = (basket) => (Array.isArray(basket) ? basket : (basket.items ?? [basket])).join(", ");
  const items = (text) => text.split(",").map((each) => each.trim()).filter((each) => each);
  const box = make("textarea", {
    rows: 3,
    placeholder: "not known",
    onchange: (event) => {
      const text = event.target.value.trim();
      const baskets = text === "[]" ? [] : text.split("\n").map(items).filter((basket) => basket.length);
      changed(feature.name, text ? baskets : undefined);
    },
  });
  box.value = value === undefined ? "" : value.length ? value.map(line).join("\n") : "[]";
  const whole = field(id, label, box, "A line a basket, the oldest first, commas between items. [] says: nothing yet.");
  whole.classList.add("wide");
  return whole;
}

// Not known, known to have none, or some: three states, so a switch and boxes.
function several(feature, value, id, label, changed) {
  const chosen = new Set(value ?? []);
  const say = () => {
    known.checked = true;
    changed(feature.name, [...chosen]);
  };
  const known = make("input", {
    type: "checkbox",
    id: `${id}-known`,
    checked: value !== undefined,
    onchange: () => {
      if (known.checked) say();
      else {
        chosen.clear();
        boxes.querySelectorAll("input:checked").forEach((each) => (each.checked = false));
        boxes.querySelectorAll(".chip.removable").forEach((each) => each.remove());
        changed(feature.name, undefined);
      }
    },
  });
  const boxes = feature.values.length && feature.values.length <= MANY ? ticks(feature, chosen, say) : entry(feature, id, chosen, say);
  return make(
    "fieldset",
    { class: "field wide" },
    make("legend", {}, label),
    make("label", { class: "switch" }, known, " known"),
    boxes,
  );
}

function ticks(feature, chosen, say) {
  return tickChips(feature.values, (value) => chosen.has(value), (value, isTicked) => {
    if (isTicked) chosen.add(value);
    else chosen.delete(value);
    say();
  });
}

function entry(feature, id, chosen, say) {
  const list = `${id}-values`;
  const chips = make("span", { class: "chips" });
  const show = (value) => {
    const chip = button(`${spokenAmong(feature.values, value)} ×`, () => {
      chosen.delete(value);
      chip.remove();
      say();
    }, { class: "chip removable", "aria-label": `Remove ${value}` });
    chips.append(chip);
  };
  chosen.forEach(show);
  const box = make("input", {
    list,
    "aria-label": `Add to ${spoken(feature.name)}`,
    placeholder: "add …",
    onchange: () => {
      const value = box.value.trim();
      box.value = "";
      if (!value || chosen.has(value)) return;
      chosen.add(value);
      show(value);
      say();
    },
  });
  const options = feature.values.map((each) => make("option", { value: each }));
  return make("div", { class: "chips" }, chips, box, make("datalist", { id: list }, ...options));
}

// Somebody to play with: every feature known, each value as likely as another.
export function randomContext(features) {
  const pick = (values) => values[Math.floor(Math.random() * values.length)];
  const context = {};
  for (const feature of features) {
    if (feature.kind === "multi_categorical" && feature.values) {
      context[feature.name] = [...new Set([pick(feature.values), pick(feature.values)])].filter((each) => each);
    } else if (feature.values) {
      if (feature.values.length) context[feature.name] = pick(feature.values);
    } else if (feature.edges?.length) {
      const [low, high] = [feature.edges[0], feature.edges.at(-1)];
      const value = low + Math.random() * (high - low);
      context[feature.name] = high - low > 5 ? Math.round(value) : Number(value.toPrecision(3));
    }
  }
  return context;
}
