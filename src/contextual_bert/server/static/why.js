// Why this item: a dialog with the contributions of fields and items as bars, and what others would get.

import { explain } from "./api.js";
import { nameOf } from "./cards.js";
import { button, find, make, percent, spoken } from "./dom.js";

let asked = null;

export async function showWhy(query, item, slot, customer) {
  const dialog = find("why");
  asked?.abort();
  asked = new AbortController();
  const title = make("h2", { id: "why-title", tabindex: -1 }, `Why ${nameOf(item)} for customer ${customer}?`);
  const shut = button("Close", () => dialog.close(), { class: "plain" });
  const status = make("p", { role: "status" }, "Asking the model with every part of what is known …");
  const body = make("div", { class: "reasons" });
  dialog.replaceChildren(make("div", { class: "row head" }, title, shut), status, body);
  dialog.addEventListener("close", () => asked.abort(), { once: true });
  dialog.showModal();
  title.focus();
  try {
    const found = await explain(query, { item, slot }, asked.signal);
    status.replaceChildren(...summary(found));
    body.replaceChildren(...report(found));
  } catch (error) {
    if (error.name === "AbortError") return;
    status.replaceChildren();
    body.replaceChildren(make("p", { class: "trouble", role: "alert" }, error.message));
  }
}

function summary(found) {
  return [
    make("strong", {}, percent(found.probability)),
    " for this customer, ",
    make("strong", {}, percent(found.anonymous_probability)),
    " for somebody of whom nothing is known.",
    found.item === found.best_item ? "" : ` The best here is ${nameOf(found.best_item)}.`,
  ];
}

function report(found) {
  return [
    found.fields.length
      ? bars("What is known of the customer", "field", found.fields.map((each) => ({ ...each, name: fieldName(each) })))
      : make("p", {}, "Nothing is known of this customer, so nothing of it can be a reason."),
    found.other_items.length
      ? bars("What the other items do", "item", found.other_items.map((each) => ({ ...each, name: nameOf(each.item) })))
      : null,
    found.item_reasons ? ofTheItem(found) : null,
    others(found),
    make("p", { class: "quiet" }, footer(found)),
    found.item_reasons ? make("p", { class: "quiet" }, footerOfFeatures(found.item_reasons)) : null,
    ...found.notes.map((note) => make("p", { class: "quiet" }, note)),
  ].filter(Boolean);
}

// A field that the run's own report could not tell from nothing has a mark; a note says what it means.
function fieldName({ field, is_told_apart }) {
  return is_told_apart === false ? `${spoken(field)} (?)` : spoken(field);
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

// rows: contributions with a name, those of fields with a value.
function bars(title, label, rows) {
  const largest = Math.max(...rows.map((each) => Math.abs(each.log_odds)), 1e-9);
  const head = (text, kind) => make("th", { scope: "col", class: kind }, text);
  return make(
    "table",
    { class: "bars" },
    make("caption", {}, title),
    make("thead", {}, make("tr", {}, head(label), head("less likely · more likely", "wide"), head("odds", "number"))),
    make(
      "tbody",
      {},
      rows.map(({ name, value, log_odds, standard_error }) => {
        const bar = make("span", { class: log_odds < 0 ? "bar less" : "bar more" });
        bar.style.setProperty("--share", `${(50 * Math.abs(log_odds)) / largest}%`);
        return make(
          "tr",
          {},
          make("th", { scope: "row" }, name, value === undefined ? null : make("small", {}, ` ${value}`)),
          make("td", { class: "lane", "aria-hidden": "true" }, bar),
          make("td", { class: "number" }, factor(log_odds), standard_error ? make("small", {}, ` ± ${standard_error.toFixed(2)}`) : null),
        );
      }),
    ),
  );
}

// By what the odds are multiplied.
function factor(logOdds) {
  const value = Math.exp(Math.min(logOdds, 700));
  if (value >= 1000) return `× ${Math.round(value).toLocaleString("en")}`;
  return `× ${value >= 0.1 && value < 100 ? value.toFixed(2) : value.toPrecision(3)}`;
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

const or = (values) => (values.length < 2 ? values.join("") : `${values.slice(0, -1).join(", ")} or ${values.at(-1)}`);

function footer(found) {
  const how = found.num_subsets === 1
    ? "the only subset of the known fields"
    : found.is_exact
    ? `all ${found.num_subsets.toLocaleString("en")} subsets of the known fields`
    : `${found.num_subsets.toLocaleString("en")} sampled subsets of the known fields; ± is one standard error of the log-odds`;
  return `Shapley values of the log-odds from ${how}: together they make the difference between the two percentages. They say what this model does, not what causes a choice.`;
}
