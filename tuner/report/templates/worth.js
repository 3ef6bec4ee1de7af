// What each setting and each pass of the winner is worth: the winner with one taken back, in fresh processes.
const worthsOf = (data, kinds) => (data.result.ablation || []).filter((w) => kinds.includes(w.kind));

// Surely something, for better or worse: 1 lies outside the interval, and it is more than one in a hundred.
const sure = (w) => w.ratio && !w.same_code && (w.ratio.ci95[0] > 1 || w.ratio.ci95[1] < 1) && Math.abs(Math.log(w.ratio.value)) > 0.01;

const whisker = (ratio, from, to) => {
  const at = (v) => 100 * Math.max(0, Math.min(1, Math.log(v / from) / Math.log(to / from)));
  const [low, high] = ratio.ci95.map(at);
  return el("div", { class: "whisker", "aria-hidden": "true" }, el("s", { style: { left: `${at(1)}%` } }),
    el("i", { style: { left: `${low}%`, width: `${high - low}%` } }), el("b", { style: { left: `${at(ratio.value)}%` } }));
};

const PASS_CHANGE = { added: "left out", changed: "as before", removed: "put back", kept: "left out" };
const worthName = (w) => {
  if (w.kind === "pipeline") return "all of the pipeline, back to the baseline's";
  if (w.kind === "pass") return [passCode(w.name), ` ${PASS_CHANGE[w.change]}`, w.at === null ? "" : soft2(` · no. ${w.at + 1}`)];
  return [w.name, soft2(` · ${shown(w.value)} back to ${shown(w.back)}${w.also ? `, and ${w.also} with it: constraints tie them` : ""}`)];
};
const soft2 = (text) => el("span", { class: "soft" }, text);

const worthCard = (data, kinds, title, intro) => {
  const all = worthsOf(data, kinds);
  if (!all.length) return null;
  const timed = all.filter((w) => w.ratio && !w.same_code), same = all.filter((w) => w.same_code), left = all.filter((w) => !w.ratio && w.status === "pruned");
  const failed = all.filter((w) => !w.ratio && w.status !== "pruned");
  timed.sort((a, b) => Number(sure(b)) - Number(sure(a)) || Math.abs(Math.log(b.ratio.value)) - Math.abs(Math.log(a.ratio.value)));
  const ends = timed.flatMap((w) => w.ratio.ci95), from = Math.min(0.97, ...ends) / 1.01, to = Math.max(1.03, ...ends) * 1.01;
  const names = (list) => [...new Set(list.map((w) => w.name))];
  return card(title, soft(intro),
    timed.length ? table("Times as long a call takes without it", [{ label: "Taken back" }, { label: "Without it", number: true }, { label: "95% interval", number: true }, { label: "", class: "meterbox" }],
      timed.map((w) => [worthName(w), sure(w) ? el("strong", {}, factor(w.ratio.value)) : factor(w.ratio.value), w.ratio.ci95.map(factor).join(" to "), whisker(w.ratio, from, to)])) : soft("Nothing of it was timed."),
    failed.length > 0 && el("ul", { class: "list" }, failed.map((w) => el("li", {}, worthName(w), `: ${said(w.status)}`, w.message ? soft2(` (${w.message})`) : ""))),
    same.length > 0 && el("details", {}, el("summary", {}, `The code is the same without ${same.length === 1 ? "one" : `${same.length} others`}`), el("p", {}, names(same).map((n) => [code(n), " "]))),
    left.length > 0 && el("details", {}, el("summary", {}, `${count(left.length, "other was", "others were")} not timed`), soft("search.ablate: full in the spec takes the time for all of them."), el("ul", { class: "list" }, left.map((w) => el("li", {}, worthName(w), soft2(`: ${w.message}`))))));
};

const settingsWorthCard = (data) => worthCard(data, ["parameter", "flags"], "What each setting is worth",
  "The confirmed winner with one setting back at the baseline's value and everything else as it is: how many times as long a call then takes, in fresh processes beside the winner. Settings that only pay together show less here than together.");

const passesWorthCard = (data) => worthCard(data, ["pipeline", "pass"], "What each pass of the winner is worth",
  "The confirmed winner with one thing about its pipeline undone: how many times as long a call then takes, in fresh processes beside the winner. Passes that can stand in for one another show nothing alone.");

// By the place of a pass in the winner's pipeline: what leaving it out costs.
const worthByPlace = (data) => new Map(worthsOf(data, ["pass"]).filter((w) => w.at !== null && w.ratio).map((w) => [w.at, w]));
