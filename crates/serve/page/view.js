// What is seen of a conversation: messages, tool calls, plan, questions.

import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";
import { Markdown } from "./markdown.js";
import { Diff, relative } from "./diff.js";

// Buttons that allow something are dead for this long: a click that was meant for something else allows nothing.
const DEAD_MS = 400;
const SHOWN_OUTPUT = 4_000;
const SIGNS = { pending: "○", in_progress: "◐", completed: "✓", failed: "✗", cancelled: "–" };
const WORDS = { pending: "waiting", in_progress: "at work", completed: "done", failed: "failed", cancelled: "cancelled" };
const SPEAKERS = { user: "You", agent: "Agent", thought: "Thought" };

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
    <details class="call ${item.status}" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="sign" aria-hidden="true">${SIGNS[item.status] ?? "?"}</span>
        <span class="kind">${item.kind ?? "tool"}</span>
        <span class="title">${item.title ?? item.name ?? item.id}</span>
        <span class="status">${WORDS[item.status] ?? item.status}</span>
      </summary>
      ${open && html`
        ${places.length > 0 && html`<p class="places">${places.join(", ")}</p>`}
        ${item.content.map((part) => html`<${Content} part=${part} folder=${folder} story=${story} />`)}
        ${item.content.length === 0 && item.rawInput && html`<pre class="plain">${short(JSON.stringify(item.rawInput, null, 1))}</pre>`}
        ${item.content.length === 0 && !busy && item.rawOutput && html`<pre class="plain">${short(JSON.stringify(item.rawOutput, null, 1))}</pre>`}`}
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

export function Conversation({ story, folder, version }) {
  const box = useRef(null);
  const follows = useRef(true);
  useLayoutEffect(() => {
    if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [version]);
  const onScroll = (event) => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    follows.current = scrollHeight - scrollTop - clientHeight < 40;
  };
  return html`
    <section class="conversation" ref=${box} onScroll=${onScroll} aria-label="Conversation" role="log" tabindex="0">
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
      <ol>${entries.map((entry) => html`<li class=${entry.status} aria-label=${`${entry.content}: ${WORDS[entry.status] ?? entry.status}`}><span aria-hidden="true">${SIGNS[entry.status] ?? "○"}</span> ${entry.content}</li>`)}</ol>
    </section>`;
}

/** A question stands above the composer; nothing is chosen before somebody chooses. */
export function Question({ question, count, folder, story, choose }) {
  const [ready, setReady] = useState(false);
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
  const content = call.content ?? [];
  const subject = params.subject?.type === "command" ? params.subject.command : null;
  return html`
    <section class="question" role="alertdialog" aria-label="The agent asks for permission" tabindex="-1" ref=${box}>
      <h2>${params.title ?? call.title ?? "The agent asks for permission"}${count > 1 && html` <small>1 of ${count}</small>`}</h2>
      ${params.description && html`<pre class="plain">${params.description}</pre>`}
      ${subject && html`<pre class="terminal" tabindex="0">${subject}</pre>`}
      <div class="what" tabindex="0">${content.map((part) => html`<${Content} part=${part} folder=${folder} story=${story} />`)}</div>
      <div class="answers">
        ${(params.options ?? []).map((option) => {
          const allows = String(option.kind).startsWith("allow");
          return html`<button class=${allows ? "allow" : "reject"} disabled=${allows && !ready} onClick=${() => choose(option.optionId)}>${withCode(String(option.name))}</button>`;
        })}
      </div>
    </section>`;
}

/** What taking a turn back would do, before it is done. */
export function Undo({ undo, apply, close }) {
  const box = useRef(null);
  useEffect(() => box.current?.focus(), []);
  return html`
    <section class="question" role="dialog" aria-label="Undo" tabindex="-1" ref=${box}>
      <h2>Undo the last turn?</h2>
      <div class="what" tabindex="0">
        ${undo.files.length === 0 && html`<p>Nothing can be put back.</p>`}
        ${undo.files.map((file) => (file.patch ? html`<${Diff} diff=${{ path: file.path, patch: { text: file.patch } }} />` : html`<p class="places">${file.path}</p>`))}
        ${undo.refused.map((words) => html`<p class="note">Left alone: ${words}</p>`)}
      </div>
      <div class="answers">
        ${undo.files.length > 0 && html`<button class="allow" onClick=${apply}>Put back</button>`}
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
          <li class=${frame.from}>
            <time>${new Date(frame.at).toISOString().slice(11, 23)}</time> <b>${frame.from}</b>
            <code>${frame.text}${frame.length > frame.text.length ? ` … ${frame.length} characters` : ""}</code>
          </li>`)}
      </ol>
    </section>`;
}
