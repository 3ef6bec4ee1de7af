// Every trial in a table of pages, and the failures by cause.
const PAGE = 50;
let wantedTrial = null;
const openTrial = (number) => { wantedTrial = number; selectTab("trials"); };

const trialDetails = (data, i) => {
  const t = data.trials;
  const settings = data.tunables.flatMap((p, k) => (t.values[k][i] < 0 ? [] : [[p.name, shown(p.values[t.values[k][i]])]]));
  return [el("h3", {}, `Trial ${t.number[i]}`), el("p", {}, describeTrial(data, i)),
    el("dl", { class: "kv" }, [
      ["interval of its samples", t.spread[i] === null || t.speed[i] === null ? "–" : `${factor(t.speed[i] * Math.exp(-t.spread[i]))} to ${factor(t.speed[i] * Math.exp(t.spread[i]))}`],
      ["made from", t.parent[i] === null ? "–" : `trial ${t.parent[i]}`], ["same code as", t.of[i] === null ? "–" : `trial ${t.of[i]}`], ["cost", span(t.cost_s[i])],
      ["message", t.messages[t.message[i]] || "–"], ...settings,
    ].map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]))];
};

const COLUMNS = [["number", "Trial"], ["status", "Status"], ["speed", "Speed"], ["variant", "Variant"], ["origin", "Proposed by"], ["clock_s", "After"], ["cost_s", "Cost"]];

const trialsView = (data) => {
  const t = data.trials, all = t.number.map((_, i) => i);
  const state = { sort: "number", down: false, status: "", text: "", page: 0 };
  const place = el("div"), details = el("section", { class: "card", "aria-live": "polite" }, soft("Choose a trial to see its settings."));
  const texts = new Map();
  const haystack = (i) => {
    if (!texts.has(i)) texts.set(i, [t.number[i], t.origins[t.origin[i]], t.messages[t.message[i]], ...data.tunables.map((p, k) => (t.values[k][i] < 0 ? "" : `${p.name}=${p.values[t.values[k][i]]}`))].join(" ").toLowerCase());
    return texts.get(i);
  };
  const rowsNow = () => {
    const wanted = all.filter((i) => (!state.status || t.statuses[t.status[i]] === state.status) && (!state.text || haystack(i).includes(state.text)));
    const key = (i) => { const v = t[state.sort][i]; return v === null ? -Infinity : v; };
    return wanted.sort((a, b) => (state.down ? key(b) - key(a) : key(a) - key(b)) || a - b);
  };
  const pick = (i, row) => {
    place.querySelectorAll('tr[aria-selected="true"]').forEach((r) => r.setAttribute("aria-selected", "false"));
    if (row) row.setAttribute("aria-selected", "true");
    fill(details, trialDetails(data, i));
  };
  const head = ([key, name]) => el("th", { scope: "col", class: key === "status" || key === "origin" ? null : "n", "aria-sort": state.sort === key ? (state.down ? "descending" : "ascending") : null },
    el("button", { type: "button", "data-key": key, on: { click: () => { state.down = state.sort === key ? !state.down : key === "speed"; state.sort = key; state.page = 0; draw(key); } } }, name, state.sort === key ? (state.down ? " ▼" : " ▲") : ""));
  const draw = (focus) => {
    const rows = rowsNow(), pages = Math.max(1, Math.ceil(rows.length / PAGE));
    state.page = Math.min(state.page, pages - 1);
    const go = (by) => el("button", { type: "button", disabled: state.page + by < 0 || state.page + by >= pages, on: { click: () => { state.page += by; draw(); } } }, by < 0 ? "Earlier" : "Later");
    place.replaceChildren(
      el("div", { class: "scroll" }, el("table", {}, el("caption", {}, `${count(rows.length, "trial")}, page ${state.page + 1} of ${pages}`), el("thead", {}, el("tr", {}, COLUMNS.map(head))),
        el("tbody", {}, rows.slice(state.page * PAGE, state.page * PAGE + PAGE).map((i) => {
          const row = el("tr", { class: "pick", "aria-selected": "false" },
            el("th", { scope: "row", class: "n" }, el("button", { type: "button", on: { click: (e) => { e.stopPropagation(); pick(i, row); } } }, String(t.number[i]))),
            el("td", {}, said(t.statuses[t.status[i]]), t.raced[i] ? " · raced out" : ""), el("td", { class: "n" }, factor(t.speed[i])), el("td", { class: "n" }, t.variant[i]),
            el("td", {}, t.origins[t.origin[i]]), el("td", { class: "n" }, span(t.clock_s[i])), el("td", { class: "n" }, span(t.cost_s[i])));
          row.addEventListener("click", () => pick(i, row));
          return row;
        })))), el("div", { class: "controls" }, go(-1), go(1)));
    if (focus) { const button = place.querySelector(`button[data-key="${focus}"]`); if (button) button.focus(); }
  };
  const present = [...new Set(t.status)].map((s) => t.statuses[s]);
  const status = el("select", { on: { change: () => { state.status = status.value; state.page = 0; draw(); } } }, el("option", { value: "" }, "all"), present.map((s) => el("option", { value: s }, said(s))));
  const text = el("input", { type: "search", placeholder: "settings, origin, message", on: { input: () => { state.text = text.value.trim().toLowerCase(); state.page = 0; draw(); } } });
  if (wantedTrial !== null) {
    const i = t.number.indexOf(wantedTrial);
    if (i >= 0) { state.page = Math.floor(rowsNow().indexOf(i) / PAGE); pick(i); }
    wantedTrial = null;
  }
  draw();
  return [el("div", { class: "split left" }, el("section", { class: "card" }, el("h2", {}, "Trials"), el("div", { class: "controls" }, el("label", {}, "Status", status), el("label", {}, "Contains", text)), place), details)];
};

const failuresView = (data) => {
  const rows = data.failures, total = data.result.trials.total;
  const most = Math.max(...rows.map((r) => r.count));
  return [card("Failures by cause", soft(`${count(rows.reduce((n, r) => n + r.count, 0), "trial")} of ${total.toLocaleString("en")} failed. A failure costs its trial, never the run.`),
    table("By status and stage", [{ label: "Status" }, { label: "At" }, { label: "Trials", number: true }, { label: "", class: "meterbox" }], rows.map((r) => [said(r.status), r.stage, r.count, meter(r.count / most, "bad")]))),
  rows.map((r) => card(`${said(r.status)} at ${r.stage}`, table(`Commonest messages: ${said(r.status)} at ${r.stage}`, [{ label: "Message" }, { label: "Trials", number: true }, { label: "First", number: true }],
    r.messages.map((m) => [code(m.text || "(no message)"), m.count, el("button", { type: "button", on: { click: () => openTrial(m.first) } }, `trial ${m.first}`)])),
  r.more > 0 && soft(`${count(r.more, "other message")} left out; the tab Trials has them.`)))];
};
