"use strict";
// The server makes the whole page; this takes the next one in its place, so that the reader stays where he is.
async function next() {
  try {
    const answer = await fetch("/", { signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.body.classList.remove("silent");
    document.title = page.title;
    if (getSelection().type !== "Range") // or what is about to be copied would go
      for (const part of ["header", "main"]) document.querySelector(part).replaceWith(page.querySelector(part));
  } catch {
    document.body.classList.add("silent");
    document.title = document.querySelector("h1").textContent + ": does not answer";
  }
  setTimeout(next, 5000);
}
setTimeout(next, 5000);
