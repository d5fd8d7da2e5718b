// One person, or two to compare: their forms. It asks nothing.

import { find, keepingFocus, make } from "./dom.js";
import { contextForm } from "./form.js";

// state: {people, hasTwo}, changed in place; called, nobody: what the page calls a person, and one of whom nothing is known;
// change: is told of each change.
export function showPeople(state, schema, { called, nobody, change }) {
  const draw = () => showPeople(state, schema, { called, nobody, change });
  const { is_available, reason } = schema.capabilities.find((each) => each.name === "context");
  const compare = find("compare");
  compare.disabled = !is_available;
  compare.parentElement.title = reason ?? "";
  state.hasTwo = compare.checked &&= is_available;
  const opened = [...find("people").querySelectorAll(".person")].map((each) => each.open);
  const read = schema.features.filter((feature) => !feature.silenced);
  const forms = those(state).map((person, index) =>
    contextForm(read, person.context, {
      name: person.name,
      called,
      nobody,
      isOpen: opened[index],
      change,
      clear: (context) => {
        person.context = context;
        keepingFocus(find("people"), draw);
        change();
      },
    }),
  );
  find("people").replaceChildren(...(is_available ? forms : [make("p", { class: "quiet" }, reason)]));
  find("people").classList.toggle("two", state.hasTwo);
}

export const those = (state) => (state.hasTwo ? state.people : state.people.slice(0, 1));
