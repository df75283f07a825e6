"use strict";
// Where the time went: the critical path as one bar, below it what every task instance did and when.
const KINDS = {
  spark: "on Spark", task: "a task's own process", slots: "waiting for a slot", queued: "in Airflow's queue", retry: "failed tries", airflow: "between tasks",
};
const TIMES = { label: 132, path: 26, row: 9, band: 112, gap: 7, axis: 20, narrow: 620 };

// Task instances in bands, one for each region and for each other task; in a band they share rows where they can.
function bandsOf(timeline, jobs) {
  const homes = jobs.flatMap((job) => (job.regions ?? []).flatMap((region) => region.declared.map((name) => ({ prefix: `${job.job}.${name}.`, region, name }))));
  const bands = new Map();
  for (const { task, instances } of timeline.lanes) {
    const home = homes.find(({ prefix }) => task.startsWith(prefix));
    const job = jobs.find((each) => task.startsWith(`${each.job}.`));
    const title = home ? home.name : job ? task.slice(job.job.length + 1) : task;
    const band = bands.get(home?.prefix ?? task) ?? { title, region: home?.region, ends: [], rows: [] };
    bands.set(home?.prefix ?? task, band);
    for (const [name, bars] of [...instances].sort((one, other) => one[1][0][1] - other[1][0][1])) {
      const start = bars[0][1], free = band.ends.findIndex((end) => end <= start), row = free < 0 ? band.ends.length : free;
      band.ends[row] = bars.at(-1)[2];
      (band.rows[row] ??= []).push({ name, bars, start, end: band.ends[row], index: task.endsWith(".run") ? Number(/\[(\d+)\]$/.exec(name)?.[1] ?? -1) : -1 });
    }
  }
  return [...bands.values()];
}

function drawTimeline(timeline, jobs, choose) {
  if (!timeline || !timeline.path.length) return null;
  const bands = bandsOf(timeline, jobs), hold = h("div", { class: "times" });
  const told = h("p", { class: "looked", "aria-hidden": "true" }, LOOK);
  const kinds = Object.keys(KINDS).map((kind) => [kind, sum(timeline.path.filter((each) => each.kind === kind).map((each) => each.end - each.start))]).filter(([, seconds]) => seconds >= 0.05);
  const section = h("section", { class: "timeline", "aria-labelledby": "timeline-title" },
    h("h2", { id: "timeline-title" }, "Where the time went"), h("p", { class: "told" }, timeline.told), hold, told,
    h("ul", { class: "legend" }, ...kinds.map(([kind, seconds]) => h("li", null, h("span", { class: `swatch kind-${kind}` }), `${duration(seconds)} ${KINDS[kind]}`))),
    pathTable(timeline));
  section.draw = () => {
    const width = Math.floor(hold.clientWidth);
    if (!width || hold.drawn === width) return;
    hold.drawn = width;
    hold.replaceChildren(drawTimes(timeline, bands, width, told, choose));
  };
  return section;
}
const LOOK = "The top bar shows what the run was waiting for at every moment. Below it, what was on that path is in full color.";

function drawTimes(timeline, bands, width, told, choose) {
  const narrow = width < TIMES.narrow, left = narrow ? 0 : TIMES.label, total = Math.max(timeline.seconds, 0.1);
  const x = (seconds) => left + (width - left) * seconds / total;
  const onPath = new Set(timeline.path.filter((each) => each.kind !== "airflow").map((each) => each.name));
  const places = [];
  let top = TIMES.path + 10;
  const drawing = s("svg", { width, role: "img", "aria-label": `Timeline. ${timeline.told}` });
  drawing.append(...drawPath(timeline, x, told));
  if (!narrow) drawing.append(s("text", { x: 0, y: 17, class: "band-title" }, "waited for"));
  for (const band of bands) {
    if (narrow) top += 13;
    const row = Math.max(1.2, Math.min(TIMES.row, TIMES.band / band.rows.length));
    const tall = Math.max(narrow ? 0 : 12, row * band.rows.length);
    drawing.append(s("text", { x: 0, y: narrow ? top - 3 : top + 9.5, class: "band-title" }, shorten(band.title, narrow ? 48 : 19)),
      ...drawBand(band, x, top, row, onPath), s("line", { class: "between", x1: 0, x2: width, y1: top + tall + TIMES.gap / 2, y2: top + tall + TIMES.gap / 2 }));
    places.push({ band, top, row });
    top += tall + TIMES.gap;
  }
  drawing.append(...drawAxis(total, x, top, narrow));
  drawing.setAttribute("height", top + TIMES.axis);
  const at = (event) => {
    const box = drawing.getBoundingClientRect(), down = event.clientY - box.top, seconds = (event.clientX - box.left - left) * total / (width - left);
    const place = places.find((each) => down >= each.top && down < each.top + each.row * each.band.rows.length);
    const found = place?.band.rows[Math.floor((down - place.top) / place.row)]?.find((each) => each.start <= seconds && seconds <= each.end);
    return found && { ...found, region: place.band.region };
  };
  drawing.addEventListener("mousemove", (event) => {
    const found = at(event);
    drawing.style.cursor = found?.index >= 0 && found.region ? "pointer" : "";
    if (found) told.textContent = `${found.name}: ${found.bars.map(([kind, from, to]) => `${KINDS[kind]} ${duration(to - from)}`).join(", ")}`;
  });
  drawing.addEventListener("click", (event) => {
    const found = at(event);
    if (found?.index >= 0 && found.region) choose(found.region.id, found.index);
  });
  return drawing;
}

function drawPath(timeline, x, told) {
  return timeline.path.map((each) => {
    const from = x(each.start), wide = Math.max(0.5, x(each.end) - from), seconds = duration(each.end - each.start);
    const where = tellPlace(each), most = Math.floor((wide - 10) / 6.6);
    const text = each.kind === "airflow" ? seconds : `${each.label.replace(/^Spark in /, "")} ${seconds}`;
    const shown = text.length <= most ? text : seconds.length <= most ? seconds : "";
    const part = s("g", { class: "part" }, s("title", null, `${seconds}: ${where}`), s("rect", { x: from, y: 0, width: wide, height: TIMES.path, class: `kind-${each.kind}` }),
      shown && s("text", { x: from + wide / 2, y: 17.5, class: `path-text on-${each.kind}` }, shown));
    part.addEventListener("mouseenter", () => { told.textContent = `${seconds}: ${where}`; });
    return part;
  });
}
function tellPlace({ kind, label, name }) {
  if (kind === "airflow") return name ? `${label}, until ${name} began` : `${label}, until the run ended`;
  return label.includes(name) ? label : `${label} (${name})`;
}

function drawBand(band, x, top, row, onPath) {
  const paths = new Map(), inset = row > 4 ? 1 : 0;
  band.rows.forEach((instances, position) => {
    for (const { name, bars } of instances) {
      for (const [kind, from, to] of bars) {
        const key = `${onPath.has(name) ? "on" : "off"} kind-${kind}`, wide = Math.max(0.7, x(to) - x(from));
        paths.set(key, `${paths.get(key) ?? ""}M${x(from).toFixed(1)} ${(top + position * row + inset / 2).toFixed(1)}h${wide.toFixed(1)}v${(row - inset).toFixed(1)}h${(-wide).toFixed(1)}z`);
      }
    }
  });
  return [...paths].sort().map(([key, d]) => s("path", { d, class: `span ${key}` }));
}

function drawAxis(total, x, top, narrow, from = TIMES.path + 4) {
  const wanted = total / (narrow ? 4 : 9), power = 10 ** Math.floor(Math.log10(wanted));
  const steps = total < 60 ? [1, 2, 5, 10].map((each) => each * power) : [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];
  const step = steps.find((each) => each >= wanted) ?? steps.at(-1), marks = [];
  for (let at = 0; at <= total; at += step) marks.push(at);
  const tell = (at) => (total < 60 ? `${Number(at.toFixed(2))} s` : at < 60 ? `${at} s` : at % 60 ? `${Math.floor(at / 60)}:${String(at % 60).padStart(2, "0")}` : at < 3600 ? `${at / 60} min` : `${Number((at / 3600).toFixed(1))} h`);
  return marks.map((at) => s("g", { class: "axis" }, s("line", { x1: x(at), x2: x(at), y1: from, y2: top }),
    s("text", { x: x(at), y: top + 14, class: at === 0 ? "first" : x(at) > x(total) - 24 ? "last" : "" }, tell(at))));
}

function pathTable(timeline) {
  const details = h("details", { class: "all" }, h("summary", null, "What the run waited for, step by step"));
  details.append(h("table", null, h("caption", { class: "hidden" }, "Critical path"), h("thead", null, h("tr", null, ...["from", "seconds", "what"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, ...timeline.path.map((each) => h("tr", null, h("td", null, duration(each.start)), h("td", null, duration(each.end - each.start)), h("td", { class: "wide" }, tellPlace(each)))))));
  return details;
}
