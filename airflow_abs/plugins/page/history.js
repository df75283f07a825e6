"use strict";
// Earlier runs of the same DAG as small multiples: bytes as bars, fan-out as a line above them, this run marked.
const SMALL = { width: 250, height: 74, top: 20, line: 16, took: 40 };

function drawHistory(history, current) {
  const series = seriesOf(history);
  if (!series.length) return null;
  const runs = history.runs.length;
  return h("section", { class: "history", "aria-labelledby": "history-title" },
    h("h2", { id: "history-title" }, runs === 1 ? "No earlier run" : `The last ${runs} runs`),
    h("p", { class: "hint" }, "Bars: bytes in. Line: subtasks. This run is marked; choose a bar to see its run."),
    h("div", { class: "multiples" }, ...series.map((each) => drawSmall(each, history.runs, current))));
}

function seriesOf(history) {
  const found = new Map();
  for (const run of history.runs) {
    for (const [job, regions] of Object.entries(run.jobs)) {
      for (const region of Object.keys(regions)) found.set(`${job}\n${region}`, { job, region });
    }
  }
  return [...found.values()].map((each) => ({ ...each, values: history.runs.map((run) => run.jobs[each.job]?.[each.region] ?? null) }));
}

// How far a run's bytes are from what is usual: null unless there is a usual to compare with.
function strangeness(values, position) {
  const others = values.filter((value, index) => value && index !== position).map(readOf).sort((a, b) => a - b);
  const own = values[position] && readOf(values[position]);
  if (others.length < 3 || own === undefined || own === null) return null;
  const median = others[Math.floor(others.length / 2)];
  return median ? own / median : null;
}

function drawSmall({ job, region, values }, runs, current) {
  const position = runs.findIndex((run) => run.run_id === current);
  const most = Math.max(1, ...values.map((value) => (value ? readOf(value) : 0)));
  const widest = Math.max(1, ...values.map((value) => value?.parallelism ?? 0));
  const slot = SMALL.width / Math.max(runs.length, 8), ground = SMALL.height - 1;
  const own = values[position], ratio = strangeness(values, position);
  const drawing = s("svg", { viewBox: `0 0 ${SMALL.width} ${SMALL.height}`, role: "group", "aria-label": `${region}: bytes and subtasks by run` });
  const points = [];
  values.forEach((value, index) => {
    const run = runs[index], x = index * slot;
    if (!value) return;
    const tall = Math.max(2, (ground - SMALL.top - SMALL.line) * readOf(value) / most);
    points.push([x + slot / 2, SMALL.top + SMALL.line - SMALL.line * value.parallelism / widest, index]);
    const told = `${dayOf(run.date)} (${run.run_id}): ${count(value.parallelism, "subtask")}, ${bytes(readOf(value))}, ${run.state}`;
    drawing.append(s("g", {
      class: `past ${index === position ? "current" : ""} ${run.state}`, role: "link", tabindex: index === position ? null : 0, "aria-label": told,
      onclick: () => openRun(run.run_id), onkeydown: (event) => { if (event.key === "Enter") openRun(run.run_id); },
    }, s("title", null, told), s("rect", { class: "catch", x, y: 0, width: slot, height: SMALL.height }),
      s("rect", { class: "amount", x: x + slot * 0.12, y: ground - tall, width: slot * 0.76, height: tall, rx: Math.min(2, slot / 4) })));
  });
  drawing.append(s("polyline", { class: "fan", points: points.map(([x, y]) => `${x},${y}`).join(" ") }),
    ...points.filter(([, , index]) => index === position || points.length < 12).map(([x, y, index]) => s("circle", { class: `fan-dot ${index === position ? "current" : ""}`, cx: x, cy: y, r: index === position ? 3.4 : 2 })));
  return h("figure", null, h("figcaption", null, h("strong", null, region),
    h("span", null, own ? `${count(own.parallelism, "subtask")}, ${bytes(readOf(own))}` : "not decided"),
    ratio !== null && (ratio >= 2.5 || ratio <= 0.4) && h("span", { class: "chip warn" }, `${ratio >= 1 ? ratio.toFixed(1) : ratio.toFixed(2)}× the usual`)), drawing, drawTook(region, values, runs, position));
}

// Prediction against truth: seconds on Spark as bars, what was predicted as a line through them.
function drawTook(region, values, runs, position) {
  const known = values.filter((value) => value?.seconds != null && value.predicted_seconds != null);
  if (!known.length) return null;
  const most = Math.max(...known.flatMap((value) => [value.seconds, value.predicted_seconds])) || 1;
  const slot = SMALL.width / Math.max(runs.length, 8), ground = SMALL.took - 1, tall = (seconds) => Math.max(2, (ground - 4) * seconds / most);
  const drawing = s("svg", { class: "took", viewBox: `0 0 ${SMALL.width} ${SMALL.took}`, role: "img", "aria-label": `${region}: seconds on Spark and predicted, by run` });
  values.forEach((value, index) => {
    if (!known.includes(value)) return;
    const x = index * slot + slot * 0.12, width = slot * 0.76, high = tall(value.seconds), said = ground - tall(value.predicted_seconds);
    drawing.append(s("g", { class: `past ${index === position ? "current" : ""}` },
      s("title", null, `${dayOf(runs[index].date)}: ${duration(value.seconds)}, predicted ${duration(value.predicted_seconds)}`),
      s("rect", { class: "amount", x, y: ground - high, width, height: high, rx: Math.min(2, slot / 4) }),
      s("line", { class: "said", x1: index * slot, x2: index * slot + slot, y1: said, y2: said })));
  });
  return [h("p", { class: "hint" }, "Seconds on Spark; dash: predicted."), drawing];
}
const openRun = (run) => go(planAddress(run));
