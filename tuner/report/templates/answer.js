// The first tab: what was gained, how sure that is, what was changed for it.
const CLAIMS = {
  improved: ["good", "confirmed"], negligible: ["note", "negligible"], none: ["note", "no gain"], not_confirmed: ["warn", "not confirmed"],
};

const badgeOf = (data) => {
  if (!data.ended) return el("span", { class: "badge note" }, data.interrupted ? "interrupted" : data.phase);
  const [kind, word] = CLAIMS[data.answer.claim] || ["note", data.answer.claim];
  return el("span", { class: `badge ${kind}` }, word);
};

const bestSeen = (data) => {
  const t = data.trials;
  let best = null;
  t.speed.forEach((v, i) => { if (t.statuses[t.status[i]] === "ok" && !t.raced[i] && v !== null && (best === null || v > t.speed[best])) best = i; });
  return best;
};

const sentenceOf = (data) => {
  const a = data.answer, best = bestSeen(data);
  if (a.improved) return `${data.result.kernel} runs ${times(a.speed[0])} as fast as the baseline; 95% interval ${times(a.speed[1])} to ${times(a.speed[2])}.`;
  const seen = best === null || data.trials.number[best] === 0 ? "" : ` The best that the search saw is trial ${data.trials.number[best]} at ${times(data.trials.speed[best])}, which is no claim.`;
  if (!data.ended) return (data.interrupted ? "The run was interrupted; --resume goes on." : "The run goes on.") + seen;
  if (a.claim === "negligible") return "Faster by less than 1%: nothing worth having.";
  if (a.claim === "not_confirmed") return (a.unconfirmed ? `Not confirmed: ${a.unconfirmed}.` : "Not confirmed.") + seen;
  return a.message || "Nothing better than the baseline was found.";
};

const hero = (data) => {
  const a = data.answer;
  const figure = a.improved ? a.speed[0] : data.ended ? 1 : (bestSeen(data) === null ? 1 : data.trials.speed[bestSeen(data)]);
  const audit = data.audit;
  const auditBadge = !audit ? null : audit.clean === true ? el("span", { class: "badge good" }, "audit: every decision stands")
    : audit.clean === false ? el("span", { class: "badge bad" }, "audit: differences found") : el("span", { class: "badge warn" }, "not audited");
  return card(null,
    el("div", { class: "hero" },
      el("div", { class: "figure" }, a.baseline_s[0] === null ? "–" : times(figure), el("small", {}, a.improved ? " as fast" : data.ended ? " nothing claimed" : " so far")),
      el("div", { class: "says" }, el("p", { class: "first" }, sentenceOf(data)), badgeOf(data), " ", auditBadge)),
    facts([
      ["Baseline", time(a.baseline_s[0])],
      a.improved && ["Best", `${time(a.best_s[0], a.best_s[0])} (trial ${a.trial})`],
      ["Trials", data.result.trials.total.toLocaleString("en")],
      ["Active time", span(data.clock_s)],
      data.ended && ["Ended by", data.result.unspent_s ? `${a.stopped_by}: ${a.message}; ${span(data.result.unspent_s)} of the budget are left` : a.stopped_by],
      ["Device", data.result.device || data.result.backend],
    ].filter(Boolean)));
};

const worthCell = (w) => (!w ? "–" : w.ratio ? (w.same_code ? "same code" : sure(w) ? factor(w.ratio.value) : `${factor(w.ratio.value)} (unsure)`) : w.status === "pruned" ? "not timed" : said(w.status));

// As many settings without a gain of their own stand with the others.
const FEW = 3;

const changedCard = (data) => {
  const a = data.answer;
  const title = a.improved ? "What changed" : a.trial ? `What trial ${a.trial} changes (not claimed)` : "What changed";
  if (!a.changes.length && !a.edits.length) return card(title, soft(data.ended ? "Nothing: the baseline is the best." : "Nothing so far."));
  const worths = a.improved ? new Map((data.result.ablation || []).filter((w) => w.kind !== "pass").map((w) => [w.name, w])) : new Map();
  // What is worth something first; what is worth nothing that can be told is folded, of which there may be dozens.
  const worth = (c) => worths.get(c.name), vain = (c) => worth(c) && worth(c).ratio && !sure(worth(c));
  const height = (c) => { const w = worth(c); return !w || w.status === "pruned" ? 0 : w.ratio ? (sure(w) ? Math.abs(Math.log(w.ratio.value)) : 0) : Infinity; };
  const few = a.changes.filter(vain).length <= FEW, changes = a.changes.filter((c) => few || !vain(c)).sort((x, y) => height(y) - height(x) || 0);
  const folded = few ? [] : a.changes.filter(vain);
  const long = (value) => typeof value === "string" && value.length > 120
    ? el("details", {}, el("summary", {}, `${value.length.toLocaleString("en")} characters; the tab Passes takes it apart`), code(value)) : code(shown(value));
  const settings = (caption, rows) => table(caption,
    [{ label: "Setting" }, { label: "Baseline" }, { label: a.improved ? "Best" : "Candidate" }, ...(worths.size ? [{ label: "Without it", number: true }] : [])],
    rows.map((c) => [c.name, long(c.from), long(c.to), ...(worths.size ? [worthCell(worth(c))] : [])]));
  return card(title,
    a.edits.length > 0 && [soft(`Source: variant ${a.variant}, ${count(a.edits.length, "edit")}; the tab Source shows the difference.`),
      el("ol", { class: "list" }, a.edits.map((e) => el("li", {}, code(e.op || "edit"), " ", [].concat(e.loops || e.loop || []).join(", "))))],
    changes.length > 0 && settings("Settings that differ from the baseline's", changes),
    folded.length > 0 && el("details", {}, el("summary", {}, `${folded.length} others gain nothing that can be told by itself`), settings("Settings without a gain of their own", folded)),
    worths.size > 0 && soft("Without it: how many times as long a call takes with that setting alone back at the baseline's value, in fresh processes; the tabs Parameters and Passes have the intervals."));
};

// What the workloads hold beside the inputs as given: their names end with the distribution and whether the size was hidden.
const amongThem = (names) => {
  const held = [
    [/, hidden$/, "hidden sizes"], [/, perturbed(, hidden)?$/, "recorded values with noise"],
    [/, (?!given|perturbed|hidden)[a-z]+(, hidden)?$/, "odd values"],
  ].filter(([pattern]) => names.some((n) => pattern.test(n))).map(([, words]) => words);
  return held.length ? `, ${held.join(" and ")} among them` : "";
};

const sureCard = (data) => {
  const a = data.answer, lines = [];
  const ran = a.workloads.length > 0;
  if (a.processes && ran) lines.push(`${a.claim === "not_confirmed" ? "Measured" : "Confirmed"} apart from the search: candidate and baseline ran in ${a.processes} fresh processes each, in random order, on inputs that the search never saw.`);
  if (a.measured) lines.push(`The interval, ${factor(a.measured[1])} to ${factor(a.measured[2])}, is a t interval over processes on the log ratio of their medians${a.looks > 1 ? ", after one extension" : ""}.`);
  const why = data.result.unconfirmed && data.result.unconfirmed.reason;
  if (why === "unseen") lines.push("In each of these processes both sides were also called once on inputs that came after the timed ones. A claim needs the gain there too.");
  else if (a.claim === "not_confirmed" && data.ended) lines.push("A claim needs four processes of each side that work, so no gain is claimed.");
  const less = a.improved && data.result.simplest;
  if (less) lines.push(`Trial ${less.trial} looked as fast or faster when the best was chosen (the best took ${less.ratio.toFixed(3)} times as long) and could not be told apart from it; it changes ${less.changes.fastest} settings, passes and edits, the best ${less.changes.best}.`);
  const expected = { baseline: "the baseline's", float64: "those of the kernel in float64", recording: "what the application computed", python: "those of the Python reference" };
  if (a.reference && ran) lines.push(`Outputs were compared with ${expected[a.reference] || `the ${a.reference} reference`} on ${count(a.workloads.length, "workload")}${amongThem(a.workloads)}.`);
  for (const warning of data.result.warnings || []) lines.push(`The verification would miss faults: ${warning}.`);
  if (a.reference && !ran) lines.push("Nothing ran here: the times were recorded elsewhere, and whoever recorded them compared the outputs.");
  if (data.ended && data.variants && data.variants.rows.length > 1 && !baselinesOf(data).length) lines.push("Whether a simpler search would have done as well was not asked: tune --baselines gives simpler ones the same budget each.");
  const audit = data.audit;
  if (audit && audit.clean) lines.push(`A replay of the record re-derived ${count(audit.decisions, "decision")} and ${count(audit.proposals, "proposal")}, with no difference.`);
  else if (audit && audit.clean === false) lines.push(`A replay of the record found ${count(audit.differences.length, "difference")}: see the tab Record.`);
  return card("How sure", lines.length ? el("ul", { class: "list" }, lines.map((l) => el("li", {}, l))) : soft("Nothing is confirmed yet."));
};

const processesCard = (data) => {
  const rows = data.finals.confirm.length ? data.finals.confirm : data.finals.choose;
  if (!rows.length) return null;
  const [unit, by] = unitOf(Math.min(...rows.flatMap((r) => r.times_s.filter((t) => t !== null))));
  const name = (n) => (n === 0 ? "baseline" : `trial ${n}`);
  const colours = ["--grey", "--accent", "--teal", "--violet", "--warn", "--good", "--bad"];
  const ordered = [...rows].sort((a, b) => a.trial - b.trial);
  const series = ordered.map((row, k) => ({
    kind: "points", colour: colours[k % colours.length], label: name(row.trial), radius: 4,
    x: row.times_s.flatMap((t, i) => (t === null ? [] : [i + 1])), y: row.times_s.filter((t) => t !== null).map((t) => t * by), who: name(row.trial),
  }));
  const title = data.finals.confirm.length ? "Fresh processes while confirming" : "Fresh processes while choosing";
  const all = series.flatMap((s) => s.y);
  const wide = Math.max(...all) / Math.min(...all) > 5;
  return el("section", { class: "card" }, chart({
    title, description: "Each point is the median of one process.", height: 230,
    axes: { x: { label: "process", format: (v) => String(Math.round(v)), range: [0.5, Math.max(...rows.map((r) => r.times_s.length)) + 0.5] }, y: { label: `${unit} a call`, log: wide } },
    series, say: (s, i) => `${s.who}, process ${s.x[i]}: ${digits(s.y[i], 4)} ${unit}`,
    columns: [{ label: "Candidate" }, { label: "Process", number: true }, { label: `Median, ${unit}`, number: true }],
    rows: () => series.flatMap((s) => s.x.map((v, i) => [s.who, v, digits(s.y[i], 5)])),
  }));
};

// What the winner gains on each problem; the claim is their weighted geometric mean.
const problemsCard = (data) => {
  const rows = data.problems || [];
  if (!rows.length) return null;
  return card("On each problem", soft("From the processes that confirmed the winner over all of them; by itself none of these is a claim. The figure above is their weighted geometric mean."),
    longTable("Speed over the baseline, by problem", [{ label: "Problem" }, { label: "Weight", number: true }, { label: "Baseline", number: true }, { label: "Best", number: true }, { label: "Speed", number: true }, { label: "95% interval", number: true }],
      rows.map((r, i) => [Object.entries(r.sizes).map(([name, size]) => `${name}=${size}`).join(", ") || `no. ${i + 1}`, percent(r.weight), time(r.baseline_s), time(r.best_s, r.baseline_s), factor(r.speed[0]), `${factor(r.speed[1])} to ${factor(r.speed[2])}`])));
};

const compareCard = (data) => {
  const rows = data.result.compare || [];
  if (!rows.length) return null;
  return card("Other compilers", soft("The same source, timed beside the baseline in fresh processes; nothing here enters the claim."),
    table("Speed over the baseline", [{ label: "Command" }, { label: "Speed", number: true }, { label: "95% interval", number: true }],
      rows.map((r) => [code(r.command), r.speedup ? factor(r.speedup.value) : said(r.status), r.speedup ? r.speedup.ci95.map((v) => factor(v)).join(" to ") : shown(r.message)])));
};

const answerView = (data) => [hero(data), el("div", { class: "grid" }, changedCard(data), sureCard(data), processesCard(data), briefCard(data), compareCard(data), baselinesCard(data)), problemsCard(data), frontCard(data)];

// Searches of other kinds at the same budget, where the run was asked for them.
const baselinesOf = (data) => data.result.baselines || [];

const baselinesCard = (data) => {
  const rows = baselinesOf(data);
  if (!rows.length) return null;
  const row = (name, claim, speed, trials, wall) => [name, claim === "improved" ? times(speed[0]) : said(claim), claim === "improved" ? `${times(speed[1])} to ${times(speed[2])}` : "–", trials, span(wall)];
  return card("Against simpler searches with the same budget", soft("Runs of their own with the budget, seed and verification of this one, each confirmed as this one is."),
    table("Speed over the baseline", [{ label: "Search" }, { label: "Speed", number: true }, { label: "95% interval", number: true }, { label: "Trials", number: true }, { label: "Time", number: true }],
      [row("this run", data.answer.claim, data.answer.speed, data.result.trials.total, data.clock_s),
        ...rows.map((r) => row(r.name, r.claim, [r.speedup.value, ...r.speedup.ci95], r.trials.total, r.wall_s))]));
};

// Trials that no other beats in every objective, where a run has several.
const OBJECTIVES = { time_s: ["time", (v, like) => time(v, like)], energy_j: ["energy", (v) => `${digits(v, 4)} J`], size_bytes: ["size", (v) => `${v.toLocaleString("en")} bytes`] };
const frontCard = (data) => {
  const rows = data.result.pareto || [];
  if (!rows.length) return null;
  const names = Object.keys(rows[0].values), settings = Object.keys(rows[0].configuration).filter((n) => rows.some((r) => r.configuration[n] !== rows[0].configuration[n]));
  const told = (name, value) => { const known = OBJECTIVES[name]; return value === null || value === undefined ? "–" : known ? known[1](value, rows[0].values[name]) : digits(value, 4); };
  const called = (name) => (OBJECTIVES[name] ? OBJECTIVES[name][0] : name);
  const [across, up] = names, [unit, by] = across === "time_s" ? unitOf(rows[0].values.time_s) : ["", 1];
  const setting = (value) => (typeof value === "string" && value.length > 60 ? el("details", { class: "inline" }, el("summary", {}, count(value.length, "character")), code(value)) : shown(value));
  const words = "As the search saw it; the claim is about time alone.";
  const columns = [{ label: "Trial" }, ...names.map((n) => ({ label: called(n), number: true })), ...settings.map((n) => ({ label: n }))];
  const tableRows = rows.map((r) => [r.trial, ...names.map((n) => told(n, r.values[n])), ...settings.map((n) => setting(r.configuration[n]))]);
  if (names.length < 2 || rows.length < 2) return card("What no other trial beats in every objective", soft(words), table("The front, fastest first", columns, tableRows));
  return el("section", { class: "card" }, chart({
    title: "What no other trial beats in every objective", description: words, height: 260,
    axes: { x: { label: `${called(across)}${unit ? `, ${unit}` : ""}` }, y: { label: called(up) + (up === "energy_j" ? ", J" : up === "size_bytes" ? ", bytes" : "") } },
    series: [{ kind: "points", colour: "--accent", radius: 5, label: "trials of the front", x: rows.map((r) => r.values[across] * by), y: rows.map((r) => r.values[up]) }],
    say: (s, i) => `Trial ${rows[i].trial}: ${names.map((n) => told(n, rows[i].values[n])).join(", ")}`, pick: (s, i) => openTrial(rows[i].trial),
    columns, rows: () => tableRows,
  }));
};
