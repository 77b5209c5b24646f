// The page: sessions on the left, one of them in the middle, the composer below. A client of the protocol like any other.

import { html, render, useEffect, useRef, useState } from "./ui.js";
import { connect, half, keepHalf } from "./wire.js";
import { apply, newStory, note } from "./story.js";
import { Conversation, Options, Question, Traffic } from "./view.js";
import { relative } from "./diff.js";

const LIST_MS = 5_000;
const TOAST_MS = 8_000;
const MAX_PICTURE_BYTES = 10_000_000;
const DRAFT = "tieline.draft.";

const app = {
  connected: false,
  /** The server does not know this browser. */
  stranger: false,
  retry: 0,
  server: {},
  sessions: [],
  filter: "",
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
};

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
  const entry = { text, kind };
  app.toasts = [...app.toasts.slice(-3), entry];
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
    app.connected = true;
    app.stranger = false;
    app.server = hello._meta?.tieline ?? {};
    await list();
    // What was shown is shown again, whole: nothing is lost and nothing told twice.
    if (app.open) await show(app.open.id, app.open.cwd);
    else if (app.sessions[0]?.state) await show(app.sessions[0].id, app.sessions[0].cwd);
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
      const before = app.questions.length;
      app.questions = app.questions.filter((question) => question.id !== params.requestId && question.id !== params.id);
      if (app.questions.length < before) toast("The question was answered elsewhere, or is not asked any more.");
    } else if (method === "session/update") {
      take(params);
    }
    draw();
  },
  traffic() {
    if (app.traffic) draw();
  },
});

/** Words with `code` in them, as notices have it. */
const withCode = (text) => text.split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

function take({ sessionId, update }) {
  if (!app.open || sessionId !== app.open.id || !update) return;
  if (update.sessionUpdate === "notice") return toast(update.title ?? "", update.severity);
  const before = app.story.state;
  apply(app.story, update);
  const [was, is] = [before === "idle", app.story.state === "idle"];
  if (!was && is) attention();
  if (was !== is) list();
}

/** The title says that something waits for the person, while they look elsewhere. */
function attention() {
  if (document.hidden) document.title = "● Tieline";
}
addEventListener("visibilitychange", () => {
  if (!document.hidden) document.title = "Tieline";
});

async function list() {
  const found = [];
  let cursor;
  do {
    const page = await wire.request("session/list", cursor ? { cursor } : {});
    found.push(...page.sessions);
    cursor = page.nextCursor;
  } while (cursor && found.length < 500);
  app.sessions = found.map((session) => {
    const known = session._meta?.tieline ?? {};
    return { id: session.sessionId, cwd: session.cwd, title: session.title ?? session.sessionId, at: session.updatedAt, ...known };
  });
  draw();
}
setInterval(() => app.connected && !document.hidden && list().catch(() => {}), LIST_MS);

async function show(id, cwd) {
  app.opening = true;
  if (app.open && app.open.id !== id) leave();
  app.open = { id, cwd };
  app.story = newStory();
  app.questions = [];
  app.waiting = [];
  draw();
  try {
    opened(await wire.request("session/resume", { sessionId: id, cwd, mcpServers: [], replayFrom: { type: "start" } }));
  } catch (error) {
    toast(`The session can't be opened: ${error.message}`, "error");
    app.open = null;
  }
  app.opening = false;
  location.hash = app.open ? app.open.id : "";
  draw();
}

async function start(agent) {
  leave();
  app.story = newStory();
  app.questions = [];
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
  draw();
  document.getElementById("composer")?.focus();
}

function opened(answer) {
  app.story.options = answer.configOptions ?? app.story.options;
  app.story.commands = answer.availableCommands ?? app.story.commands;
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
  draw();
  asked
    .catch((error) => note(app.story, `Not done: ${error.message}`))
    .finally(() => {
      app.waiting = app.waiting.filter((other) => other !== entry);
      draw();
    });
  return true;
}

function choose(question, optionId) {
  wire.answer(question.id, { outcome: { outcome: "selected", optionId } });
  app.questions = app.questions.filter((other) => other !== question);
  draw();
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
      <p>This browser is not known here. Open the link that <code>tieline serve</code> printed, or give a token: <code>tieline serve token add NAME</code> makes one.</p>
      <input name="token" type="password" autocomplete="off" aria-label="Token" placeholder="Token" required />
      <button type="submit">Go on</button>
      <div class="toasts" aria-live="polite">${app.toasts.map((entry) => html`<p class=${entry.kind}>${withCode(entry.text)}</p>`)}</div>
    </form>`;
}

function Page() {
  if (app.stranger && !app.connected) return html`<${Stranger} />`;
  const busy = app.story.state !== "idle";
  const title = app.story.title ?? app.sessions.find((session) => session.id === app.open?.id)?.title ?? (app.open ? "New session" : "Tieline");
  const question = app.questions[0];
  return html`
    <div class="page ${app.menu ? "menu" : ""}">
      <nav aria-label="Sessions"><${Sessions} /></nav>
      <main>
        <header>
          <button class="toggle" aria-label="Sessions" aria-expanded=${app.menu} onClick=${() => { app.menu = !app.menu; draw(); }}>☰</button>
          <h1>${title}</h1>
          <span class="state ${busy ? "busy" : ""}" role="status">${app.opening ? "opening …" : app.open ? stateWords() : ""}</span>
          ${app.open && html`<${Options} options=${app.story.options} set=${setOption} />`}
          <button class="quiet" onClick=${() => { app.traffic = !app.traffic; draw(); }}>Traffic</button>
        </header>
        ${!app.connected && html`<p class="offline" role="alert">Not connected. Trying again${app.retry ? ` in about ${app.retry} s` : ""} … The agent works on.</p>`}
        <${Conversation} story=${app.story} folder=${app.open?.cwd} version=${app.version} />
        ${question && html`<${Question} key=${question.id} question=${question} count=${app.questions.length} folder=${app.open?.cwd} story=${app.story} choose=${(option) => choose(question, option)} />`}
        <${Composer} busy=${busy} />
      </main>
      ${app.traffic && html`<${Traffic} frames=${wire.traffic} close=${() => { app.traffic = false; draw(); }} />`}
      <div class="toasts" aria-live="polite">${app.toasts.map((entry) => html`<p class=${entry.kind}>${withCode(entry.text)}</p>`)}</div>
    </div>`;
}

function stateWords() {
  if (app.questions.length > 0) return "waits for you";
  if (app.story.state === "idle") return app.story.usage?.size ? `${Math.round((100 * app.story.usage.used) / app.story.usage.size)} % of the context` : "ready";
  return app.story.state === "requires_action" ? "waits for an answer" : "works";
}

function Sessions() {
  const wanted = app.filter.toLowerCase();
  const fits = (session) => `${session.title} ${session.cwd} ${session.agent}`.toLowerCase().includes(wanted);
  const agents = app.server.agents ?? [];
  const may = app.server.role !== "read";
  return html`
    <div class="top">
      ${may && html`<button class="new" onClick=${() => { app.menu = false; start(); }}>New session</button>`}
      ${may && agents.length > 1 && html`
        <select aria-label="New session with" onChange=${(event) => { start(event.currentTarget.value); event.currentTarget.value = ""; }}>
          <option value="">with …</option>${agents.map((agent) => html`<option value=${agent}>${agent}</option>`)}
        </select>`}
      <input type="search" placeholder="Find a session" aria-label="Find a session" value=${app.filter} onInput=${(event) => { app.filter = event.currentTarget.value; draw(); }} />
    </div>
    <ul>
      ${app.sessions.filter(fits).map((session) => html`
        <li class=${session.id === app.open?.id ? "shown" : ""} key=${session.id}>
          <button onClick=${() => { app.menu = false; show(session.id, session.cwd); }}>
            <span class="mark ${session.state ?? ""}" title=${session.state ?? "asleep"}></span>
            <span class="title">${session.title}</span>
            <small>${session.agent} · ${relative(session.cwd, app.server.folder)}${session.state === "asking" ? " · waits for you" : ""}</small>
          </button>
          ${app.server.role === "admin" && html`<button class="delete" aria-label=${`Delete ${session.title}`} onClick=${() => remove(session)}>×</button>`}
        </li>`)}
    </ul>`;
}

function Composer({ busy }) {
  const [pictures, setPictures] = useState([]);
  const field = useRef(null);
  const key = DRAFT + (app.open?.id ?? "new");
  useEffect(() => {
    if (field.current) field.current.value = localStorage.getItem(key) ?? "";
  }, [key]);
  const submit = async () => {
    const text = field.current.value.trim();
    if (!text && pictures.length === 0) return;
    const blocks = [...pictures.map(({ data, mimeType }) => ({ type: "image", data, mimeType })), ...(text ? [{ type: "text", text }] : [])];
    field.current.value = "";
    grow(field.current);
    setPictures([]);
    if (await say(blocks)) localStorage.removeItem(key);
    else field.current.value = text;
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  };
  const onInput = (event) => {
    grow(event.currentTarget);
    localStorage.setItem(key, event.currentTarget.value);
    draw();
  };
  const add = async (files) => {
    for (const file of files) {
      if (!file.type.startsWith("image/")) toast(`${file.name} is no picture; name files in your words instead.`);
      else if (file.size > MAX_PICTURE_BYTES) toast(`${file.name} is too large.`);
      else {
        const data = await base64(file);
        setPictures((before) => [...before, { name: file.name, mimeType: file.type, data }]);
      }
    }
  };
  const onPaste = (event) => {
    if (event.clipboardData.files.length > 0) {
      event.preventDefault();
      add(event.clipboardData.files);
    }
  };
  const typed = field.current?.value ?? "";
  const hints = /^\/\S*$/.test(typed) ? app.story.commands.filter((command) => `/${command.name}`.startsWith(typed)).slice(0, 6) : [];
  if (app.server.role === "read") return html`<p class="note">You may look on.</p>`;
  return html`
    <form class="composer" onSubmit=${(event) => { event.preventDefault(); submit(); }} onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => { event.preventDefault(); add(event.dataTransfer.files); }}>
      ${app.waiting.length > 0 && busy && html`<ul class="queue" aria-label="Queued">${app.waiting.map((entry) => html`<li>${entry.text} <button type="button" onClick=${() => wire.notify("$/cancel_request", { requestId: entry.id })}>Withdraw</button></li>`)}</ul>`}
      ${hints.length > 0 && html`<ul class="hints">${hints.map((command) => html`<li><b>/${command.name}</b> ${command.description}</li>`)}</ul>`}
      ${pictures.map((picture, at) => html`<p class="attached">${picture.name || "picture"} <button type="button" aria-label="Remove" onClick=${() => setPictures(pictures.filter((_, other) => other !== at))}>×</button></p>`)}
      <div class="line">
        <textarea id="composer" ref=${field} rows="1" placeholder=${busy ? "Say more; it waits for its turn" : "What shall be done?"} aria-label="Message" onKeyDown=${onKeyDown} onInput=${onInput} onPaste=${onPaste}></textarea>
        ${busy && html`<button type="button" class="stop" onClick=${() => wire.notify("session/cancel", { sessionId: app.open.id })}>Stop</button>`}
        <button type="submit" class="send" disabled=${!app.connected}>${busy ? "Queue" : "Send"}</button>
      </div>
    </form>`;
}

function grow(field) {
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, innerHeight / 3)}px`;
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

draw();
