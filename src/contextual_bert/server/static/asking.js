// When the page asks: after each change, once what is typed has come to rest. It knows neither sets nor texts.

import * as api from "./api.js";
import { find, later } from "./dom.js";

// The parts of a page, which has #status, #results and #trouble:
// people: who asks; idle: what to say where there is nothing to ask; ask: (person, signal) -> answer;
// settle: what to wait for before answers are shown; draw: answers -> elements; said: (answers, milliseconds) -> text;
// version: that the page was drawn from; renew: draws it from the next one; wait: milliseconds.
export function setUpAsking({ people, idle, ask, settle, draw, said, version, renew, report, wait = 120 }) {
  let asked = null;

  // Again, once, if another version of the model answers than the one that is shown.
  async function refresh(isAgain = false) {
    const mine = (asked = new AbortController());
    const status = find("status");
    const reason = idle();
    if (reason) {
      find("results").replaceChildren();
      status.textContent = reason;
      markBusy(false);
      return;
    }
    const slow = setTimeout(() => (status.textContent = "The model computes …"), 400);
    const started = performance.now();
    const answers = await Promise.all(
      people().map(async (person) => {
        try {
          return { name: person.name, answer: await ask(person, mine.signal) };
        } catch (error) {
          if (error.name === "AbortError") throw error;
          return { name: person.name, problem: error.message, faults: error.faults };
        }
      }),
    ).catch(() => null);
    clearTimeout(slow);
    if (mine.signal.aborted || answers === null) return;
    if (!isAgain && api.isOutdated(version())) {
      await renew().catch(report);
      return mine.signal.aborted ? undefined : refresh(true);
    }
    const milliseconds = performance.now() - started;
    await settle?.(answers);
    if (mine.signal.aborted) return;
    find("results").replaceChildren(...draw(answers));
    markBusy(false);
    const isRefused = answers.every(({ problem }) => problem);
    if (!isRefused) find("trouble").hidden = true;
    status.textContent = isRefused ? "" : said(answers, Math.round(milliseconds));
  }

  // From the change on, and not from the request on: what is shown, and an answer on its way.
  function outOfDate() {
    asked?.abort();
    markBusy(true);
  }

  const refreshLater = later(refresh, wait);
  const soon = () => {
    outOfDate();
    refreshLater();
  };
  return { soon, outOfDate };
}

export function markBusy(isBusy) {
  if (isBusy) find("results").setAttribute("aria-busy", "true");
  else find("results").removeAttribute("aria-busy");
}

export function report(error) {
  const trouble = find("trouble");
  trouble.textContent = error.message;
  trouble.hidden = false;
  markBusy(false);
}
