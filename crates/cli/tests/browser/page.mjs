// Drives the page in a real browser: node page.mjs CHROMIUM LINK FOLDER [PICTURES]. Every step says what it saw; the first that fails ends it.
import assert from "node:assert/strict";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { WAIT, answered, drive, say, sees, text, usable } from "./drive.mjs";

const [chromium, given, folder, pictures] = process.argv.slice(2);

// A wire between browser and server that can be cut.
const wires = new Set();
let whole = true;
const far = new URL(given);
const proxy = net.createServer((near) => {
  if (!whole) return near.destroy();
  const on = net.connect(far.port, far.hostname);
  for (const [one, other] of [[near, on], [on, near]]) {
    one.pipe(other);
    one.on("error", () => other.destroy()).on("close", () => (wires.delete(one), other.destroy()));
    wires.add(one);
  }
});
await new Promise((ready) => proxy.listen(0, "127.0.0.1", ready));
function cut() {
  whole = false;
  wires.forEach((wire) => wire.destroy());
}
const link = given.replace(far.host, `127.0.0.1:${proxy.address().port}`);
const { browser, troubles, open, picture } = await drive(chromium, [new URL(link).host], pictures);
/** No wider than the screen. */
async function fits(page, width) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert(wide <= width, `it must not scroll sideways at ${width}: ${wide}`);
}
function step(name) {
  console.log(`ok: ${name}`);
}

// The link lets in and is gone from the address.
const first = await open(link);
assert(!first.url().includes("code") && !first.url().includes("half"), first.url());
// The cookie, which other servers on this machine are sent, is one half of what lets in; the page keeps the other for its port.
await first.waitForFunction(() => localStorage.getItem("tieline-half"), WAIT);
const kept = await first.evaluate(() => [document.cookie, localStorage.getItem("tieline-half")]);
assert(kept[0] === "" && /^[0-9a-f]{30,}$/.test(kept[1]), JSON.stringify(kept));
await picture(first, "first");
await usable(first, "the first look");
step("the link lets in");

// A whole turn with a question and a change.
await say(first, "write notes.txt: hello");
await first.waitForSelector(".question .allow:not([disabled])", WAIT);
assert((await first.$eval(".question", (node) => node.textContent)).includes("hello"), "the question shows the change");
assert(!fs.existsSync(path.join(folder, "notes.txt")), "nothing is written before the answer");
await first.waitForFunction(() => document.querySelector("nav li .title")?.textContent.includes("notes.txt"), WAIT);
assert(!(await first.$eval(".toasts", (node) => node.textContent)).includes("`"), "what is code in a notice is shown as code");
await picture(first, "question");
await usable(first, "a question");
await first.evaluate(() => [...document.querySelectorAll(".question .allow")].find((button) => /once/i.test(button.textContent)).click());
await answered(first, "write notes.txt: hello");
assert.equal(fs.readFileSync(path.join(folder, "notes.txt"), "utf8"), "hello\n");
await picture(first, "done");
step("a turn with a question and a change");

// A second page is on the same session and hears everything.
const second = await open(first.url(), { width: 390, height: 844 });
await sees(second, "Wrote");
await say(first, "read notes.txt");
for (const page of [first, second]) await answered(page, "read notes.txt");
assert((await text(second)).includes("Read"), await text(second));
await picture(second, "phone");
await fits(second, 390);
await second.click(".toggle");
await second.waitForSelector("nav li");
await picture(second, "phone-sessions");
await usable(second, "the sessions on a phone");
await second.keyboard.press("Escape");
await second.setViewport({ width: 360, height: 640 });
await fits(second, 360);
step("two pages on one session, one of them a phone");

// A question is answered on one page and disappears from the other.
await say(first, "write other.txt: there");
await Promise.all([first, second].map((page) => page.waitForSelector(".question .reject", WAIT)));
await second.evaluate(() => [...document.querySelectorAll(".question .reject")][0].click());
await first.waitForFunction(() => !document.querySelector(".question"), WAIT);
await answered(first, "write other.txt: there");
assert(!fs.existsSync(path.join(folder, "other.txt")));
step("one answer for both pages");

// What an agent says is hostile: no script, no picture from elsewhere, no form, no style.
const [named] = await first.$$eval("nav li .title", (titles) => titles.map((title) => title.textContent));
fs.writeFileSync(path.join(folder, "evil.md"), `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>
![x](http://203.0.113.7/a.png) [a](javascript:window.hacked=1) <style>*{display:none}</style> <form action="http://203.0.113.7/"><input name=a></form>\n`);
await say(first, "read evil.md");
await answered(first, "read evil.md");
await sees(first, "onerror");
const state = await first.evaluate(() => ({
  hacked: window.hacked ?? null,
  bad: document.querySelectorAll(".conversation img, .conversation script, .conversation style, .conversation form, .conversation a[href^=javascript]").length,
}));
assert.deepEqual(state, { hacked: null, bad: 0 });
step("hostile text is text");

// What the agent itself says is parsed, and just as harmless.
await first.evaluate(async () => {
  const { apply, newStory } = await import("/story.js");
  const { Conversation } = await import("/view.js");
  const { html, render } = await import("/ui.js");
  const story = newStory();
  const hostile = `<img src=x onerror="window.hacked=1"> <b style="position:fixed;inset:0" onclick="window.hacked=1">x</b>
[data](data:text/html,<script>window.hacked=1</script>) [vb](vbscript:x) [js](JaVaScRiPt:window.hacked=1) [ok](https://example.org/a) ![p](https://example.org/p.png)

<svg><script>window.hacked=1</script></svg> <iframe src="javascript:window.hacked=1"></iframe> <a href="https://example.org" style="position:fixed" id="app" name="body">z</a>
`;
  apply(story, { sessionUpdate: "agent_message", messageId: "m", content: [{ type: "text", text: hostile }] });
  apply(story, { sessionUpdate: "tool_call", toolCallId: "c", title: "<script>window.hacked=1</script>", content: [] });
  const box = document.createElement("div");
  box.id = "hostile";
  document.body.append(box);
  render(html`<${Conversation} story=${story} version=${1} />`, box);
  box.querySelectorAll("*:not(a[href])").forEach((node) => node.click?.());
});
const harm = await first.evaluate(() => {
  const box = document.getElementById("hostile");
  const bad = box.querySelectorAll("img, script, style, iframe, svg, form, [style], [onclick], [onerror], [id], [name]");
  const links = [...box.querySelectorAll("a[href]")].map((link) => [link.getAttribute("href"), link.rel, link.target, link.title]);
  const told = { hacked: window.hacked ?? null, bad: [...bad].map((node) => node.outerHTML), links };
  box.remove();
  return told;
});
const leads = (href) => [href, "noopener noreferrer", "_blank", href];
assert.deepEqual(harm, { hacked: null, bad: [], links: [leads("https://example.org/a"), leads("https://example.org/p.png")] });
step("hostile words of an agent are harmless");

// A file is named with @, by the keyboard alone, and goes along.
await first.type("#composer", "read @not");
await first.waitForSelector("#offers [aria-selected=true]", WAIT);
assert.equal(await first.$eval("#offers [aria-selected=true] b", (node) => node.textContent), "@notes.txt");
await usable(first, "files are offered");
await picture(first, "files");
await first.keyboard.press("Tab");
assert.equal(await first.$eval("#composer", (field) => field.value), "read @notes.txt ");
await first.keyboard.press("Enter");
await answered(first, "read @notes.txt");
step("a file is named with @");

// What a turn changed is taken back, after a look at it.
await first.bringToFront();
await say(first, "write notes.txt: changed");
await first.waitForSelector(".question .allow:not([disabled])", WAIT);
await first.evaluate(() => [...document.querySelectorAll(".question .allow")].find((button) => /once/i.test(button.textContent)).click());
await first.waitForSelector("button.undo", WAIT);
await answered(first, "write notes.txt: changed");
assert.equal(fs.readFileSync(path.join(folder, "notes.txt"), "utf8"), "changed\n");
await first.click("button.undo");
await first.waitForSelector("[role=dialog] .allow", WAIT);
assert(/changed[^]*hello/.test(await first.$eval("[role=dialog]", (node) => node.textContent)));
await picture(first, "undo");
await usable(first, "undo");
await first.click("[role=dialog] .allow");
await sees(first, "1 file put back");
assert.equal(fs.readFileSync(path.join(folder, "notes.txt"), "utf8"), "hello\n");
step("a turn is taken back");

// The wire is cut in the middle of a question and comes back: no reload, nothing lost, nothing twice.
await first.evaluate(() => (window.same = true));
await say(first, "write late.txt: late");
await first.waitForSelector(".question .allow:not([disabled])", WAIT);
cut();
await first.waitForSelector(".offline", WAIT);
await picture(first, "offline");
whole = true;
await first.waitForSelector(".question .allow:not([disabled])", WAIT);
await first.waitForFunction(() => !document.querySelector(".offline"), WAIT);
await first.evaluate(() => [...document.querySelectorAll(".question .allow")].find((button) => /once/i.test(button.textContent)).click());
await first.waitForFunction(() => document.querySelector(".conversation").textContent.match(/Wrote/g)?.length === 3, WAIT);
await answered(first, "write late.txt: late");
assert.equal(await first.evaluate(() => window.same), true, "it was not loaded again");
assert.equal((await text(first)).match(/write late\.txt: late/g).length, 1);
await second.waitForFunction(() => document.querySelector(".conversation").textContent.includes("late.txt"), WAIT);
step("a page that comes back shows all of it once");

// Another session wants somebody: the list and the title say so. Words are found in all of them.
await first.bringToFront();
await first.keyboard.down("Alt");
await first.keyboard.press("n");
await first.keyboard.up("Alt");
await first.waitForFunction(() => document.querySelector(".welcome"), WAIT);
await say(second, "write wanted.txt: somebody");
await first.waitForFunction(() => document.querySelector(".mark.asking") && /^\(1\)/.test(document.title), WAIT);
assert.equal(await first.$(".question"), null, "a question is shown in its own session only");
await picture(first, "wanted");
await second.bringToFront();
await second.waitForSelector(".question .reject", WAIT);
await picture(second, "phone-question");
await usable(second, "a question on a phone");
await second.evaluate(() => document.querySelector(".question .reject").click());
await first.waitForFunction(() => document.querySelector("nav li.news"), WAIT);
await first.bringToFront();
await first.keyboard.down("Control");
await first.keyboard.press("k");
await first.keyboard.up("Control");
await first.waitForFunction(() => document.activeElement.id === "find", WAIT);
await first.keyboard.type("changed");
await first.waitForFunction(() => document.querySelector("nav li .snippet")?.textContent.includes("changed"), WAIT);
await usable(first, "words are found");
await picture(first, "found");
await first.click("nav li .title");
await sees(first, "late.txt");
assert.equal(await first.$eval("nav li.shown .title", (node) => node.textContent), named);
assert.equal(await first.$("nav li.news"), null);
step("other sessions want somebody, and words are found in them");

for (const [page, name] of [[first, "dark"], [second, "phone-dark"]]) {
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await page.bringToFront();
  await usable(page, name);
  await picture(page, name);
}
const cuts = /401|ERR_(EMPTY_RESPONSE|CONNECTION|SOCKET)|WebSocket connection to/;
assert.deepEqual(troubles.filter((trouble) => !cuts.test(trouble)), [], "no error and no breach of the policy");
proxy.close();
cut();
await browser.close();
console.log("1 passed, 0 failed");
