// A picture of an item: the catalogue's own, else one drawn from its category and colour, else its initials.

const NS = "http://www.w3.org/2000/svg";

// Inks of the colours that shops name; whatever else CSS knows is taken as it is.
const INKS = {
  beige: "#d9c6a5", black: "#26262b", blue: "#3f74c9", brown: "#7b5236", green: "#4c8b5d", grey: "#8d9299",
  gray: "#8d9299", navy: "#27355f", pink: "#e59ab8", purple: "#7a56a8", red: "#bf3b3f", white: "#fbfaf7",
  yellow: "#e6c04a", orange: "#dd8438",
};
const DEEP = new Set(["black", "navy", "brown", "purple"]);

// Shapes on a square of 120. cloth: filled with the item's colour; seam: lines on it; trim: buckles and buttons.
const SHAPES = {
  tshirt: {
    cloth: "M43 24 23 33 10 57 27 66 33 56V103H87V56L93 66 110 57 97 33 77 24C73 36 47 36 43 24Z",
    seam: "M43 24C46 42 74 42 77 24M27 66 33 50M93 66 87 50M33 97H87",
  },
  shirt: {
    cloth: "M44 20 25 29 11 92 26 97 34 60V106H86V60L94 97 109 92 95 29 76 20 60 34Z",
    seam: "M44 20 60 34 51 45ZM76 20 60 34 69 45ZM60 34V106M13 85 28 90M107 85 92 90M40 62H52V74H40Z",
    trim: "M62 48h3M62 61h3M62 74h3M62 87h3",
  },
  sweater: {
    cloth: "M45 23 25 32 10 94 26 98 33 62V104H87V62L94 98 110 94 95 32 75 23C71 32 49 32 45 23Z",
    seam: "M45 23C49 39 71 39 75 23M33 96H87M12 86 28 90M108 86 92 90M40 96v8M48 96v8M56 96v8M64 96v8M72 96v8M80 96v8",
  },
  blazer: {
    cloth: "M45 20 25 29 12 94 27 98 34 62 32 108H57L60 98 63 108H88L86 62 93 98 108 94 95 29 75 20 60 64Z",
    light: "M45 20 60 64 75 20C70 26 50 26 45 20Z",
    seam: "M45 20 37 41 47 46 60 66 73 46 83 41 75 20M60 64V98M38 84H51M69 84H82M71 58 80 56",
    trim: "M60 73h.1M60 84h.1",
  },
  coat: {
    cloth: "M45 12 27 21 14 84 29 89 35 56 28 114H92L85 56 91 89 106 84 93 21 75 12 60 30Z",
    seam: "M45 12 38 34 60 52 82 34 75 12 60 30ZM60 52V114M33 68H87M32 76H88M40 88 50 90M80 88 70 90",
    trim: "M54 60h.1M66 60h.1M54 86h.1M66 86h.1M54 98h.1M66 98h.1",
  },
  dress: {
    cloth: "M47 12 41 38 47 56 23 106C44 114 76 114 97 106L73 56 79 38 73 12 67 14C67 28 53 28 53 14Z",
    seam: "M47 56C54 59 66 59 73 56M53 59 43 110M67 59 77 110M60 59V112",
  },
  skirt: {
    cloth: "M42 24H78L98 100C76 108 44 108 22 100Z",
    seam: "M40 32H80M50 32 42 104M60 32V106M70 32 78 104",
  },
  jeans: {
    cloth: "M36 12H84L93 110H68L60 46 52 110H27Z",
    seam: "M35 21H85M60 21V44M37 22C38 32 44 36 50 36M83 22C82 32 76 36 70 36M28 103H53M67 103H92M44 36 40 103M76 36 80 103",
    trim: "M60 16.5h.1",
  },
  trousers: {
    cloth: "M38 12H82L88 112H68L60 42 52 112H32Z",
    seam: "M37 20H83M60 20V42M46 24 42 112M74 24 78 112M39 22 46 36M81 22 74 36",
    trim: "M57 16h.1",
  },
  shorts: { cloth: "M34 30H86L96 84H65L60 58 55 84H24Z", seam: "M33 39H87M60 39V58M27 77H55M65 77H93" },
  shoes: {
    cloth: "M13 72C13 58 22 54 31 56L40 42C45 49 53 50 58 45L82 65C97 69 108 73 108 87H13Z",
    light: "M11 87H110V92C110 97 106 98 102 98H18C13 98 11 95 11 92Z",
    seam: "M31 56C33 66 40 72 50 72M84 66C82 74 84 82 90 87M13 76C24 76 30 80 32 87",
    trim: "M57 55 65 50M64 61 72 56M71 67 79 62",
  },
  bag: {
    cloth: "M25 50H95L103 104H17Z",
    seam: "M25 50 33 74C50 80 70 80 87 74L95 50M20 96H100",
    loop: "M41 50C41 16 79 16 79 50",
    trim: "M60 72v10M56 74h8",
  },
  belt: {
    cloth: "M8 50H98L112 60 98 70H8Z",
    seam: "M12 54H96M12 66H96",
    trim: "M20 43H46V77H20ZM46 60H33M66 60h.1M76 60h.1M86 60h.1",
  },
  hat: {
    cloth: "M35 72C33 46 40 30 50 33 56 36 64 36 70 33 80 30 87 46 85 72ZM12 74C20 64 100 64 108 74 100 92 20 92 12 74Z",
    seam: "M35 64C50 73 70 73 85 64M34 72C50 81 70 81 86 72M12 74C28 82 92 82 108 74",
  },
  scarf: {
    cloth: "M30 30C44 16 76 16 90 30 84 46 70 50 62 50L70 104H50L46 48C38 44 33 38 30 30Z",
    seam: "M36 32C50 42 70 42 84 32M46 48C54 52 60 51 62 50M52 96H69M53 104v6M60 104v6M67 104v6",
  },
  tie: { cloth: "M52 14H68L65 30 76 92 60 110 44 92 55 30Z", seam: "M55 30H65M50 58 70 46M47 76 73 62M46 92 75 76" },
};
const ALIASES = {
  "t-shirt": "tshirt", tee: "tshirt", top: "tshirt", blouse: "shirt", jumper: "sweater", pullover: "sweater",
  cardigan: "sweater", hoodie: "sweater", jacket: "blazer", parka: "coat", pants: "trousers", chinos: "trousers",
  denim: "jeans", sneaker: "shoes", sneakers: "shoes", shoe: "shoes", boots: "shoes", handbag: "bag", backpack: "bag",
  cap: "hat", beanie: "hat",
};
const PATTERNS = [
  null,
  { size: 8, draw: "M0 4H8" },
  { size: 9, draw: "M4.5 4.5h.1" },
  null,
  { size: 12, draw: "M0 6H12M6 0V12" },
];
const IMAGES = ["image_url", "image", "picture"];
let patterns = 0;

// The catalogue's name of an item, else its id.
export const called = ({ item, attributes }) => String(attributes.name ?? "").trim() || item;

// An <img> or an <svg>, decoration only: the name stands beside it.
export function picture(item) {
  const { attributes } = item;
  const address = IMAGES.map((name) => attributes[name]).find(isImage);
  if (address) {
    const image = document.createElement("img");
    Object.assign(image, { src: address, alt: "", loading: "lazy", className: "picture" });
    image.addEventListener("error", () => image.replaceWith(drawn(item)), { once: true });
    return image;
  }
  return drawn(item);
}

function isImage(value) {
  return typeof value === "string" && /^(https:\/\/|data:image\/(png|jpeg|webp|gif);)/.test(value);
}

function drawn({ item, attributes }) {
  const category = String(attributes.category ?? "").toLowerCase();
  const shape = SHAPES[ALIASES[category] ?? category];
  const colour = String(attributes.colour ?? attributes.color ?? "").toLowerCase();
  const svg = node("svg", { viewBox: "0 0 120 120", class: "picture", "aria-hidden": "true", focusable: "false" });
  svg.style.setProperty("--cloth", INKS[colour] ?? (CSS.supports("color", colour) ? colour : inkOf(item)));
  svg.classList.toggle("deep", DEEP.has(colour));
  if (shape) garment(svg, shape, attributes.style);
  else initials(svg, called({ item, attributes }));
  return svg;
}

function garment(svg, shape, style) {
  svg.append(node("ellipse", { cx: 60, cy: 113, rx: 40, ry: 4, class: "shade" }));
  if (shape.loop) svg.append(node("path", { d: shape.loop, class: "loop" }));
  if (shape.light) svg.append(node("path", { d: shape.light, class: "light" }));
  svg.append(node("path", { d: shape.cloth, class: "cloth" }));
  const pattern = style ? PATTERNS[hash(style) % PATTERNS.length] : null;
  if (pattern) {
    const id = `pattern-${patterns++}`;
    const size = pattern.size;
    const tile = { id, width: size, height: size, patternUnits: "userSpaceOnUse", patternTransform: "rotate(20)" };
    svg.append(node("defs", {}, node("pattern", tile, node("path", { d: pattern.draw, class: "weave" }))));
    svg.append(node("path", { d: shape.cloth, fill: `url(#${id})` }));
  }
  svg.append(node("path", { d: shape.seam, class: "seam" }));
  if (shape.trim) svg.append(node("path", { d: shape.trim, class: "trim" }));
}

function initials(svg, name) {
  svg.append(node("rect", { x: 22, y: 22, width: 76, height: 76, rx: 14, class: "cloth" }));
  const text = node("text", { x: 60, y: 71, class: "initials" });
  text.textContent = name.replace(/[^\p{L}\p{N}]+/gu, " ").trim().slice(0, 2).toUpperCase() || "?";
  svg.append(text);
}

function node(tag, attributes, ...children) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const hash = (text) => [...String(text)].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) >>> 0, 7);

const inkOf = (text) => `hsl(${hash(text) % 360} 32% 62%)`;
