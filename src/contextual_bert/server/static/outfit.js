// The set as cards: items and blanks, and the search of the catalogue that fills it. It asks for no proposals.

import { findItems } from "./api.js";
import { badges, itemCard, nameOf } from "./cards.js";
import { button, choice, find, later, make } from "./dom.js";
import { picture } from "./pictures.js";

const FOUND = 8;

// places: [{item} or {blank: true, category}]; edit: what a click does.
export function showSet(places, categories, edit) {
  let blanks = 0;
  const cards = places.map((place, position) => {
    if (!place.blank) {
      const name = nameOf(place.item);
      return itemCard(
        place.item,
        { tag: "li", label: name },
        make(
          "div",
          { class: "row actions" },
          button("Blank", () => edit.clear(position), { class: "plain", "aria-label": `Make ${name} a blank` }),
          button("Remove", () => edit.remove(position), { class: "plain", "aria-label": `Remove ${name}` }),
        ),
      );
    }
    const number = ++blanks;
    const onchange = (event) => edit.categorise(position, event.target.value);
    const category = categories.length ? choice(categories, { selected: place.category ?? "", empty: "anything", onchange }) : null;
    category?.setAttribute("aria-label", `What blank ${number} may be`);
    return make(
      "li",
      { class: "card blank", "aria-label": `Blank ${number}` },
      make("div", { class: "studio" }, make("span", { "aria-hidden": "true" }, "?")),
      make("div", { class: "facts" }, make("strong", {}, `Blank ${number}`), category),
      make(
        "div",
        { class: "row actions" },
        button("Remove", () => edit.remove(position), { class: "plain", "aria-label": `Remove blank ${number}` }),
      ),
    );
  });
  find("set").replaceChildren(...cards);
}

// A combobox after the ARIA practices: arrows move, Enter adds, Escape closes.
export function setUpSearch(add) {
  const box = find("search");
  const list = find("found");
  let options = [];
  let active = -1;
  let asked = null;

  const close = () => {
    look.cancel();
    asked?.abort();
    list.hidden = true;
    active = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };
  const take = (item) => {
    close();
    box.value = "";
    add(item);
  };
  const mark = (place) => {
    active = (place + options.length) % options.length;
    options.forEach((each, index) => each.setAttribute("aria-selected", String(index === active)));
    options[active].scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-activedescendant", options[active].id);
  };
  const look = later(async () => {
    asked?.abort();
    asked = new AbortController();
    let answer;
    try {
      answer = await findItems(box.value.trim(), FOUND, { signal: asked.signal });
    } catch (error) {
      if (error.name !== "AbortError") show([make("li", { class: "quiet" }, error.message)]);
      return;
    }
    if (document.activeElement !== box) return;
    const marked = options[active]?.dataset.item;
    options = answer.items.map((found, index) =>
      make(
        "li",
        { role: "option", id: `found-${index}`, "data-item": found.item, "aria-selected": "false", onmousedown: (event) => event.preventDefault(), onclick: () => take(found.item) },
        picture(found),
        make("span", {}, nameOf(found.item)),
        make("span", { class: "quiet" }, [found.attributes.category, found.attributes.colour].filter(Boolean).join(" · ")),
        ...badges(found),
      ),
    );
    const rest = answer.total - answer.items.length;
    const more = rest > 0 ? `and ${rest.toLocaleString("en")} more` : answer.total === 0 ? "Nothing has this in its name." : "";
    show([...options, ...(more ? [make("li", { class: "quiet", role: "presentation" }, more)] : [])]);
    // What was chosen stays chosen where a later answer has it, too.
    active = options.findIndex((each) => each.dataset.item === marked);
    if (active >= 0) mark(active);
    else box.removeAttribute("aria-activedescendant");
  }, 150);
  const show = (lines) => {
    list.replaceChildren(...lines);
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
  };

  box.addEventListener("input", look);
  box.addEventListener("focus", look);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) look();
      else if (options.length) mark(event.key === "ArrowDown" ? active + 1 : active < 0 ? -1 : active - 1);
    } else if (event.key === "Enter" && active >= 0) {
      event.preventDefault();
      options[active].click();
    }
  });
}
