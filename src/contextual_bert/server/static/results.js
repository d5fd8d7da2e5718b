// The proposals, one column a customer: for each blank by itself, or whole sets.

import { itemCard, nameOf } from "./cards.js";
import { column, remarks } from "./columns.js";
import { button, make, money, percent } from "./dom.js";

export const CUSTOMER = "Customer";

// answers: [{name, answer or problem}]; act: what a click on a proposal does.
export function eachByItself(answers, act) {
  return answers.map(({ name, answer, problem }, person) =>
    column(name, { count: answers.length, problem, called: CUSTOMER }, () =>
      answer.slots.map((slot, blank) =>
        make(
          "div",
          { class: "slot" },
          answer.slots.length > 1 ? make("h4", {}, `Blank ${blank + 1}`) : null,
          slot.candidates.length ? proposals(slot, { name, person, blank, act }) : make("p", { class: "empty" }, slot.reason ?? "Nothing is left."),
          excluded(slot),
        ),
      ).concat(remarksOn(answer)),
    ),
  );
}

function proposals(slot, { name, person, blank, act }) {
  const largest = slot.candidates[0].probability;
  return make(
    "ol",
    { class: "proposals" },
    slot.candidates.map(({ item, probability }) => {
      const called = nameOf(item);
      const share = make("meter", { min: 0, max: largest || 1, value: probability, "aria-hidden": "true" });
      return itemCard(
        item,
        { tag: "li", label: `${called}, ${percent(probability)}` },
        make("div", { class: "share" }, share, make("span", {}, percent(probability))),
        make(
          "div",
          { class: "row actions" },
          button("Take", () => act.take(item, blank), { "aria-label": `Take ${called} for blank ${blank + 1}` }),
          button("Why?", () => act.why(item, blank, person), {
            class: "plain",
            "aria-label": `Why ${called} for customer ${name}?`,
            disabled: !act.canExplain,
            title: act.canExplain ? null : act.whyNot,
          }),
          button("Not this", () => act.deny(item), { class: "plain", "aria-label": `Never propose ${called}` }),
          button("Owned", () => act.own(item), { class: "plain", "aria-label": `The customer owns ${called}` }),
        ),
      );
    }),
  );
}

function excluded(slot) {
  const removed = Object.entries(slot.removed).map(([name, count]) => `${name} ${count.toLocaleString("en")}`);
  if (!removed.length) return null;
  return make(
    "p",
    { class: "quiet" },
    `${slot.num_permitted.toLocaleString("en")} items are permitted; taken away by ${removed.join(", ")}. `,
    `The model gave ${percent(slot.excluded_probability)} to what is not permitted.`,
  );
}

export function wholeSets(answers, act) {
  return answers.map(({ name, answer, problem }) =>
    column(name, { count: answers.length, problem, called: CUSTOMER }, () => [
      ...answer.completions.map((completion, number) =>
        make(
          "article",
          { class: "completion", "aria-label": `Way ${number + 1}` },
          make(
            "div",
            { class: "row" },
            make("h4", {}, `Way ${number + 1}`),
            make("span", { class: "quiet" }, worth(completion)),
            button("Take", () => act.takeAll(completion.filled), { "aria-label": `Take way ${number + 1}` }),
          ),
          make("ul", { class: "cards small" }, completion.filled.map((item) => itemCard(item, { tag: "li", label: nameOf(item) }))),
        ),
      ),
      answer.completions.length ? null : make("p", { class: "empty" }, answer.reason ?? "Nothing is left."),
      make("p", { class: "quiet" }, how(answer)),
      ...remarksOn(answer),
    ]),
  );
}

function worth(completion) {
  const parts = [
    completion.probability === null
      ? `log-probability ${completion.log_probability.toFixed(2)}`
      : `${percent(completion.probability)} of what is permitted`,
  ];
  if (completion.price !== null) parts.push(`${money(completion.price)} together`);
  return parts.join(" · ");
}

function how(answer) {
  const ways = {
    exact: "Every permitted set was looked at",
    beam: "Found by beam search, so there may be better ones",
    gibbs: "Found by Gibbs sampling, so there may be better ones",
  };
  return `${ways[answer.method] ?? answer.method}: ${answer.num_forward_passes.toLocaleString("en")} forward passes.`;
}

function remarksOn(answer) {
  const refusals = (answer.slots ?? [answer]).map((each) => each.reason).filter(Boolean); // said where the proposals would be
  return remarks(answer.notes.filter((note) => !refusals.some((reason) => note.endsWith(reason))), answer);
}
