// What the run cost, what bounds the kernel, and the record itself: environment, spec, audit.
const costsView = (data) => {
  const c = data.costs, parts = Object.entries(c.parts), most = Math.max(...parts.map(([, v]) => v), 1e-9);
  const llm = data.result.llm || {}, spent = c.llm || (llm.calls ? { models: [{ model: "all", ...llm }] } : null);
  return [el("div", { class: "grid" },
    card("Where the time went", soft(`${span(c.wall_s)} of active time. Compiling goes on in several workers at once.`),
      table("Seconds by what they were spent on", [{ label: "Part" }, { label: "Seconds", number: true }, { label: "", class: "meterbox" }], parts.map(([name, v]) => [name, digits(v, 3), meter(v / most)]))),
    card("What was saved", el("ul", { class: "list" },
      el("li", {}, `${count(c.duplicates.count, "trial")} had the same code as an earlier one and were not run again: about ${span(c.duplicates.saved_s)} of running saved.`),
      el("li", {}, c.pruned ? `${count(c.pruned, "proposal")} pruned before they cost a run.` : "Nothing was pruned."))),
    modelCard(data),
    card("LLM", spent ? table("Exchanges by model", [{ label: "Model" }, { label: "Calls", number: true }, { label: "Prompt tokens", number: true }, { label: "Completion tokens", number: true }, { label: "USD", number: true }],
      spent.models.map((m) => [m.model, m.calls, (m.prompt_tokens || 0).toLocaleString("en"), (m.completion_tokens || 0).toLocaleString("en"), (m.usd || 0).toFixed(4)])) : soft("No language model took part in this run.")))];
};

const modelCard = (data) => {
  const rows = data.costs.screening, said = data.result.cost_model;
  if (!rows.length && !said) return null;
  return card("Cost model", soft("How it ranked candidates before they were paid for. Some that it speaks against are measured all the same, to see what pruning costs; one within 5% of the best would have been missed."),
    rows.length > 0 && table("By the stage at which it was asked", [{ label: "Before the" }, { label: "Kept", number: true }, { label: "Pruned", number: true }, { label: "Audited", number: true }, { label: "Missed", number: true }, { label: "Rank correlation", number: true }, { label: "Saved", number: true }],
      rows.map((r) => [r.stage === "ask" ? "build" : "run", r.verdicts.keep || 0, (r.verdicts.prune || 0) + (r.verdicts.pass || 0), r.verdicts.audit || 0, r.audited ? `${r.missed} of ${r.audited}` : "–", r.rank_correlation === null ? "–" : digits(r.rank_correlation, 2), span(r.saved_s)])),
    said && plain(said));
};

// Roofline: attainable operations a second over operations for each byte, with the baseline's and the best's place.
const machineView = (data) => {
  const s = data.result.speed_of_light;
  const bytes = s.bytes ?? s.bytes_moved, operations = s.operations ?? s.flops;
  const bandwidth = s.bandwidth_bytes_per_s ?? s.bandwidth, peak = s.peak_operations_per_s ?? s.peak;
  const parts = [];
  if ([bytes, operations, bandwidth, peak].every((v) => Number.isFinite(v) && v > 0)) {
    const at = operations / bytes, ridge = peak / bandwidth;
    const x = [Math.min(at, ridge) / 16, ridge, Math.max(at, ridge) * 16];
    const done = [["baseline", data.answer.baseline_s[0], "--grey"], data.answer.improved && ["best", data.answer.best_s[0], "--accent"]].filter((d) => d && d[1]);
    parts.push(el("section", { class: "card" }, chart({
      title: "Roofline", description: `${digits(at)} operations for each byte.`, height: 340,
      axes: { x: { label: "operations for each byte", log: true }, y: { label: "operations a second", log: true, format: (v) => v.toExponential(0) } },
      series: [{ kind: "line", colour: "--ink", label: "what the machine can do", x, y: x.map((v) => Math.min(peak, v * bandwidth)) },
        ...done.map(([name, seconds, colour]) => ({ kind: "points", label: name, colour, radius: 6, x: [at], y: [operations / seconds], name }))],
      say: (series, i) => `${series.name}: ${digits(series.y[i])} operations a second, ${percent(series.y[i] / Math.min(peak, at * bandwidth))} of what is attainable`,
      columns: [{ label: "Candidate" }, { label: "Operations a second", number: true }, { label: "Of attainable", number: true }],
      rows: done.map(([name, seconds]) => [name, digits(operations / seconds), percent(operations / seconds / Math.min(peak, at * bandwidth))]),
    })));
  }
  parts.push(card("Speed of light", soft("The least time that the machine's bandwidth and arithmetic allow for this workload."), plain(s)));
  return [el("div", { class: "grid" }, parts)];
};

const auditCard = (data) => {
  const a = data.audit;
  if (!a) return card("Audit", soft("A run is audited when it has ended; tuner replay does it at any time."));
  if (a.clean === null) return card("Audit", el("span", { class: "badge warn" }, "not audited"), el("p", {}, a.message));
  const lines = (title, all, kind) => all.length ? [el("h3", {}, title), el("ul", { class: "list" }, all.slice(0, 100).map((l) => el("li", { class: kind }, l)))] : null;
  return card("Audit", el("span", { class: `badge ${a.clean ? "good" : "bad"}` }, a.clean ? "every decision stands" : "differences found"),
    facts([["Events", a.events.toLocaleString("en")], ["Decisions", a.decisions.toLocaleString("en")], ["Proposals", a.proposals.toLocaleString("en")], ["Signed by", a.signed_by ? a.signed_by.slice(0, 16) : "nobody"]]),
    lines("Differences", a.differences), lines("Not re-derived here", a.not_rederived), lines("Notes", a.notes),
    soft("This is what the replay found when this page was written. The page itself proves nothing: tuner replay on the record does."));
};

const ENVIRONMENT_FIRST = ["system", "machine", "python"];
const recordView = (data) => {
  const r = data.record, absent = TABS.filter((t) => t.when && !t.when(data)).map((t) => t.name);
  const settings = Object.fromEntries(Object.entries(data.settings).filter(([, v]) => v !== null));
  return [el("div", { class: "grid" }, auditCard(data),
    card("Record", el("dl", { class: "kv" }, [["file", data.result.run], ["events", r.events.toLocaleString("en")], ["chain ends in", r.head], ["closed", r.closed ? "yes" : "no: it is being written, or its writer was killed"], ["written by", `remix-tuner ${r.tool}`], ["spec", r.spec_digest]].map(([k, v]) => [el("dt", {}, k), el("dd", {}, k === "file" || k === "chain ends in" || k === "spec" ? code(v) : v)])),
      absent.length > 0 && soft(`Not part of this run: ${absent.join(", ").toLowerCase()}.`)),
    card("Environment", plain(Object.fromEntries([...ENVIRONMENT_FIRST.map((k) => [k, r.environment[k]]), ...Object.entries(r.environment).filter(([k]) => !ENVIRONMENT_FIRST.includes(k))]))),
    card("Settings", plain(settings))),
  card("Spec", el("pre", { tabindex: "0", role: "region", "aria-label": "Spec" }, r.spec), Object.entries(r.files).map(([name, text]) => el("details", {}, el("summary", {}, name), el("pre", { tabindex: "0", role: "region", "aria-label": name }, text))))];
};
