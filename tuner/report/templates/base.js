// Elements, numbers and tables. Everything from a record reaches the page as text, never as markup.
const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [kind, f] of Object.entries(value)) node.addEventListener(kind, f);
    else if (name === "style") for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...parts(children));
  return node;
};

const parts = (children) => children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false);
const fill = (node, ...children) => node.replaceChildren(...parts(children));
const card = (title, ...children) => el("section", { class: "card" }, title && el("h2", {}, title), children);
const soft = (...words) => el("p", { class: "soft" }, ...words);
const code = (text) => el("code", {}, String(text));
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const count = (n, word, words) => `${n.toLocaleString("en")} ${n === 1 ? word : words || word + "s"}`;
const digits = (value, n = 3) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4)) return value.toExponential(n - 1);
  return String(Number(value.toPrecision(n)));
};
// As many digits as neighbours on an axis need to be told apart.
const apart = (values) => {
  for (let n = 3; n <= 12; n++) if (new Set(values.map((v) => digits(v, n))).size === new Set(values).size) return (v) => digits(v, n);
  return digits;
};
const times = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)}×`);
const factor = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(3)}×`);
const percent = (value, n = 1) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(n)}%`);
const unitOf = (seconds) => {
  for (const [unit, scale] of [["s", 1], ["ms", 1e3], ["µs", 1e6]]) if (Math.abs(seconds) * scale >= 1) return [unit, scale];
  return ["ns", 1e9];
};
const time = (seconds, like = seconds, n = 4) => {
  if (seconds === null || seconds === undefined) return "–";
  const [unit, scale] = unitOf(like);
  return `${digits(seconds * scale, n)} ${unit}`;
};
const span = (seconds) => {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1e-3) return "0 s";
  if (seconds < 120) return `${digits(seconds, 3)} s`;
  return seconds < 7200 ? `${digits(seconds / 60, 3)} min` : `${digits(seconds / 3600, 3)} h`;
};
const shown = (value) => (value === "" ? "(none)" : value === null || value === undefined ? "–" : String(value));

// What a cell holds as text, whatever it is made of.
const textOf = (cell) => parts([cell]).map((p) => (p.textContent === undefined ? String(p) : p.textContent)).join("");
const SHORT_NAME = 18;

// A table whose first column names the row: short names take no more room than they need. A column: {label, number, class}.
const table = (caption, columns, rows, attributes = {}) => {
  const short = rows.every((row) => textOf(row[0]).length <= SHORT_NAME);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", attributes,
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, columns.map((c) => el("th", { scope: "col", class: c.number && "n" }, c.label || el("span", { class: "visually-hidden" }, c.class === "meterbox" ? "as a bar" : "what"))))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) =>
        el(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: columns[i].number ? "n" : columns[i].class || (i === 0 && short ? null : "wide") }, cell)))))));
};

// The first rows of a long table; the others in one that opens.
const FIRST_ROWS = 15;
const longTable = (caption, columns, rows) => rows.length <= FIRST_ROWS + 5 ? table(caption, columns, rows) : [table(caption, columns, rows.slice(0, FIRST_ROWS)),
  el("details", {}, el("summary", {}, `${rows.length - FIRST_ROWS} more`), table(`${caption}, the others`, columns, rows.slice(FIRST_ROWS)))];

// A pass whose options would fill lines is its name, which opens.
const passCode = (text) => {
  const at = text.indexOf("<");
  if (text.length <= 44 || at < 0) return code(text);
  const options = text.slice(at + 1).split(";").length;
  return el("details", { class: "inline" }, el("summary", {}, code(text.slice(0, at)), ` ${count(options, "option")}`), code(text));
};

// A name with its middle left out: names of one family differ at their ends.
const shortened = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.ceil((most - 1) / 2))}…${text.slice(-Math.floor((most - 1) / 2))}`);

const facts = (pairs) => el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
const meter = (share, kind = "") =>
  el("div", { class: `meter ${kind}`, "aria-hidden": "true" }, el("i", { style: { width: `${Math.max(0, Math.min(1, share)) * 100}%` } }));

// Nested plain values as a description list.
const plain = (value) => {
  if (typeof value === "string" && value.length > 160) return el("details", { style: { margin: "0" } }, el("summary", {}, `${value.slice(0, 60)}…`), code(value));
  if (value === null || typeof value !== "object") return el("span", {}, shown(value));
  const items = Array.isArray(value) ? value.map((v, i) => [String(i), v]) : Object.entries(value);
  if (items.length === 0) return el("span", { class: "soft" }, "none");
  if (Array.isArray(value) && value.every((v) => v === null || typeof v !== "object")) return plain(value.map(shown).join(", "));
  return el("dl", { class: "kv" }, items.map(([name, v]) => [el("dt", {}, name), el("dd", {}, plain(v))]));
};

const STATUS_COLOUR = {
  ok: "--accent", duplicate: "--grey", build_error: "--bad", wrong_result: "--bad", crashed: "--bad", timed_out: "--warn",
  out_of_resources: "--warn", refused: "--violet", pruned: "--grey", lost: "--grey", abandoned: "--grey",
};
const said = (status) => status.replaceAll("_", " ");
