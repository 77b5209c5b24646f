// The conversation: updates of the protocol (current version 2) become items. What changes becomes a new object, so that only that is
// drawn again.

const MESSAGES = {
  user_message: ["user", false],
  agent_message: ["agent", false],
  agent_thought: ["thought", false],
  user_message_chunk: ["user", true],
  agent_message_chunk: ["agent", true],
  agent_thought_chunk: ["thought", true],
};
const CALL_FIELDS = ["title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput"];

export function newStory() {
  return {
    items: [],
    places: new Map(),
    plan: null,
    usage: null,
    state: "idle",
    stop: null,
    title: null,
    options: [],
    commands: [],
    terminals: new Map(),
  };
}

function put(story, key, make) {
  const at = story.places.get(key);
  if (at === undefined) {
    story.places.set(key, story.items.length);
    story.items.push(make({ key }));
  } else {
    story.items[at] = make(story.items[at]);
  }
}

function blocks(content) {
  const list = Array.isArray(content) ? content : content ? [content] : [];
  let text = "";
  const others = [];
  for (const block of list) {
    if (block.type === "text") text += block.text ?? "";
    else others.push(block);
  }
  return { text, others };
}

function message(story, update, kind, appends) {
  const key = `${kind}:${update.messageId ?? "?"}`;
  if (update.content === undefined) return;
  const { text, others } = blocks(update.content);
  put(story, key, (before) => ({
    key,
    type: "message",
    kind,
    text: appends ? (before.text ?? "") + text : text,
    others: appends ? [...(before.others ?? []), ...others] : others,
  }));
}

function call(story, update) {
  const key = `call:${update.toolCallId}`;
  put(story, key, (before) => {
    const item = { status: "pending", content: [], locations: [], ...before, key, type: "call", id: update.toolCallId };
    for (const field of CALL_FIELDS) {
      if (update[field] === undefined) continue;
      // Null takes back, absent leaves.
      item[field] = update[field] ?? (field === "content" || field === "locations" ? [] : null);
    }
    return item;
  });
}

function terminal(story, update, appends) {
  const before = story.terminals.get(update.terminalId) ?? { output: "" };
  const data = appends ? update.data : update.output?.data;
  const text = typeof data === "string" ? decode(data) : "";
  story.terminals.set(update.terminalId, {
    ...before,
    command: update.command ?? before.command,
    exit: update.exitStatus ?? before.exit,
    output: (appends ? before.output + text : data === undefined ? before.output : text).slice(-64_000),
  });
  // Whoever shows it is drawn again.
  for (const [at, item] of story.items.entries()) {
    if (item.type === "call" && item.content.some((part) => part.terminalId === update.terminalId)) story.items[at] = { ...item };
  }
}

function decode(base64) {
  try {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    return new TextDecoder().decode(bytes);
  } catch {
    return "";
  }
}

/** Takes an update in. */
export function apply(story, update) {
  const kind = update.sessionUpdate;
  if (kind in MESSAGES) return message(story, update, ...MESSAGES[kind]);
  switch (kind) {
    case "tool_call":
    case "tool_call_update":
      return call(story, update);
    case "tool_call_content_chunk":
      return put(story, `call:${update.toolCallId}`, (before) => ({
        status: "pending",
        locations: [],
        ...before,
        type: "call",
        id: update.toolCallId,
        content: [...(before.content ?? []), update.content],
      }));
    case "plan":
    case "plan_update":
      story.plan = update.plan?.entries ?? update.entries ?? null;
      return undefined;
    case "usage_update":
      story.usage = update;
      return undefined;
    case "state_update":
      story.state = update.state ?? story.state;
      story.stop = story.state === "idle" ? (update.stopReason ?? null) : null;
      if (update.error?.message) note(story, update.error.message);
      return undefined;
    case "session_info_update":
      if (update.title !== undefined) story.title = update.title;
      return undefined;
    case "config_option_update":
      story.options = update.configOptions ?? [];
      return undefined;
    case "available_commands_update":
      story.commands = update.availableCommands ?? [];
      return undefined;
    case "terminal_update":
      return terminal(story, update, false);
    case "terminal_output_chunk":
      return terminal(story, update, true);
    default:
      return note(story, `The agent tells something that this page does not know: ${String(kind).slice(0, 60)}`);
  }
}

let notes = 0;

/** A line that is nobody's message. */
export function note(story, text) {
  const key = `note:${++notes}`;
  put(story, key, () => ({ key, type: "note", text }));
}
