// Answers side by side, one column a person, with what the server says of each. It knows neither sets nor texts.

import { make } from "./dom.js";

// name: of the person; count: of columns; content: draws what was answered.
export function column(name, { count, problem, called }, content) {
  return make(
    "section",
    { class: "column", "aria-label": `For ${called.toLowerCase()} ${name}` },
    count > 1 ? make("h3", {}, `For ${called.toLowerCase()} ${name}`) : null,
    problem ? make("p", { class: "trouble", role: "alert" }, problem) : content(),
  );
}

// notes: those that are shown; answer: its other remarks.
export function remarks(notes, answer) {
  const lines = [...notes];
  if (answer.unknown_items?.length) lines.push(`The model does not know: ${answer.unknown_items.join(", ")}.`);
  const unknown = Object.entries(answer.unknown_context).map(([feature, values]) => `${feature}: ${[values].flat().join(", ")}`);
  if (unknown.length) lines.push(`Values that the model never saw, read as unknown: ${unknown.join("; ")}.`);
  return lines.map((line) => make("p", { class: "quiet" }, line));
}
