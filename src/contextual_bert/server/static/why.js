// Reasons: a dialog that asks why, contributions as bars, and what others would get. It knows neither sets nor texts.

import { explain } from "./api.js";
import { button, find, make, percent, spoken } from "./dom.js";

let asked = null;

// title: of the dialog; parameters: of the question; from the reasons, report: elements, best: a sentence or nothing.
export async function showReasons(query, { title, parameters, report, best }) {
  const dialog = find("why");
  asked?.abort();
  asked = new AbortController();
  const heading = make("h2", { id: "why-title", tabindex: -1 }, title);
  const shut = button("Close", () => dialog.close(), { class: "plain" });
  const status = make("p", { role: "status" }, "Asking the model with every part of what is known …");
  const body = make("div", { class: "reasons" });
  dialog.replaceChildren(make("div", { class: "row head" }, heading, shut), status, body);
  dialog.addEventListener("close", () => asked.abort(), { once: true });
  dialog.showModal();
  heading.focus();
  try {
    const found = await explain(query, parameters, asked.signal);
    status.replaceChildren(...summary(found, best(found)));
    body.replaceChildren(...report(found).filter(Boolean));
  } catch (error) {
    if (error.name === "AbortError") return;
    status.replaceChildren();
    body.replaceChildren(make("p", { class: "trouble", role: "alert" }, error.message));
  }
}

function summary(found, best) {
  return [
    make("strong", {}, percent(found.probability)),
    " for this person, ",
    make("strong", {}, percent(found.anonymous_probability)),
    " for somebody of whom nothing is known.",
    best ? ` ${best}` : "",
  ];
}

// What is known of the person, as bars.
export function fieldBars(fields, called) {
  return fields.length
    ? bars(`What is known of the ${called}`, "field", fields.map((each) => ({ ...each, name: fieldName(each) })))
    : make("p", {}, `Nothing is known of this ${called}, so nothing of it can be a reason.`);
}

// A field that the run's own report could not tell from nothing has a mark; a note says what it means.
function fieldName({ field, is_told_apart }) {
  return is_told_apart === false ? `${spoken(field)} (?)` : spoken(field);
}

// rows: contributions with a name, those of fields with a value.
export function bars(title, label, rows) {
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

export const or = (values) => (values.length < 2 ? values.join("") : `${values.slice(0, -1).join(", ")} or ${values.at(-1)}`);

export function footer(found) {
  const how = found.num_subsets === 1
    ? "the only subset of the known fields"
    : found.is_exact
    ? `all ${found.num_subsets.toLocaleString("en")} subsets of the known fields`
    : `${found.num_subsets.toLocaleString("en")} sampled subsets of the known fields; ± is one standard error of the log-odds`;
  return `Shapley values of the log-odds from ${how}: together they make the difference between the two percentages. They say what this model does, not what causes a choice.`;
}
