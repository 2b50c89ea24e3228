// What is wrong with the look of a page. Functions without parameters are evaluated inside of it and return findings as
// sentences.

/** Text that lies outside of the window, of a box that does not scroll, or over other text of a chart, tables wider than their section (but those that were folded, which scroll), squeezed captions. */
export function cutOff() {
  const findings = [];
  const sideways = document.documentElement.scrollWidth - innerWidth;
  if (sideways > 0) findings.push(`the page is ${sideways} px wider than the window`);
  const scrolls = (element) => element.closest(".scroll, pre, [data-scroll]") !== null;
  for (const element of document.querySelectorAll("article *, footer *")) {
    if (element instanceof SVGElement || element.closest("svg, .unseen") || element.childElementCount || !element.textContent.trim()) continue;
    const box = element.getBoundingClientRect();
    if (!box.width || scrolls(element)) continue;
    const words = `'${element.textContent.trim().slice(0, 40)}'`;
    if (box.left < -1 || box.right > innerWidth + 1) findings.push(`${words} leaves the window`);
    const hides = getComputedStyle(element).overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1;
    if (hides) findings.push(`${words} is cut off`);
  }
  for (const box of document.querySelectorAll(".scroll"))
    if (!box.closest("details") && box.scrollWidth > box.clientWidth + 1) findings.push(`the table of '${box.querySelector("th").textContent}' is ${box.scrollWidth - box.clientWidth} px wider than its section`);
  for (const caption of document.querySelectorAll("caption"))
    if (caption.offsetWidth < caption.parentElement.offsetWidth - 1) findings.push(`the caption '${caption.textContent}' is narrower than its table`);
  for (const chart of document.querySelectorAll(".chart")) {
    const texts = [...chart.querySelectorAll("svg text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    texts.forEach(([one, a], i) => {
      const over = texts.slice(i + 1).find(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4);
      if (over) findings.push(`'${one}' and '${over[0]}' of a chart overlap`);
    });
  }
  return findings;
}

/** Text whose contrast with what lies behind it is below 4.5, or 3 where it is large. */
export function contrasts() {
  const parse = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = parse(getComputedStyle(one).backgroundColor);
      if (color.length === 3 || color[3] > 0.5) return color;
    }
    return [255, 255, 255];
  };
  const findings = new Set();
  for (const element of document.querySelectorAll("article *, footer *")) {
    if (element instanceof SVGElement || element.childElementCount || !element.textContent.trim() || element.closest(".unseen")) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(parse(style.color)), luminance(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) findings.add(`'${element.textContent.trim().slice(0, 30)}' has a contrast of ${ratio.toFixed(2)}`);
  }
  return [...findings];
}

/** Pictures and controls without a name for screen readers, sections whose names say too little, columns without a value. */
export function unnamed() {
  const findings = [];
  for (const element of document.querySelectorAll('[role="img"], svg[role], canvas'))
    if (!element.getAttribute("aria-label") && !element.closest('[role="img"]')) findings.push("a picture has no name");
  for (const element of document.querySelectorAll("button, a, input, summary, select")) {
    const text = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent;
    if (!text?.trim()) findings.push(`a ${element.tagName.toLowerCase()} has no name`);
  }
  const titles = [...document.querySelectorAll("article h2")].map((title) => title.textContent);
  titles.forEach((title, i) => {
    if (title.endsWith(":") || titles.indexOf(title) < i) findings.push(`a section is called '${title}', as another is or as if a list followed`);
  });
  for (const table of document.querySelectorAll("table"))
    table.querySelectorAll("thead th").forEach((head, i) => {
      const rows = [...table.tBodies[0].rows];
      if (rows.every((row) => row.cells[i]?.textContent === "" && !row.cells[i].querySelector("[style]"))) findings.push(`the column '${head.textContent}' is empty`);
    });
  if (!document.title.trim() || document.querySelectorAll("h1").length === 0) findings.push("there is no heading");
  return findings;
}

/** What is printed, without what is folded, fits on so many sheets of A4, and nothing on them is cut off. */
export async function printed(page, check, most) {
  const sheets = (await page.pdf({ format: "A4", preferCSSPageSize: true })).toString("latin1").match(/\/Type\s*\/Page\b/g);
  check(sheets.length <= most, `it prints on ${sheets.length} sheets, not ${most}`);
  await page.emulateMedia({ media: "print" });
  await page.setViewportSize({ width: 703, height: 1039 }); // A4 within its margins
  const cut = await page.evaluate(() => [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth + 1).length);
  check(cut === 0, `${cut} tables are wider than the sheet`);
}
