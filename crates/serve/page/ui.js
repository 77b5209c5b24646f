// What all parts of the page draw with.

import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { h, render, Component, Fragment } from "./vendor/preact.js";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export const html = htm.bind(h);

// Signs that can't be seen, or turn the direction of what follows; as `client/src/sanitize.rs` has them.
const HIDDEN = /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
const PICTURE = /[\u203c-\u3299\u{1f000}-\u{1faff}]\ufe0f?$/u;
const JOINED_SCRIPT = /[\u0600-\u0604\u0606-\u061b\u061d-\u085f\u08a0-\u0dff\ufb50-\ufdff\ufe70-\ufefc]$/u;

/** Words of others in which such signs are seen, but for those that belong to the pictures and scripts that need them. */
export function visible(text) {
  return text.replace(HIDDEN, (sign, at) => {
    const before = text.slice(Math.max(0, at - 3), at);
    const joins =
      (/[\ufe0e\ufe0f]/.test(sign) && (PICTURE.test(before) || /[0-9#*©®]$/.test(before))) ||
      (sign === "\u200d" && (PICTURE.test(before) || JOINED_SCRIPT.test(before))) ||
      (sign === "\u200c" && JOINED_SCRIPT.test(before));
    return joins ? sign : `\\u{${sign.codePointAt(0).toString(16)}}`;
  });
}
