// What was done to the source and to the passes: the lineage of variants with their differences, the winner's pipeline.
const diffView = (text) => text === null || text === undefined ? soft("Its difference is left out of this page; the record has it.")
  : text === "" ? soft("The text is the same.")
  : el("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": "Difference" }, text.split("\n").map((line) =>
    el("span", { class: line.startsWith("@@") ? "at" : line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : null }, line === "" ? " " : line)));

const flatten = (rows) => {
  const children = new Map(), known = new Set(rows.map((r) => r.number));
  for (const r of rows) { const p = r.parents.length && known.has(r.parents[0]) ? r.parents[0] : null; if (!children.has(p)) children.set(p, []); children.get(p).push(r); }
  const found = [], stack = (children.get(null) || []).map((r) => [r, 1]).reverse();
  while (stack.length) {
    const [row, depth] = stack.pop();
    found.push({ row, depth, size: (children.get(row.number) || []).length });
    for (const child of [...(children.get(row.number) || [])].reverse()) stack.push([child, depth + 1]);
  }
  return found;
};

const lastEdit = (row, parent) => {
  if (row.number === 0) return "the source as given";
  if (row.purpose === "reduce") return "an edit left out";
  const before = [...(parent ? parent.edits : [])];
  const added = row.edits.filter((e) => { const k = before.indexOf(e); if (k >= 0) before.splice(k, 1); return k < 0; }).map((e) => e.split("(")[0]);
  return [added.length ? added[0] : row.origin, added.length > 1 ? ` and ${added.length - 1} more` : ""].join("");
};

const variantsView = (data) => {
  const found = data.variants, byNumber = new Map(found.rows.map((r) => [r.number, r])), flat = flatten(found.rows), line = new Set(found.ancestors);
  const most = Math.max(...found.rows.map((r) => r.speed || 0), 1e-9);
  const details = el("div", { "aria-live": "polite" });
  const nodes = flat.map(({ row, depth, size }, i) => el("div", {
    class: `leaf${line.has(row.number) ? " on" : ""}`, role: "treeitem", "aria-level": depth, "aria-selected": "false", tabindex: "-1", "aria-expanded": size ? "true" : null,
    on: { click: () => choose(i) },
  }, el("span", { class: "name", style: { "margin-left": `${Math.min(depth - 1, 14) * 1.1}rem` } }, `${row.number} · ${lastEdit(row, byNumber.get(row.parents[0]))}${row.number === found.winner ? " ★" : ""}`),
  meter((row.speed || 0) / most, row.failed ? "bad" : line.has(row.number) ? "good" : ""), el("span", { class: "n" }, row.speed === null ? "failed" : times(row.speed))));
  let chosen = -1;
  const choose = (i, focus = true) => {
    if (i < 0 || i >= nodes.length) return;
    if (chosen >= 0) { nodes[chosen].setAttribute("aria-selected", "false"); nodes[chosen].tabIndex = -1; }
    chosen = i; nodes[i].setAttribute("aria-selected", "true"); nodes[i].tabIndex = 0;
    if (focus) nodes[i].focus({ preventScroll: false });
    const row = flat[i].row;
    fill(details, el("h3", {}, `Variant ${row.number}${row.number === found.winner ? ", the winner" : ""}`),
      el("dl", { class: "kv" }, [
        ["made by", row.origin], ["of", row.parents.length ? row.parents.map((p) => `variant ${p}`).join(", ") : "–"], ["best", row.speed === null ? "nothing worked" : `${factor(row.speed)} (trial ${row.best})`],
        ["trials", `${row.trials}, ${row.duplicates} of the same code as before`], ["island", row.island], ["edits", row.edits.length ? el("ol", { class: "list" }, row.edits.map((e) => el("li", {}, code(e)))) : "none"],
      ].map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])),
      row.number !== 0 && [el("h3", {}, `Against variant ${row.parents[0] ?? 0}`), diffView(row.diff)],
      row.whole !== null && row.number !== 0 && el("details", {}, el("summary", {}, "Against the source as given"), diffView(row.whole)));
  };
  const keys = (event) => {
    const depth = flat[chosen].depth;
    const parent = () => { for (let k = chosen - 1; k >= 0; k--) if (flat[k].depth < depth) return k; return chosen; };
    const child = flat[chosen + 1] && flat[chosen + 1].depth > depth ? chosen + 1 : chosen;
    const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, Home: 0, End: nodes.length - 1, ArrowLeft: parent(), ArrowRight: child }[event.key];
    if (to !== undefined) { event.preventDefault(); choose(to); }
  };
  const tree = el("div", { role: "tree", class: "tree", "aria-label": "Variants by lineage", on: { keydown: keys } }, nodes);
  const at = flat.findIndex((f) => f.row.number === found.winner);
  if (nodes.length) choose(Math.max(0, at), false);
  return [el("div", { class: "split" },
    card("Lineage", soft(`${count(found.rows.length, "variant")} of the source. Green is the line of the winner (★); bars are the best speed over the baseline that the search saw.`), tree,
      lazyTable("Variants", [{ label: "Variant" }, { label: "Of" }, { label: "Made by" }, { label: "Best", number: true }, { label: "Trials", number: true }], () => found.rows.map((r) => [r.number, r.parents.join(", ") || "–", r.origin, factor(r.speed), r.trials]))),
    el("section", { class: "card" }, details)), editsCard(data)];
};

const sourceView = (data) => [data.variants ? variantsView(data) : card("Source", soft("No variant of the source was tried.")), refusedCard(data)];

// Which edits of the source as given no operator would make, and why: what its author can do something about.
const refusedCard = (data) => {
  const found = data.refusals;
  if (!found) return null;
  const unread = Object.entries(found.unread), named = found.reasons.some((r) => r.operators.length);
  const head = found.tried === 0 ? "Operators found no loop in the source that they could change."
    : found.refused === 0 ? `Operators refused none of the ${count(found.tried, "edit")} of the source as given that were looked at.`
    : `Operators refused ${found.refused.toLocaleString("en")} of ${count(found.tried, "edit")} of the source as given, because they cannot show that the result stays the same, or because the edit has no meaning there. Reasons that differ in loops alone are one row.`;
  return card("Refused edits", soft(head),
    found.reasons.length > 0 && longTable("Reasons of refusals", [{ label: "Why" }, { label: "Edits", number: true }, { label: "Function" }, { label: "Loops" }, ...(named ? [{ label: "Operators" }] : [])],
      found.reasons.map((r) => [r.message, r.count, code(r.function), r.loops.join(", ") || "–", ...(named ? [r.operators.map((o) => [code(o), " "])] : [])])),
    found.others > 0 && soft(`${count(found.others, "edit")} more for rarer reasons.`),
    unread.length > 0 && [el("h3", { style: { "margin-top": "1rem" } }, "Constructs that operators do not know"), el("dl", { class: "kv" }, unread.map(([name, text]) => [el("dt", {}, name), el("dd", {}, code(text))]))]);
};

// What each edit of the winner is worth: as the result says, else from the variants that were tried without one.
const editsCard = (data) => {
  const evolution = data.result.evolution || {}, gains = evolution.gains || [];
  if (data.variants.winner !== evolution.variant || !gains.some((g) => g)) return leftOutCard(data.variants);
  const winner = data.variants.rows.find((r) => r.number === evolution.variant);
  // What may be worth nothing comes after what surely is worth something, and what was not tried last.
  const height = (g) => (!g ? 0 : g.needed ? Infinity : g.ci95 && g.ci95[0] <= 1 ? 1e-9 * g.ratio : g.ratio);
  const rows = gains.map((g, i) => [winner.edits[i], g]).sort(([, x], [, y]) => height(y) - height(x) || 0);
  return card("What each edit is worth", soft("How many times as long a call takes with this edit left out of the winner, by what the search timed; what is worth most comes first."),
    table("Edits of the winner", [{ label: "Left out" }, { label: "Worth", number: true }, { label: "95% interval", number: true }],
      rows.map(([edit, g]) => [code(edit), !g ? "not tried" : g.needed ? "nothing works without it" : factor(g.ratio), g && g.ci95 ? g.ci95.map(factor).join(" to ") : "–"])));
};

const leftOutCard = (found) => {
  const winner = found.rows.find((r) => r.number === found.winner);
  const rows = found.rows.filter((r) => r.purpose === "reduce" && r.parents[0] === found.winner && r.number !== found.winner);
  if (!winner || !rows.length) return null;
  const missing = (r) => { const rest = [...r.edits]; return winner.edits.filter((e) => { const k = rest.indexOf(e); if (k >= 0) rest.splice(k, 1); return k < 0; }).join(", ") || "an edit"; };
  return card("What each edit is worth", soft("The winner with one edit left out, timed once in the search: how many times slower it then was. The winner's settings were found with the edit there, which can overstate what the edit gives by itself."),
    table("Edits of the winner", [{ label: "Left out" }, { label: "Worth", number: true }, { label: "Without it", number: true }],
      rows.map((r) => [code(missing(r)), r.speed === null ? "fails without it" : factor(winner.speed / r.speed), factor(r.speed)])));
};

const singlePassesCard = (p) => {
  const same = p.pairs.filter((r) => r.same_code === r.pairs), timed = p.pairs.filter((r) => r.same_code !== r.pairs);
  return card("What single passes did",
    soft("Pairs of trials with the same source and settings whose pipelines differ by this pass alone: how many times as fast with it. One pair is one measurement; its noise is that of two trials."),
    timed.length > 0 && longTable("Passes by measured effect", [{ label: "Pass" }, { label: "With it", number: true }, { label: "Range", number: true }, { label: "Pairs", number: true }],
      timed.map((r) => [passCode(r.name), factor(r.worth), r.pairs > 1 ? `${factor(r.least)} to ${factor(r.most)}` : "–", r.pairs])),
    same.length > 0 && el("details", { open: timed.length === 0 }, el("summary", {}, `Same code with and without ${count(same.length, "pass", "passes")}`), el("p", {}, same.map((r) => [passCode(r.name), " "]))),
    !p.pairs.length && soft("No two trials differ by one pass alone."));
};

const associationsCard = (p) => card("What goes with faster code",
  soft(`Association, not cause: the factor on speed that goes with an edit in a regression over ${count(p.trials, "trial")} with ${count(p.pipelines, "pipeline")} on all edits and settings, with a 90% interval. Edits that were tried together cannot be told apart by it.`),
  p.associations.length ? longTable("Edits by association", [{ label: "Edit" }, { label: "Factor", number: true }, { label: "90% interval", number: true }, { label: "With / without", number: true }],
    p.associations.map((r) => [[r.together.length ? el("details", { style: { margin: "0" } }, el("summary", {}, `${r.change} `, code(r.name), ` and ${r.together.length} more that only came with it`), code(r.together.join(", "))) : [r.change, " ", passCode(r.name)]],
      factor(r.worth), `${factor(r.least)} to ${factor(r.most)}`, `${r.with} / ${r.without}`])) : soft("Too few trials with and without any one edit."));

const passesView = (data) => {
  const p = data.passes;
  if (!p) return [card("Passes", soft("Computed when more trials are done."))];
  const steps = [], worths = worthByPlace(data);
  let kept = [], at = 0;
  const flush = () => {
    if (kept.length > 6) steps.push(el("li", { class: "kept" }, `${kept[0].name} … ${kept.at(-1).name} (${kept.length} unchanged)`));
    else kept.forEach((s) => steps.push(el("li", { class: "kept" }, s.name)));
    kept = [];
  };
  for (const s of p.steps) {
    const own = s.state === "removed" ? null : worths.get(at), told = own && sure(own) ? own.ratio.value : s.worth;
    at += s.state === "removed" ? 0 : 1;
    if (s.state === "kept" && !(own && sure(own))) { kept.push(s); continue; }
    flush();
    const around = s.around && s.around.length ? ` in ${s.around.join(" / ")}` : "";
    steps.push(el("li", { class: s.state, title: around || null }, el("span", { class: "visually-hidden" }, `${s.state}: `), s.name, told ? el("small", {}, ` ${factor(told)}`) : null));
  }
  flush();
  const against = p.spelt_out ? "the baseline's pipeline spelt out pass by pass" : "the baseline's";
  const changed = p.steps.some((s) => s.state !== "kept");
  return [card(data.answer.improved ? `The winner's pipeline (trial ${p.best.trial})` : `The pipeline of trial ${p.best.trial}`,
    soft(changed ? `Against ${against} (${p.base}): green was put in, struck out is gone. A figure is what the pass is worth: in fresh processes where that is sure, else where two trials of the search differ by it alone.` : `It is the baseline's: ${p.base}.`),
    el("ol", { class: "steps", "aria-label": "Passes in order" }, steps), el("details", {}, el("summary", {}, "As LLVM reads it"), el("pre", {}, p.best.text))),
  passesWorthCard(data),
  el("div", { class: "grid" }, singlePassesCard(p), associationsCard(p)),
  p.left_out > 0 && soft(`${p.left_out} rows with smaller effects are left out.`)];
};
