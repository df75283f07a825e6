"use strict";
// All text reaches the page as text nodes and attribute values: nothing that came from a run is ever parsed as HTML.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const place = (element, left, top, width, height) =>
  Object.assign(element.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function bytes(size) {
  if (size === null || size === undefined) return "–";
  let unit = 0;
  while (Math.round(size * 10) / 10 >= 1024 && unit < UNITS.length - 1) { size /= 1024; unit += 1; }
  return unit ? `${size.toFixed(1)} ${UNITS[unit]}` : `${size} B`;
}
const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
const percent = (part, whole) => (!whole ? "–" : part && 200 * part < whole ? "less than 1 %" : `${Math.round((100 * part) / whole)} %`);
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(seconds) % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
const between = (start, end) => (start ? (Date.parse(end ?? new Date().toISOString()) - Date.parse(start)) / 1000 : null);
const arrow = (text) => text.replace("->", "→");
const dayOf = (date) => (date ? date.slice(0, 10) : "no date");
const sum = (values) => values.reduce((total, value) => total + value, 0);

// The sub-application is mounted right below Airflow's own root, whatever that is.
const ROOT = location.pathname.replace(/adaptive_spark\/(plan|streams)$/, "");
const ASKED = new URLSearchParams(location.search);
const DAG = ASKED.get("dag_id");
const RUN = ASKED.get("run_id");
const query = (values) => new URLSearchParams(values).toString();
const runAddress = (run) => `${ROOT}dags/${encodeURIComponent(DAG)}/runs/${encodeURIComponent(run)}`;
const planAddress = (run) =>
  window.parent === window ? `${ROOT}adaptive_spark/plan?${query({ dag_id: DAG, run_id: run })}` : `${runAddress(run)}/plugin/adaptive-plan`;
function taskAddress(task, index, what = "") {
  const mapped = index >= 0 ? `/mapped/${index}` : "";
  return `${runAddress(RUN)}/tasks/${encodeURIComponent(task)}${mapped}${what}`;
}
// Airflow's frame may not navigate the window around it; a link in that window's own document may.
function go(href, aside = false) {
  const home = window.parent === window ? document : window.parent.document;
  const way = home.createElement("a");
  way.href = new URL(href, location.href).href;
  if (aside) way.target = "_blank";
  way.click();
}
function link(href, attributes, ...children) {
  return h("a", { href, ...attributes, onclick: (event) => {
    if (window.parent === window) return;
    event.preventDefault();
    go(href, event.ctrlKey || event.metaKey || event.shiftKey);
  } }, ...children);
}
function say(text) { document.getElementById("live").textContent = text; }
