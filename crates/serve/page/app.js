// The page: sessions on the left, one of them in the middle, the composer below. A client of the protocol like any other.

import { html, render } from "./ui.js";
import { connect, half, keepHalf } from "./wire.js";
import { apply, newStory, note } from "./story.js";
import { Conversation, Options, Question, Traffic, Undo, withCode } from "./view.js";
import { Composer } from "./composer.js";
import { relative } from "./diff.js";

const LIST_MS = 5_000;
const TOAST_MS = 8_000;
const SEARCH_MS = 300;
const MIN_SEARCH = 3;
// So often, and after such a time, it is asked again whether something can be taken back.
const UNDO_TRIES = 5;
const UNDO_MS = 500;
// As much of a prompt names it, in characters.
const NAMED_CHARS = 60;

const app = {
  connected: false,
  /** The server does not know this browser. */
  stranger: false,
  retry: 0,
  server: {},
  sessions: [],
  filter: "",
  /** What was found in the words of sessions: their ids, and a line of each. */
  found: new Map(),
  /** Sessions in which something ended while another one was looked at. */
  news: new Set(),
  /** The session that is shown: its id, folder and story. */
  open: null,
  opening: false,
  story: newStory(),
  version: 0,
  questions: [],
  /** Prompts that wait for their turn. */
  waiting: [],
  toasts: [],
  traffic: false,
  menu: false,
  /** What taking the last turn back would do. */
  undo: null,
  /** Whether there is something to take back, and the turn under which it was last taken back, which can be taken back itself. */
  undoable: false,
  redo: null,
  /** How often something was said here. */
  said: 0,
};

const SEVERITIES = ["info", "warning", "error"];
// The link was used before; so says the server.
const USED = "#used";
const used = location.hash === USED;

// A page that nobody sees gets no frames, but its title and its questions must be true all the same.
const HIDDEN_MS = 200;
let drawing = 0;
function draw() {
  app.version++;
  if (drawing) return;
  const now = () => {
    if (!drawing) return;
    clearTimeout(drawing);
    drawing = 0;
    render(html`<${Page} />`, document.getElementById("app"));
  };
  drawing = setTimeout(now, HIDDEN_MS);
  requestAnimationFrame(now);
}

function toast(text, kind = "info") {
  const entry = { text, kind: SEVERITIES.includes(kind) ? kind : "info" };
  app.toasts = [...app.toasts.filter((other) => other.text !== text).slice(-3), entry];
  setTimeout(() => {
    app.toasts = app.toasts.filter((other) => other !== entry);
    draw();
  }, TOAST_MS);
  draw();
}

const wire = connect({
  async opened() {
    const hello = await wire.request("initialize", {
      protocolVersion: 2,
      info: { name: "tieline-page", title: "Tieline's page", version: "0.1.0" },
      capabilities: { session: { notices: {} } },
    });
    app.stranger = false;
    app.server = hello._meta?.tieline ?? {};
    await list();
    // Nothing is said before it is known where.
    app.connected = true;
    // What was shown is shown again, whole: nothing is lost and nothing told twice.
    const live = app.sessions[0]?.state ? app.sessions[0] : null;
    const first = app.open ?? addressed() ?? live;
    if (first) await show(first.id, first.cwd);
    draw();
  },
  closed(wait) {
    app.connected = false;
    app.retry = Math.ceil(wait / 1000);
    app.questions = [];
    draw();
    fetch("whoami", { headers: { "tieline-half": half() } }).then(
      (answer) => {
        app.stranger = answer.status === 401;
        draw();
      },
      () => {},
    );
  },
  request(id, method, params) {
    if (method !== "session/request_permission") return wire.refuse(id, -32601, "Method not found");
    app.questions = [...app.questions, { id, params }];
    attention();
    draw();
  },
  notification(method, params) {
    if (method === "$/cancel_request") {
      const before = asked().length;
      app.questions = app.questions.filter((question) => question.id !== params.requestId && question.id !== params.id);
      if (asked().length < before) toast("The question was answered elsewhere, or is not asked any more.");
    } else if (method === "session/update") {
      take(params);
    }
    draw();
  },
  traffic() {
    if (app.traffic) draw();
  },
});

/** The questions of the session that is shown; those of others wait until it is theirs. */
const asked = () => app.questions.filter((question) => question.params.sessionId === app.open?.id);

function take({ sessionId, update }) {
  if (!app.open || sessionId !== app.open.id || !update) return;
  if (update.sessionUpdate === "notice") return toast(update.title ?? "", update.severity);
  const before = app.story.state;
  apply(app.story, update);
  const [was, is] = [before === "idle", app.story.state === "idle"];
  if (!was && is) attention();
  if (was && !is) app.redo = null;
  if (!was && is) lookForUndo();
  if (was !== is) list();
}

/** Something happened while the person looks elsewhere. */
function attention() {
  if (document.hidden && app.open) app.news.add(app.open.id);
}
addEventListener("visibilitychange", () => {
  if (!document.hidden && app.open) app.news.delete(app.open.id);
  draw();
});

/** In how many sessions somebody is waited for, or something ended that nobody has seen. The title says it. */
function wanted() {
  const waiting = app.sessions.filter((session) => session.state === "asking" || app.news.has(session.id));
  const here = asked().length > 0 && !waiting.some((session) => session.id === app.open?.id);
  return waiting.length + (here ? 1 : 0);
}

function shortcuts(event) {
  if (event.key === "Escape") {
    [app.menu, app.traffic, app.undo] = [false, false, null];
  } else if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    app.menu = true;
    setTimeout(() => document.getElementById("find")?.focus(), 50);
  } else if (event.altKey && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    const shown = listed();
    const at = shown.findIndex((session) => session.id === app.open?.id);
    const next = shown[at + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) show(next.id, next.cwd);
  } else if (event.altKey && event.key.toLowerCase() === "n") {
    event.preventDefault();
    start();
  } else return;
  draw();
}
addEventListener("keydown", shortcuts);

async function list() {
  const found = [];
  let cursor;
  do {
    const page = await wire.request("session/list", cursor ? { cursor } : {});
    found.push(...page.sessions);
    cursor = page.nextCursor;
  } while (cursor && found.length < 500);
  const before = new Map(app.sessions.map((session) => [session.id, session.state]));
  app.sessions = found.map((session) => {
    const known = session._meta?.tieline ?? {};
    return { id: session.sessionId, cwd: session.cwd, title: session.title ?? session.sessionId, at: session.updatedAt, ...known };
  });
  const works = (state) => ["running", "asking", "cancelling"].includes(state);
  for (const { id, state } of app.sessions) {
    if (id !== app.open?.id && works(before.get(id)) && !works(state)) app.news.add(id);
  }
  draw();
}
// Also while nobody looks: the title says where somebody is wanted.
setInterval(() => app.connected && list().catch(() => {}), LIST_MS);

async function show(id, cwd) {
  app.opening = true;
  if (app.open && app.open.id !== id) leave();
  app.open = { id, cwd };
  app.story = newStory();
  // They are asked again.
  app.questions = app.questions.filter((question) => question.params.sessionId !== id);
  app.waiting = [];
  [app.undo, app.redo, app.undoable] = [null, null, false];
  app.news.delete(id);
  draw();
  try {
    opened(await wire.request("session/resume", { sessionId: id, cwd, mcpServers: [], replayFrom: { type: "start" } }));
  } catch (error) {
    // Where the connection was lost it is opened again with the next.
    if (app.connected) {
      toast(`The session can't be opened: ${error.message}`, "error");
      app.open = null;
    }
  }
  app.opening = false;
  address();
  lookForUndo();
  draw();
}

/** What the address of a session ends with. */
const named = (id) => `#${encodeURIComponent(id)}`;

/** The session that the address names, if there is one. */
const addressed = () => app.sessions.find((session) => named(session.id) === location.hash);

/** Puts the session that is shown into the address, so that it is shown when the page is loaded again. */
function address() {
  const hash = app.open ? named(app.open.id) : "";
  if (location.hash !== hash) location.hash = hash;
}
addEventListener("hashchange", () => {
  const wanted = addressed();
  if (app.connected && wanted && wanted.id !== app.open?.id) show(wanted.id, wanted.cwd);
});

async function start(agent) {
  leave();
  app.story = newStory();
  app.waiting = [];
  [app.undo, app.redo, app.undoable] = [null, null, false];
  const cwd = app.server.folder;
  const meta = agent ? { _meta: { tieline: { agent } } } : {};
  try {
    app.opening = true;
    draw();
    const answer = await wire.request("session/new", { cwd, mcpServers: [], ...meta });
    app.open = { id: answer.sessionId, cwd };
    opened(answer);
  } catch (error) {
    toast(`No session could be opened: ${error.message}`, "error");
  }
  app.opening = false;
  address();
  draw();
  document.getElementById("composer")?.focus();
}

function opened(answer) {
  app.story.options = answer.configOptions ?? app.story.options;
  app.story.commands = answer.availableCommands ?? app.story.commands;
  // Nobody was there to be told.
  const { running, failed } = answer._meta?.tieline ?? {};
  if (failed && !running) note(app.story, `Not done: ${failed}`);
}

/** Another session is shown: this one goes on without us. */
function leave() {
  app.open = null;
}

async function say(blocks) {
  if (!app.open) await start();
  if (!app.open) return false;
  const asked = wire.request("session/prompt", { sessionId: app.open.id, prompt: blocks });
  const entry = { id: asked.id, text: blocks.map((block) => block.text ?? `[${block.type}]`).join(" ") };
  app.waiting = [...app.waiting, entry];
  app.said++;
  draw();
  asked
    .catch((error) => !entry.withdrawn && note(app.story, `Not done: ${error.message}: “${short(entry.text)}”`))
    .finally(() => {
      app.waiting = app.waiting.filter((other) => other !== entry);
      draw();
    });
  return true;
}

const short = (text) => (text.length > NAMED_CHARS ? `${text.slice(0, NAMED_CHARS)}…` : text);

/** A prompt that waits for its turn is not wanted any more. */
function withdraw(entry) {
  wire.notify("$/cancel_request", { requestId: entry.id });
  entry.withdrawn = true;
  app.waiting = app.waiting.filter((other) => other !== entry);
  note(app.story, `Withdrawn: “${short(entry.text)}”`);
  draw();
}

function choose(question, optionId) {
  wire.answer(question.id, { outcome: { outcome: "selected", optionId } });
  app.questions = app.questions.filter((other) => other !== question);
  draw();
  // The button with the keyboard is gone. A phone would open its keyboard.
  if (asked().length === 0) document.querySelector(matchMedia("(pointer: coarse)").matches ? ".conversation" : "#composer")?.focus();
}

async function setOption(configId, value) {
  try {
    const answer = await wire.request("session/set_config_option", { sessionId: app.open.id, configId, value });
    app.story.options = answer.configOptions ?? app.story.options;
  } catch (error) {
    toast(error.message, "error");
  }
  draw();
}

const askUndo = (params) => wire.request("_tieline/undo", { sessionId: app.open.id, ...params });

/** Asks what taking the last turn back would do, or having back what was taken back. */
async function lookAtUndo() {
  const redo = app.redo;
  try {
    app.undo = { ...(await askUndo(redo ? { turn: redo, preview: true } : {})), redo: Boolean(redo) };
  } catch (error) {
    toast(error.message);
  }
  draw();
}

/** Does it. */
async function undo({ turn, redo }) {
  app.undo = null;
  try {
    const answer = await askUndo({ turn });
    app.redo = redo ? null : (answer.again ?? null);
    const files = `${answer.files.length} ${answer.files.length === 1 ? "file" : "files"}`;
    const left = answer.refused.length ? ` Left alone: ${answer.refused.join(", ")}.` : "";
    note(app.story, (redo ? `The changes of ${files} are there again.` : `${files} put back.${app.redo ? " Redo has the changes back." : ""}`) + left);
    if (!app.redo) await lookForUndo();
  } catch (error) {
    toast(error.message);
  }
  draw();
}

/** Looks whether there is something to take back: what changed is known a moment after the end of a turn. */
async function lookForUndo() {
  const open = app.open;
  if (!open || app.server.role === "read" || app.story.items.length === 0) return;
  for (let tries = 0; tries < UNDO_TRIES && app.open === open; tries++) {
    try {
      const answer = await askUndo({});
      app.undoable = answer.files.length + answer.refused.length > 0;
      break;
    } catch (error) {
      app.undoable = false;
      if (/nothing/.test(error.message)) break;
      await new Promise((again) => setTimeout(again, UNDO_MS));
    }
  }
  draw();
}

async function filesFor(query) {
  const answer = await wire.request("_tieline/files", { sessionId: app.open?.id ?? "", query });
  return answer.files;
}

let searching = 0;
function find(text) {
  app.filter = text;
  clearTimeout(searching);
  if (text.trim().length < MIN_SEARCH) app.found = new Map();
  else searching = setTimeout(async () => {
    const { hits } = await wire.request("_tieline/search", { query: text.trim() }).catch(() => ({ hits: [] }));
    if (app.filter !== text) return;
    app.found = new Map(hits.reverse().map((hit) => [hit.sessionId, hit.snippet]));
    draw();
  }, SEARCH_MS);
  draw();
}

/** The sessions that are shown in the list. */
function listed() {
  const words = app.filter.toLowerCase();
  return app.sessions.filter((session) => app.found.has(session.id) || `${session.title} ${session.cwd} ${session.agent}`.toLowerCase().includes(words));
}

async function remove(session) {
  if (!confirm(`Delete “${session.title}” for good?`)) return;
  try {
    if (app.open?.id === session.id) {
      await wire.request("session/close", { sessionId: session.id });
      leave();
    }
    await wire.request("session/delete", { sessionId: session.id });
  } catch (error) {
    toast(error.message, "error");
  }
  list();
}

async function logIn(token) {
  const answer = await fetch("login", { headers: { authorization: `Bearer ${token}` } }).catch(() => null);
  if (answer?.ok) {
    keepHalf(token.slice(Math.floor(token.length / 2)));
    location.reload();
  } else toast(answer ? await answer.text() : "The server does not answer.", "error");
}

function Stranger() {
  const onSubmit = (event) => {
    event.preventDefault();
    logIn(event.currentTarget.elements.token.value.trim());
  };
  return html`
    <form class="stranger" onSubmit=${onSubmit}>
      <h1>Tieline</h1>
      ${used && html`<p>This link was used before, or is too old.</p>`}
      <p>This browser is not known here. Open the link that <code>tieline serve</code> prints when it starts, or give a token: <code>tieline serve token add NAME</code> makes one.</p>
      <input name="token" type="password" autocomplete="off" aria-label="Token" placeholder="Token" required />
      <button type="submit">Go on</button>
      <${Toasts} />
    </form>`;
}

function Toasts() {
  return html`<div class="above"><div class="toasts" aria-live="polite">${app.toasts.map((entry) => html`<p class=${entry.kind}>${withCode(entry.text)}</p>`)}</div></div>`;
}

function Page() {
  if (app.stranger && !app.connected) return html`<${Stranger} />`;
  const busy = app.story.state !== "idle";
  const title = app.story.title ?? app.sessions.find((session) => session.id === app.open?.id)?.title ?? (app.open ? "New session" : "Tieline");
  const [question, ...more] = asked();
  const may = app.server.role !== "read";
  const count = wanted();
  document.title = count > 0 ? `(${count}) Tieline` : "Tieline";
  return html`
    <div class="page ${app.menu ? "menu" : ""}">
      <nav aria-label="Sessions"><${Sessions} /></nav>
      <main>
        <header>
          <button class="toggle" aria-label=${count ? `Sessions, ${count} of them want you` : "Sessions"} aria-expanded=${app.menu} onClick=${() => { app.menu = !app.menu; draw(); }}>☰${count ? html`<sup>${count}</sup>` : ""}</button>
          <h1>${title}</h1>
          <span class="state ${busy ? "busy" : ""}" role="status">${app.opening ? "opening …" : app.open ? stateWords() : ""}</span>
          ${app.open && html`<${Options} options=${app.story.options} set=${setOption} />`}
          ${app.open && may && !busy && (app.undoable || app.redo) && html`<button class="undo" onClick=${lookAtUndo}>${app.redo ? "Redo" : "Undo"}</button>`}
          <button class="quiet" onClick=${() => { app.traffic = !app.traffic; draw(); }}>Traffic</button>
        </header>
        ${!app.connected && app.retry > 0 && html`<p class="offline" role="alert">Not connected. Trying again in about ${app.retry} s … If only the connection was lost, the agent works on; if the server ended, so did the agent.</p>`}
        <${Toasts} />
        <${Conversation} session=${app.open?.id} story=${app.story} folder=${app.open?.cwd} version=${app.version} said=${app.said} />
        ${question && html`<${Question} key=${question.id} question=${question} count=${more.length + 1} folder=${app.open?.cwd} story=${app.story} choose=${(option) => choose(question, option)} />`}
        ${app.undo && html`<${Undo} undo=${app.undo} apply=${() => undo(app.undo)} close=${() => { app.undo = null; draw(); }} />`}
        ${may ? html`<${Composer} app=${app} wire=${wire} busy=${busy} say=${say} withdraw=${withdraw} toast=${toast} draw=${draw} filesFor=${filesFor} />` : html`<p class="note">You may look on.</p>`}
      </main>
      ${app.traffic && html`<${Traffic} frames=${wire.traffic} close=${() => { app.traffic = false; draw(); }} />`}
    </div>`;
}

function stateWords() {
  if (!app.connected) return "not connected";
  if (asked().length > 0) return "waits for you";
  if (app.story.state === "idle") return app.story.usage?.size ? `${Math.round((100 * app.story.usage.used) / app.story.usage.size)} % of the context` : "ready";
  return app.story.state === "requires_action" ? "waits for an answer" : "works";
}

const STATES = { idle: "ready", running: "at work", asking: "waits for you", cancelling: "stops", opening: "opens", lost: "the agent is gone" };

function Sessions() {
  const agents = app.server.agents ?? [];
  const may = app.server.role !== "read";
  return html`
    <div class="top">
      ${may && html`<button class="new" disabled=${!app.connected} onClick=${() => { app.menu = false; start(); }}>New session</button>`}
      ${may && agents.length > 1 && html`
        <select aria-label="New session with" onChange=${(event) => { start(event.currentTarget.value); event.currentTarget.value = ""; }}>
          <option value="">with …</option>${agents.map((agent) => html`<option value=${agent}>${agent}</option>`)}
        </select>`}
      <input id="find" type="search" placeholder="Find words in sessions" aria-label="Find words in sessions" value=${app.filter} onInput=${(event) => find(event.currentTarget.value)} />
    </div>
    <ul>
      ${listed().map((session) => html`
        <li class=${`${session.id === app.open?.id ? "shown" : ""} ${app.news.has(session.id) ? "news" : ""}`} key=${session.id}>
          <button aria-current=${session.id === app.open?.id ? "true" : undefined} onClick=${() => { app.menu = false; show(session.id, session.cwd); }}>
            <span class="mark ${session.state ?? ""}" aria-hidden="true"></span>
            <span class="title">${session.title}</span>
            <small>${STATES[session.state] ?? "asleep"}${app.news.has(session.id) ? ", with news" : ""} · ${session.agent}${session.cwd === app.server.folder ? "" : ` · ${relative(session.cwd, app.server.folder)}`}</small>
            ${app.found.has(session.id) && html`<small class="snippet">${app.found.get(session.id)}</small>`}
          </button>
          ${app.server.role === "admin" && html`<button class="delete" aria-label=${`Delete ${session.title}`} onClick=${() => remove(session)}>×</button>`}
        </li>`)}
    </ul>`;
}

draw();
