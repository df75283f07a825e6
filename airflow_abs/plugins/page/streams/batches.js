"use strict";
// The last batches as small multiples: a bar for each, its numbers when it is looked at; all of them as a table.
const CHART = { width: 250, height: 74, top: 6, most: 60 };
const CHARTS = [
  { title: "rows in per second", of: (batch) => batch.rows_in / Math.max(batch.seconds, 0.001), tell: (value) => number(Math.round(value)) },
  { title: "rows out per second", of: (batch) => (batch.rows_out === null ? null : batch.rows_out / Math.max(batch.seconds, 0.001)), tell: (value) => number(Math.round(value)) },
  { title: "batch", of: (batch) => batch.seconds, tell: duration },
  { title: "lag behind the source", of: (batch) => batch.lag, tell: duration },
  { title: "rows of state", of: (batch) => batch.state_rows, tell: number },
  { title: "bytes of state", of: (batch) => batch.state_bytes, tell: bytes },
];
const COLUMNS = [
  ["batch", (batch) => String(batch.number)], ["ended (UTC)", (batch) => clock(batch.ended)], ["took", (batch) => duration(batch.seconds)],
  ["rows in", (batch) => number(batch.rows_in)], ["rows out", (batch) => number(batch.rows_out)], ["lag", (batch) => duration(batch.lag)],
  ["state rows", (batch) => number(batch.state_rows)], ["state", (batch) => bytes(batch.state_bytes)],
];

function drawBatches(batches, position) {
  if (!batches.length) return h("p", { class: "hint" }, "No batch has finished yet.");
  const shown = batches.slice(-CHART.most);
  return h("section", { class: "batches", "aria-label": "Batches" }, h("h3", null, `The last ${count(shown.length, "batch").replace(/batchs$/, "batches")}`),
    h("p", { class: "hint" }, "One bar per batch, the newest on the right; the number is the newest value."),
    h("div", { class: "multiples" }, ...CHARTS.filter((chart) => shown.some((batch) => chart.of(batch))).map((chart) => drawChart(chart, shown))),
    h("details", { class: "all", id: `batches-${position}` }, h("summary", null, `All ${batches.length} on record, newest first`),
      h("table", { class: "listing" }, h("thead", null, h("tr", null, ...COLUMNS.map(([name]) => h("th", { scope: "col" }, name)))),
        h("tbody", null, ...batches.toReversed().map((batch) => h("tr", null, ...COLUMNS.map(([name, tell]) => h("td", { "data-name": name }, tell(batch)))))))));
}

function drawChart(chart, batches) {
  const values = batches.map(chart.of), most = Math.max(...values.map((value) => value ?? 0)) || 1, last = values.at(-1);
  const slot = CHART.width / Math.max(batches.length, 12), ground = CHART.height - 1;
  const drawing = s("svg", { class: "chart", viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", "aria-label": `${chart.title}: ${last === null ? "not known" : chart.tell(last)}, at most ${chart.tell(most)}` });
  values.forEach((value, index) => {
    if (value === null) return;
    const tall = Math.max(1, (ground - CHART.top) * value / most), x = CHART.width - (batches.length - index) * slot;
    drawing.append(s("rect", { class: `amount ${chart.title.includes("out") ? "out" : ""}`, x: x + slot * 0.12, y: ground - tall, width: slot * 0.76, height: tall },
      s("title", null, `batch ${batches[index].number}, ${clock(batches[index].ended)} UTC: ${chart.tell(value)}`)));
  });
  return h("figure", null, h("figcaption", null, h("strong", null, chart.title), h("span", null, `${last === null ? "–" : chart.tell(last)}, at most ${chart.tell(most)}`)), drawing);
}
