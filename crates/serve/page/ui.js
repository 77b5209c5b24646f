// What all parts of the page draw with.

import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { h, render, Component, Fragment } from "./vendor/preact.js";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export const html = htm.bind(h);
