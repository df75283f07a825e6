"use strict";
// What a subtask is doing, from Airflow's state of its task instance and from what it left in the exchange.
const STATES = {
  waiting: "waiting", running: "running", retrying: "waiting to be retried", done: "done", retried: "done after a retry",
  recomputed: "recomputed", failed: "failed", skipped: "not run",
};
const SHARES = ["done", "retried", "recomputed", "running", "retrying", "failed", "skipped", "waiting"];
const ENDED = new Set(["done", "retried", "recomputed", "failed"]);
const RESTARTS = 1000; // an attempt above this number repeated one inside the same try
const BY_AIRFLOW = {
  running: "running", deferred: "running", restarting: "retrying", up_for_retry: "retrying",
  failed: "failed", upstream_failed: "skipped", skipped: "skipped", removed: "skipped",
};

function stateOf(subtask, instance) {
  if (instance?.state === "success") {
    if ((subtask?.attempt ?? 0) > RESTARTS) return "recomputed";
    return instance.try > 1 ? "retried" : "done";
  }
  return BY_AIRFLOW[instance?.state] ?? "waiting";
}

// All that is known of a region's subtasks, one entry each; before the decision there are none.
function subtasksOf(region) {
  const instances = new Map((region.tasks ?? []).map((each) => [each.map_index, each]));
  return region.subtasks.map((subtask) => {
    const instance = instances.get(subtask.index);
    const seconds = subtask.seconds ?? between(instance?.start, instance?.end);
    return { ...subtask, instance, state: stateOf(subtask, instance), seconds };
  });
}
function shares(subtasks) {
  const counts = Object.fromEntries(SHARES.map((state) => [state, 0]));
  for (const subtask of subtasks) counts[subtask.state] += 1;
  return counts;
}
function describeShares(counts) {
  return SHARES.filter((state) => counts[state]).map((state) => `${number(counts[state])} ${STATES[state]}`).join(", ");
}
// How far a running subtask is, and each vertex that runs inside it: Airflow keeps no such numbers, but its log says them
// in every progress line. A step that another one follows is done.
async function readProgress(task, index, attempt) {
  const vertices = {};
  let share = null, why = null, waits = null, last = null, open = [];
  for (const { event } of await readLog(task, index, attempt)) {
    waits = /^waiting for (?:resources: |a slot .*: (?=the cluster manager says: ))(.*)/.exec(event ?? "")?.[1] ?? waits;
    const found = /(\S+)\.[^.\s]+: (\d+) of (\d+) Spark tasks[^(]*(?:\((.*)\))?/.exec(event ?? "");
    if (!found || !Number(found[3])) continue;
    waits = null;
    const [line, vertex, done, total, told] = found, step = line.slice(0, line.indexOf(": "));
    if (last !== null && step !== last) for (const name of open) vertices[name] = 1;
    share = Number(done) / Number(total);
    why = /^not told by vertex: (.*)/.exec(told ?? "")?.[1] ?? null;
    const parts = why ? [] : told ? [...told.matchAll(/(\S+) (\d+) %/g)].map(([, name, part]) => [name, Number(part) / 100]) : [[vertex, share]];
    for (const [name, part] of parts) vertices[name] = part;
    [last, open] = [step, parts.map(([name]) => name)];
  }
  return share === null && waits === null ? null : { share, vertices, why, waits };
}
// Why it failed: the last error that its log tells, in the words of whatever raised it.
async function readReason(task, index, attempt) {
  const events = (await readLog(task, index, attempt)).filter((event) => event.level === "error" || event.level === "critical");
  const told = events.flatMap((event) => [...(event.error_detail ?? []).map((detail) => detail.exc_value), event.event]).filter(Boolean);
  return told[0] ?? null;
}
async function readLog(task, index, attempt) {
  const path = `api/v2/dags/${encodeURIComponent(DAG)}/dagRuns/${encodeURIComponent(RUN)}/taskInstances/${encodeURIComponent(task)}/logs/${attempt}`;
  const answer = await fetch(`${ROOT}${path}?${query({ map_index: index, full_content: true })}`, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(answer.status === 403 ? "you may not read its log" : `its log cannot be read (${answer.status})`);
  return ((await answer.json()).content ?? []).filter((event) => typeof event === "object");
}
