"use strict";
// The job as a picture: regions from left to right, each right of everything that it reads.
const BOX = { width: 176, height: 76, across: 138, down: 30 };

function layersOf(regions) {
  const layer = new Map();
  for (const region of regions) { // producers come first
    const before = region.edges.filter((edge) => edge.producer).map((edge) => layer.get(edge.producer) ?? 0);
    layer.set(region.name, before.length ? Math.max(...before) + 1 : 0);
  }
  // A source that is read late stands right before its reader.
  for (const region of [...regions].reverse()) {
    const readers = regions.filter((other) => other.edges.some((edge) => edge.producer === region.name));
    if (readers.length) layer.set(region.name, Math.min(...readers.map((other) => layer.get(other.name))) - 1);
  }
  const layers = [];
  for (const region of regions) (layers[layer.get(region.name)] ??= []).push(region);
  return layers.filter(Boolean);
}

function placeRegions(regions) {
  const layers = layersOf(regions);
  const tallest = Math.max(...layers.map((layer) => layer.length));
  const places = new Map();
  layers.forEach((layer, column) => {
    const middle = (region) => {
      const before = region.edges.map((edge) => places.get(edge.producer)?.y).filter((y) => y !== undefined);
      return before.length ? sum(before) / before.length : 0;
    };
    if (column) layer.sort((one, other) => middle(one) - middle(other));
    const free = (tallest - layer.length) * (BOX.height + BOX.down) / 2;
    layer.forEach((region, row) =>
      places.set(region.name, { x: 8 + column * (BOX.width + BOX.across), y: 8 + free + row * (BOX.height + BOX.down) }));
  });
  return {
    places,
    width: 16 + layers.length * (BOX.width + BOX.across) - BOX.across,
    height: 16 + tallest * (BOX.height + BOX.down) - BOX.down,
  };
}

function drawGraph(job, choose) {
  const { places, width, height } = placeRegions(job.regions);
  const drawing = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Graph of ${job.job}` },
    s("defs", null, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      s("path", { d: "M0 0 8 4 0 8z", class: "tip" }))));
  const labels = [];
  for (const region of job.regions) {
    const edges = region.edges.filter((edge) => edge.producer);
    edges.forEach((edge, position) => labels.push(drawEdge(drawing, region, edge, places, (position + 1) / (edges.length + 1))));
  }
  for (const region of job.regions) drawing.append(drawBox(region, places.get(region.name), choose));
  drawing.append(...labels);
  return h("div", { class: "graph", tabindex: 0, role: "region", "aria-label": "Graph, scrolls sideways" }, drawing);
}

function drawEdge(drawing, region, edge, places, entry) {
  const from = places.get(edge.producer), to = places.get(region.name);
  const x1 = from.x + BOX.width, y1 = from.y + BOX.height / 2, x2 = to.x - 2, y2 = to.y + BOX.height * entry;
  const bend = Math.max(40, (x2 - x1) / 2);
  const known = edge.bytes !== null;
  drawing.append(s("path", {
    d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, class: `edge ${known ? "known" : "open"}`, "marker-end": "url(#tip)",
  }));
  // The middle of the curve between neighbouring layers; right before the consumer for longer ones.
  const near = x2 - x1 <= BOX.across + 4;
  const x = near ? (x1 + x2) / 2 : x2 - BOX.across / 2, y = near ? (y1 + y2) / 2 : y2;
  const size = known ? bytes(edge.bytes) : "?", keys = edge.keys.length ? shorten(edge.keys.join(", "), 15) : null;
  const lines = [["kind", edge.inferred ? `${edge.kind}, inferred` : edge.kind], ["keys", keys], ["size", size]].filter(([, text]) => text !== null);
  const wide = 6.6 * Math.max(...lines.map(([, text]) => text.length)) + 8, tall = 15 * lines.length + 2;
  const told = `${edge.vertex} to ${edge.name}: ${edge.how}${known ? `, ${size}` : ""}`;
  return s("g", { class: "edge-label", role: "img", "aria-label": told }, s("title", null, told),
    s("rect", { x: x - wide / 2, y: y - tall / 2, width: wide, height: tall }),
    ...lines.map(([name, text], row) => s("text", { x, y: y - tall / 2 + 12.5 + 15 * row, class: name }, text)));
}

function drawBox(region, at, choose) {
  const subtasks = subtasksOf(region), counts = shares(subtasks), decided = region.parallelism !== null;
  const label = `${region.title}: ${decided ? `${count(region.parallelism, "subtask")}, ${describeShares(counts)}` : "not decided yet"}`;
  const box = s("g", {
    class: `box ${decided ? "decided" : "open"} ${counts.failed ? "has-failed" : ""}`, transform: `translate(${at.x} ${at.y})`, tabindex: 0,
    role: "link", "aria-label": label, onclick: () => choose(region.name),
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(region.name); } },
  }, s("title", null, `${label}${region.reason ? `\n${arrow(region.reason)}` : ""}`),
    s("rect", { width: BOX.width, height: BOX.height, rx: 8 }));
  const names = region.vertices.length > 2 ? [region.vertices[0], `… ${region.vertices.at(-1)}`] : region.vertices;
  const fan = decided ? `×${number(region.parallelism)}` : "?", most = Math.floor((BOX.width - 30 - 12.5 * fan.length) / 7.8); // letters beside it
  names.forEach((name, row) => box.append(s("text", { x: 12, y: (names.length > 1 ? 24 : 32) + row * 17, class: "vertex" }, shorten(row ? `→ ${name}` : name, most))));
  box.append(
    s("text", { x: BOX.width - 12, y: 33, class: "fan-out" }, fan),
    s("text", { x: 12, y: 56, class: "read" }, names.length > 1 ? "" : decided ? `${bytes(region.bytes_in)} in` : "undecided"));
  let left = 12;
  const whole = BOX.width - 24;
  box.append(s("rect", { x: left, y: 63, width: whole, height: 5, rx: 2.5, class: "fill-waiting" }));
  for (const state of SHARES) {
    const part = subtasks.length ? (whole * counts[state]) / subtasks.length : 0;
    const shown = state === "failed" ? Math.max(part, 6) : part; // one of a thousand is seen too
    if (part && state !== "waiting") box.append(s("rect", { x: Math.min(left, 12 + whole - shown), y: 63, width: shown, height: 5, rx: 2.5, class: `fill-${state}` }));
    left += part;
  }
  return box;
}
const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
