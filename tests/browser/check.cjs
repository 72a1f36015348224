// Opens pages in a real browser and uses them: `node check.cjs CHROMIUM PAGE.html...` with puppeteer-core and axe-core on
// NODE_PATH. In both themes and at three widths: no error, no request, no violation that axe-core finds, nothing wider than the
// screen; the timeline's picker, hover, keys and highlight work; without script the picture of a step stands there.
"use strict";
const fs = require("fs");
const path = require("path");
const puppeteer = require("puppeteer-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [chromium, ...files] = process.argv.slice(2);
let failures = 0;

function check(page, holds, what) {
  if (holds) return;
  failures += 1;
  console.error(`FAILED ${page}: ${what}`);
}

async function open(browser, file, { width, theme, script = true }) {
  const page = await browser.newPage();
  const seen = [];
  page.on("console", (message) => seen.push("console: " + message.text()));
  page.on("pageerror", (error) => seen.push("error: " + error.message));
  page.on("request", (request) => {
    if (!/^(file|data):/.test(request.url())) seen.push("request: " + request.url());
  });
  page.on("dialog", (dialog) => {
    seen.push("dialog: " + dialog.message());
    dialog.dismiss();
  });
  await page.setJavaScriptEnabled(script);
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.goto("file://" + path.resolve(file));
  return { page, seen };
}

async function use(page, name) {
  const canvas = await page.$("#timeline canvas");
  if (!canvas) return false;
  await canvas.scrollIntoView();
  await new Promise((done) => setTimeout(done, 200));
  const at = await canvas.boundingBox();
  const tip = () => page.$eval("#timeline .tip", (tip) => (tip.hidden ? "" : tip.innerText));
  let met = "";
  search: for (let y = at.y + 24; y < Math.min(at.y + at.height, 890); y += 3) {
    for (let x = at.x + at.width * 0.35; x < at.x + at.width; x += at.width / 24) {
      await page.mouse.move(x, y);
      met = await tip();
      if (/ on rank \d+/.test(met) && /wait/.test(met)) {
        await page.mouse.click(x, y);
        break search;
      }
    }
  }
  check(name, /wait/.test(met), `no collective under the mouse: '${met}'`);
  const said = () => page.$eval("#timeline .said", (said) => said.innerText);
  check(name, /This collective on \d+ ranks|not matched/.test(await said()), `a click shows no collective: '${await said()}'`);
  await page.focus("#timeline canvas");
  const before = await said();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowRight");
  check(name, (await said()) !== before, "arrow keys choose nothing else");
  await page.keyboard.press("+");
  await page.keyboard.press("Home");
  const about = () => page.$eval("#timeline .about", (about) => about.innerText);
  const steps = await page.$$eval("#timeline-step option", (options) => options.map((o) => [o.value, o.textContent]));
  for (const [value, text] of steps.slice(0, 3)) {
    await page.select("#timeline-step", value);
    check(name, (await about()).startsWith(text.split(": ")[0]), `step ${text} is not shown: '${await about()}'`);
  }
  return true;
}

(async () => {
  const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
  let timelines = 0;
  for (const file of files) {
    for (const [width, theme] of [[1280, "light"], [1920, "light"], [390, "light"], [1280, "dark"]]) {
      const name = `${file} (${width} px, ${theme})`;
      const { page, seen } = await open(browser, file, { width, theme });
      timelines += await use(page, name);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
      for (const { id, nodes } of violations) check(name, false, `axe: ${id}: ${nodes[0].html.slice(0, 200)}`);
      const [shown, whole] = await page.evaluate(() => [document.documentElement.clientWidth, document.documentElement.scrollWidth]);
      check(name, whole <= shown, `${whole} px wide where ${shown} are shown`);
      check(name, seen.length === 0, seen.join("; "));
      await page.close();
    }
    const { page } = await open(browser, file, { width: 1280, theme: "light", script: false });
    check(file, (await page.$$("svg.plot")).length > 0, "no picture without script");
    const still = await page.$(".still");
    if (still) check(file, (await still.boundingBox())?.height > 50, "without script the picture of a step is not shown");
    await page.close();
  }
  await browser.close();
  console.log(`${files.length} pages, the timeline used ${timelines} times, ${failures} failures`);
  process.exit(failures ? 1 : 0);
})();
