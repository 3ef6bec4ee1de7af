// Which tunables matter: shares of variance, each one's own curve, pairs, and all trials as lines across all tunables.
const importanceView = (data) => {
  const found = data.importance;
  if (!found) return [card("Importance", soft(data.ended ? "Too few trials with different times to say anything." : "Computed when more trials are done."))];
  const most = Math.max(...found.main.map((m) => m.share), 1e-9);
  const trust = found.fit > 0.7 ? "good" : found.fit > 0.3 ? "fair" : "poor: take what follows as a hint at most";
  const card1 = card("What moved the time",
    soft(`Functional ANOVA of a random forest over ${count(found.trials, "trial")}: the share of the variance in log time that each tunable explains alone, averaged over what the search tried of the others. It explains ${percent(Math.max(0, found.fit), 0)} of the variance among trials that it was not fitted to (${trust}).`),
    longTable("Share of variance explained alone", [{ label: "Tunable" }, { label: "Share", number: true }, { label: "", class: "meterbox" }], found.main.map((m) => [m.name, percent(m.share), meter(m.share / most)])));
  const card2 = card("What each value does", soft("Mean predicted speed over the baseline with everything else as the search tried it."), found.main.slice(0, 8).map((m, k) => {
    const high = Math.max(...m.speed);
    const box = el("details", { open: k < 2 }, el("summary", {}, `${m.name} · ${percent(m.share)}`),
      table(`${m.name}: predicted speed by value`, [{ label: "Value" }, { label: "Speed", number: true }, { label: "", class: "meterbox" }, { label: "Trials", number: true }],
        m.values.map((v, i) => [shown(v), factor(m.speed[i]), meter(m.speed[i] / high), m.counts[i].toLocaleString("en")])));
    return box;
  }));
  return [el("div", { class: "grid" }, card1, card2), pairsCard(found)];
};

const pairsCard = (found) => {
  if (!found.pairs.length) return null;
  const place = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Predicted speed of a pair" });
  const show = (pair) => {
    const [low, high] = extent(pair.speed.flat());
    place.replaceChildren(el("table", { class: "heat" }, el("caption", {}, `Predicted speed: ${pair.names[0]} down, ${pair.names[1]} across`),
      el("thead", {}, el("tr", {}, el("td"), pair.columns.map((v) => el("th", { scope: "col" }, shown(v))))),
      el("tbody", {}, pair.rows.map((v, i) => el("tr", {}, el("th", { scope: "row" }, shown(v)), pair.speed[i].map((s) => {
        const share = (s - low) / (high - low || 1);
        return el("td", { style: { background: heat(share), color: inkOn(heat(share)) } }, times(s));
      }))))));
  };
  const choice = el("select", { on: { change: () => show(found.pairs[Number(choice.value)]) } }, found.pairs.map((p, i) => el("option", { value: i }, `${p.names.join(" × ")} · ${percent(p.share, 2)}`)));
  show(found.pairs[0]);
  return card("Interactions", soft("What two tunables do together beyond what each does alone, as a share of the variance; the grid is the predicted speed."), el("div", { class: "controls" }, el("label", {}, "Pair", choice)), place);
};

const AXES_MOST = 12, LINES_MOST = 1500;

// Every n-th of a list that is in order of speed; the last, which are the fastest, all.
const thinned = (rows) => { const step = Math.ceil(rows.length / LINES_MOST); return step < 2 ? rows : rows.filter((_, k) => k % step === 0 || k >= rows.length - 100); };

const BINS = 24, TALL = 380, TOP = 34, BOTTOM = 360, LEFT = 60;

// The lines of some trials: by rank from blue to orange, the best on top.
const drawLines = (pen, live, path) => {
  pen.globalAlpha = live.length > 2000 ? 0.12 : live.length > 300 ? 0.3 : 0.6;
  for (let bin = 0; bin < BINS; bin++) {
    const group = live.filter((_, k) => Math.floor((k / live.length) * BINS) === bin);
    if (!group.length) continue;
    pen.strokeStyle = heat(live.length > 1 ? bin / (BINS - 1) : 1); pen.lineWidth = 1.2; pen.beginPath(); group.forEach(path); pen.stroke();
  }
  pen.globalAlpha = 1; pen.lineWidth = 2.6; pen.strokeStyle = css("--ink");
  if (live.length) { pen.beginPath(); path(live.at(-1)); pen.stroke(); }
};

// One axis: its line, its name above, its values beside.
const drawAxis = (pen, x, name, raised, marks, most = 15) => {
  pen.strokeStyle = css("--line"); pen.lineWidth = 1; pen.beginPath(); pen.moveTo(x, TOP); pen.lineTo(x, BOTTOM); pen.stroke();
  pen.fillStyle = css("--ink"); pen.textAlign = "center"; pen.textBaseline = "bottom";
  pen.fillText(shortened(name, most), x, raised ? TOP - 17 : TOP - 4);
  pen.fillStyle = css("--soft"); pen.textAlign = "left"; pen.textBaseline = "middle";
  for (const [text, y] of marks) label(pen, text, x + 5, y);
};

// The tunables that took several values, the most important first.
const axesOf = (data) => {
  const ranked = data.importance ? data.importance.main.map((m) => m.name) : [];
  const known = data.tunables.map((p, k) => ({ ...p, column: data.trials.values[k] })).filter((p) => p.values.length > 1);
  return known.sort((a, b) => (ranked.indexOf(a.name) + 1 || 99) - (ranked.indexOf(b.name) + 1 || 99));
};

const parallelCard = (data) => {
  const t = data.trials, known = axesOf(data), axes = known.slice(0, AXES_MOST), wanted = new Map();
  if (!axes.length) return null;
  const rows = t.speed.flatMap((v, i) => (v !== null && t.statuses[t.status[i]] === "ok" ? [i] : [])).sort((a, b) => t.speed[a] - t.speed[b]);
  const canvas = el("canvas", { role: "img", "aria-label": "Parallel coordinates: a line for each timed trial across the tunables, coloured by speed. The selects above filter; the table below says the same." });
  const readout = el("div", { class: "readout", "aria-live": "polite" });
  const matches = () => rows.filter((i) => axes.every((p, k) => !wanted.has(k) || p.column[i] === wanted.get(k)));
  const yOf = axes.map((p) => (place) => (place < 0 ? BOTTOM + 12 : BOTTOM - ((place + 0.5) / p.values.length) * (BOTTOM - TOP)));
  const ySpeed = scale(...extent(rows.map((i) => t.speed[i]), true), true, BOTTOM, TOP);
  // A little to the side, the same way at each drawing, so that lines on one another are seen to be many.
  const aside = (i, p) => (((i * 7919) % 11) - 5) * Math.min(1.2, 60 / p.values.length / 11);
  const draw = () => {
    const sized = fit(canvas, TALL);
    if (!sized) return;
    const [pen, width] = sized, right = width - 74, xOf = (k) => LEFT + (k / axes.length) * (right - LEFT);
    const path = (i) => {
      axes.forEach((p, k) => pen[k ? "lineTo" : "moveTo"](xOf(k), yOf[k](p.column[i]) + aside(i, p)));
      pen.lineTo(right, ySpeed(t.speed[i]));
    };
    const all = wanted.size ? matches() : rows, live = thinned(all), kept = new Set(all);
    pen.clearRect(0, 0, width, TALL);
    if (wanted.size) { pen.strokeStyle = css("--line"); pen.globalAlpha = 0.35; pen.beginPath(); thinned(rows).forEach((i) => { if (!kept.has(i)) path(i); }); pen.stroke(); }
    drawLines(pen, live, path);
    // Names of neighbours stand on two lines where there are many; seven pixels a letter.
    const two = axes.length > 7, most = Math.max(5, Math.min(24, Math.floor(((two ? 2 : 1) * (right - LEFT)) / axes.length / 7)));
    axes.forEach((p, k) => {
      const step = Math.ceil(p.values.length / 14);
      drawAxis(pen, xOf(k), p.name, k % 2 && two, p.values.flatMap((v, j) => (j % step === 0 ? [[shown(v), yOf[k](j)]] : [])), most);
    });
    drawAxis(pen, right, "speed", false, ticksOf(ySpeed.low, ySpeed.high, true, 6).map((v) => [times(v), ySpeed(v)]));
    const best = live.length ? `trial ${t.number[live.at(-1)]} at ${factor(t.speed[live.at(-1)])}` : "none";
    readout.textContent = `${count(all.length, "trial")}${wanted.size ? " match" : ""}${live.length < all.length ? `, ${live.length.toLocaleString("en")} of which are drawn` : ""}; the fastest in the search, drawn thick, is ${best}.`;
  };
  attend(canvas, draw);
  const choose = (k, value) => { if (value === "") wanted.delete(k); else wanted.set(k, Number(value)); draw(); };
  const selects = axes.map((p, k) => el("label", {}, p.name,
    el("select", { on: { change: (event) => choose(k, event.target.value) } }, el("option", { value: "" }, "all"), p.values.map((v, j) => el("option", { value: j }, shown(v))))));
  return card("All trials across all tunables", soft(known.length > AXES_MOST ? `The ${AXES_MOST} most important of ${known.length} tunables. ` : "", "Orange is fast, blue is slow, by rank among the timed trials."), el("div", { class: "controls" }, selects), canvas, readout,
    lazyTable("Matching trials, best first", [{ label: "Trial" }, { label: "Speed", number: true }, ...axes.map((p) => ({ label: p.name }))],
      () => matches().reverse().map((i) => [t.number[i], factor(t.speed[i]), ...axes.map((p) => (p.column[i] < 0 ? "–" : shown(p.values[p.column[i]])))])));
};

const label = (pen, text, x, y) => {
  const short = shortened(text, 13);
  const ink = pen.fillStyle;
  pen.globalAlpha = 0.82; pen.fillStyle = css("--card"); pen.fillRect(x - 2, y - 7, pen.measureText(short).width + 4, 14);
  pen.globalAlpha = 1; pen.fillStyle = ink; pen.fillText(short, x, y);
};

const parametersView = (data) => [settingsWorthCard(data), importanceView(data), parallelCard(data)];
