"use strict";
// What failed, or looks wrong, runs again: Airflow's own API is asked what that would be, and on confirmation does it, with
// the viewer's rights. Who may not clear the DAG's task instances is offered nothing.
const NAMED = 12; // tasks by name; the others are counted

// `tasks` are task ids, or [task id, map index]. With `dryRun` nothing is changed.
async function askToClear(tasks, after, dryRun) {
  const answer = await fetch(`${ROOT}api/v2/dags/${encodeURIComponent(DAG)}/clearTaskInstances`, {
    method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify({
      dag_run_id: RUN, task_ids: tasks, include_downstream: after, dry_run: dryRun, only_failed: false, prevent_running_task: true,
    }),
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(`Airflow refused the request (${answer.status}): ${typeof told.detail === "string" ? told.detail : answer.statusText}`);
  return told.task_instances;
}

// By task, in the order of the answer: its name (without that of the only job) and which of its subtasks.
function nameCleared(instances) {
  const found = new Map(), nameOf = (task) => (memory.onlyJob && task.startsWith(`${memory.onlyJob}.`) ? task.slice(memory.onlyJob.length + 1) : task);
  for (const { task_id: task, map_index: index } of instances) found.set(nameOf(task), [...(found.get(nameOf(task)) ?? []), index]);
  return [...found].map(([task, indices]) => {
    const mapped = indices.filter((index) => index >= 0).sort((one, other) => one - other);
    if (!mapped.length) return task;
    return mapped.length > 4 ? `${task}: ${count(mapped.length, "subtask")}` : `${task}[${mapped.join(", ")}]`;
  });
}

function repairButton(what, tasks) {
  if (!memory.mayClear) return null;
  return h("button", { type: "button", class: "repair", onclick: () => openRepair(what, tasks) }, "Run it again…");
}

function openRepair(what, tasks) {
  const after = h("input", { type: "checkbox", checked: true, onchange: () => look() });
  const told = h("div", { class: "cleared", role: "status" }), go = h("button", { type: "button", class: "go", disabled: true });
  const dialog = h("dialog", { class: "repairing", "aria-labelledby": "repair-title" }, h("h2", { id: "repair-title" }, `Run again: ${what}`),
    h("label", null, after, " and everything that comes after it"), told,
    h("p", { class: "hint" }, memory.released
      ? "This run has succeeded and its intermediate data has been deleted: the inputs of the cleared tasks are recomputed first."
      : "Everything else keeps its output. New rows replace the old ones once a task has succeeded."),
    h("p", { class: "choices" }, go, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel")));
  let asked = 0;
  async function look() {
    const own = ++asked;
    go.disabled = true;
    go.textContent = "Run again";
    told.replaceChildren(h("p", null, "Asking Airflow what would run again…"));
    try {
      const instances = await askToClear(tasks, after.checked, true);
      if (own !== asked) return;
      const names = nameCleared(instances), most = names.slice(0, NAMED), number = count(instances.length, "task instance");
      told.replaceChildren(h("p", null, instances.length ? `${number} would run again:` : "Airflow has nothing to run again."), h("ul", null, ...most.map((name) => h("li", null, name)),
        names.length > NAMED && h("li", null, `and ${count(names.length - NAMED, "more task")}`)));
      go.textContent = `Run ${number} again`;
      go.disabled = !instances.length;
    } catch (error) {
      if (own === asked) told.replaceChildren(h("p", { class: "problem", role: "alert" }, error.message));
    }
  }
  go.addEventListener("click", async () => {
    go.disabled = after.disabled = true;
    try {
      const instances = await askToClear(tasks, after.checked, false);
      dialog.close();
      say(`${count(instances.length, "task instance")} cleared`);
      refresh();
    } catch (error) {
      after.disabled = false;
      told.replaceChildren(h("p", { class: "problem", role: "alert" }, error.message));
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  look();
}
