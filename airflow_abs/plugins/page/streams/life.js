"use strict";
// What happened to a stream: its states as one bar from left to right, restarts, rescales and notes as signs above it.
const LIFE = { top: 26, tall: 26, least: 2, narrow: 620 };
const LOOK_AT_LIFE = "Point at a part of the bar to read its reason.";

function drawLife(life, now, position) {
  if (!life.changes.length) return null;
  const hold = h("div", { class: "times" }), looked = h("p", { class: "looked", "aria-hidden": "true" }, LOOK_AT_LIFE);
  const spans = spansOf(life, now), start = spans[0].from, total = Math.max(spans.at(-1).to - start, 1);
  const seconds = new Map();
  for (const span of spans) seconds.set(span.state, (seconds.get(span.state) ?? 0) + span.to - span.from);
  hold.draw = () => {
    const width = Math.floor(hold.clientWidth);
    if (!width || hold.drawn === width) return;
    hold.drawn = width;
    hold.replaceChildren(drawSpans(life, spans, { start, total, width }, looked));
  };
  return h("section", { class: "timeline", "aria-label": "What happened" }, h("p", { class: "told" }, tellLife(life, spans)), hold, looked,
    h("ul", { class: "legend" }, ...[...seconds].filter(([state]) => state !== "Finished").map(([state, took]) => h("li", null, h("span", { class: `swatch state-${state}` }), `${duration(took)} ${state}`))),
    happenings(life, position));
}

// From each change to the next; the last one lasts until now, or until the last batch if no task supervises the stream.
function spansOf(life, now) {
  const end = Math.max(now ?? 0, life.changes.at(-1).at, life.batches.at(-1)?.ended ?? 0);
  return life.changes.map((change, index) => ({ state: change.entered, from: change.at, to: life.changes[index + 1]?.at ?? end, why: change.reason, left: change.left }))
    .filter((span, index, all) => span.state !== "Finished" || index < all.length - 1 || all.length === 1);
}

function tellLife(life, spans) {
  const last = life.changes.at(-1);
  return `${last.entered} since ${clock(last.at)} UTC: ${firstLine(last.reason)}. The bar begins at ${clock(spans[0].from)} UTC.`;
}
const firstLine = (text) => text.split("\n")[0].replace(/\.$/, "");

function drawSpans(life, spans, { start, total, width }, looked) {
  const x = (at) => width * Math.max(0, at - start) / total, bottom = LIFE.top + LIFE.tall;
  const drawing = s("svg", { width, height: bottom + TIMES.axis, role: "img", "aria-label": `States of the stream: ${spans.map((span) => span.state).join(", ")}` });
  for (const span of spans) {
    const wide = Math.max(LIFE.least, x(span.to) - x(span.from)), text = `${clock(span.from)} UTC, ${duration(span.to - span.from)} ${span.state}: ${firstLine(span.why)}`;
    const part = s("rect", { class: `happening state-${span.state}`, x: Math.min(x(span.from), width - LIFE.least), y: LIFE.top, width: wide, height: LIFE.tall }, s("title", null, text));
    part.addEventListener("mouseenter", () => { looked.textContent = text; });
    drawing.append(part);
  }
  for (const { at, sign, text } of signsOf(life)) {
    if (at >= start) drawing.append(s("text", { class: "happening-mark", x: Math.min(Math.max(x(at), 6), width - 6), y: LIFE.top - 8 }, sign, s("title", null, text)));
  }
  drawing.append(...drawAxis(total, (seconds) => x(start + seconds), bottom, width < LIFE.narrow, LIFE.top - 4));
  return drawing;
}

// What follows on Restarting tells why it was entered: a rescale keeps the slots that it found, a restart waits for them.
const SIGNS = { CreatingExecutionGraph: ["⇅", "rescaled"], WaitingForResources: ["↻", "restarted"] };
function signsOf(life) {
  const starts = life.changes.flatMap((change, index) => {
    const [sign, word] = (change.left === "Restarting" && SIGNS[change.entered]) || [];
    return sign ? [{ at: change.at, sign, text: `${word}: ${firstLine(life.changes[index - 1]?.reason ?? "")}` }] : [];
  });
  return [...starts, ...life.notes.map((note) => ({ at: note.at, sign: "!", text: firstLine(note.text) }))];
}

function happenings(life, position) {
  const rows = [...life.changes.map((change) => [change.at, change.entered, change.reason]), ...life.notes.map((note) => [note.at, "", note.text])].sort((one, other) => other[0] - one[0]);
  return h("details", { class: "all", id: `happened-${position}` }, h("summary", null, `All ${count(rows.length, "state")} and notes on record, newest first`),
    h("table", { class: "listing" }, h("thead", null, h("tr", null, ...["when (UTC)", "state", "why"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, ...rows.map(([at, state, why]) => h("tr", null, h("td", null, clock(at)), h("td", null, state), h("td", { class: "wide" }, why))))));
}
