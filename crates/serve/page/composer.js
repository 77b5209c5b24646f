// What is said: a text with files (`@`), commands (`/`) and pictures, kept as a draft until it is sent.

import { html, useEffect, useRef, useState } from "./ui.js";

const MAX_PICTURE_BYTES = 10_000_000;
const DRAFT = "tieline.draft.";
const FILES_MS = 120;
const MAX_COMMANDS = 6;

/** The word in front of the caret, if something can be offered for it. */
function wordAt(field) {
  const before = field.value.slice(0, field.selectionStart);
  return /^\/\S*$/.exec(before)?.[0] ?? /(?:^|\s)(@[^\s@]*)$/.exec(before)?.[1] ?? null;
}

export function Composer({ app, wire, busy, say, withdraw, toast, draw, filesFor }) {
  const [pictures, setPictures] = useState([]);
  const [offers, setOffers] = useState([]);
  const [at, setAt] = useState(0);
  const field = useRef(null);
  const timer = useRef(0);
  const named = useRef(new Set());
  const ready = app.connected && !app.opening;
  const key = DRAFT + (app.open?.id ?? "new");
  useEffect(() => {
    if (field.current) field.current.value = localStorage.getItem(key) ?? "";
    setOffers([]);
  }, [key]);

  useEffect(() => {
    // Who types goes on; a phone would open its keyboard.
    if (document.activeElement === document.body && !matchMedia("(pointer: coarse)").matches) field.current?.focus();
  }, []);

  const offer = (list) => {
    setOffers(list);
    setAt(0);
  };
  const look = () => {
    const word = wordAt(field.current);
    clearTimeout(timer.current);
    if (word?.startsWith("/")) {
      const fits = app.story.commands.filter((command) => `/${command.name}`.startsWith(word));
      offer(fits.slice(0, MAX_COMMANDS).map((command) => ({ word, text: `/${command.name}`, hint: command.description })));
    } else if (word) {
      timer.current = setTimeout(async () => {
        const files = await filesFor(word.slice(1)).catch(() => []);
        if (field.current && wordAt(field.current) === word) offer(files.map((path) => ({ word, text: `@${path}`, path })));
      }, FILES_MS);
    } else if (offers.length > 0) offer([]);
  };
  const take = ({ word, text, path }) => {
    const { value, selectionStart } = field.current;
    if (path) named.current.add(path);
    const start = selectionStart - word.length;
    field.current.setRangeText(`${text} `, start, selectionStart, "end");
    localStorage.setItem(key, value.slice(0, start) + text + value.slice(selectionStart));
    offer([]);
    field.current.focus();
  };

  const submit = async () => {
    const text = field.current.value.trim();
    if ((!text && pictures.length === 0) || !ready) return;
    const folder = app.open?.cwd ?? app.server.folder;
    const links = [...named.current].filter((path) => text.includes(`@${path}`));
    const blocks = [
      ...pictures.map(({ data, mimeType }) => ({ type: "image", data, mimeType })),
      ...(text ? [{ type: "text", text }] : []),
      ...links.map((path) => ({ type: "resource_link", name: path, uri: new URL(`file://${encodeURI(`${folder}/${path}`)}`).href })),
    ];
    field.current.value = "";
    grow(field.current);
    setPictures([]);
    offer([]);
    localStorage.removeItem(key);
    if (await say(blocks)) named.current.clear();
    else {
      field.current.value = text;
      localStorage.setItem(key, text);
    }
  };
  const onKeyDown = (event) => {
    if (event.isComposing || event.altKey) return;
    if (offers.length > 0) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) setAt((at + step + offers.length) % offers.length);
      else if (event.key === "Tab" || (event.key === "Enter" && offers[at].text !== offers[at].word)) take(offers[at]);
      else if (event.key === "Escape") offer([]);
      if (step || ["Tab", "Escape"].includes(event.key) || (event.key === "Enter" && offers[at].text !== offers[at].word)) {
        event.preventDefault();
        return;
      }
    }
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    submit();
  };
  const onInput = (event) => {
    grow(event.currentTarget);
    localStorage.setItem(key, event.currentTarget.value);
    look();
    draw();
  };
  const add = async (files) => {
    for (const file of files) {
      if (!file.type.startsWith("image/")) toast(`${file.name} is no picture; name files with @ instead.`);
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
  return html`
    <form class="composer" onSubmit=${(event) => { event.preventDefault(); submit(); }} onDragOver=${(event) => event.preventDefault()} onDrop=${(event) => { event.preventDefault(); add(event.dataTransfer.files); }}>
      ${app.waiting.length > 0 && busy && html`<ul class="queue" aria-label="Queued">${app.waiting.map((entry) => html`<li>${entry.text} <button type="button" onClick=${() => withdraw(entry)}>Withdraw</button></li>`)}</ul>`}
      ${offers.length > 0 && html`
        <ul class="offers" id="offers" role="listbox" aria-label=${offers[0].path ? "Files" : "Commands"}>
          ${offers.map((entry, place) => html`
            <li id=${`offer-${place}`} role="option" aria-selected=${place === at ? "true" : "false"} onMouseDown=${(event) => { event.preventDefault(); take(entry); }}>
              <b>${entry.text}</b> ${entry.hint ?? ""}
            </li>`)}
        </ul>`}
      ${pictures.map((picture, place) => html`<p class="attached">${picture.name || "picture"} <button type="button" aria-label=${`Remove ${picture.name || "picture"}`} onClick=${() => setPictures(pictures.filter((_, other) => other !== place))}>×</button></p>`)}
      <div class="line">
        <textarea id="composer" ref=${field} rows="1" placeholder=${busy ? "Say more" : "What shall be done?"} aria-label="Message" aria-autocomplete="list"
          aria-controls=${offers.length > 0 ? "offers" : undefined} aria-activedescendant=${offers.length > 0 ? `offer-${at}` : undefined}
          onKeyDown=${onKeyDown} onInput=${onInput} onPaste=${onPaste}></textarea>
        ${busy && html`<button type="button" class="stop" onClick=${() => wire.notify("session/cancel", { sessionId: app.open.id })}>Stop</button>`}
        <button type="submit" class="send" disabled=${!ready}>${busy ? "Queue" : "Send"}</button>
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
