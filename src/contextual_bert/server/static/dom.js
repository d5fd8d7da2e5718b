// Elements in one line, text always as text. It knows nothing of what is shown.

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const find = (id) => document.getElementById(id);

export function button(text, onclick, properties = {}) {
  return make("button", { type: "button", onclick, ...properties }, text);
}

// A field of a form: label above, control below, a hint that screen readers say with it.
export function field(id, label, control, hint) {
  control.id = id;
  const about = hint ? make("small", { id: `${id}-hint` }, hint) : null;
  if (about) control.setAttribute("aria-describedby", about.id);
  return make("div", { class: "field" }, make("label", { for: id }, label), control, about);
}

export function choice(values, { selected = "", empty, onchange } = {}) {
  const options = values.map((value) => make("option", { value, selected: value === selected }, spoken(value)));
  if (empty !== undefined) options.unshift(make("option", { value: "", selected: selected === "" }, empty));
  return make("select", { onchange }, options);
}

// Values that are ticked one by one; toggle is told which, and whether it is ticked now.
export function tickChips(values, isTicked, toggle) {
  const chip = (value) => {
    const onchange = (event) => toggle(value, event.target.checked);
    const input = make("input", { type: "checkbox", checked: isTicked(value), onchange });
    return make("label", { class: "chip" }, input, spoken(value));
  };
  return make("div", { class: "chips" }, ...values.map(chip));
}

// Names from tables for people: preferred_styles, none_of -> preferred styles, none of.
export const spoken = (name) => String(name).replaceAll("_", " ");

export const percent = (share) =>
  share >= 0.9995 ? "100%" : share >= 0.1 ? `${(100 * share).toFixed(1)}%` : `${(100 * share).toPrecision(2)}%`;

export const money = (amount) => new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(amount);

export function later(action, milliseconds) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}
