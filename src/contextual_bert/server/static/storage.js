// What the browser keeps. It knows nothing of what is kept.

// localStorage or sessionStorage; where the browser blocks it, a memory that lasts as long as the page.
export function storage(name) {
  try {
    return window[name];
  } catch {
    const kept = new Map();
    return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  }
}
