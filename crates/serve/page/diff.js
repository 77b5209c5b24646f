// Changes of files, painted from the patches that the server sends.

import { html, useState } from "./ui.js";

const SHOWN_LINES = 200;

/** The lines of a patch, with their numbers. */
export function linesOf(patch) {
  const lines = [];
  let before = 0;
  let after = 0;
  for (const line of patch.split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      lines.push({ kind: "hunk", text: line });
    } else if (/^(diff --git|index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename )/.test(line) && before === 0) {
      continue;
    } else if (line.startsWith("diff --git")) {
      [before, after] = [0, 0];
    } else if (line.startsWith("+")) {
      lines.push({ kind: "add", after: after++, text: line.slice(1) });
    } else if (line.startsWith("-")) {
      lines.push({ kind: "remove", before: before++, text: line.slice(1) });
    } else if (line.startsWith(" ")) {
      lines.push({ kind: "same", before: before++, after: after++, text: line.slice(1) });
    } else if (line.startsWith("\\")) {
      lines.push({ kind: "word", text: line.slice(2) });
    }
  }
  return lines;
}

/** Old and new text without a patch: all of it. */
function whole(diff) {
  const cut = (text) => (text ? text.replace(/\n$/, "").split("\n") : []);
  const removed = cut(diff.oldText).map((text, at) => ({ kind: "remove", before: at + 1, text }));
  const added = cut(diff.newText).map((text, at) => ({ kind: "add", after: at + 1, text }));
  return [...removed, ...added];
}

export function Diff({ diff, folder }) {
  const [all, showAll] = useState(false);
  const lines = diff.patch?.text ? linesOf(diff.patch.text) : whole(diff);
  const paths = (diff.changes ?? [diff]).map((change) => {
    const from = change.oldPath ? `${relative(change.oldPath, folder)} → ` : "";
    return { text: from + relative(change.path ?? "", folder), operation: change.operation };
  });
  const shown = all ? lines : lines.slice(0, SHOWN_LINES);
  const count = (kind) => lines.filter((line) => line.kind === kind).length;
  return html`
    <figure class="diff">
      <figcaption>
        ${paths.map(({ text, operation }) => html`<span class="path">${text}</span>${operation && operation !== "modify" && html` <em>${operation}</em>`} `)}
        <span class="added">+${count("add")}</span> <span class="removed">−${count("remove")}</span>
      </figcaption>
      <table tabindex="0">
        <tbody>
          ${shown.map((line) => html`
            <tr class=${line.kind}>
              <td class="number">${line.before ?? ""}</td>
              <td class="number">${line.after ?? ""}</td>
              <td class="sign" aria-hidden="true">${line.kind === "add" ? "+" : line.kind === "remove" ? "−" : ""}</td>
              <td class="text">${line.text}</td>
            </tr>`)}
        </tbody>
      </table>
      ${lines.length > shown.length && html`<button class="more" onClick=${() => showAll(true)}>Show all ${lines.length} lines</button>`}
    </figure>`;
}

/** A path as it is seen from the session's folder. */
export function relative(path, folder) {
  return folder && path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path;
}
