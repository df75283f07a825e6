"use strict";
// One region as a card: what was decided and why, its strip, and the subtask that is chosen.

function drawRegion(job, region, memory) {
  const followed = (index) => memory.progress.get(`${region.id}/${index}`);
  const subtasks = subtasksOf(region).map((each) => ({ ...each, progress: followed(each.index)?.share, waits: followed(each.index)?.waits }));
  const counts = shares(subtasks);
  const card = h("article", { class: `card ${region.parallelism === null ? "open" : ""}`, id: `region-${region.id}`, "data-region": region.name, tabindex: -1, "aria-labelledby": `title-${region.id}` });
  const title = region.vertices.flatMap((vertex, position) => [position ? h("span", { class: "arrow" }, " → ") : null, vertex]);
  card.append(h("header", null, h("h3", { id: `title-${region.id}` }, title),
    h("span", { class: "fan-out" }, region.parallelism === null ? "?" : count(region.parallelism, "subtask"))));
  card.append(h("p", { class: "reason" }, region.reason ? arrow(region.reason) : "Not decided yet: the number of subtasks depends on the bytes that the upstream steps write."));
  card.append(chips(job, region, subtasks), drawHotKey(region) ?? "", facts(region, subtasks));
  for (const problem of region.problems) card.append(h("p", { class: "problem", role: "alert" }, `Cannot be read: ${problem}`));
  const waiting = subtasks.filter((each) => each.state === "running" && each.waits);
  if (waiting.length) card.append(h("p", { class: "problem", role: "status" }, `${count(waiting.length, "subtask")} waiting for resources: ${waiting[0].waits}`));
  const detail = h("div", { class: "detail", "aria-live": "polite" });
  const failed = subtasks.findIndex((each) => each.state === "failed");
  const chosen = memory.chosen.get(region.id) ?? { index: null };
  if (chosen.index === null && failed >= 0) chosen.index = failed;
  if (chosen.index >= subtasks.length) chosen.index = null; // decided again
  memory.chosen.set(region.id, chosen);
  const select = (index) => detail.replaceChildren(drawDetail(job, region, subtasks[index], subtasks, memory));
  const hold = h("div", { class: "strip-hold" });
  card.append(hold, drawScale(region, subtasks), subtasks.length ? legend(counts) : "", detail);
  if (subtasks.length) card.append(table(job, region, subtasks));
  card.draw = () => {
    const width = Math.floor(hold.clientWidth);
    if (!width || hold.drawn === width) return;
    const focused = hold.contains(document.activeElement);
    hold.drawn = width;
    hold.replaceChildren(drawStrip(region, subtasks, width, chosen, select));
    if (focused) hold.firstChild.focus();
  };
  // A card that takes another one's place: its table stays open.
  card.goOn = (before) => {
    const [was, is] = [before, card].map((each) => each.querySelector("details"));
    if (!was?.open || !is) return;
    is.open = true;
    is.fill();
  };
  card.select = (index) => { chosen.index = index; hold.drawn = 0; card.draw(); };
  return card;
}

function chips(job, region, subtasks) {
  const told = [];
  if (region.rule) told.push(h("span", { class: "chip", title: `rule ${region.rule}` }, region.rule_told));
  region.clamps.forEach((clamp, position) => told.push(h("span", { class: "chip note", title: `bound ${clamp}` }, region.clamps_told[position])));
  if (region.max_over_mean >= 1.5) told.push(h("span", { class: "chip warn" }, `⚠ largest subtask ${region.max_over_mean.toFixed(1)}× the mean`));
  for (const line of region.strange) told.push(h("span", { class: "chip warn" }, `⚠ ${line}`));
  const hot = hottest(region.bytes_by_subpartition);
  if (hot) {
    const shared = region.subtasks.filter((each) => each.hot && each.subpartitions[0] === hot.position).length;
    const what = `subpartition ${hot.position} has ${bytes(hot.size)}, ${percent(hot.size, hot.total)} of the total`;
    told.push(h("span", { class: `chip ${shared ? "note" : "warn"}` }, shared ? `${what}: ${shared} subtasks share it` : `⚠ ${what}`));
  }
  if (region.parallelism === null) told.push(h("span", { class: "chip" }, `at most ${region.bound}`));
  for (const each of region.expectations) {
    const holds = each.outcome === "met";
    told.push(h("span", { class: `chip ${holds ? "" : "warn"}`, title: `${each.vertex} expects ${each.what}` }, `${holds ? "✓" : "⚠"} ${each.name}: ${each.outcome}, ${each.found}`));
  }
  return h("div", { class: "chips" }, ...told);
}

// Which key makes a subpartition hot, and what can be done about it.
function drawHotKey({ hot_key: hot }) {
  if (!hot) return null;
  const times = number(Math.round(hot.bytes / Math.max(1, hot.median)));
  return h("section", { class: "hot-key", "aria-label": "Hot key" },
    h("p", null, "Hot key: ", h("b", null, hot.key), ` has ${percent(hot.rows, hot.rows_seen)} of the ${number(hot.rows_seen)} rows of ${hot.input.split(".").pop()} sampled in subpartition ${hot.subpartition}, which holds ${bytes(hot.bytes)} of them, ${times} times the median.`),
    h("p", null, `What to do: ${hot.advice}.`));
}

function hottest(sizes) {
  const total = sum(sizes);
  if (sizes.length < 4 || !total) return null;
  const size = Math.max(...sizes);
  return size >= 4 * meanOf(sizes) && size >= 0.1 * total ? { size, total, position: sizes.indexOf(size) } : null;
}

function facts(region, subtasks) {
  const inputs = region.edges.map((edge) => [edge.kind === "source" ? "reads" : `${edge.how} from`,
    edge.kind === "source" ? edge.path : edge.vertex, edge.bytes === null ? "?" : bytes(edge.bytes)]);
  const times = subtasks.map((each) => each.instance).filter(Boolean);
  const start = times.map((each) => each.start).filter(Boolean).sort()[0];
  const ended = times.length && times.every((each) => each.end);
  const end = ended ? times.map((each) => each.end).sort().at(-1) : null;
  const told = region.predicted, from = told && (told.from_history ? "from earlier runs" : "by the defaults");
  const foretold = (text) => told && h("span", { class: "was-told", title: `predicted ${from}` }, ` (predicted ${text})`);
  return h("dl", { class: "facts" },
    ...inputs.map(([how, what, size]) => h("div", null, h("dt", null, how), h("dd", { class: "long" }, what, " ", h("b", null, size)))),
    ...region.sinks.map((sink) => h("div", null, h("dt", null, "publishes"), h("dd", { class: "long" }, sink.path))),
    region.rows !== null && h("div", null, h("dt", null, "rows out"), h("dd", null, number(region.rows))),
    region.bytes_out !== null && h("div", null, h("dt", null, "bytes out"), h("dd", null, bytes(region.bytes_out), foretold(bytes(told?.output_bytes)))),
    region.took !== null && h("div", null, h("dt", null, "on Spark"), h("dd", null, duration(region.took), foretold(duration(told?.seconds)))),
    start && h("div", null, h("dt", null, ended ? "in Airflow" : "so far"), h("dd", null, duration(between(start, end)))),
    told && region.took === null && h("div", null, h("dt", null, `predicted ${from}`), h("dd", null, `${duration(told.seconds)} on Spark, ${bytes(told.output_bytes)} out`)),
    ...edgeReasons(region).map(([what, why]) => h("div", { class: "whole" }, h("dt", null, what), h("dd", { class: "long" }, why))));
}
// Why each edge to its vertices is written, or kept inside Spark, as far as that was decided on the day.
function edgeReasons(region) {
  return [...region.edges.filter((edge) => edge.reason).map((edge) => [`edge from ${edge.vertex}`, edge.reason]),
    ...region.edges.filter((edge) => edge.order).map((edge) => [`rows from ${edge.vertex}`, edge.order]),
    ...region.inside.map((edge) => [`${edge.producer} runs inside`, [edge.reason, edge.counted].filter(Boolean).join("; ")])];
}

function legend(counts) {
  return h("ul", { class: "legend" }, ...SHARES.filter((state) => counts[state]).map((state) =>
    h("li", null, h("span", { class: `swatch fill-${state}` }), `${number(counts[state])} ${STATES[state]}`)));
}

function drawDetail(job, region, subtask, subtasks, memory) {
  const mean = sum(subtasks.map((each) => each.bytes)) / subtasks.length;
  const over = mean ? ` (${(subtask.bytes / mean).toFixed(1)}× the mean)` : "";
  const task = `${job.job}.${region.name}.run`;
  const tries = subtask.instance?.try ?? 0;
  const attempt = (subtask.attempt ?? 0) > RESTARTS ? `${Math.floor(subtask.attempt / RESTARTS)}, repeated ${subtask.attempt % RESTARTS}× inside it` : String(Math.max(tries, subtask.attempt ?? 0) || "–");
  const rows = [["reads", subtask.subpartitions ? `subpartitions ${subtask.reads}` : subtask.reads], ["bytes in", bytes(subtask.bytes) + over],
    ["rows out", number(subtask.rows)], ["bytes out", bytes(subtask.bytes_out)], ["waited", duration(subtask.waited)], ["time", duration(subtask.seconds)], ["attempt", attempt]];
  const detail = h("div", { class: `chosen ${subtask.state}` }, h("h4", null, h("span", { class: `swatch fill-${subtask.state}` }), `Subtask ${subtask.index} of ${subtasks.length}: ${STATES[subtask.state]}`),
    h("dl", null, ...rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    subtask.instance && h("p", { class: "links" }, link(taskAddress(task, subtask.index), null, "Log and task instance"), " ",
      link(taskAddress(task, subtask.index, "/details"), null, "Details"), " ",
      ENDED.has(subtask.state) && repairButton(`${region.title}, subtask ${subtask.index}`, [[task, subtask.index]])));
  // While it waits for a retry, its log so far is that of the try before.
  if (subtask.state === "failed") detail.append(drawReason(memory, task, subtask.index, tries));
  if (subtask.state === "retrying") detail.append(drawReason(memory, task, subtask.index, Math.max(1, tries - 1)));
  return detail;
}

const WHY_LINES = 12; // of a long message; the others unfold
// The reason is in Airflow's log; it is asked for with the viewer's own rights, once for each try.
function drawReason(memory, task, index, attempt) {
  const key = `${task}/${index}/${attempt}`;
  const box = h("pre", { class: "why", "aria-label": "Why it failed" });
  const show = (text) => {
    const lines = text.split("\n"), more = lines.length > WHY_LINES;
    box.replaceChildren(lines.slice(0, more ? WHY_LINES : undefined).join("\n"), more ? h("details", null, h("summary", null, `${lines.length - WHY_LINES} more lines`), lines.slice(WHY_LINES).join("\n")) : "");
  };
  show(memory.reasons.get(key) ?? "Reading the reason…");
  if (!memory.reasons.has(key)) {
    readReason(task, index, attempt)
      .then((reason) => { memory.reasons.set(key, reason ?? "There is no error in its log; see Airflow's own pages."); })
      .catch((error) => { memory.reasons.set(key, `Unknown: ${error.message}`); })
      .finally(() => { show(memory.reasons.get(key)); });
  }
  return box;
}

function table(job, region, subtasks) {
  const details = h("details", { class: "all" }, h("summary", null, "All subtasks as a table"));
  details.addEventListener("toggle", () => { if (details.open) details.fill(); });
  details.fill = () => {
    if (details.children.length > 1) return;
    const head = ["#", "state", "reads", "bytes in", "rows out", "bytes out", "time", "attempt"];
    details.append(h("table", { class: "listing" }, h("caption", { class: "hidden" }, `Subtasks of ${region.title}`),
      h("thead", null, h("tr", null, ...head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, ...subtasks.map((each) => h("tr", { class: each.state },
        h("th", { scope: "row" }, link(taskAddress(`${job.job}.${region.name}.run`, each.index), null, String(each.index))),
        ...[STATES[each.state], each.reads, bytes(each.bytes), number(each.rows), bytes(each.bytes_out), duration(each.seconds), String(each.instance?.try || "–")].map((value, position) => h("td", { "data-name": head[position + 1] }, value)))))));
  };
  return details;
}
