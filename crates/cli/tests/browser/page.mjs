// Drives the page in a real browser: node page.mjs CHROMIUM LINK FOLDER [PICTURES]. Every step says what it saw; the first that fails ends it.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import puppeteer from "puppeteer-core";

const [chromium, link, folder, pictures] = process.argv.slice(2);
// By the clock: a page in the background gets no frames.
const WAIT = { timeout: 60_000, polling: 100 };
const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"], protocolTimeout: 120_000 });
const troubles = [];

async function open(address, size = { width: 1280, height: 800 }) {
  const page = await browser.newPage();
  await page.setViewport(size);
  page.on("console", (message) => message.type() === "error" && troubles.push(message.text()));
  page.on("pageerror", (error) => troubles.push(error.message));
  page.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    if (!["data:", "blob:"].includes(protocol) && host !== new URL(link).host) troubles.push(`asked elsewhere: ${request.url()}`);
  });
  await page.goto(address, { waitUntil: "load" });
  await page.waitForSelector("#composer", WAIT);
  return page;
}

const text = (page) => page.$eval(".conversation", (node) => node.textContent);
const sees = (page, words) => page.waitForFunction((words) => document.querySelector(".conversation")?.textContent.includes(words), WAIT, words);
const ready = (page) => page.waitForFunction(() => document.querySelector(".state")?.textContent === "ready", WAIT);
async function say(page, words) {
  await page.type("#composer", words);
  await page.keyboard.press("Enter");
}
async function picture(page, name) {
  if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}
function step(name) {
  console.log(`ok: ${name}`);
}

// The link lets in and is gone from the address.
const first = await open(link);
assert(!first.url().includes("code") && !first.url().includes("half"), first.url());
// The cookie, which other servers on this machine are sent, is one half of what lets in; the page keeps the other for its port.
const kept = await first.evaluate(() => [document.cookie, localStorage.getItem("tieline-half")]);
assert(kept[0] === "" && /^[0-9a-f]{30,}$/.test(kept[1]), JSON.stringify(kept));
await picture(first, "first");
step("the link lets in");

// A whole turn with a question and a change.
await say(first, "write notes.txt: hello");
await first.waitForSelector(".question .allow:not([disabled])", WAIT);
assert((await first.$eval(".question", (node) => node.textContent)).includes("hello"), "the question shows the change");
assert(!fs.existsSync(path.join(folder, "notes.txt")), "nothing is written before the answer");
await first.waitForFunction(() => document.querySelector("nav li .title")?.textContent.includes("notes.txt"), WAIT);
assert(!(await first.$eval(".toasts", (node) => node.textContent)).includes("`"), "what is code in a notice is shown as code");
await picture(first, "question");
await first.evaluate(() => [...document.querySelectorAll(".question .allow")].find((button) => /once/i.test(button.textContent)).click());
await sees(first, "Wrote");
await ready(first);
assert.equal(fs.readFileSync(path.join(folder, "notes.txt"), "utf8"), "hello\n");
await picture(first, "done");
step("a turn with a question and a change");

// A second page is on the same session and hears everything.
const second = await open(first.url(), { width: 390, height: 844 });
await sees(second, "Wrote");
await say(first, "read notes.txt");
await sees(second, "read notes.txt");
await ready(first);
assert((await text(second)).includes("Read"), await text(second));
await picture(second, "phone");
const wide = await second.evaluate(() => document.documentElement.scrollWidth);
assert(wide <= 390, `the phone must not scroll sideways: ${wide}`);
step("two pages on one session, one of them a phone");

// A question is answered on one page and disappears from the other.
await say(first, "write other.txt: there");
await Promise.all([first, second].map((page) => page.waitForSelector(".question .reject", WAIT)));
await second.evaluate(() => [...document.querySelectorAll(".question .reject")][0].click());
await first.waitForFunction(() => !document.querySelector(".question"), WAIT);
await ready(first);
assert(!fs.existsSync(path.join(folder, "other.txt")));
step("one answer for both pages");

// What an agent says is hostile: no script, no picture from elsewhere, no form, no style.
fs.writeFileSync(path.join(folder, "evil.md"), `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>
![x](http://203.0.113.7/a.png) [a](javascript:window.hacked=1) <style>*{display:none}</style> <form action="http://203.0.113.7/"><input name=a></form>\n`);
await say(first, "read evil.md");
await sees(first, "onerror");
await ready(first);
const state = await first.evaluate(() => ({
  hacked: window.hacked ?? null,
  bad: document.querySelectorAll(".conversation img, .conversation script, .conversation style, .conversation form, .conversation a[href^=javascript]").length,
}));
assert.deepEqual(state, { hacked: null, bad: 0 });
step("hostile text is text");

// The connection is cut and comes back: the page shows the same, and nothing twice.
const before = (await text(first)).length;
const session = await first.createCDPSession();
await session.send("Network.emulateNetworkConditions", { offline: true, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
await session.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
await first.reload({ waitUntil: "load" });
await first.waitForFunction((before) => document.querySelector(".conversation")?.textContent.length >= before, WAIT, before);
await ready(first);
assert.equal((await text(first)).match(/Wrote/g).length, 1);
step("a page that comes back shows all of it once");

await first.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
await picture(first, "dark");
assert.deepEqual(troubles.filter((trouble) => !/401/.test(trouble)), [], "no error and no breach of the policy");
await browser.close();
console.log("1 passed, 0 failed");
