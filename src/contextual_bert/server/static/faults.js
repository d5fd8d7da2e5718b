// What the server refuses, said beside the field that it is about. It knows the pointers of a problem and ids of fields.

import { find, make } from "./dom.js";

export function clearFaults() {
  for (const said of document.querySelectorAll(".fault")) {
    const control = find(said.dataset.of);
    control?.removeAttribute("aria-invalid");
    if (control) describe(control, described(control).filter((id) => id !== said.id));
    said.remove();
  }
}

// faults: each with the pointer to a value of the query; name: of the person whose query it is.
export function showFaults(faults, name) {
  for (const { pointer = "", problem, allowed } of faults) {
    const [key, feature] = pointer.split("/").slice(1).map(unescaped);
    const control = find(key === "context" ? `${name}-${feature}` : `the-${key}`);
    if (!control || control.getAttribute("aria-invalid")) continue;
    const text = [problem, allowed].filter(Boolean).join(". ");
    const said = make("small", { class: "fault", id: `${control.id}-fault`, "data-of": control.id }, text);
    control.setAttribute("aria-invalid", "true");
    describe(control, [...described(control), said.id]);
    const form = control.closest("details");
    if (form) form.open = true;
    control.after(said);
  }
}

// The ids of what describes a control, such as its hint.
const described = (control) => (control.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id);

function describe(control, ids) {
  if (ids.length) control.setAttribute("aria-describedby", ids.join(" "));
  else control.removeAttribute("aria-describedby");
}

const unescaped = (part) => part.replaceAll("~1", "/").replaceAll("~0", "~");
