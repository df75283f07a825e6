"use strict";
// The job as it was declared, as a picture: each region after everything that it reads, from left to right, or downwards
// where that shows it larger. It always fits its place. A region that runs inside another today is a dashed box.
const ACROSS = { between: 158, beside: 30, width: 176, height: 76 }, DOWN = { between: 84, beside: 14, width: 152, height: 76 };
const LEGIBLE = 0.72; // below this scale the other direction is tried
const LOOK_AT = "Point at a box or an edge, and its reason appears here.";

function nodesOf(job) {
  const nodes = new Map();
  for (const region of job.regions) {
    for (const name of region.declared) {
      const inside = name === region.name ? null : region.name;
      const vertices = inside ? [name] : region.vertices.filter((vertex) => vertex === name || !region.declared.includes(vertex));
      nodes.set(name, { name, region, inside, vertices, edges: [] });
    }
  }
  const nodeOf = (vertex, region) => nodes.get(vertex) ?? nodes.get(region);
  for (const region of job.regions) {
    const crossing = region.edges.filter((edge) => edge.producer).map((edge) => ({ ...edge, from: nodeOf(edge.vertex, edge.producer), to: nodeOf(edge.consumer, region.name), kept: false }));
    const kept = region.inside.map((edge) => ({ ...edge, from: nodeOf(edge.producer, region.name), to: nodeOf(edge.consumer, region.name), kept: true, keys: [] }));
    for (const edge of [...kept, ...crossing]) if (edge.from !== edge.to) edge.to.edges.push(edge);
  }
  return [...nodes.values()];
}

function layersOf(nodes) {
  const layer = new Map();
  const layerOf = (node) => {
    if (!layer.has(node)) layer.set(node, node.edges.length ? 1 + Math.max(...node.edges.map((edge) => layerOf(edge.from))) : 0);
    return layer.get(node);
  };
  const inOrder = [...nodes].sort((one, other) => layerOf(one) - layerOf(other));
  // A source that is read late stands right before its reader.
  for (const node of inOrder.reverse()) {
    const readers = nodes.filter((other) => other.edges.some((edge) => edge.from === node));
    if (readers.length) layer.set(node, Math.min(...readers.map((other) => layer.get(other))) - 1);
  }
  const layers = [];
  for (const node of nodes) (layers[layer.get(node)] ??= []).push(node);
  return layers.filter(Boolean);
}

function placeNodes(nodes, down) {
  const layers = layersOf(nodes), size = down ? DOWN : ACROSS;
  const [along, aside] = down ? [size.height, size.width] : [size.width, size.height];
  const most = Math.max(...layers.map((layer) => layer.length)), places = new Map();
  layers.forEach((layer, step) => {
    const middle = (node) => {
      const before = node.edges.map((edge) => places.get(edge.from)?.side).filter((side) => side !== undefined);
      return before.length ? sum(before) / before.length : 0;
    };
    if (step) layer.sort((one, other) => middle(one) - middle(other));
    const free = (most - layer.length) * (aside + size.beside) / 2;
    layer.forEach((node, row) => {
      const ahead = 8 + step * (along + size.between), side = 8 + free + row * (aside + size.beside);
      places.set(node, down ? { x: side, y: ahead, side } : { x: ahead, y: side, side });
    });
  });
  const long = 16 + layers.length * (along + size.between) - size.between, broad = 16 + most * (aside + size.beside) - size.beside;
  return { places, down, size, width: down ? broad : long, height: down ? long : broad };
}

function chooseLayout(nodes, room) {
  const across = placeNodes(nodes, false), scale = (layout) => Math.min(1, room / layout.width);
  if (scale(across) >= LEGIBLE) return across;
  const down = placeNodes(nodes, true);
  return scale(down) > scale(across) ? down : across;
}

const looked = new Map(); // what was read last below the graph of a job stays there when it is redrawn

function drawGraph(job, choose, progress) {
  const nodes = nodesOf(job), hold = h("div"), told = h("div", { class: "looked", "aria-hidden": "true" });
  const look = (lines) => { looked.set(job.job, lines); told.replaceChildren(...lines.map((line) => h("p", null, line))); };
  look(looked.get(job.job) ?? [LOOK_AT]);
  for (const node of nodes) node.far = farOf(node, progress);
  const section = h("section", { class: "graph", "aria-label": `Graph of ${job.job}` }, hold, told);
  section.draw = () => {
    const room = Math.floor(hold.clientWidth);
    if (!room || hold.drawn === room) return;
    hold.drawn = room;
    const layout = chooseLayout(nodes, room), { width, height } = layout;
    const drawing = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `Graph of ${job.job}` },
      s("defs", null, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        s("path", { d: "M0 0 8 4 0 8z", class: "tip" }))));
    const labels = nodes.flatMap((node) => {
      const edges = [...node.edges].sort((one, other) => layout.places.get(one.from).side - layout.places.get(other.from).side);
      return edges.map((edge, position) => {
        const shared = nodes.flatMap((each) => each.edges).filter((each) => each.from === edge.from).length;
        return drawEdge(drawing, edge, layout, { entry: (position + 1) / (edges.length + 1), share: shared > 1 ? (edges.length > 1 ? 0.5 : 0.68) : edges.length > 1 ? 0.32 : 0.5 }, look);
      });
    });
    for (const node of nodes) drawing.append(drawBox(node, layout, choose, look));
    drawing.append(...labels);
    hold.replaceChildren(drawing);
  };
  return section;
}

function tellEdge(edge) {
  const ends = `${edge.from.name} → ${edge.to.name}`;
  const size = edge.bytes === null ? "size not known yet" : bytes(edge.bytes);
  const rows = edge.rows === null ? "" : `, ${count(edge.rows, "row")}`;
  if (edge.kept) return [`${ends}: ${edge.reason}`, edge.counted].filter(Boolean);
  return [`${ends}: ${edge.how}, ${size}${rows}`, edge.reason ?? "durable: this job writes every edge"];
}

// `entry` is where along the consumer's side it ends, `share` how far down the way its label stands: away from the end
// that other edges have in common.
function drawEdge(drawing, edge, { places, down, size }, { entry, share }, look) {
  const from = places.get(edge.from), to = places.get(edge.to);
  const [x1, y1] = down ? [from.x + size.width / 2, from.y + size.height] : [from.x + size.width, from.y + size.height / 2];
  const [x2, y2] = down ? [to.x + size.width * entry, to.y - 2] : [to.x - 2, to.y + size.height * entry];
  const bend = down ? Math.max(24, (y2 - y1) / 2) : Math.max(40, (x2 - x1) / 2);
  const curve = down ? `${x1} ${y1 + bend} ${x2} ${y2 - bend}` : `${x1 + bend} ${y1} ${x2 - bend} ${y2}`;
  const known = edge.bytes !== null;
  drawing.append(s("path", { d: `M${x1} ${y1}C${curve} ${x2} ${y2}`, class: `edge ${edge.kept ? "kept" : known ? "known" : "open"}`, "marker-end": "url(#tip)" }));
  // On the way between neighbouring layers; right before the consumer for longer ones.
  const near = (down ? y2 - y1 : x2 - x1) <= size.between + 4, smooth = share * share * (3 - 2 * share);
  const x = down ? (near ? x1 + (x2 - x1) * smooth : x2) : near ? (x1 + x2) / 2 : x2 - size.between / 2;
  const y = down ? (near ? y1 + (y2 - y1) * share : y2 - size.between / 2) : near ? (y1 + y2) / 2 : y2;
  const lines = linesOf(edge, down), told = tellEdge(edge);
  const wide = 6.3 * Math.max(...lines.map((line) => line.map(([, text]) => text).join("  ").length)) + 8, tall = 15 * lines.length + 2;
  const show = () => look(told);
  return s("g", { class: "edge-label", role: "img", tabindex: 0, "aria-label": told.join(". "), onmouseenter: show, onfocus: show, onclick: show }, s("title", null, told.join("\n")),
    s("rect", { x: x - wide / 2, y: y - tall / 2, width: wide, height: tall, rx: 4 }),
    ...lines.map((line, row) => s("text", { x, y: y - tall / 2 + 12.5 + 15 * row },
      ...line.map(([name, text], position) => s("tspan", { class: name, dx: position ? 6 : null }, text)))));
}

// Lines of parts, each with a class of its own.
function linesOf(edge, down) {
  if (edge.kept) {
    const moved = edge.bytes === null ? [] : [["size", `${edge.is_estimate ? "~" : ""}${bytes(edge.bytes)}`]]; // Spark's own bytes are no Parquet
    return [[["kind", edge.durable ? "a file" : "inside Spark"]], ...(edge.rows === null ? [] : [[...moved, ["rows", roughly(edge.rows)]]])];
  }
  const kind = edge.inferred ? `${edge.kind}, inferred` : edge.kind, size = edge.bytes === null ? "?" : bytes(edge.bytes);
  const rows = [["rows", edge.rows === null ? null : roughly(edge.rows)]], ways = [["kind", kind], ["keys", edge.keys.length ? shorten(edge.keys.join(", "), 20 - kind.length) : null]];
  const lines = down ? [ways, [["size", size]], rows] : [ways, [["size", size], ...rows]];
  return lines.map((line) => line.filter(([, text]) => text !== null)).filter((line) => line.length);
}
function roughly(rows) {
  if (rows < 10000) return count(rows, "row");
  const [unit, name] = rows < 1e6 ? [1e3, "k"] : rows < 1e9 ? [1e6, "M"] : [1e9, "G"], value = rows / unit;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${name} rows`;
}

// How far a vertex is that shares one subtask with others; null if it has subtasks of its own, or there are none yet.
function farOf({ name, vertices, region }, progress) {
  const [subtask, ...more] = subtasksOf(region);
  if (region.declared.length < 2 || !subtask || more.length) return null;
  const running = subtask.state === "running" ? progress.get(`${region.id}/0`) : null;
  const known = [...vertices, name].map((vertex) => running?.vertices[vertex]).filter((share) => share !== undefined);
  return { state: subtask.state, share: known.length ? Math.max(...known) : null, why: running?.why ?? null };
}
function tellFar({ far }) {
  if (far?.state !== "running") return null;
  if (far.share !== null) return `${Math.round(100 * far.share)} % of its Spark tasks are done; stages that work for several vertices count for each`;
  return far.why && `Its own progress is not known: ${far.why}`;
}

function tellBox(node) {
  const { region, inside } = node, decided = region.parallelism !== null;
  if (inside) {
    const outputs = region.inside.filter((edge) => edge.producer === node.name), own = outputs.some((edge) => edge.durable) ? "no task" : "no task and no files";
    return [`${node.name} runs inside ${inside} today: it has ${own} of its own`, tellFar(node), ...outputs.map((edge) => edge.reason)].filter(Boolean);
  }
  const state = decided ? `${count(region.parallelism, "subtask")}, ${describeShares(shares(subtasksOf(region)))}` : "not decided yet";
  return [`${node.vertices.join(" + ")}: ${state}`, tellFar(node), region.reason && arrow(region.reason), region.broadcast_bytes > 0 && `and ${bytes(region.broadcast_bytes)} of broadcast inputs, read whole by every subtask`].filter(Boolean);
}

function drawBox(node, { places, size }, choose, look) {
  const at = places.get(node), { region, inside } = node, told = tellBox(node), show = () => look(told);
  const subtasks = inside ? [] : subtasksOf(region), counts = shares(subtasks), decided = region.parallelism !== null;
  const state = inside ? "inside" : decided ? "decided" : "open";
  const box = s("g", {
    class: `box ${state} ${counts.failed ? "has-failed" : ""}`, transform: `translate(${at.x} ${at.y})`, tabindex: 0, role: "link", "aria-label": told.join(". "),
    onclick: () => choose(region.name), onmouseenter: show, onfocus: show,
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(region.name); } },
  }, s("title", null, told.join("\n")), s("rect", { width: size.width, height: size.height, rx: 8 }));
  const names = node.vertices.length > 2 ? [node.vertices[0], `… ${node.vertices.at(-1)}`] : node.vertices;
  const fan = inside ? "" : decided ? `×${number(region.parallelism)}` : "?", most = Math.floor((size.width - 30 - 12.5 * fan.length) / 7.8); // letters beside it
  names.forEach((name, row) => box.append(s("text", { x: 12, y: (names.length > 1 ? 24 : 32) + row * 17, class: "vertex" }, shorten(row ? `→ ${name}` : name, most))));
  const own = sum(region.edges.filter((edge) => edge.kind === "source" && edge.consumer === node.name).map((edge) => edge.bytes ?? 0));
  const read = inside ? `runs inside ${inside}` : names.length > 1 ? "" : decided ? tellRead(region) : "undecided";
  box.append(s("text", { x: size.width - 12, y: 33, class: "fan-out" }, fan), s("text", { x: 12, y: inside ? 46 : 56, class: "read" }, shorten(read, Math.floor((size.width - 20) / 6.2))));
  let left = 12;
  const whole = size.width - 24;
  if (inside) box.append(s("text", { x: 12, y: 60, class: "read" }, own ? `${bytes(own)} in` : ""));
  if (node.far) return box.append(...barOf(node.far, whole)), box;
  if (inside) return box;
  box.append(s("rect", { x: left, y: 63, width: whole, height: 5, rx: 2.5, class: "fill-waiting" }));
  for (const state of SHARES) {
    const part = subtasks.length ? (whole * counts[state]) / subtasks.length : 0;
    const shown = state === "failed" ? Math.max(part, 6) : part; // one of a thousand is seen too
    if (part && state !== "waiting") box.append(s("rect", { x: Math.min(left, 12 + whole - shown), y: 63, width: shown, height: 5, rx: 2.5, class: `fill-${state}` }));
    left += part;
  }
  return box;
}
function barOf({ state, share }, whole) {
  const bar = { x: 12, y: 66, height: 5, rx: 2.5 };
  return [s("rect", { ...bar, width: whole, class: `fill-${state}` }), ...(share ? [s("rect", { ...bar, width: whole * share, class: "fill-progress" })] : [])];
}
// What the decision divided, the number that its reason tells; what every subtask reads whole stands on its edge.
const readOf = (region) => region.divided_bytes || region.bytes_in;
const tellRead = (region) => `${bytes(readOf(region))} in`;
const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
