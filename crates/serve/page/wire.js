// One connection to the server: JSON-RPC over a WebSocket that comes back by itself.

import { visible } from "./ui.js";

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 15_000;
const MAX_TRAFFIC = 500;
// A frame is shown up to this length.
const MAX_SHOWN = 4_000;

// The protocol, as WebSockets name it.
const SUBPROTOCOL = "acp.v1";

// The half of this browser's token that no cookie has: cookies are sent to every port of a machine, this is kept for ours alone.
const STORED_HALF = "tieline-half";

export function keepHalf(half) {
  localStorage.setItem(STORED_HALF, half);
}

/** Empty if nobody gave it to us. */
export function half() {
  return localStorage.getItem(STORED_HALF) ?? "";
}

const GIVEN_MS = 1_000;
const given = location.hash.match(/^#half=([0-9a-z-]+)$/)?.[1];
if (given) history.replaceState(null, "", location.pathname);

/** A half that came with the address is kept if it opens: any web site can lead here with one that does not. */
async function takeGiven() {
  while (given) {
    const answer = await fetch("whoami", { headers: { "tieline-half": given } }).catch(() => null);
    if (answer?.ok) keepHalf(given);
    if (answer) return;
    await new Promise((again) => setTimeout(again, GIVEN_MS));
  }
}

// What is said to the server again has to be as it came.
const EXACT = /(Id|Cursor|[uU]ri)$|^(id|cwd|value|currentValue|data|method)$/;

/** A message of the server, made safe to show: what would turn the direction of text, or hides in it, is seen. */
function parse(text) {
  return JSON.parse(text, (key, value) => (typeof value === "string" && !EXACT.test(key) ? visible(value) : value));
}

/** An error answer, or the end of the connection. */
export class WireError extends Error {
  constructor(message, code = null) {
    super(message);
    this.code = code;
  }
}

/**
 * @param {{opened: () => Promise<void>, closed: (wait: number) => void, request: (id, method, params) => void,
 *   notification: (method, params) => void, traffic: () => void}} hooks
 */
export function connect(hooks) {
  const address = new URL("acp", location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  let socket = null;
  let next = 1;
  let wait = FIRST_WAIT_MS;
  let timer = null;
  const pending = new Map();
  const traffic = [];

  function note(from, text) {
    traffic.push({ at: Date.now(), from, text: text.slice(0, MAX_SHOWN), length: text.length });
    if (traffic.length > MAX_TRAFFIC) traffic.shift();
    hooks.traffic();
  }

  function send(message) {
    if (!socket || socket.readyState !== WebSocket.OPEN) throw new WireError("not connected");
    const text = JSON.stringify({ jsonrpc: "2.0", ...message });
    note("page", text);
    socket.send(text);
  }

  function receive(text) {
    note("server", visible(text));
    let message;
    try {
      message = parse(text);
    } catch {
      return;
    }
    if (message.method !== undefined) {
      if (message.id === undefined) hooks.notification(message.method, message.params ?? {});
      else hooks.request(message.id, message.method, message.params ?? {});
      return;
    }
    const waiting = pending.get(message.id);
    if (!waiting) return;
    pending.delete(message.id);
    if (message.error) waiting.reject(new WireError(message.error.message ?? "error", message.error.code));
    else waiting.resolve(message.result ?? {});
  }

  function open() {
    clearTimeout(timer);
    socket = new WebSocket(address, half() ? [SUBPROTOCOL, `half.${half()}`] : [SUBPROTOCOL]);
    const mine = socket;
    socket.onopen = async () => {
      try {
        await hooks.opened();
        wait = FIRST_WAIT_MS;
      } catch (error) {
        console.warn("the server did not answer as it should", error);
        mine.close();
      }
    };
    socket.onmessage = (event) => receive(event.data);
    socket.onclose = () => {
      if (socket !== mine) return;
      for (const waiting of pending.values()) waiting.reject(new WireError("the connection was lost"));
      pending.clear();
      // Not all pages at once.
      const pause = wait * (0.5 + Math.random());
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
      timer = setTimeout(open, pause);
      hooks.closed(pause);
    };
  }

  // A laptop that wakes up, or a network that is back: at once.
  addEventListener("online", () => socket && socket.readyState !== WebSocket.OPEN && open());
  takeGiven().then(open);

  return {
    traffic,
    /** Asks the server. The promise has the request's `id`. */
    request(method, params) {
      const id = next++;
      const answer = new Promise((resolve, reject) => {
        pending.set(id, { resolve, reject });
        try {
          send({ id, method, params });
        } catch (error) {
          pending.delete(id);
          reject(error);
        }
      });
      answer.id = id;
      return answer;
    },
    notify(method, params) {
      send({ method, params });
    },
    answer(id, result) {
      send({ id, result });
    },
    refuse(id, code, message) {
      send({ id, error: { code, message } });
    },
  };
}
