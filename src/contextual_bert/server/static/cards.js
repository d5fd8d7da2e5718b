// Cards of items: a picture, a name, what the catalogue says. They look the same in the set and among the proposals.

import { itemOf } from "./api.js";
import { make, money, spoken } from "./dom.js";
import { called, picture } from "./pictures.js";

const SHOWN = ["category", "colour", "color", "brand", "style"]; // as much as fits under a picture

export const nameOf = (item) => called(itemOf(item));

// What sets an item apart: it is new, removed, not there.
export function badges(found) {
  return [
    found.is_new ? make("span", { class: "badge new", title: "In no set of training: known by its features alone" }, "new") : null,
    found.is_removed ? make("span", { class: "badge", title: "Understood in a set" }, "proposed no more") : null,
    found.in_stock === false ? make("span", { class: "badge" }, "out of stock") : null,
  ];
}

export function itemCard(item, { tag = "div", label, ...properties } = {}, ...below) {
  const found = itemOf(item);
  const price = found.attributes.price;
  const facts = SHOWN.map((name) => found.attributes[name]).filter((value) => typeof value === "string");
  return make(
    tag,
    { class: "card", "aria-label": label, ...properties },
    make("div", { class: "studio" }, picture(found)),
    make(
      "div",
      { class: "facts" },
      make("strong", { title: nameOf(item) }, nameOf(item)),
      facts.length ? make("span", { class: "quiet" }, facts.map(spoken).join(" · ")) : null,
      price === null || price === undefined ? null : make("span", { class: "price" }, money(price)),
      ...badges(found),
    ),
    ...below,
  );
}
