// What the server can be asked, and what it says when it refuses. It knows no element of the page but the key's dialog.

import { find } from "./dom.js";
import { storage } from "./storage.js";

const KEY = "contextual-bert-api-key";
const kept = storage("sessionStorage");
const known = new Map(); // item -> what /v1/items said of it last
let version = null; // of the model that answered last

export class Problem extends Error {
  constructor(document, status) {
    super(document.detail || document.title || `The server answered ${status}.`);
    this.status = status;
    this.faults = document.errors ?? []; // each with the pointer to a value of the query
  }
}

async function ask(path, { parameters = {}, body, signal } = {}) {
  const address = new URL(`v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of [value].flat()) if (each !== undefined && each !== null) address.searchParams.append(name, each);
  }
  const headers = { Accept: "application/json" };
  const key = kept.getItem(KEY);
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
    await askForKey(key !== null);
    return ask(path, { parameters, body, signal });
  }
  version = response.headers.get("X-Model-Version") ?? version;
  const content = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return null;
  });
  if (!response.ok) throw new Problem(content ?? {}, response.status);
  if (content === null) throw new Problem({ detail: "What came is not JSON. Does something answer in the server's place?" }, response.status);
  return content;
}

let asking = null;

// Several requests may be refused at once; the key is asked for once. Escape leaves them without an answer.
function askForKey(wasWrong) {
  const dialog = find("key-dialog");
  asking ??= new Promise((resolve, reject) => {
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        if (dialog.returnValue !== "ok") {
          reject(new Problem({ detail: "Without its key the server answers nothing. Load the page again to be asked for it." }, 401));
          return;
        }
        kept.setItem(KEY, find("key").value);
        resolve();
      },
      { once: true },
    );
    dialog.returnValue = "";
    dialog.showModal();
    find("key-trouble").textContent = wasWrong ? "That key was not right." : "";
  });
  return asking;
}

export const schema = () => ask("schema");

// Whether the last answer to a query was that of another version: the server was reloaded.
export const isOutdated = (number) => version !== null && version !== String(number);

export async function findItems(text, limit, { offset = 0, signal } = {}) {
  const answer = await ask("items", { parameters: { text, limit, offset }, signal });
  for (const each of answer.items) known.set(each.item, each);
  return answer;
}

// Learn what is said of these items now: stock and catalogue change while the page is open.
export async function describe(names, perPage) {
  const distinct = [...new Set(names)];
  for (let start = 0; start < distinct.length; start += perPage) {
    const page = distinct.slice(start, start + perPage);
    const answer = await ask("items", { parameters: { item: page, limit: perPage } });
    for (const name of page) known.set(name, { item: name, in_stock: null, attributes: {} });
    for (const each of answer.items) known.set(each.item, each);
  }
}

export const itemOf = (name) => known.get(name) ?? { item: name, in_stock: null, attributes: {} };

export const complete = (queries, top_k, signal) => ask("complete", { parameters: { top_k }, body: queries, signal });

export const completeJointly = (query, parameters, signal) =>
  ask("complete-jointly", { parameters, body: query, signal });

export const predict = (query, signal) => ask("predict", { body: query, signal });

export const explain = (query, parameters, signal) => ask("explain", { parameters, body: query, signal });
