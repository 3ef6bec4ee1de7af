// Tabs, theme, and the live page's polling.
const TABS = [
  { id: "answer", name: "Answer", view: answerView },
  { id: "progress", name: "Progress", view: progressView },
  { id: "parameters", name: "Parameters", view: parametersView, when: (d) => d.tunables.some((p) => p.values.length > 1) || d.importance },
  { id: "passes", name: "Passes", view: passesView, when: (d) => d.passes },
  { id: "source", name: "Source", view: sourceView, when: (d) => d.variants || d.refusals },
  { id: "trials", name: "Trials", view: trialsView },
  { id: "failures", name: "Failures", view: failuresView, when: (d) => d.failures.length },
  { id: "machine", name: "Roofline", view: machineView, when: (d) => d.light && d.light.problems.every((p) => p.bound_s > 0) },
  { id: "costs", name: "Costs", view: costsView },
  { id: "record", name: "Record", view: recordView },
];

const byId = (id) => document.getElementById(id);
let DATA = null, CURRENT = null;
const drawn = new Map();

const selectTab = (id, focus = false) => {
  CURRENT = id;
  for (const tab of TABS) {
    const button = byId(`tab-${tab.id}`), panel = byId(`panel-${tab.id}`);
    if (!button) continue;
    const on = tab.id === id;
    button.setAttribute("aria-selected", String(on)); button.tabIndex = on ? 0 : -1; panel.hidden = !on;
    if (on && (drawn.get(id) !== DATA || wantedTrial !== null)) { fill(panel, tab.view(DATA)); drawn.set(id, DATA); }
    if (on && focus) button.focus();
  }
  try { history.replaceState(null, "", `#${id}`); } catch { /* some viewers of local files forbid it */ }
};

const tabKeys = (event) => {
  const ids = [...byId("tabs").children].map((b) => b.id.slice(4)), at = ids.indexOf(CURRENT);
  const to = { ArrowRight: (at + 1) % ids.length, ArrowLeft: (at - 1 + ids.length) % ids.length, Home: 0, End: ids.length - 1 }[event.key];
  if (to !== undefined) { event.preventDefault(); selectTab(ids[to], true); }
};

const heading = (data) => {
  byId("heading").textContent = data.result.kernel;
  byId("under").textContent = `${data.result.backend} · ${data.result.device || "no device named"} · ${data.result.run}`;
  document.title = `${data.result.kernel}: ${data.answer.improved ? `${times(data.answer.speed[0])} as fast` : data.ended ? data.answer.claim.replaceAll("_", " ") : data.phase}`;
};

// Whether someone is using the panel: with an open select, a filter or a chosen row a new drawing would take it away.
const inUse = () => { const panel = CURRENT && byId(`panel-${CURRENT}`); return Boolean(panel && panel.contains(document.activeElement)); };
const catchUp = () => { if (DATA && drawn.get(CURRENT) !== DATA && !inUse()) render(DATA); };

const render = (data) => {
  DATA = data;
  heading(data);
  if (inUse()) return;
  const tabs = TABS.filter((t) => !t.when || t.when(data)), main = byId("main"), bar = byId("tabs");
  const before = [...bar.children].map((b) => b.id).join();
  if (before !== tabs.map((t) => `tab-${t.id}`).join()) {
    drawn.clear();
    bar.replaceChildren(...tabs.map((t) => el("button", { type: "button", role: "tab", id: `tab-${t.id}`, "aria-controls": `panel-${t.id}`, tabindex: "-1", on: { click: () => selectTab(t.id) } }, t.name)));
    main.replaceChildren(...tabs.map((t) => el("div", { role: "tabpanel", id: `panel-${t.id}`, "aria-labelledby": `tab-${t.id}`, hidden: true })));
  }
  const wanted = CURRENT || location.hash.slice(1);
  selectTab(tabs.some((t) => t.id === wanted) ? wanted : "answer");
};

const theme = () => {
  const root = document.documentElement, button = byId("theme"), media = matchMedia("(prefers-color-scheme: dark)");
  let own = null, onPaper = false;
  try { own = localStorage.getItem("tuner-theme"); } catch { /* none where the page has no origin */ }
  const apply = () => {
    const dark = !onPaper && (own ? own === "dark" : media.matches);
    root.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark"; button.setAttribute("aria-label", dark ? "Use the light theme" : "Use the dark theme");
    redrawAll();
  };
  button.addEventListener("click", () => { own = root.dataset.theme === "dark" ? "light" : "dark"; try { localStorage.setItem("tuner-theme", own); } catch { /* as above */ } apply(); });
  media.addEventListener("change", apply);
  // Paper is white: light letters of the dark theme, in charts above all, could not be read on it.
  for (const [event, state] of [["beforeprint", true], ["afterprint", false]]) addEventListener(event, () => { onPaper = state; apply(); });
  apply();
};

// The live page asks for what is new every other second, and now and then which runs there are.
const POLL_MS = 2000, LIST_EVERY = 5;
const follow = (names) => {
  const live = byId("live"), choice = el("select", { "aria-label": "Run" });
  let known = [], at = null, seen = "", timer = null, turn = 0;
  const say = (text, on) => { const kind = `under live${on ? "" : " off"}`; if (live.textContent !== text || live.className !== kind) { live.className = kind; live.textContent = text; } };
  const list = (found) => {
    if (found.join("/") === known.join("/")) return;
    known = found;
    fill(choice, known.map((name) => el("option", { value: name, selected: name === at }, name)));
    if (at === null && known.length) at = known[0];
    choice.value = at;
    choice.hidden = known.length < 2;
  };
  const get = async (path) => {
    const answer = await fetch(path, { cache: "no-store" });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.status === 204 ? null : answer.json();
  };
  const ask = async () => {
    clearTimeout(timer);
    const asked = at;
    try {
      if (turn++ % LIST_EVERY === LIST_EVERY - 1 || at === null) list(await get("runs"));
      if (at === null) say("waiting for a first run", false);
      else {
        const data = await get(`data/${encodeURIComponent(at)}?seen=${seen}`);
        if (asked !== at && asked !== null) return;
        if (data) { seen = data.stamp; render(data); }
        const held = DATA && drawn.get(CURRENT) !== DATA ? "; this tab waits while you use it" : "";
        say(!DATA ? "waiting for the run to begin" : DATA.ended ? `the run has ended${held}` : `live: ${DATA.phase}${held}`, DATA && !DATA.ended);
      }
    } catch (error) { say(`no answer: ${error.message}`, false); }
    timer = setTimeout(ask, POLL_MS);
  };
  choice.addEventListener("change", () => { at = choice.value; seen = ""; ask(); });
  byId("runs").append(choice);
  list(names);
  ask();
};

theme();
byId("tabs").addEventListener("keydown", tabKeys);
byId("main").addEventListener("focusout", () => setTimeout(catchUp, 0));
const given = JSON.parse(byId("data").textContent);
if (given.runs) follow(given.runs); else render(given);
document.documentElement.dataset.ready = "yes";
