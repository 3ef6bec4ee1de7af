// How the search went: every trial, the best so far, and how steady the machine was.
const describeTrial = (data, i) => {
  const t = data.trials, status = t.statuses[t.status[i]];
  const speed = t.speed[i] === null ? "" : `, ${factor(t.speed[i])}`;
  return `Trial ${t.number[i]}: ${said(status)}${t.raced[i] ? ", dropped from the race" : ""}${speed}, by ${t.origins[t.origin[i]]}${t.variant[i] ? `, variant ${t.variant[i]}` : ""}, after ${span(t.clock_s[i])}`;
};

const bestSoFar = (data) => {
  const t = data.trials, found = [];
  let best = 0;
  t.speed.forEach((v, i) => { if (v !== null && t.statuses[t.status[i]] === "ok" && !t.raced[i] && v > best) { best = v; found.push(i); } });
  return found;
};

const progressChart = (data, by, height = 400) => {
  const t = data.trials, at = by === "clock" ? (i) => t.clock_s[i] : (i) => i;
  const groups = { ok: [], raced: [], duplicate: [], pruned: [], failed: [] };
  t.status.forEach((s, i) => {
    const status = t.statuses[s];
    if (status === "ok") groups[t.raced[i] ? "raced" : "ok"].push(i);
    else if (status === "duplicate") { if (t.speed[i] !== null) groups.duplicate.push(i); }
    else groups[status === "pruned" ? "pruned" : "failed"].push(i);
  });
  const points = (label, colour, list, more = {}) => ({ kind: "points", label: list.length ? `${label}: ${list.length.toLocaleString("en")}` : null, colour, x: list.map(at), y: list.map((i) => t.speed[i]), list, ...more });
  const best = bestSoFar(data), last = at(t.number.length - 1);
  const line = { x: [...best.map(at), last], y: [...best.map((i) => t.speed[i]), best.length ? t.speed[best.at(-1)] : 1] };
  const spreads = [...best.map((i) => t.spread[i] || 0), best.length ? t.spread[best.at(-1)] || 0 : 0];
  const series = [
    points("same code as before", "--grey", groups.duplicate, { shape: "ring" }),
    points("dropped from the race", "--violet", groups.raced),
    points("timed to the end", "--accent", groups.ok),
    points("not run: pruned, or the budget was over", "--grey", groups.pruned, { shape: "cross", floor: true }),
    points("failed", "--bad", groups.failed, { shape: "cross", floor: true }),
    { kind: "band", colour: "--good", step: true, x: line.x, low: line.y.map((v, k) => v * Math.exp(-spreads[k])), high: line.y.map((v, k) => v * Math.exp(spreads[k])) },
    { kind: "line", colour: "--good", label: "best so far, with the interval of its own samples", step: true, width: 2.5, ...line },
  ];
  if (data.answer.improved) {
    const x = [0, last];
    series.push({ kind: "band", colour: "--warn", x, low: x.map(() => data.answer.speed[1]), high: x.map(() => data.answer.speed[2]) });
    series.push({ kind: "line", colour: "--warn", label: "confirmed, with 95% interval", dash: [6, 4], x, y: x.map(() => data.answer.speed[0]) });
  }
  const colours = ["--teal", "--ink", "--grey"];
  let end = last;
  for (const [k, other] of baselinesOf(data).entries()) {
    const speed = other.claim === "improved" ? other.speedup.value : 1, curve = other.curve, colour = colours[k % colours.length];
    const said = `${other.name}: ${times(speed)} confirmed, the same budget`;
    if (curve && curve.speed.length) {
      const x = by === "clock" ? curve.clock_s : curve.done;
      end = Math.max(end, x.at(-1));
      series.push({ kind: "band", colour, step: true, x, low: curve.speed.map((v, i) => v * Math.exp(-curve.spread[i])), high: curve.speed.map((v, i) => v * Math.exp(curve.spread[i])) });
      series.push({ kind: "line", colour, step: true, label: said, x, y: curve.speed });
    } else series.push({ kind: "line", colour: "--teal", dash: [2, 4], label: `${other.name}: ${times(speed)} confirmed`, x: [0, last], y: [speed, speed] });
  }
  return chart({
    title: "Every trial", description: "Speed over the baseline as the search saw it; choosing and confirming come after. What failed or was not run stands at the bottom.",
    height, axes: { x: { label: by === "clock" ? "active seconds" : "trials done", range: [0, Math.max(end, 1)] }, y: { label: "times as fast as the baseline", log: true } }, series,
    say: (s, i) => describeTrial(data, s.list[i]), pick: (s, i) => openTrial(data.trials.number[s.list[i]]),
    columns: [{ label: "Trial" }, { label: "Best so far", number: true }, { label: "After", number: true }, { label: "By" }, { label: "Variant", number: true }],
    rows: () => best.map((i) => [t.number[i], factor(t.speed[i]), span(t.clock_s[i]), t.origins[t.origin[i]], t.variant[i]]),
  });
};

// The best so far alone, for the first tab.
const briefCard = (data) => bestSeen(data) === null ? null : el("section", { class: "card" }, progressChart(data, "order", 230));

const progressView = (data) => {
  const place = el("div");
  const show = (by) => place.replaceChildren(progressChart(data, by));
  const choice = el("select", { on: { change: () => show(choice.value) } }, el("option", { value: "order" }, "trials done"), el("option", { value: "clock" }, "active seconds"));
  show("order");
  const controls = data.controls;
  return [el("section", { class: "card" }, el("div", { class: "controls" }, el("label", {}, "Across", choice)), place),
    el("div", { class: "grid" }, originsCard(data),
      controls.length > 1 && el("section", { class: "card" }, chart({
        title: "How steady the machine was", description: "The baseline timed again through the search, in fresh processes, as a ratio to its first time. Scores are corrected for this drift.",
        height: 220, axes: { x: { label: "active seconds" }, y: { label: "time, ratio" } },
        series: [...new Set(controls.map((c) => c[2]))].flatMap((lane, k, lanes) => {
          const own = controls.filter((c) => c[2] === lane), x = own.map((c) => c[0]), y = own.map((c) => c[1]);
          const colour = ["--accent", "--violet", "--teal", "--warn"][k % 4];
          return [{ kind: "line", colour: "--grey", width: 1, x, y }, { kind: "points", colour, label: lanes.length > 1 ? `device ${lane}` : null, x, y }];
        }),
        say: (s, i) => `after ${span(s.x[i])}: ${factor(s.y[i])}`,
        columns: [{ label: "After" }, { label: "Ratio", number: true }], rows: controls.map((c) => [span(c[0]), factor(c[1])]),
      })))];
};

const originsCard = (data) => {
  const t = data.trials, rows = t.origins.map((name) => ({ name, n: 0, ok: 0, best: null, led: 0 }));
  const led = new Set(bestSoFar(data));
  t.origin.forEach((o, i) => {
    const row = rows[o];
    row.n += 1; row.led += led.has(i) ? 1 : 0;
    if (t.statuses[t.status[i]] === "ok") { row.ok += 1; if (!t.raced[i] && t.speed[i] !== null) row.best = Math.max(row.best ?? 0, t.speed[i]); }
  });
  rows.sort((a, b) => (b.best ?? 0) - (a.best ?? 0));
  return card("Who proposed it", table("Proposals by origin", [{ label: "Origin" }, { label: "Trials", number: true }, { label: "Timed", number: true }, { label: "Took the lead", number: true }, { label: "Best", number: true }],
    rows.map((r) => [r.name, r.n.toLocaleString("en"), r.ok.toLocaleString("en"), r.led, factor(r.best)])));
};
