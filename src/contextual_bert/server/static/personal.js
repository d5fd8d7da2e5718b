// How personal the answers are, and how whole sets are asked for: the controls above the proposals.

import { field, find, make } from "./dom.js";

const MOST_GUIDANCE = 4;

// asked: what is changed in place; capability: whether guidance means something to the model, and why not.
export function showGuidance(asked, { is_available, reason }, change) {
  const value = make("output", { for: "guidance-slider" }, spokenGuidance(asked.guidance));
  const slider = make("input", {
    type: "range",
    min: 0,
    max: MOST_GUIDANCE,
    step: 0.25,
    value: asked.guidance,
    disabled: !is_available,
    oninput: (event) => {
      asked.guidance = event.target.valueAsNumber;
      value.textContent = spokenGuidance(asked.guidance);
      slider.setAttribute("aria-valuetext", value.textContent);
      change();
    },
  });
  const row = field("guidance-slider", "How personal", slider, is_available ? undefined : reason);
  row.append(value);
  find("guidance").replaceChildren(row);
}

function spokenGuidance(guidance) {
  const words = guidance === 0 ? "as for anybody" : guidance === 1 ? "as learned" : guidance < 1 ? "less" : "more";
  return `${guidance} · ${words}`;
}

// together: what is changed in place.
export function showTogether(schema, together, change) {
  const box = (id, label, key, properties) =>
    field(
      id,
      label,
      make("input", {
        type: "number",
        value: together[key],
        oninput: (event) => {
          together[key] = key === "budget" ? event.target.value : Math.max(1, event.target.valueAsNumber || 1);
          change();
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
