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
  const options = values.map((value) => make("option", { value, selected: value === selected }, spokenAmong(values, value)));
  if (empty !== undefined) options.unshift(make("option", { value: "", selected: selected === "" }, empty));
  return make("select", { onchange }, options);
}

// Values that are ticked one by one; toggle is told which, and whether it is ticked now.
export function tickChips(values, isTicked, toggle) {
  const chip = (value) => {
    const onchange = (event) => toggle(value, event.target.checked);
    const input = make("input", { type: "checkbox", checked: isTicked(value), onchange });
    return make("label", { class: "chip" }, input, spokenAmong(values, value));
  };
  return make("div", { class: "chips" }, ...values.map(chip));
}

// Names from tables for people: preferred_styles, none_of -> preferred styles, none of.
export const spoken = (name) => String(name).replaceAll("_", " ");

// A value for people, unless another one of them would read the same.
export const spokenAmong = (values, value) =>
  values.some((each) => each !== value && spoken(each) === spoken(value)) ? value : spoken(value);

// A number as long as it is read: 58050.94382649867 -> 58051, 0.123456 -> 0.1235.
export const rounded = (number) => (Math.abs(number) >= 1000 ? Math.round(number) : Number(number.toPrecision(4)));

export const percent = (share) =>
  share >= 0.9995 ? "100%" : share >= 0.1 ? `${(100 * share).toFixed(1)}%` : `${(100 * share).toPrecision(2)}%`;

export const money = (amount) => new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(amount);

export function later(action, milliseconds) {
  let timer;
  const cancel = () => clearTimeout(timer);
  const start = (...values) => {
    cancel();
    timer = setTimeout(() => action(...values), milliseconds);
  };
  return Object.assign(start, { cancel });
}

// Draw a part anew; the focus stays at its place among the controls.
export function keepingFocus(part, draw) {
  const controls = () => [...part.querySelectorAll("summary, button, input, select, textarea")];
  const place = controls().indexOf(document.activeElement);
  draw();
  controls()[place]?.focus();
}
