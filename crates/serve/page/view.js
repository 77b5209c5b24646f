// What is seen of a conversation: messages, tool calls, plan, questions.

import { Component, html, useEffect, useLayoutEffect, useRef, useState, visible } from "./ui.js";
import { Markdown } from "./markdown.js";
import { Diff, relative } from "./diff.js";

// Buttons that allow something are dead for this long: a click that was meant for something else allows nothing.
const DEAD_MS = 400;
const SHOWN_OUTPUT = 4_000;
// Who is so near to the end of a conversation follows it.
const NEAR_PX = 40;
const SIGNS = { pending: "○", in_progress: "◐", completed: "✓", failed: "✗", cancelled: "–" };
const WORDS = { pending: "waiting", in_progress: "at work", completed: "done", failed: "failed", cancelled: "cancelled" };
// What an answer does, by its kind: what it is called is the agent's to say, and may be a lie.
const ANSWERS = {
  allow_once: ["allow", "Allow once"],
  allow_always: ["allow", "Allow always"],
  reject_once: ["reject", "Reject"],
  reject_always: ["reject", "Reject always"],
};
const OTHER_ANSWER = ["other", "Neither yes nor no"];
// So many answers are shown at first, and so much of what each is called, in characters.
const SHOWN_ANSWERS = 6;
const MAX_LABEL = 120;
const SPEAKERS = { user: "You", agent: "Agent", thought: "Thought" };

/** The style for what an agent says of itself: only words that are known here become one. */
const styleOf = (status) => (Object.hasOwn(WORDS, status ?? "") ? status : "");
const signOf = (status) => SIGNS[styleOf(status)] ?? "?";
const wordOf = (status) => WORDS[styleOf(status)] ?? String(status);

/** Words with `code` in them, as notices and options have it. */
export const withCode = (text) => text.split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

/** Drawn again only if its item is another one. */
class Same extends Component {
  shouldComponentUpdate(next) {
    return next.item !== this.props.item || next.terminals !== this.props.terminals;
  }

  render({ item, folder, story }) {
    if (item.type === "message") return html`<${Message} item=${item} />`;
    if (item.type === "call") return html`<${Call} item=${item} folder=${folder} story=${story} />`;
    return html`<p class="note">${item.text}</p>`;
  }
}

function Message({ item }) {
  const others = item.others.map((block) => html`<p class="attached">${describe(block)}</p>`);
  if (item.kind === "thought") {
    return html`<details class="thought"><summary>Thought</summary><${Markdown} text=${item.text} /></details>`;
  }
  return html`
    <article class="message ${item.kind}" aria-label=${SPEAKERS[item.kind]}>
      <h2>${SPEAKERS[item.kind]}</h2>
      ${item.kind === "user" ? html`<pre class="plain">${item.text}</pre>` : html`<${Markdown} text=${item.text} />`}
      ${others}
    </article>`;
}

function describe(block) {
  switch (block.type) {
    case "image":
      return `picture (${block.mimeType ?? "unknown"})`;
    case "audio":
      return "sound";
    case "resource_link":
      return `file ${block.name ?? block.uri}`;
    case "resource":
      return `file ${block.resource?.uri ?? ""}`;
    default:
      return `something of the kind ${block.type}`;
  }
}

function Call({ item, folder, story }) {
  const busy = item.status === "pending" || item.status === "in_progress";
  const diffs = item.content.filter((part) => part.type === "diff");
  const [open, setOpen] = useState(diffs.length > 0);
  const places = item.locations.map((place) => relative(place.path, folder) + (place.line ? `:${place.line}` : ""));
  return html`
    <details class="call ${styleOf(item.status)}" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="sign" aria-hidden="true">${signOf(item.status)}</span>
        <span class="kind">${item.kind ?? "tool"}</span>
        <span class="title">${item.title ?? item.name ?? item.id}</span>
        <span class="status">${wordOf(item.status)}</span>
      </summary>
      ${open && html`
        ${places.length > 0 && html`<p class="places">${places.join(", ")}</p>`}
        ${item.content.map((part) => html`<${Content} part=${part} folder=${folder} story=${story} />`)}
        ${item.content.length === 0 && item.rawInput && html`<pre class="plain">${short(visible(JSON.stringify(item.rawInput, null, 1)))}</pre>`}
        ${item.content.length === 0 && !busy && item.rawOutput && html`<pre class="plain">${short(visible(JSON.stringify(item.rawOutput, null, 1)))}</pre>`}`}
    </details>`;
}

function short(text) {
  return text.length > SHOWN_OUTPUT ? `${text.slice(0, SHOWN_OUTPUT)}\n… ${text.length - SHOWN_OUTPUT} more characters` : text;
}

function Content({ part, folder, story }) {
  if (part.type === "diff") return html`<${Diff} diff=${part} folder=${folder} />`;
  if (part.type === "terminal") {
    const terminal = story.terminals.get(part.terminalId);
    const exit = terminal?.exit ? `\n[ended${terminal.exit.exitCode ? ` with ${terminal.exit.exitCode}` : ""}]` : "";
    return html`<pre class="terminal" tabindex="0">${plain(terminal?.output ?? "")}${exit}</pre>`;
  }
  const block = part.content ?? part;
  if (block.type === "text") return html`<pre class="plain">${short(plain(block.text ?? ""))}</pre>`;
  return html`<p class="attached">${describe(block)}</p>`;
}

/** Output of a command without what would drive a terminal. */
function plain(text) {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\u001b(\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(\u0007|\u001b\\)|.)/g, "").replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, "");
}

export function Conversation({ session, story, folder, version, said }) {
  const box = useRef(null);
  const follows = useRef(true);
  // Whether the person moved something there: it also scrolls because it grows, or has less room.
  const moved = useRef(false);
  const follow = () => {
    if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  useLayoutEffect(() => {
    const room = new ResizeObserver(follow);
    room.observe(box.current);
    return () => room.disconnect();
  }, []);
  // Another session, or words of one's own: what comes is wanted.
  useLayoutEffect(() => {
    follows.current = true;
    moved.current = false;
  }, [session, said]);
  useLayoutEffect(follow, [version]);
  const onMove = () => (moved.current = true);
  const onScroll = (event) => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    const near = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    if (near || moved.current) follows.current = near;
    if (near) moved.current = false;
  };
  return html`
    <section class="conversation" ref=${box} onScroll=${onScroll} onWheel=${onMove} onTouchMove=${onMove} onPointerDown=${onMove} onKeyDown=${onMove} aria-label="Conversation" role="log" tabindex="0">
      ${story.items.length === 0 && html`<${Welcome} />`}
      ${story.items.map((item) => html`<${Same} key=${item.key} item=${item} folder=${folder} story=${story} />`)}
      ${story.plan && html`<${Plan} entries=${story.plan} />`}
    </section>`;
}

function Welcome() {
  return html`
    <div class="welcome">
      <h2>What shall be done?</h2>
      <p>Type below and press Enter. The agent works in the folder of this server and asks before it changes something.</p>
      <p>The built-in agent needs no key: try <code>list the files</code> or <code>/help</code>.</p>
      <p class="keys"><kbd>@</kbd> names a file, <kbd>/</kbd> a command. <kbd>Shift Enter</kbd> begins a line. <kbd>Ctrl K</kbd> finds words in all sessions, <kbd>Alt ↑ ↓</kbd> goes from one to the next, <kbd>Alt N</kbd> opens a new one.</p>
    </div>`;
}

function Plan({ entries }) {
  return html`
    <section class="plan" aria-label="Plan">
      <h2>Plan</h2>
      <ol>${entries.map((entry) => html`<li class=${styleOf(entry.status)} aria-label=${`${entry.content}: ${wordOf(entry.status)}`}><span aria-hidden="true">${signOf(entry.status)}</span> ${entry.content}</li>`)}</ol>
    </section>`;
}

/** The answers in the order in which they are shown: yes and no first, whatever the agent puts before them. */
function inOrder(options) {
  const first = ["allow_once", "reject_once"].map((kind) => options.find((option) => option.kind === kind)).filter(Boolean);
  return [...first, ...options.filter((option) => !first.includes(option))];
}

/** One answer: what it does in our words, then what the agent calls it, if that is something else. */
function AnswerButton({ option, ready, choose }) {
  const [style, words] = Object.hasOwn(ANSWERS, option.kind ?? "") ? ANSWERS[option.kind] : OTHER_ANSWER;
  const name = String(option.name ?? "").trim();
  const label = name.length > MAX_LABEL ? `${name.slice(0, MAX_LABEL)}…` : name;
  return html`
    <button class=${style} disabled=${style !== "reject" && !ready} onClick=${() => choose(option.optionId)}>
      ${words} ${label && label.toLowerCase() !== words.toLowerCase() && html`<small>The agent calls it “<bdi>${withCode(label)}</bdi>”</small>`}
    </button>`;
}

/** A question stands above the composer; nothing is chosen before somebody chooses. What would happen comes first and keeps its room. */
export function Question({ question, count, folder, story, choose }) {
  const [ready, setReady] = useState(false);
  const [all, showAll] = useState(false);
  const box = useRef(null);
  useEffect(() => {
    setReady(false);
    // Who types goes on typing; who does not is led to the question.
    if (!document.activeElement?.value) box.current?.focus();
    const timer = setTimeout(() => setReady(true), DEAD_MS);
    return () => clearTimeout(timer);
  }, [question.id]);
  const { params } = question;
  const call = params.subject?.toolCall ?? params.toolCall ?? {};
  const changes = (call.content ?? []).map((part) => html`<${Content} part=${part} folder=${folder} story=${story} />`);
  // What the server knows, apart from what the agent says; `checked` if the changes are held against the files.
  const { facts = [], hints = [], said = params.description, checked = false } = params._meta?.tieline ?? {};
  const options = inOrder(params.options ?? []);
  const shown = all || options.length <= SHOWN_ANSWERS + 1 ? options : options.slice(0, SHOWN_ANSWERS);
  return html`
    <section class="question" role="alertdialog" aria-label="The agent asks for permission" tabindex="-1" ref=${box}>
      <h2 tabindex="0"><small>The agent asks${count > 1 ? ` (1 of ${count})` : ""}:</small> ${params.title ?? call.title ?? "for permission"}</h2>
      <div class="what" tabindex="0">
        ${facts.length > 0 && html`<ul class="facts">${facts.map((fact) => html`<li>${fact}</li>`)}</ul>`}
        ${checked && changes}
        ${hints.map((hint) => html`<p class="hint">${hint}</p>`)}
        ${!checked && changes}
        ${said && html`<p class="hint">The agent says:</p><pre class="plain">${said}</pre>`}
      </div>
      <div class="answers" tabindex=${all ? "0" : undefined}>
        ${shown.map((option) => html`<${AnswerButton} option=${option} ready=${ready} choose=${choose} />`)}
        ${options.length > shown.length && html`<button class="other" onClick=${() => showAll(true)}>… and ${options.length - shown.length} more</button>`}
      </div>
    </section>`;
}

/** What taking a turn back would do, before it is done. */
export function Undo({ undo, apply, close }) {
  const box = useRef(null);
  useEffect(() => box.current?.focus(), []);
  return html`
    <section class="question" role="dialog" aria-label="Undo" tabindex="-1" ref=${box}>
      <h2>${undo.redo ? "Have the changes back that you put back?" : `Undo what turn ${parseInt(undo.turn, 10)} changed?`}</h2>
      <div class="what" tabindex="0">
        ${undo.files.length === 0 && html`<p>Nothing can be put back.</p>`}
        ${undo.files.map((file) => (file.patch ? html`<${Diff} diff=${{ path: file.path, patch: { text: file.patch } }} />` : html`<p class="places">${file.path}</p>`))}
        ${undo.refused.map((words) => html`<p class="note">Left alone: ${words}</p>`)}
      </div>
      <div class="answers">
        ${undo.files.length > 0 && html`<button class="allow" onClick=${apply}>${undo.redo ? "Have them back" : "Put back"}</button>`}
        <button onClick=${close}>Leave it</button>
      </div>
    </section>`;
}

export function Options({ options, set }) {
  return options
    .filter((option) => option.type === "select")
    .map((option) => html`
      <label class="option">
        <span>${option.name}</span>
        <select aria-label=${option.name} value=${option.currentValue} onChange=${(event) => set(option.configId ?? option.id, event.currentTarget.value)}>
          ${flat(option.options).map((choice) => html`<option value=${choice.value} title=${choice.description ?? ""}>${choice.name}</option>`)}
        </select>
      </label>`);
}

function flat(choices) {
  return (choices ?? []).flatMap((choice) => choice.options ?? [choice]);
}

export function Traffic({ frames, close }) {
  return html`
    <section class="traffic" aria-label="Traffic">
      <header><h2>Traffic</h2><button onClick=${close}>Close</button></header>
      <ol>
        ${frames.slice(-200).map((frame) => html`
          <li class=${frame.from === "page" ? "sent" : ""}>
            <time>${new Date(frame.at).toISOString().slice(11, 23)}</time> <b>${frame.from}</b> <code>${frame.text}${frame.length > frame.text.length ? ` … ${frame.length} characters` : ""}</code>
          </li>`)}
      </ol>
    </section>`;
}
