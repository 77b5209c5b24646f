// Text of agents as Markdown: parsed, cleaned, and only then shown. Only the last block of a growing text is parsed again.

import { Marked } from "./vendor/marked.js";
import DOMPurify from "./vendor/purify.js";
import hljs from "./vendor/highlight.js";
import { html, useMemo, useRef } from "./ui.js";

const LANGUAGES = ["bash", "c", "cpp", "css", "diff", "go", "java", "javascript", "json", "python", "rust", "sql", "typescript", "xml", "yaml"];
const NAMES = { sh: "bash", shell: "bash", js: "javascript", ts: "typescript", py: "python", rs: "rust", yml: "yaml", html: "xml" };
// Longer code stays plain.
const MAX_HIGHLIGHTED = 50_000;
// A longer text is not parsed at all.
const MAX_PARSED = 500_000;
// As much of the path of an address is shown, in characters.
const MAX_LEADS = 60;

const known = new Set();
for (const name of LANGUAGES) {
  import(`./vendor/language-${name}.js`).then((module) => {
    hljs.registerLanguage(name, module.default);
    known.add(name);
  });
}

const escape = (text) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  renderer: {
    code({ text, lang }) {
      const asked = (lang ?? "").split(/\s/)[0].toLowerCase();
      const name = NAMES[asked] ?? asked;
      const code = known.has(name) && text.length < MAX_HIGHLIGHTED ? hljs.highlight(text, { language: name }).value : escape(text);
      return `<pre><code>${code}</code></pre>`;
    },
    // Nothing is fetched because an agent says so: a picture is a link.
    image({ href, text }) {
      return `<a href="${escape(href)}">${escape(text || "picture")}</a>`;
    },
    html({ text }) {
      return escape(text);
    },
  },
});

const parsed = (address) => (URL.canParse(address) ? new URL(address) : null);

/** Where a link leads, if its words don't say just that. */
function leads(words, href) {
  const to = parsed(href);
  if (!to || to.protocol === "mailto:") return words.includes(href.slice("mailto:".length)) ? "" : href;
  // A name in letters that look like others is told as it is looked up.
  const same = [words, `https://${words}`, `http://${words}`].some((said) => parsed(said)?.href === to.href);
  if (same && words.includes(to.host) && !to.username && !to.password) return "";
  const rest = to.pathname + to.search;
  return to.host + (rest === "/" ? "" : rest.length > MAX_LEADS ? `${rest.slice(0, MAX_LEADS)}…` : rest);
}

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  // The colours of code are the only style.
  if (node.hasAttribute?.("class") && !/^hljs-[a-z_ -]+$/.test(node.getAttribute("class"))) node.removeAttribute("class");
  // What scrolls can be scrolled by the keyboard.
  if (node.tagName === "PRE" || node.tagName === "TABLE") node.setAttribute("tabindex", "0");
  if (node.tagName !== "A") return;
  const href = node.getAttribute("href") ?? "";
  if (!/^(https?:|mailto:)/i.test(href)) node.removeAttribute("href");
  node.setAttribute("rel", "noopener noreferrer");
  node.setAttribute("target", "_blank");
  // Where it leads is seen before it is followed, also where nothing hovers.
  node.setAttribute("title", href);
  const to = node.hasAttribute("href") && leads(node.textContent.trim(), href);
  if (to) node.append(` (${to})`);
});

const ALLOWED = {
  ALLOWED_TAGS: ["p", "br", "strong", "em", "del", "code", "pre", "span", "a", "ul", "ol", "li", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "hr", "input"],
  ALLOWED_ATTR: ["href", "class", "title", "align", "start", "type", "checked", "disabled"],
  ALLOW_DATA_ATTR: false,
  RETURN_TRUSTED_TYPE: true,
};

function clean(source) {
  try {
    return DOMPurify.sanitize(marked.parse(source), ALLOWED);
  } catch {
    return DOMPurify.sanitize(`<p>${escape(source)}</p>`, ALLOWED);
  }
}

/** Code in colours, if its language is known. */
export function highlighted(text, name) {
  const language = NAMES[name] ?? name;
  if (!known.has(language) || text.length > MAX_HIGHLIGHTED) return null;
  return DOMPurify.sanitize(hljs.highlight(text, { language }).value, ALLOWED);
}

/** A text whose finished blocks are kept. */
export function Markdown({ text }) {
  const cache = useRef(new Map());
  const parts = useMemo(() => {
    if (text.length > MAX_PARSED) return null;
    const tokens = marked.lexer(text);
    const links = Object.keys(tokens.links ?? {}).length > 0;
    const kept = new Map();
    const parts = tokens
      .filter((token) => token.type !== "space")
      .map((token, at) => {
        const key = `${at}:${token.raw}`;
        const made = (!links && cache.current.get(key)) || clean(links ? text : token.raw);
        kept.set(key, made);
        return { key: at, made };
      });
    cache.current = kept;
    // Definitions of links are for the whole text.
    return links ? parts.slice(0, 1) : parts;
  }, [text]);
  if (!parts) return html`<pre class="plain">${text}</pre>`;
  return parts.map(({ key, made }) => html`<div key=${key} class="block" dangerouslySetInnerHTML=${{ __html: made }}></div>`);
}
