// What the run cost, what bounds the kernel, and the record itself: environment, spec, audit.
const costsView = (data) => {
  const c = data.costs, parts = Object.entries(c.parts), most = Math.max(...parts.map(([, v]) => v), 1e-9);
  const llm = data.result.llm || {}, spent = c.llm || (llm.calls ? { models: [{ model: "all", ...llm }] } : null);
  return [el("div", { class: "grid" },
    card("Where the time went", soft(`${span(c.wall_s)} of active time. Compiling goes on in several workers at once.`),
      table("Seconds by what they were spent on", [{ label: "Part" }, { label: "Seconds", number: true }, { label: "", class: "meterbox" }], parts.map(([name, v]) => [name, digits(v, 3), meter(v / most)]))),
    card("What was saved", el("ul", { class: "list" },
      el("li", {}, `${count(c.duplicates.count, "trial")} had the same code as an earlier one and were not run again: about ${span(c.duplicates.saved_s)} of running saved.`),
      el("li", {}, c.pruned ? `${count(c.pruned, "proposal")} not run: pruned, or the budget was over.` : "Nothing was pruned."))),
    modelCard(data),
    card("LLM", spent ? table("Exchanges by model", [{ label: "Model" }, { label: "Calls", number: true }, { label: "Tokens in", number: true }, { label: "Tokens out", number: true }, { label: "USD", number: true }],
      spent.models.map((m) => [m.model, m.calls, (m.prompt_tokens || 0).toLocaleString("en"), (m.completion_tokens || 0).toLocaleString("en"), (m.usd || 0).toFixed(4)])) : soft("No language model took part in this run.")))];
};

const modelCard = (data) => {
  const rows = data.costs.screening, total = data.result.cost_model;
  if (!rows.length) return null;
  return card("Cost model", soft("How it ranked candidates before they were paid for: the rank correlation is between its guess and the time of those that were measured. Some that it speaks against are measured all the same, to see what pruning costs."),
    table("By the stage at which it was asked", [{ label: "Before the" }, { label: "Kept", number: true }, { label: "Pruned", number: true }, { label: "Audited", number: true }, { label: "Rank correlation", number: true }, { label: "Saved", number: true }],
      rows.map((r) => [r.stage === "ask" ? "build" : "run", r.verdicts.keep || 0, r.verdicts.prune || 0, r.verdicts.audit || 0, r.rank_correlation === null ? "–" : digits(r.rank_correlation, 2), span(r.saved_s)])),
    total && facts([...(total.audits ? [["Audits", total.audits], ["Losses among them", total.losses], ["Chance of a loss, at most", percent(total.loss_bound)]] : []), ["Time it took", span(total.fit_s)]]));
};

// How near the machine's limit: the least time a call can take, and the roofline where its two rates are recorded.
const machineView = (data) => {
  const light = data.light, bound = data.result.light && data.result.light.bound_s, one = light.problems.length === 1 ? light.problems[0] : null;
  const runs = [["baseline", data.answer.baseline_s[0], "--grey"], data.answer.improved && ["best", data.answer.best_s[0], "--accent"]].filter((r) => r && r[1]);
  const rate = (work, seconds) => (one && work > 0 ? digits(work / seconds / 1e9, 3) : "–");
  const cards = [card("How near the machine's limit",
    soft(light.declared ? "The spec vouches for the bytes and operations of a call; a candidate clearly below this bound is refused." : "Every element of every array counted once. A kernel need not touch them all, so this bound refuses nothing.",
      data.result.light && data.result.light.best_over_bound === null ? " A trial below it showed that it does not hold." : ""),
    table("Time of a call against the least possible", [{ label: "" }, { label: "Time", number: true }, { label: "Over the bound", number: true }, { label: "GB/s", number: true }, { label: "Gop/s", number: true }, { label: "Of the limit", class: "meterbox" }],
      [["bound", time(bound), "1", one ? rate(one.bytes, bound) : "–", one ? rate(one.operations, bound) : "–", meter(1)],
        ...runs.map(([name, seconds]) => [name, time(seconds), bound ? digits(seconds / bound) : "–", one ? rate(one.bytes, seconds) : "–", one ? rate(one.operations, seconds) : "–", meter(bound ? bound / seconds : 0, "good")])])),
  card("What a call has to do", table("By problem", [{ label: "Problem" }, { label: "Bytes", number: true }, { label: "Operations", number: true }, { label: "Per byte", number: true }, { label: "Least time", number: true }],
    light.problems.map((p, i) => [i, digits(p.bytes, 4), p.operations ? digits(p.operations, 4) : "–", p.operations && p.bytes ? digits(p.operations / p.bytes) : "–", time(p.bound_s)])))];
  if (one && one.operations > 0 && one.bytes > 0 && one.bandwidth_bytes_per_s && one.operations_per_s) cards.unshift(rooflineCard(one, runs));
  return [el("div", { class: "grid" }, cards)];
};

const rooflineCard = (p, runs) => {
  const at = p.operations / p.bytes, ridge = p.operations_per_s / p.bandwidth_bytes_per_s, roof = (v) => Math.min(p.operations_per_s, v * p.bandwidth_bytes_per_s);
  const x = [Math.min(at, ridge) / 16, ridge, Math.max(at, ridge) * 16];
  return el("section", { class: "card" }, chart({
    title: "Roofline", description: `${digits(at)} operations for each byte: ${at < ridge ? "bandwidth" : "arithmetic"} is the limit.`, height: 340,
    axes: { x: { label: "operations for each byte", log: true }, y: { label: "10⁹ operations a second", log: true, format: (v) => digits(v / 1e9) } },
    series: [{ kind: "line", colour: "--ink", label: "what the machine can do", x, y: x.map(roof) },
      ...runs.map(([name, seconds, colour]) => ({ kind: "points", label: name, colour, radius: 6, x: [at], y: [p.operations / seconds], name }))],
    say: (series, i) => `${series.name}: ${digits(series.y[i])} operations a second, ${percent(series.y[i] / roof(at))} of what is attainable`,
    columns: [{ label: "Candidate" }, { label: "Operations a second", number: true }, { label: "Of attainable", number: true }],
    rows: runs.map(([name, seconds]) => [name, digits(p.operations / seconds), percent(p.operations / seconds / roof(at))]),
  }));
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
