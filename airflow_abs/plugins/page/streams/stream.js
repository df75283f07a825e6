"use strict";
// The streams of a run: reads what is remembered of them, and again as long as one of them lives.
const LIVE_SECONDS = 5;
const page = document.getElementById("page");
let timer = null, failures = 0, told = "", shown = "";

async function refresh() {
  clearTimeout(timer);
  try {
    const answer = await fetch(`api/streams?${query({ dag_id: DAG, run_id: RUN })}`, { headers: { Accept: "application/json" }, cache: "no-store" });
    if (!answer.ok) throw Object.assign(new Error((await answer.json().catch(() => ({}))).detail ?? answer.statusText), { status: answer.status });
    const run = await answer.json();
    failures = 0;
    show(run);
    if (run.state !== "success" && run.state !== "failed") timer = setTimeout(refresh, LIVE_SECONDS * 1000);
  } catch (error) {
    failures += 1;
    notice(error.status ? `Airflow refused the request (${error.status}): ${error.message}` : "Airflow cannot be reached; trying again.");
    if (!error.status || error.status >= 500) timer = setTimeout(refresh, Math.min(60, LIVE_SECONDS * 2 ** failures) * 1000);
  }
}

function show(run) {
  document.getElementById("notice")?.remove();
  const found = JSON.stringify({ ...run, now: null });
  if (found === shown) return; // what is looked at stays as it is
  shown = found;
  const open = new Set([...document.querySelectorAll("details[open]")].map((each) => each.id));
  page.replaceChildren(...run.streams.map((stream, position) => drawStream(run, stream, position)),
    ...(run.streams.length ? [] : [h("p", { class: "missing" }, "This DAG run has no stream.")]));
  page.setAttribute("aria-busy", "false");
  for (const details of document.querySelectorAll("details")) details.open = open.has(details.id);
  for (const each of page.querySelectorAll(".times")) each.draw?.();
  const now = run.streams.map((stream) => `${nameOf(stream)}: ${stream.life ? stateOfLife(stream.life) : stream.problem}`).join("; ");
  if (now !== told) { say(now); told = now; }
}

const nameOf = (stream) => stream.task_id + (stream.map_index >= 0 ? `[${stream.map_index}]` : "");
const stateOfLife = (life) => life.changes.at(-1)?.entered ?? "Created";
const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");

function drawStream(run, stream, position) {
  const life = stream.life, state = life ? stateOfLife(life) : stream.state ?? "none";
  const facts = [stream.checkpoint && `checkpoint ${stream.checkpoint}`, stream.holder?.server && `Spark server ${stream.holder.server}`,
    stream.holder?.slots && `started for ${count(stream.holder.slots, "slot")}`, life && count(life.restarts, "restart"), life && count(life.rescales, "rescale"), life?.bound && `runs as a batch, which ends: its source is bounded (${life.bound})`].filter(Boolean);
  return h("section", { class: "stream", "aria-labelledby": `stream-${position}` },
    h("h2", { id: `stream-${position}` }, link(taskAddress(stream.task_id, stream.map_index), null, nameOf(stream)), h("span", { class: `badge ${state}` }, state)),
    h("p", { class: "under" }, facts.join(" · ")), ...drawProblems(stream, run.now),
    life && [drawLife(life, stream.supervised ? run.now : null, position), drawBatches(life.batches, position)]);
}

function drawProblems(stream, now) {
  const { problem, holder, life } = stream;
  return [
    problem && h("p", { class: "problem" }, problem),
    life?.alarm && h("p", { class: "alarm", role: "alert" }, life.alarm),
    holder && !stream.is_this && h("p", { class: "problem" }, `Another run has taken over this checkpoint, and what is shown here is that run's: ${holder.owner}.`),
    holder && holder.until > 0 && !stream.supervised && h("p", { class: "problem" }, `It has not been supervised since ${clock(holder.until)} UTC (${duration(now - holder.until)}); its query may still be running.`),
    holder && !life && h("p", { class: "problem" }, "Nothing has been recorded for it yet."),
  ].filter(Boolean);
}

function notice(text) {
  document.getElementById("loading")?.remove();
  document.getElementById("notice")?.remove();
  page.prepend(h("p", { id: "notice", role: "alert" }, text));
}
new ResizeObserver(() => { for (const each of page.querySelectorAll(".times")) each.draw?.(); }).observe(page);
document.addEventListener("visibilitychange", () => { if (!document.hidden && timer !== null) refresh(); });
refresh();
