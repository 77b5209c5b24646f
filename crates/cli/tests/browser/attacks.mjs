// A hostile agent, a hostile web site and a server that is killed, seen on the page: node attacks.mjs CHROMIUM LINK FOLDER ANSWERS PID TIELINE [PICTURES].
// ANSWERS is the log of answers, PID the server's. All steps are tried; those that fail are told at the end.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { WAIT, drive, sees, usable } from "./drive.mjs";

const [chromium, link, folder, answers, pid, tieline, pictures] = process.argv.slice(2);
const { host } = new URL(link);
const WIDE = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };
const SMALL = { width: 360, height: 640 };

// A web site of somebody else, with a link to ours.
const site = http.createServer((_, answer) => {
  answer.setHeader("content-type", "text/html").end(`<script>location.href = "http://${host}/#half=00"</script>`);
});
await new Promise((ready) => site.listen(0, "127.0.0.1", ready));
const elsewhere = `localhost:${site.address().port}`;
const { browser, troubles, open, picture } = await drive(chromium, [host, elsewhere], pictures);

let page = null;
const failed = [];
async function step(name, attempt) {
  try {
    await page?.bringToFront();
    await attempt();
    console.log(`ok: ${name}`);
  } catch (error) {
    console.log(`FAILED: ${name}: ${error.stack}`);
    failed.push(name);
    await picture(page, `failed-${failed.length}`).catch(() => {});
  }
}

let marks = 0;
/** Has the agent do something in the session that is shown; gives a word that its last message ends with. */
async function order(page, orders) {
  const mark = `end-${++marks}-`;
  await page.$eval("#composer", (field, words) => {
    field.value = words;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.focus();
  }, JSON.stringify({ ...orders, say: `${orders.say ?? ""} ${mark}` }));
  await page.keyboard.press("Enter");
  return mark;
}
/** The agent has said its last word, and the page knows that the turn is over. */
const over = (page, mark) => page.waitForFunction(
  (mark) => [...document.querySelectorAll(".conversation .message.agent")].at(-1)?.textContent.includes(mark) && document.querySelector(".state")?.textContent === "ready",
  WAIT, mark);
const done = async (page, orders) => over(page, await order(page, orders));
const asking = (page) => page.waitForSelector(".question .allow:not([disabled])", WAIT);
/** Clicks the answer of which this is told first. */
const answer = (page, words) => page.evaluate((words) => [...document.querySelectorAll(".answers button")].find((button) => button.textContent.startsWith(words)).click(), words);
async function fresh(page) {
  await page.evaluate(() => document.querySelector("nav .new").click());
  await page.waitForFunction(() => document.querySelector(".welcome") && document.querySelector(".state").textContent === "ready", WAIT);
}
/** A notice of our own, as long as they get: that no such file can be sent. */
async function notice(page) {
  await page.evaluate(() => {
    const event = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: new DataTransfer() });
    event.dataTransfer.items.add(new File(["x"], `${"long-name-".repeat(40)}.txt`, { type: "text/plain" }));
    document.querySelector(".composer").dispatchEvent(event);
  });
  await page.waitForFunction(() => document.querySelector(".toasts")?.textContent.includes("long-name"), WAIT);
}
const shown = (page) => page.$eval("nav li.shown .title", (node) => node.textContent);

const call = (more) => ({ toolCallId: `call-${++marks}`, title: "Do something", kind: "execute", rawInput: { command: "echo decoy" }, ...more });
const OPTIONS = [{ optionId: "yes", name: "Allow once", kind: "allow_once" }, { optionId: "no", name: "Reject", kind: "reject_once" }];

page = await open(link);
page.on("dialog", (dialog) => dialog.dismiss());

await step("the keyboard is in the composer when the page is there", () =>
  page.waitForFunction(() => document.activeElement.id === "composer", WAIT));

await step("words of an agent are no names of styles", async () => {
  await fresh(page);
  const bad = "traffic page question toasts offline menu";
  const mark = await order(page, {
    updates: [
      ...["a", "b"].map((id) => ({ sessionUpdate: "tool_call", toolCallId: id, title: "COVER", status: bad, kind: bad })),
      { sessionUpdate: "plan", entries: [{ content: "COVER", status: bad, priority: "high" }] },
    ],
    asks: [{ toolCall: call(), options: OPTIONS }],
  });
  await asking(page);
  await notice(page);
  await picture(page, "covered");
  const odd = await page.$$eval(".conversation *", (nodes) => nodes.filter((node) => getComputedStyle(node).position === "fixed").map((node) => node.outerHTML));
  assert.deepEqual(odd, []);
  // Whatever is seen at the question's place is the question.
  const covering = await page.$eval(".question", (question) => {
    const { left, top, width, height } = question.getBoundingClientRect();
    const points = [0.02, 0.25, 0.5, 0.75, 0.98].flatMap((x) => [0.05, 0.5, 0.95].map((y) => [left + x * width, top + y * height]));
    return points.filter(([x, y]) => !question.contains(document.elementFromPoint(x, y))).length;
  });
  assert.equal(covering, 0, "the question is covered");
  await answer(page, "Reject");
  await over(page, mark);
  await page.waitForFunction(() => document.activeElement.id === "composer", WAIT);
});

await step("a button says what it does, and the log what was answered", async () => {
  await fresh(page);
  const lies = [{ optionId: "reject", name: "Reject", kind: "allow_always" }, { optionId: "allow", name: "Allow once", kind: "reject_once" }, { optionId: "odd", name: "Cancel", kind: "_odd" }];
  const mark = await order(page, { asks: [{ toolCall: call({ title: "Lying labels" }), options: lies }] });
  await page.waitForSelector(".question .answers button", WAIT);
  await page.waitForFunction(() => !document.querySelector(".answers button[disabled]"), WAIT);
  await picture(page, "labels");
  const words = await page.$$eval(".answers button", (buttons) => buttons.map((button) => [button.className, button.textContent.replace(/\s+/g, " ").trim()]));
  assert.deepEqual(words, [
    ["reject", "Reject The agent calls it “Allow once”"],
    ["allow", "Allow always The agent calls it “Reject”"],
    ["other", "Neither yes nor no The agent calls it “Cancel”"],
  ]);
  await usable(page, "a question with lying labels");
  await answer(page, "Allow always");
  await over(page, mark);
  const last = JSON.parse(fs.readFileSync(answers, "utf8").trim().split("\n").at(-1));
  assert.deepEqual([last.answer, last.option], ["allowed always", "reject"]);
});

await step("what would happen keeps a third of the screen", async () => {
  await fresh(page);
  const title = "Show the list of files. ".repeat(150);
  const many = Array.from({ length: 60 }, (_, at) => ({ optionId: `o${at}`, name: `Option ${at} ${"x".repeat(300)}`, kind: "allow_always" }));
  const content = [{ type: "diff", path: path.join(folder, "planned.txt"), oldText: null, newText: Array.from({ length: 120 }, (_, at) => `line ${at}\n`).join("") }];
  const mark = await order(page, { asks: [{ toolCall: call({ title, kind: "edit", content, rawInput: {} }), options: [...many, ...OPTIONS] }] });
  await asking(page);
  await notice(page);
  for (const [size, name] of [[WIDE, "squeezed"], [PHONE, "squeezed-phone"], [SMALL, "squeezed-small"]]) {
    await page.setViewport(size);
    await page.waitForFunction((width) => innerWidth === width, WAIT, size.width);
    await picture(page, name);
    const seen = await page.evaluate(() => {
      const seen = (node) => {
        const { left, top, bottom } = node.getBoundingClientRect();
        let rows = 0;
        for (let y = Math.max(top, 0) + 1; y < Math.min(bottom, innerHeight); y += 2) if (node.contains(document.elementFromPoint(left + 5, y))) rows += 2;
        return rows;
      };
      const first = document.querySelector(".question .what").textContent;
      const button = (words) => seen([...document.querySelectorAll(".answers button")].find((button) => button.textContent.startsWith(words)));
      return { what: seen(document.querySelector(".question .what")), wanted: innerHeight / 3, yes: button("Allow once"), no: button("Reject"), first };
    });
    assert(seen.what >= seen.wanted, `${name}: ${seen.what} of ${seen.wanted} rows`);
    assert(seen.yes > 20 && seen.no > 20, `${name}: the answers are seen: ${seen.yes}, ${seen.no}`);
    assert(/planned\.txt/.test(seen.first.slice(0, 200)), seen.first.slice(0, 300));
    await usable(page, name);
  }
  await page.setViewport(WIDE);
  const more = await page.$$eval(".answers button", (buttons) => buttons.map((button) => button.textContent));
  assert(more.length < 10 && /56 more/.test(more.at(-1)), more.at(-1));
  await answer(page, "Reject");
  await over(page, mark);
});

await step("no sign turns or hides the direction of words, and links say where they lead", async () => {
  await fresh(page);
  const turned = "Write \u202Egpj.exe\u202C and \u200Bthis";
  const mark = await order(page, {
    asks: [{ toolCall: call({ title: turned }), options: [{ optionId: "y", name: "Al\u202Elow", kind: "allow_once" }, OPTIONS[1]] }],
    say: `\u202Ereversed [https://github.com/safe](http://127.0.0.1:9999/evil) [x](https://github.com@example.org/a) <https://example.org/same> 👨‍👩‍👧 ❤️`,
  });
  await asking(page);
  const asked = await page.$eval(".question", (node) => node.textContent);
  await answer(page, "Reject");
  await over(page, mark);
  const all = asked + await page.$eval("body", (node) => node.textContent);
  assert.equal(all.match(/[\u202A-\u202E\u2066-\u2069\u200B]/), null);
  assert(asked.includes("\\u{202e}gpj.exe"), asked);
  assert(all.includes("👨‍👩‍👧 ❤️"), "pictures stay whole");
  const links = await page.$$eval(".message.agent a", (nodes) => nodes.slice(-3).map((node) => node.textContent));
  assert.deepEqual(links, ["https://github.com/safe (127.0.0.1:9999/evil)", "x (example.org/a)", "https://example.org/same"]);
});

await step("another web site locks nobody out", async () => {
  const half = () => page.evaluate(() => localStorage.getItem("tieline-half"));
  const before = await half();
  const lured = await open(`http://${elsewhere}/`, WIDE, ".page, .stranger");
  await lured.waitForFunction(() => document.querySelector("nav li") || document.querySelector(".stranger"), WAIT);
  assert.equal(await lured.$(".stranger"), null);
  assert.equal(await half(), before);
  assert(!lured.url().includes("half"), lured.url());
  await lured.close();
});

await step("a link that was used leads on in the browser that used it", async () => {
  const again = await open(link, WIDE, "body");
  await again.waitForSelector("nav li", WAIT);
  await again.close();
  const stranger = await (await browser.createBrowserContext()).newPage();
  await stranger.goto(link);
  await stranger.waitForFunction(() => document.querySelector(".stranger")?.textContent.includes("used before"), WAIT);
  await picture(stranger, "used-link");
  await stranger.close();
});

await step("the conversation follows what is said", async () => {
  await fresh(page);
  const below = () => page.$eval(".conversation", (box) => box.scrollHeight - box.scrollTop - box.clientHeight);
  const long = Array.from({ length: 30 }, (_, at) => `Paragraph ${at} ${"with words ".repeat(at * 3)}`).join("\n\n");
  for (let turn = 0; turn < 4; turn++) {
    const calls = Array.from({ length: 12 }, (_, at) => ({ sessionUpdate: "tool_call", toolCallId: `f${turn}-${at}`, title: `call ${at}`, kind: "other", status: "completed", content: [{ type: "content", content: { type: "text", text: long } }] }));
    await done(page, { updates: calls, say: turn % 2 ? long : "short" });
    await page.waitForFunction(() => {
      const box = document.querySelector(".conversation");
      return box.scrollHeight - box.scrollTop - box.clientHeight < 5;
    }, WAIT).catch(async () => assert.fail(`turn ${turn}: ${await below()} px below the edge`));
  }
  // Who reads further up is left there, until he says something himself.
  const box = await page.$(".conversation");
  await box.hover();
  await page.mouse.wheel({ deltaY: -2_000 });
  await page.waitForFunction(() => {
    const box = document.querySelector(".conversation");
    return box.scrollHeight - box.scrollTop - box.clientHeight > 500;
  }, WAIT);
  // It is drawn again for another reason.
  await page.evaluate(() => document.querySelector(".quiet").click());
  await page.waitForSelector(".traffic button", WAIT);
  await page.evaluate(() => document.querySelector(".traffic button").click());
  await page.waitForFunction(() => !document.querySelector(".traffic"), WAIT);
  assert(await below() > 500, "who reads is left where he is");
  await done(page, { say: "again" });
  await page.waitForFunction(() => {
    const last = [...document.querySelectorAll(".message.agent")].at(-1).getBoundingClientRect();
    return last.bottom <= document.querySelector(".conversation").getBoundingClientRect().bottom + 1;
  }, WAIT);
});

await step("the traffic can be read", async () => {
  await page.evaluate(() => document.querySelector(".quiet").click());
  await page.waitForSelector(".traffic li", WAIT);
  const tall = await page.$$eval(".traffic li", (rows) => rows.filter((row) => row.textContent.length < 300 && row.clientHeight > 150).map((row) => row.clientHeight));
  await picture(page, "traffic");
  await page.keyboard.press("Escape");
  assert.deepEqual(tall, []);
});

await step("a page that is loaded again shows the session of its address", async () => {
  await fresh(page);
  await done(page, { say: "older" });
  const older = [await shown(page), page.url()];
  await fresh(page);
  await done(page, { say: "newer" });
  assert.notEqual(page.url(), older[1]);
  const other = await open(older[1]);
  await sees(other, "older");
  assert.deepEqual([await shown(other), other.url()], older);
  await other.reload();
  await sees(other, "older");
  assert.equal(other.url(), older[1]);
  await other.close();
});

await step("what was put back is had back, whatever came before", async () => {
  const file = path.join(folder, "turns.txt");
  const holds = async (words) => assert.equal(fs.readFileSync(file, "utf8"), words);
  const put = async (button, words) => {
    await page.waitForFunction((button) => document.querySelector("button.undo")?.textContent === button, WAIT, button);
    await page.click("button.undo");
    await page.waitForSelector("[role=dialog] .allow", WAIT);
    const said = await page.$eval("[role=dialog]", (node) => node.textContent);
    await page.click("[role=dialog] .allow");
    await page.waitForFunction((words) => [...document.querySelectorAll(".conversation .note")].at(-1)?.textContent.includes(words), WAIT, words);
    return said;
  };
  await fresh(page);
  const mark = await order(page, { say: "nothing is changed" });
  await over(page, mark);
  // Once the page has asked.
  await page.evaluate(() => document.querySelector(".quiet").click());
  await page.waitForFunction((mark) => {
    const traffic = document.querySelector(".traffic")?.textContent ?? "";
    return /_tieline\/undo[^]*nothing (to|was)/.test(traffic.slice(traffic.indexOf(mark)));
  }, WAIT, mark);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector(".traffic"), WAIT);
  assert.equal(await page.$("button.undo"), null, "there is nothing to take back");
  await done(page, { files: { "turns.txt": "one\n" } });
  await done(page, { files: { "turns.txt": "two\n" } });
  await put("Undo", "1 file put back");
  await holds("one\n");
  const back = await put("Redo", "are there again");
  assert(/one[^]*two/.test(back), back);
  await holds("two\n");
  await put("Undo", "1 file put back");
  await holds("one\n");
});

await step("a prompt that is withdrawn is gone at once and named", async () => {
  const mark = await order(page, { wait: true });
  await sees(page, "waiting");
  await page.type("#composer", "never mind this one");
  await page.keyboard.press("Enter");
  const queued = () => page.$$eval(".queue li", (rows) => rows.map((row) => row.textContent));
  await page.waitForFunction(() => document.querySelector(".queue")?.textContent.includes("never mind"), WAIT);
  await page.evaluate(() => [...document.querySelectorAll(".queue li")].find((row) => row.textContent.includes("never mind")).querySelector("button").click());
  await page.waitForFunction(() => !document.querySelector(".queue")?.textContent.includes("never mind"), WAIT).catch(async () => assert.fail(`still there: ${await queued()}`));
  await page.waitForFunction(() => [...document.querySelectorAll(".note")].some((note) => /Withdrawn: .*never mind this one/.test(note.textContent)), WAIT);
  await page.evaluate(() => document.querySelector(".stop").click());
  await over(page, mark);
  assert(!(await page.$eval(".conversation", (node) => node.textContent)).includes("Not done"));
});

await step("on a phone notices cover nothing, and the command stands first", async () => {
  const phone = await open(page.url(), PHONE);
  const mark = await order(phone, { asks: [{ toolCall: call({ title: "Run it" }), options: OPTIONS }] });
  await asking(phone);
  await picture(phone, "phone-command");
  const lines = await phone.$$eval(".question .what li, .question .what p", (rows) => rows.map((row) => row.textContent));
  assert(lines[0].includes("echo decoy"), lines.join(" | "));
  await usable(phone, "a command on a phone");
  await phone.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await picture(phone, "phone-command-dark");
  await answer(phone, "Reject");
  await over(phone, mark);
  await notice(phone);
  await picture(phone, "phone-notice");
  const covered = await phone.evaluate(() => {
    const [notice, header] = [".toasts", "main > header"].map((name) => document.querySelector(name).getBoundingClientRect());
    return notice.top < header.bottom;
  });
  assert.equal(covered, false, "the notice covers the header");
  await phone.close();
});

await step("a server that was killed is not said to work on, and what became of the turn is told", async () => {
  await fresh(page);
  await order(page, { wait: true, updates: [{ sessionUpdate: "tool_call", toolCallId: "cut", title: "Cut off", kind: "execute", status: "in_progress" }] });
  await sees(page, "waiting");
  process.kill(Number(pid), "SIGKILL");
  await page.waitForSelector(".offline", WAIT);
  const words = await page.$eval(".offline", (node) => node.textContent);
  await picture(page, "killed");
  const next = spawn(tieline, ["serve", "--listen", host, "--", "node", "hostile.mjs"].map((word) => (word === "hostile.mjs" ? path.join(import.meta.dirname, word) : word)), { cwd: folder, stdio: "ignore" });
  try {
    await page.waitForFunction(() => !document.querySelector(".offline"), WAIT);
    await sees(page, "the server that ran it is gone");
    await picture(page, "killed-back");
    assert(/if the server ended, so did the agent/i.test(words), words);
  } finally {
    next.kill();
  }
});

const expected = /401|403|ERR_(EMPTY_RESPONSE|CONNECTION|SOCKET)|WebSocket connection to/;
await step("no error and no breach of the policy", async () => assert.deepEqual(troubles.filter((trouble) => !expected.test(trouble)), []));
site.close();
await browser.close();
if (failed.length > 0) process.exit(1);
console.log("1 passed, 0 failed");
