"use strict";
// Reads the run, draws what changed, and reads again as long as the run lives.
const LIVE_SECONDS = 3;
const FOLLOWED = 6; // running subtasks whose logs are read for their progress, at a time
const page = document.getElementById("page");
const memory = { chosen: new Map(), progress: new Map(), reasons: new Map(), cards: new Map(), told: "", mayClear: false, released: false, onlyJob: null };
let timer = null, failures = 0, first = true;

async function fetchJson(what) {
  const answer = await fetch(`${what}?${query({ dag_id: DAG, run_id: RUN })}`, { headers: { Accept: "application/json" }, cache: "no-store" });
  if (!answer.ok) throw Object.assign(new Error((await answer.json().catch(() => ({}))).detail ?? answer.statusText), { status: answer.status });
  return answer.json();
}

async function refresh() {
  clearTimeout(timer);
  try {
    const run = await fetchJson("api/run");
    failures = 0;
    show(run);
    const over = run.state === "success" || run.state === "failed";
    if (!over) {
      await followProgress(run);
      timer = setTimeout(refresh, LIVE_SECONDS * 1000);
    }
  } catch (error) {
    failures += 1;
    notice(error.status ? `Airflow refused the request (${error.status}): ${error.message}` : "Airflow cannot be reached; trying again.");
    if (!error.status || error.status >= 500) timer = setTimeout(refresh, Math.min(60, LIVE_SECONDS * 2 ** failures) * 1000);
  }
}

function show(run) {
  document.getElementById("notice")?.remove();
  memory.mayClear = run.may_clear === true;
  memory.released = run.state === "success";
  memory.onlyJob = run.jobs.length === 1 ? run.jobs[0].job : null;
  for (const [number, job] of run.jobs.entries()) (job.regions ?? []).forEach((region, position) => { region.id = `${number}-${position}`; });
  if (first) {
    page.replaceChildren(h("header", { id: "top" }), h("div", { id: "failures" }), h("div", { id: "graphs" }), h("div", { id: "times" }), h("div", { id: "regions" }), h("div", { id: "past" }));
    page.setAttribute("aria-busy", "false");
  }
  document.getElementById("top").replaceChildren(...drawTop(run));
  redraw("failures", failuresOf(run), drawFailure);
  drawGraphs(run);
  redraw("times", [[run.timeline, run.jobs.map((job) => (job.regions ?? []).map((region) => region.declared))]], () => [drawTimeline(run.timeline, run.jobs, chooseSubtask)]);
  drawCards(run);
  const told = summary(run);
  if (told !== memory.told) { say(told); memory.told = told; }
  if (first) {
    first = false;
    performance.mark("drawn");
    chooseAsked(run);
    fetchJson("api/history").then((history) => document.getElementById("past").replaceChildren(drawHistory(history, RUN) ?? "")).catch(() => {});
  }
}

// Replaces a part only if what it shows has changed, so that focus and scrolling stay.
function redraw(id, value, draw) {
  const part = document.getElementById(id), now = JSON.stringify(value);
  if (part.shown === now) return;
  part.shown = now;
  const way = wayToFocus(part), open = part.querySelector("details")?.open;
  part.replaceChildren(...value.flatMap(draw).filter(Boolean));
  for (const each of part.children) each.draw?.();
  if (open && part.querySelector("details")) part.querySelector("details").open = true;
  focusAt(way, part);
}

function drawGraphs(run) {
  const jobs = run.jobs.map((job) => [job, job.regions?.map((region) => memory.progress.get(`${region.id}/0`) ?? null)]);
  redraw("graphs", jobs, ([job]) => job.regions ? [run.jobs.length > 1 && h("h2", null, job.job), drawGraph(job, chooseRegion, memory.progress)] : [drawMissing(run, job)]);
}

// All cards are in their places before any strip is drawn: a strip fits the width that its card has.
function drawCards(run) {
  const parent = document.getElementById("regions"), fresh = [];
  for (const job of run.jobs) {
    for (const region of job.regions ?? []) {
      const own = [...memory.progress].filter(([key]) => key.startsWith(`${region.id}/`));
      const now = JSON.stringify([region, own]);
      const before = memory.cards.get(region.id);
      if (before?.shown === now) continue;
      const card = drawRegion(job, region, memory);
      card.shown = now;
      fresh.push([card, before, wayToFocus(before)]);
      if (before) before.replaceWith(card);
      else parent.append(card);
      memory.cards.set(region.id, card);
    }
  }
  for (const [card, before, way] of fresh) {
    card.draw();
    if (before) card.goOn(before);
    focusAt(way, card);
  }
}
// Where the focus is below an element, as positions among siblings (null: elsewhere); it goes to that place in a successor.
function wayToFocus(root) {
  if (!root?.contains(document.activeElement)) return null;
  const way = [];
  for (let element = document.activeElement; element !== root; element = element.parentNode) way.unshift([...element.parentNode.children].indexOf(element));
  return way;
}
function focusAt(way, root) { way?.reduce((element, position) => element?.children[position], root)?.focus({ preventScroll: true }); }
new ResizeObserver(() => {
  for (const part of [...document.querySelectorAll("#graphs > *, #times > *"), ...memory.cards.values()]) part.draw?.();
}).observe(page);

function drawTop(run) {
  const regions = run.jobs.flatMap((job) => job.regions ?? []);
  const job = run.jobs.find((each) => each.options);
  const facts = [dayOf(run.date), job && `target ${bytes(job.options.target_bytes)} per subtask`, job && `strategy ${job.options.strategy}`,
    job?.slots && count(job.slots, "slot"), job && `Spark ${job.spark}`, run.start && `${run.end ? "took" : "running for"} ${duration(between(run.start, run.end))}`];
  return [h("h1", null, run.jobs.length === 1 ? run.jobs[0].job : run.dag_id, " ", h("span", { class: `badge ${run.state}` }, run.state)),
    h("p", { class: "summary" }, summary(run)),
    regions.length > 0 && h("p", { class: "under" }, facts.filter(Boolean).join(" · "))].filter(Boolean);
}

function summary(run) {
  const regions = run.jobs.flatMap((job) => job.regions ?? []);
  if (!regions.length) return run.jobs.length ? "Nothing is planned yet." : "This DAG run has no adaptive Spark job.";
  const vertices = (some) => some.flatMap((region) => region.vertices).length;
  const decided = vertices(regions.filter((region) => region.parallelism !== null));
  const subtasks = regions.flatMap(subtasksOf);
  return `${decided} of ${vertices(regions)} vertices decided${subtasks.length ? `; ${count(subtasks.length, "subtask")}: ${describeShares(shares(subtasks))}` : ""}`;
}

// What failed comes first: which range of which vertex, how large it was, and why.
function failuresOf(run) {
  return run.jobs.flatMap((job) => [
    ...(job.regions ?? []).flatMap((region) => {
      const subtasks = subtasksOf(region), failed = subtasks.filter((each) => each.state === "failed");
      if (!failed.length) return [];
      const [one] = failed, range = one.subpartitions ? `subpartitions ${one.reads}` : one.reads;
      const who = failed.length === 1 ? `subtask ${one.index}` : `${failed.length} of ${subtasks.length} subtasks`;
      const share = percent(one.bytes, sum(subtasks.map((each) => each.bytes)));
      return [{ title: `${region.title}: ${who} failed`, region: region.id, task: `${job.job}.${region.name}.run`, index: one.index, attempt: one.instance.try,
        tasks: failed.map((each) => [`${job.job}.${region.name}.run`, each.index]), told: `${failed.length > 1 ? `The first is subtask ${one.index}: it` : "It"} read ${range}, ${bytes(one.bytes)}, ${share} of what ${region.title} reads.` }];
    }),
    ...Object.entries(job.tasks).filter(([, task]) => task.state === "failed").map(([name, task]) =>
      ({ title: `${name} failed`, region: null, task: `${job.job}.${name}`, index: -1, attempt: task.try, tasks: [`${job.job}.${name}`], told: null })),
  ]);
}
function drawFailure({ title, told, region, task, index, attempt, tasks }) {
  return h("section", { class: "failure", role: "alert" }, h("h2", null, title), told && h("p", null, told), drawReason(memory, task, index, attempt),
    h("p", { class: "links" },
      region && h("a", { href: `#region-${region}`, onclick: (event) => { event.preventDefault(); chooseSubtask(region, index); } }, "Show it below"), " ",
      link(taskAddress(task, index), null, "Open its log"), " ", repairButton(title.replace(/ failed$/, ""), tasks)));
}

function drawMissing(run, job) {
  const over = run.state === "success" || run.state === "failed";
  return h("section", { class: "missing" }, h("h2", null, job.job), h("p", null, job.problem),
    h("p", { class: "hint" }, job.missing && over ? `The exchange ${job.exchange} no longer contains this run: \`airflow-abs gc\` deletes old runs.`
      : over ? "" : "The graph appears here as soon as the plan task has compiled it."));
}

async function followProgress(run) {
  const running = run.jobs.flatMap((job) => (job.regions ?? []).flatMap((region) => subtasksOf(region)
    .filter((each) => each.state === "running").map((each) => ({ key: `${region.id}/${each.index}`, task: `${job.job}.${region.name}.run`, each }))));
  const known = new Set(running.map(({ key }) => key));
  for (const key of memory.progress.keys()) if (!known.has(key)) memory.progress.delete(key);
  await Promise.all(running.slice(0, FOLLOWED).map(async ({ key, task, each }) => {
    try {
      const progress = await readProgress(task, each.index, each.instance.try);
      if (progress !== null) memory.progress.set(key, progress);
    } catch { /* no right to read logs: then without percentages */ }
  }));
  if (running.length) { drawGraphs(run); drawCards(run); }
}

function chooseRegion(name) {
  for (const card of memory.cards.values()) if (card.dataset.region === name) { card.scrollIntoView({ block: "start" }); card.focus({ preventScroll: true }); }
}
function chooseSubtask(id, index) {
  const card = memory.cards.get(id);
  card.select(index);
  card.scrollIntoView({ block: "start" });
  card.querySelector(".strip")?.focus({ preventScroll: true });
}
// A link from a task instance names its region and subtask, in this page's address or in that of the UI around it.
function chooseAsked(run) {
  let around = new URLSearchParams();
  try { around = new URLSearchParams(window.parent.location.search); } catch { /* another site's */ }
  const wanted = ASKED.get("region") ?? around.get("region"), index = Number(ASKED.get("subtask") ?? around.get("subtask") ?? -1);
  const region = run.jobs.flatMap((job) => job.regions ?? []).find((each) => each.declared.includes(wanted) || each.vertices.includes(wanted));
  if (!region) return;
  if (index >= 0 && index < region.subtasks.length) chooseSubtask(region.id, index);
  else chooseRegion(region.name);
}
function notice(text) {
  document.getElementById("loading")?.remove();
  document.getElementById("notice")?.remove();
  page.prepend(h("p", { id: "notice", role: "alert" }, text));
}
document.addEventListener("visibilitychange", () => { if (!document.hidden && timer !== null) refresh(); });
refresh();
