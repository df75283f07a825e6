"use strict";
// The heat strip: bytes per subpartition as bars, below them the subtasks that share them, coloured by state.
const STRIP = { bars: 46, gap: 4, cells: 26 };
// Beside one hot subpartition all others would vanish: then heights are square roots.
const meanOf = (sizes) => { const held = sizes.filter(Boolean); return held.length ? sum(held) / held.length : 0; };
const isSpiky = (sizes) => sizes.length > 3 && Math.max(...sizes) > 6 * meanOf(sizes);

// One strip. `select(index)` is told which subtask is chosen; arrow keys, Home and End move the choice.
function drawStrip(region, subtasks, width, chosen, select) {
  // Subtasks that share a hot subpartition have one range: then each subtask is a bar of its own.
  const byRange = region.bytes_by_subpartition.length > 0 && !subtasks.some((subtask) => !subtask.subpartitions || subtask.hot);
  const sizes = byRange ? region.bytes_by_subpartition : subtasks.map((subtask) => subtask.bytes);
  const slots = Math.max(1, sizes.length), slot = width / slots;
  const top = sizes.length > 1 ? STRIP.bars + STRIP.gap : 0; // a single one has nothing to be compared with
  const total = top + STRIP.cells;
  const drawing = s("svg", {
    class: slot < 3 ? "strip dense" : "strip", width, height: total, viewBox: `0 0 ${width} ${total}`, tabindex: subtasks.length ? 0 : null,
    role: subtasks.length ? "listbox" : "img", "aria-orientation": subtasks.length ? "horizontal" : null,
    "aria-label": subtasks.length ? `Subtasks of ${region.title}; arrow keys choose one` : `${region.title}: bytes known so far`,
  });
  if (top) drawing.append(barsOf(region, subtasks, sizes, slot, byRange));
  if (!subtasks.length) {
    drawing.append(s("rect", { class: "undecided", x: 0.5, y: top + 0.5, width: width - 1, height: STRIP.cells - 1, rx: 4 }),
      s("text", { class: "undecided-mark", x: width / 2, y: top + 18 }, "?"));
    return drawing;
  }
  const spanOf = (subtask) => byRange ? subtask.subpartitions : [subtask.index, subtask.index + 1];
  const cells = subtasks.map((subtask) => {
    const [start, stop] = spanOf(subtask);
    return cellOf(region, subtask, start * slot, (stop - start) * slot, top);
  });
  drawing.append(...cells);
  const mark = s("rect", { class: "mark", y: 1, height: total - 2, rx: 3 });
  drawing.append(mark);
  const choose = (index) => {
    if (chosen.index !== null) cells[chosen.index].setAttribute("aria-selected", "false");
    chosen.index = Math.max(0, Math.min(subtasks.length - 1, index));
    const [start, stop] = spanOf(subtasks[chosen.index]);
    mark.removeAttribute("display");
    mark.setAttribute("x", Math.max(0.75, start * slot));
    mark.setAttribute("width", Math.max(2, (stop - start) * slot - 1.5));
    cells[chosen.index].setAttribute("aria-selected", "true");
    drawing.setAttribute("aria-activedescendant", cells[chosen.index].id);
    select(chosen.index);
  };
  const indexAt = (event) => {
    const at = (event.clientX - drawing.getBoundingClientRect().left) / slot;
    const found = subtasks.findIndex((subtask) => at < spanOf(subtask)[1]);
    return found < 0 ? subtasks.length - 1 : found;
  };
  drawing.addEventListener("click", (event) => { drawing.focus(); choose(indexAt(event)); });
  drawing.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    if (!(event.key in moves)) return;
    event.preventDefault();
    choose((chosen.index ?? -1) + moves[event.key]);
  });
  if (chosen.index !== null) choose(chosen.index);
  else mark.setAttribute("display", "none");
  return drawing;
}

function barsOf(region, subtasks, sizes, slot, byRange) {
  const most = Math.max(1, ...sizes), mean = meanOf(sizes), spiky = isSpiky(sizes);
  const owner = [];
  for (const subtask of subtasks) {
    const [start, stop] = byRange ? subtask.subpartitions : [subtask.index, subtask.index + 1];
    for (let position = start; position < stop; position += 1) owner[position] = subtask.index;
  }
  const paths = { even: "", odd: "", hot: "" };
  sizes.forEach((size, position) => {
    if (!size) return;
    const tall = Math.max(1.5, (STRIP.bars - 2) * (spiky ? Math.sqrt(size / most) : size / most));
    const kind = size > 2.5 * mean && sizes.length > 3 ? "hot" : (owner[position] ?? 0) % 2 ? "odd" : "even";
    const inset = slot > 4 ? 0.75 : 0;
    paths[kind] += `M${position * slot + inset} ${STRIP.bars}v${-tall}h${slot - 2 * inset}v${tall}z`;
  });
  return s("g", { "aria-hidden": "true" }, ...Object.entries(paths).map(([kind, d]) => s("path", { d, class: `bar ${kind}` })),
    s("line", { x1: 0, x2: slot * Math.max(1, sizes.length), y1: STRIP.bars + 0.5, y2: STRIP.bars + 0.5, class: "ground" }));
}

function cellOf(region, subtask, left, width, y) {
  const gap = width > 4 ? 1.5 : width > 2 ? 0.5 : 0, wide = Math.max(0.4, width - gap);
  const cell = s("g", { role: "option", id: `cell-${region.id}-${subtask.index}`, "aria-selected": "false", "aria-label": tellCell(subtask), class: `cell ${subtask.state}` },
    s("rect", { x: left, y, width: wide, height: STRIP.cells, rx: width > 8 ? 4 : 0, class: `fill-${subtask.state}` }));
  if (subtask.state === "running" && subtask.progress) {
    cell.append(s("rect", { x: left, y, width: wide * subtask.progress, height: STRIP.cells, rx: width > 8 ? 4 : 0, class: "fill-progress" }));
  }
  const mark = { failed: "✕", retried: "↻", recomputed: "↺", retrying: "…" }[subtask.state] ?? "";
  const share = subtask.state === "running" && subtask.progress ? `${Math.round(100 * subtask.progress)} %` : "";
  const text = width > 44 ? [subtask.index, mark, share].filter((part) => part !== "").join(" ") : width > 20 ? mark || subtask.index : width > 9 ? mark : "";
  if (text !== "") cell.append(s("text", { x: left + wide / 2, y: y + 17.5, class: "cell-text" }, String(text)));
  return cell;
}

function tellCell(subtask) {
  const range = subtask.subpartitions ? `subpartitions ${subtask.reads}` : subtask.reads;
  return `subtask ${subtask.index}: ${STATES[subtask.state]}, ${range}, ${bytes(subtask.bytes)}`;
}

function drawScale(region, subtasks) {
  const sizes = region.bytes_by_subpartition;
  if (sizes.length && !subtasks.some((subtask) => !subtask.subpartitions)) {
    return h("div", { class: "scale", "aria-hidden": "true" }, h("span", null, "subpartition 0"),
      h("span", null, `largest ${bytes(Math.max(...sizes))}, mean of those with any rows ${bytes(Math.round(meanOf(sizes)))}${isSpiky(sizes) ? "; heights scaled by square root" : ""}`), h("span", null, `${sizes.length}`));
  }
  if (!subtasks.length) return h("div", { class: "scale" }, h("span", null, "decided once everything upstream has been written"));
  if (subtasks.length === 1) return "";
  const largest = Math.max(...subtasks.map((subtask) => subtask.bytes));
  return h("div", { class: "scale", "aria-hidden": "true" }, h("span", null, "subtask 0"), h("span", null, `largest reads ${bytes(largest)}`), h("span", null, String(subtasks.length - 1)));
}
