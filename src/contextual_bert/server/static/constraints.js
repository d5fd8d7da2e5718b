// What is allowed: constraints as a form, and as the keys of a query.

import { nameOf } from "./cards.js";
import { button, choice, field, find, make, rounded, tickChips } from "./dom.js";

export const noConstraints = () => ({ in_stock: false, max_price: "", at_most_one_per: "", conditions: [], owned: [], deny: [] });

// The keys that these constraints have in a query; blanks: the places of the set that are open.
export function queryConstraints(constraints, blanks) {
  const where = [];
  blanks.forEach((place, blank) => {
    if (place.category) where.push({ attribute: "category", equals: place.category, blank });
  });
  for (const { attribute, relation, values } of constraints.conditions) {
    if (!values.length) continue;
    const value = relation === "at_most" || relation === "at_least" ? Number(values[0]) : values;
    where.push({ attribute, [relation]: value });
  }
  const asked = {};
  if (where.length) asked.where = where;
  if (constraints.in_stock) asked.in_stock = true;
  if (constraints.max_price !== "") asked.max_price = Number(constraints.max_price);
  if (constraints.at_most_one_per) asked.at_most_one_per = constraints.at_most_one_per;
  for (const key of ["owned", "deny"]) if (constraints[key].length) asked[key] = [...constraints[key]];
  return asked;
}

const NAMES = new Set(["id", "item", "name", "image_url", "image", "picture"]); // of one item each

export function showConstraints(schema, constraints, change) {
  const attributes = schema.attributes.filter((each) => !NAMES.has(each.name));
  const redraw = (focus) => {
    showConstraints(schema, constraints, change);
    if (focus) find(focus)?.focus();
    change();
  };
  const controls = [];
  if (attributes.length) {
    const stock = make("input", {
      type: "checkbox",
      checked: constraints.in_stock,
      onchange: (event) => {
        constraints.in_stock = event.target.checked;
        change();
      },
    });
    controls.push(make("label", { class: "switch field" }, stock, " Only what is in stock"));
  }
  if (attributes.some((each) => each.name === "price")) {
    const price = make("input", {
      type: "number",
      min: 0,
      step: "any",
      value: constraints.max_price,
      placeholder: "any",
      oninput: (event) => {
        constraints.max_price = event.target.value;
        change();
      },
    });
    controls.push(field("max-price", "Price, at most", price));
  }
  const grouping = attributes.filter((each) => each.values && each.kind !== "list").map((each) => each.name);
  if (grouping.length) {
    const onchange = (event) => {
      constraints.at_most_one_per = event.target.value;
      change();
    };
    const one = choice(grouping, { selected: constraints.at_most_one_per, empty: "no limit", onchange });
    controls.push(field("one-per", "At most one per", one));
  }
  const usable = attributes.filter((each) => each.values || each.kind === "number");
  const rows = constraints.conditions.map((condition, index) => conditionRow(condition, index, usable, constraints, redraw, change));
  const add = () => {
    constraints.conditions.push(newCondition(usable[0]));
    redraw(`condition-${constraints.conditions.length - 1}`);
  };
  find("constraints").replaceChildren(
    controls.length
      ? make("div", { class: "fields" }, ...controls)
      : make("p", { class: "quiet" }, "Started with a catalogue (--catalogue items.parquet), this server also knows prices, stock and attributes."),
    ...rows,
    make("div", { class: "row" }, usable.length ? button("Add a condition", add) : null),
    ...list(constraints, "owned", "She owns", redraw),
    ...list(constraints, "deny", "Never", redraw),
  );
}

const newCondition = (attribute) => ({
  attribute: attribute.name,
  relation: attribute.values ? "in" : "at_most",
  values: [],
});

function conditionRow(condition, index, attributes, constraints, redraw, change) {
  const attribute = attributes.find((each) => each.name === condition.attribute);
  const which = choice(attributes.map((each) => each.name), {
    selected: condition.attribute,
    onchange: (event) => {
      constraints.conditions[index] = newCondition(attributes.find((each) => each.name === event.target.value));
      redraw(`condition-${index}`);
    },
  });
  which.id = `condition-${index}`;
  which.setAttribute("aria-label", `Attribute of condition ${index + 1}`);
  const relations = attribute.values ? { in: "is one of", not_in: "is none of" } : { at_most: "is at most", at_least: "is at least" };
  const how = make(
    "select",
    {
      "aria-label": `Relation of condition ${index + 1}`,
      onchange: (event) => {
        condition.relation = event.target.value;
        change();
      },
    },
    Object.entries(relations).map(([value, text]) => make("option", { value, selected: value === condition.relation }, text)),
  );
  const drop = () => {
    constraints.conditions.splice(index, 1);
    redraw("constraints-title");
  };
  return make(
    "fieldset",
    { class: "condition" },
    make("legend", {}, `Condition ${index + 1}`),
    make("div", { class: "row" }, which, how, button("Remove", drop, { class: "plain", "aria-label": `Remove condition ${index + 1}` })),
    attribute.values ? valueChips(condition, attribute, change) : valueBox(condition, attribute, index, change),
  );
}

function valueChips(condition, attribute, change) {
  return tickChips(attribute.values, (value) => condition.values.includes(value), (value, isTicked) => {
    condition.values = isTicked ? [...condition.values, value] : condition.values.filter((each) => each !== value);
    change();
  });
}

function valueBox(condition, attribute, index, change) {
  return make("input", {
    type: "number",
    step: "any",
    "aria-label": `Value of condition ${index + 1}`,
    placeholder: attribute.lowest === null ? "" : `${rounded(attribute.lowest)} to ${rounded(attribute.highest)}`,
    value: condition.values[0] ?? "",
    oninput: (event) => {
      condition.values = event.target.value === "" ? [] : [event.target.value];
      change();
    },
  });
}

function list(constraints, key, title, redraw) {
  if (!constraints[key].length) return [];
  const chips = constraints[key].map((item) =>
    button(
      `${nameOf(item)} ×`,
      () => {
        constraints[key] = constraints[key].filter((each) => each !== item);
        redraw("constraints-title");
      },
      { class: "chip removable", "aria-label": `${title} no longer: ${nameOf(item)}` },
    ),
  );
  return [make("div", { class: "row list" }, make("span", {}, `${title}:`), make("span", { class: "chips" }, ...chips))];
}
