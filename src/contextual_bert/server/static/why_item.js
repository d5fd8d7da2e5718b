// Why this item: the contributions of fields and items, what the item itself is, and what others would get.

import { nameOf } from "./cards.js";
import { make, spoken } from "./dom.js";
import { bars, fieldBars, footer, or, showReasons } from "./why.js";

export const showWhy = (query, item, slot, customer) =>
  showReasons(query, {
    title: `Why ${nameOf(item)} for customer ${customer}?`,
    parameters: { item, slot },
    report,
    best: (found) => (found.item === found.best_item ? "" : `The best here is ${nameOf(found.best_item)}.`),
  });

function report(found) {
  return [
    fieldBars(found.fields, "customer"),
    found.other_items.length
      ? bars("What the other items do", "item", found.other_items.map((each) => ({ ...each, name: nameOf(each.item) })))
      : null,
    found.item_reasons ? ofTheItem(found) : null,
    others(found),
    make("p", { class: "quiet" }, footer(found)),
    found.item_reasons ? make("p", { class: "quiet" }, footerOfFeatures(found.item_reasons)) : null,
    ...found.notes.map((note) => make("p", { class: "quiet" }, note)),
  ];
}

// What the item itself is, such as its colour, beside the average of the permitted items.
function ofTheItem({ item, item_reasons: own }) {
  const rows = own.features.map(({ feature, value, logit, standard_error }) =>
    ({ name: spoken(feature), value, log_odds: logit, standard_error }));
  const rest = own.is_new ? "what all new items have in common" : "what is its own";
  return bars(`What ${nameOf(item)} itself is`, "feature", [...rows, { name: rest, log_odds: own.own_logit }]);
}

function footerOfFeatures(own) {
  const how = own.is_sum
    ? "exact, for the features are added up"
    : "Shapley values, for a network reads all features at once; the last row has the rest";
  return `Features of the item: how much more probable each makes it than the average of the ${own.num_items.toLocaleString("en")} permitted items (${how}).`;
}

function others(found) {
  if (!found.counterfactuals.length) return null;
  const grouped = new Map();
  for (const { field, value, item } of found.counterfactuals) {
    const key = JSON.stringify([field, item]);
    grouped.set(key, [...(grouped.get(key) ?? []), value]);
  }
  const lines = [...grouped].map(([key, values]) => {
    const [field, item] = JSON.parse(key);
    return make("li", {}, `If ${spoken(field)} were ${or(values)}: `, make("strong", {}, nameOf(item)));
  });
  return make("section", {}, make("h3", {}, "What others would get"), make("ul", {}, ...lines));
}
