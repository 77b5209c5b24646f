// What drives a real browser: pages with their troubles, words of a conversation, pictures of what is seen.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import puppeteer from "puppeteer-core";

// By the clock: a page in the background gets no frames.
export const WAIT = { timeout: 60_000, polling: 100 };
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A browser that asks nobody but these hosts, and keeps pictures if there is a folder for them. */
export async function drive(chromium, hosts, pictures) {
  const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"], protocolTimeout: 120_000 });
  const troubles = [];
  /** A page, once it has what is wanted: the connection, unless something else is. */
  async function open(address, size = { width: 1280, height: 800 }, wanted = ".send:not([disabled])") {
    const page = await browser.newPage();
    await page.setViewport(size);
    page.on("console", (message) => message.type() === "error" && troubles.push(message.text()));
    page.on("pageerror", (error) => troubles.push(error.message));
    page.on("request", (request) => {
      const { protocol, host } = new URL(request.url());
      if (!["data:", "blob:"].includes(protocol) && !hosts.includes(host)) troubles.push(`asked elsewhere: ${request.url()}`);
    });
    await page.goto(address, { waitUntil: "load" });
    await page.waitForSelector(wanted, WAIT);
    return page;
  }
  async function picture(page, name) {
    if (pictures) await page.screenshot({ path: path.join(pictures, `${name}.png`) });
  }
  // What was on the screens when something failed.
  process.on("uncaughtException", async (error) => {
    console.error(error);
    for (const [at, page] of (await browser.pages()).entries()) await picture(page, `failed-${at}`);
    process.exit(1);
  });
  return { browser, troubles, open, picture };
}

export const text = (page) => page.$eval(".conversation", (node) => node.textContent);
export const sees = (page, words) => page.waitForFunction((words) => document.querySelector(".conversation")?.textContent.includes(words), WAIT, words);
/** The turn that was asked for last with these words has an answer and is over. "ready" alone is also what a page says that hasn't heard of it yet. */
export const answered = (page, prompt) => page.waitForFunction((prompt) => {
  const messages = [...document.querySelectorAll(".conversation .message")];
  const asked = messages.findLastIndex((message) => message.classList.contains("user") && message.textContent.includes(prompt));
  return asked >= 0 && messages.slice(asked).some((message) => message.classList.contains("agent")) && document.querySelector(".state")?.textContent === "ready";
}, WAIT, prompt);
export async function say(page, words) {
  await page.type("#composer", words);
  await page.keyboard.press("Enter");
}
/** What a checker finds that keeps somebody from using the page. */
export async function usable(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const found = violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map((node) => node.html).join(" | ").slice(0, 500)}`);
  assert.deepEqual(found.filter((line) => /^(serious|critical)/.test(line)), [], name);
}
