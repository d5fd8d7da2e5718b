// What the server can be asked, and what it says when it refuses. It knows no element of the page but the key's dialog.

import { find } from "./dom.js";

const KEY = "contextual-bert-api-key";
const known = new Map(); // item -> what /v1/items says of it

export class Problem extends Error {
  constructor(document, status) {
    super(document.detail || document.title || `The server answered ${status}.`);
    this.status = status;
  }
}

async function ask(path, { parameters = {}, body, signal } = {}) {
  const address = new URL(`v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of [value].flat()) if (each !== undefined && each !== null) address.searchParams.append(name, each);
  }
  const headers = { Accept: "application/json" };
  const key = sessionStorage.getItem(KEY);
  if (key) headers["X-API-Key"] = key;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const settings = { method: body === undefined ? "GET" : "POST", headers, signal };
  if (body !== undefined) settings.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(address, settings);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "The server cannot be reached. Is it still running?" }, 0);
  }
  if (response.status === 401) {
    await askForKey();
    return ask(path, { parameters, body, signal });
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(content, response.status);
  return content;
}

let asking = null;

// Several requests may be refused at once; the key is asked for once.
function askForKey() {
  const dialog = find("key-dialog");
  asking ??= new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        sessionStorage.setItem(KEY, find("key").value);
        asking = null;
        resolve();
      },
      { once: true },
    );
    dialog.showModal();
  });
  return asking;
}

export const schema = () => ask("schema");

export async function findItems(text, limit, { offset = 0, signal } = {}) {
  const answer = await ask("items", { parameters: { text, limit, offset }, signal });
  for (const each of answer.items) known.set(each.item, each);
  return answer;
}

// What is known of these items, asked for once.
export async function describe(names, perPage) {
  const missing = [...new Set(names)].filter((name) => !known.has(name));
  for (let start = 0; start < missing.length; start += perPage) {
    const page = missing.slice(start, start + perPage);
    const answer = await ask("items", { parameters: { item: page, limit: perPage } });
    for (const name of page) known.set(name, { item: name, in_stock: null, attributes: {} });
    for (const each of answer.items) known.set(each.item, each);
  }
}

export const itemOf = (name) => known.get(name) ?? { item: name, in_stock: null, attributes: {} };

export const complete = (queries, top_k, signal) => ask("complete", { parameters: { top_k }, body: queries, signal });

export const completeJointly = (query, parameters, signal) =>
  ask("complete-jointly", { parameters, body: query, signal });

export const explain = (query, parameters, signal) => ask("explain", { parameters, body: query, signal });
