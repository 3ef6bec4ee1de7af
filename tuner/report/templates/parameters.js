// Which tunables matter: shares of variance, each one's own curve, pairs, and all trials as lines across all tunables.
const importanceView = (data) => {
  const found = data.importance;
  if (!found) return [card("Importance", soft(data.ended ? "Too few trials with different times to say anything." : "Computed when more trials are done."))];
  const most = Math.max(...found.main.map((m) => m.share), 1e-9);
  const trust = found.fit > 0.7 ? "good" : found.fit > 0.3 ? "fair" : "poor: take what follows as a hint at most";
  const card1 = card("What moved the time",
    soft(`Functional ANOVA of a random forest over ${count(found.trials, "trial")}: the share of the variance in log time that each tunable explains alone, averaged over what the search tried of the others. It explains ${percent(Math.max(0, found.fit), 0)} of the variance among trials that it was not fitted to (${trust}).`),
    table("Share of variance explained alone", [{ label: "Tunable" }, { label: "Share", number: true }, { label: "", class: "meterbox" }], found.main.map((m) => [m.name, percent(m.share), meter(m.share / most)])));
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
        return el("td", { style: { background: heat(share), color: share > 0.45 && share < 0.88 ? "#111" : "#fff" } }, times(s));
      }))))));
  };
  const choice = el("select", { on: { change: () => show(found.pairs[Number(choice.value)]) } }, found.pairs.map((p, i) => el("option", { value: i }, `${p.names.join(" × ")} · ${percent(p.share, 2)}`)));
  show(found.pairs[0]);
  return card("Interactions", soft("What two tunables do together beyond what each does alone, as a share of the variance; the grid is the predicted speed."), el("div", { class: "controls" }, el("label", {}, "Pair", choice)), place);
};

const AXES_MOST = 12, LINES_MOST = 1500;

// Every so-manieth of a list that is in order of speed; the last, which are the fastest, all.
const thinned = (rows) => { const step = Math.ceil(rows.length / LINES_MOST); return step < 2 ? rows : rows.filter((_, k) => k % step === 0 || k >= rows.length - 100); };

const parallelCard = (data) => {
  const t = data.trials;
  const ranked = data.importance ? data.importance.main.map((m) => m.name) : [];
  const known = data.tunables.map((p, k) => ({ ...p, column: t.values[k] })).filter((p) => p.values.length > 1);
  known.sort((a, b) => (ranked.indexOf(a.name) + 1 || 99) - (ranked.indexOf(b.name) + 1 || 99));
  const axes = known.slice(0, AXES_MOST);
  if (!axes.length) return null;
  const rows = t.speed.flatMap((v, i) => (v !== null && t.statuses[t.status[i]] === "ok" ? [i] : [])).sort((a, b) => t.speed[a] - t.speed[b]);
  const wanted = new Map();
  const canvas = el("canvas", { role: "img", "aria-label": "Parallel coordinates: a line for each timed trial across the tunables, coloured by speed. The selects above filter; the table below says the same." });
  const readout = el("div", { class: "readout", "aria-live": "polite" });
  const matches = () => rows.filter((i) => axes.every((p, k) => !wanted.has(k) || p.column[i] === wanted.get(k)));
  const draw = () => {
    const sized = fit(canvas, 380);
    if (!sized) return;
    const [pen, width] = sized, top = 34, bottom = 360, left = 60, right = width - 74;
    const xOf = (k) => left + (k / axes.length) * (right - left);
    const yOf = axes.map((p) => (place) => (place < 0 ? bottom + 12 : bottom - ((place + 0.5) / p.values.length) * (bottom - top)));
    const speeds = rows.map((i) => t.speed[i]);
    const ySpeed = scale(...extent(speeds, true), true, bottom, top);
    const path = (i) => {
      axes.forEach((p, k) => { const y = yOf[k](p.column[i]) + ((i * 7919) % 11 - 5) * Math.min(1.2, 60 / p.values.length / 11); k ? pen.lineTo(xOf(k), y) : pen.moveTo(xOf(k), y); });
      pen.lineTo(right, ySpeed(t.speed[i]));
    };
    pen.clearRect(0, 0, width, 380);
    const all = wanted.size ? matches() : rows, live = thinned(all), set = new Set(all);
    if (wanted.size) { pen.strokeStyle = css("--line"); pen.globalAlpha = 0.35; pen.beginPath(); thinned(rows).forEach((i) => { if (!set.has(i)) path(i); }); pen.stroke(); }
    const bins = 24;
    pen.globalAlpha = live.length > 2000 ? 0.12 : live.length > 300 ? 0.3 : 0.6;
    for (let b = 0; b < bins; b++) {
      const group = live.filter((_, k) => Math.floor((k / live.length) * bins) === b);
      if (!group.length) continue;
      pen.strokeStyle = heat(live.length > 1 ? b / (bins - 1) : 1); pen.lineWidth = 1.2; pen.beginPath(); group.forEach(path); pen.stroke();
    }
    pen.globalAlpha = 1; pen.lineWidth = 2.6; pen.strokeStyle = css("--ink");
    if (live.length) { pen.beginPath(); path(live.at(-1)); pen.stroke(); }
    pen.fillStyle = css("--ink"); pen.strokeStyle = css("--line"); pen.lineWidth = 1; pen.textAlign = "center";
    [...axes.map((p) => p.name), "speed"].forEach((name, k) => {
      const x = k < axes.length ? xOf(k) : right;
      pen.beginPath(); pen.moveTo(x, top); pen.lineTo(x, bottom); pen.stroke();
      pen.fillStyle = css("--ink"); pen.textBaseline = "bottom"; pen.fillText(name.length > 15 ? `${name.slice(0, 14)}…` : name, x, k % 2 && axes.length > 7 ? top - 17 : top - 4);
      pen.textBaseline = "middle"; pen.fillStyle = css("--soft");
      pen.textAlign = "left";
      if (k < axes.length) { const p = axes[k], step = Math.ceil(p.values.length / 14); p.values.forEach((v, j) => { if (j % step === 0) label(pen, shown(v), x + 5, yOf[k](j)); }); }
      else ticksOf(ySpeed.low, ySpeed.high, true, 6).forEach((v) => label(pen, times(v), x + 5, ySpeed(v)));
      pen.textAlign = "center";
    });
    readout.textContent = `${count(all.length, "trial")}${wanted.size ? " match" : ""}${live.length < all.length ? `, ${live.length.toLocaleString("en")} of which are drawn` : ""}; the best, drawn thick, is ${live.length ? `trial ${t.number[live.at(-1)]} at ${factor(t.speed[live.at(-1)])}` : "none"}.`;
  };
  attend(canvas, draw);
  const selects = axes.map((p, k) => {
    const box = el("select", { on: { change: () => { box.value === "" ? wanted.delete(k) : wanted.set(k, Number(box.value)); draw(); } } }, el("option", { value: "" }, "all"), p.values.map((v, j) => el("option", { value: j }, shown(v))));
    return el("label", {}, p.name, box);
  });
  return card("All trials across all tunables", soft(known.length > AXES_MOST ? `The ${AXES_MOST} most important of ${known.length} tunables. ` : "", "Orange is fast, blue is slow, by rank among the timed trials."), el("div", { class: "controls" }, selects), canvas, readout,
    lazyTable("Matching trials, best first", [{ label: "Trial" }, { label: "Speed", number: true }, ...axes.map((p) => ({ label: p.name }))],
      () => matches().reverse().map((i) => [t.number[i], factor(t.speed[i]), ...axes.map((p) => (p.column[i] < 0 ? "–" : shown(p.values[p.column[i]])))])));
};

const label = (pen, text, x, y) => {
  const short = text.length > 13 ? `${text.slice(0, 12)}…` : text;
  const ink = pen.fillStyle;
  pen.globalAlpha = 0.82; pen.fillStyle = css("--card"); pen.fillRect(x - 2, y - 7, pen.measureText(short).width + 4, 14);
  pen.globalAlpha = 1; pen.fillStyle = ink; pen.fillText(short, x, y);
};

const parametersView = (data) => [importanceView(data), parallelCard(data)];
