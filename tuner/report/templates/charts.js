// Charts on canvas: ten thousand points stay fluid. Each is a figure with a keyboard, a readout and a table beside it.
const REDRAW = new Set();
const redrawAll = () => REDRAW.forEach((draw) => draw());

// Numbers of a stranger's record may be so large, small or alike that steps between them get lost: each loop has an end.
const ticksOf = (low, high, log, most = 7) => {
  if (log && low >= 1e-300 && high <= 1e300) {
    const found = [];
    const decades = Math.log10(high / low);
    const steps = decades > 4 ? [1] : decades > 1.6 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
      for (const s of steps) { const v = s * 10 ** e; if (v >= low * 0.999 && v <= high * 1.001) found.push(v); }
    if (found.length >= 3) return found.length > most + 3 ? found.filter((_, i) => i % 2 === 0) : found;
  }
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough) || power;
  const found = [];
  const first = Math.ceil(low / step) * step, steps = Math.floor((high - first) / step + 1e-6);
  for (let k = 0; k <= Math.min(steps, 4 * most); k++) found.push(first + k * step);
  return found;
};

const scale = (low, high, log, from, to) => {
  const f = log ? Math.log : (v) => v;
  const a = f(low), b = f(high);
  const map = (v) => from + ((f(v) - a) / (b - a || 1)) * (to - from);
  map.low = low; map.high = high; map.log = log;
  return map;
};

const extent = (values, log) => {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (v !== null && Number.isFinite(v) && (!log || v > 0)) { if (v < low) low = v; if (v > high) high = v; }
  if (low > high) return log ? [0.9, 1.1] : [0, 1];
  if (log) return [low / 1.08, high * 1.08];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
};

const fit = (canvas, height) => {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (width === 0) return null;
  canvas.style.setProperty("height", `${height}px`);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = "12px system-ui, sans-serif";
  return [pen, width];
};

// Draws when the canvas has a size, again when that or the theme changes, and never after it left the page.
const attend = (canvas, draw) => {
  let seen = false;
  const guarded = () => { if (canvas.isConnected) { seen = true; draw(); } else if (seen) { REDRAW.delete(guarded); observer.disconnect(); } };
  const observer = new ResizeObserver(guarded);
  observer.observe(canvas);
  REDRAW.add(guarded);
};

const PAD = { left: 58, right: 16, top: 12, bottom: 40 };

const drawAxes = (pen, x, y, axes, width, height) => {
  pen.strokeStyle = css("--line"); pen.fillStyle = css("--soft"); pen.lineWidth = 1;
  pen.textAlign = "right"; pen.textBaseline = "middle";
  const up = ticksOf(y.low, y.high, y.log), along = ticksOf(x.low, x.high, x.log, Math.max(2, Math.floor(width / 90)));
  const upSaid = axes.y.format || apart(up), alongSaid = axes.x.format || apart(along);
  for (const v of up) {
    const at = Math.round(y(v)) + 0.5;
    pen.beginPath(); pen.moveTo(PAD.left, at); pen.lineTo(width - PAD.right, at); pen.stroke();
    pen.fillText(upSaid(v), PAD.left - 7, at);
  }
  pen.textAlign = "center"; pen.textBaseline = "top";
  for (const v of along) pen.fillText(alongSaid(v), x(v), height - PAD.bottom + 7);
  pen.fillText(axes.x.label, (PAD.left + width - PAD.right) / 2, height - 15);
  pen.save(); pen.translate(11, (PAD.top + height - PAD.bottom) / 2); pen.rotate(-Math.PI / 2);
  pen.textBaseline = "middle"; pen.fillText(axes.y.label, 0, 0); pen.restore();
};

const drawSeries = {
  band(pen, s, x, y) {
    pen.fillStyle = css(s.colour); pen.globalAlpha = 0.18; pen.beginPath();
    s.x.forEach((v, i) => { const at = x(v); if (i && s.step) pen.lineTo(at, y(s.high[i - 1])); pen.lineTo(at, y(s.high[i])); });
    for (let i = s.x.length - 1; i >= 0; i--) { pen.lineTo(x(s.x[i]), y(s.low[i])); if (i && s.step) pen.lineTo(x(s.x[i]), y(s.low[i - 1])); }
    pen.fill(); pen.globalAlpha = 1;
  },
  line(pen, s, x, y) {
    pen.strokeStyle = css(s.colour); pen.lineWidth = s.width || 2; pen.setLineDash(s.dash || []); pen.beginPath();
    s.x.forEach((v, i) => { const at = x(v); if (i && s.step) pen.lineTo(at, y(s.y[i - 1])); pen.lineTo(at, y(s.y[i])); });
    pen.stroke(); pen.setLineDash([]);
  },
  points(pen, s, x, y) {
    const r = s.radius || (s.x.length > 3000 ? 1.6 : s.x.length > 600 ? 2.2 : 3.2);
    pen.fillStyle = css(s.colour); pen.strokeStyle = css(s.colour); pen.lineWidth = 1.4;
    pen.globalAlpha = s.x.length > 3000 ? 0.5 : 0.85;
    pen.beginPath();
    s.x.forEach((v, i) => {
      const a = x(v), b = s.floor ? y(y.low) - 3 : y(s.y[i]);
      if (s.shape === "cross") { pen.moveTo(a - r, b - r); pen.lineTo(a + r, b + r); pen.moveTo(a + r, b - r); pen.lineTo(a - r, b + r); }
      else if (s.shape === "ring") { pen.moveTo(a + r, b); pen.arc(a, b, r, 0, 7); }
      else if (s.x.length > 3000) pen.rect(a - r, b - r, 2 * r, 2 * r);
      else { pen.moveTo(a + r, b); pen.arc(a, b, r, 0, 7); }
    });
    if (s.shape) pen.stroke(); else pen.fill();
    pen.globalAlpha = 1;
  },
};

const legendOf = (series) => el("ul", { class: "legend" }, series.filter((s) => s.label).map((s) => {
  const key = el("span", { class: "key", "aria-hidden": "true" });
  const paint = () => key.style.setProperty("background", css(s.colour));
  paint(); REDRAW.add(paint);
  return el("li", {}, key, s.label + (s.shape === "cross" ? " (crosses)" : s.shape === "ring" ? " (rings)" : s.dash ? " (dashed)" : ""));
}));

// axes: {x, y}, each {label, log, format}; series as drawSeries wants them. say(series, i) describes a point,
// pick(series, i) goes to what it stands for; `rows` fill the table that says the same.
const chart = ({ title, description, axes, series, height = 300, say, pick, columns, rows }) => {
  const canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": `${title}. ${description || ""} Arrow keys go from point to point.` });
  const readout = el("div", { class: "readout", "aria-live": "polite" });
  const points = series.filter((s) => s.kind === "points" && say).flatMap((s) => s.x.map((_, i) => [s, i]));
  points.sort((a, b) => a[0].x[a[1]] - b[0].x[b[1]]);
  let chosen = -1, x = null, y = null, wanted = false;
  const placeY = (s, i) => (s.floor ? y(y.low) - 3 : y(s.y[i]));
  const draw = () => {
    const sized = fit(canvas, height);
    if (!sized) return;
    const [pen, width] = sized;
    const xs = [], ys = [];
    for (const s of series) { for (const v of s.x) xs.push(v); for (const k of ["y", "low", "high"]) if (s[k] && !s.floor) for (const v of s[k]) ys.push(v); }
    x = scale(...(axes.x.range || extent(xs, axes.x.log)), axes.x.log, PAD.left + 6, width - PAD.right - 6);
    y = scale(...(axes.y.range || extent(ys, axes.y.log)), axes.y.log, height - PAD.bottom - 5, PAD.top + 3);
    pen.clearRect(0, 0, width, height);
    drawAxes(pen, x, y, axes, width, height);
    for (const s of series) if (s.x.length) drawSeries[s.kind](pen, s, x, y);
    if (chosen >= 0) {
      const [s, i] = points[chosen];
      pen.strokeStyle = css("--ink"); pen.lineWidth = 2; pen.beginPath(); pen.arc(x(s.x[i]), placeY(s, i), 6, 0, 7); pen.stroke();
    }
  };
  const choose = (index) => { if (index === chosen) return; chosen = index; readout.textContent = index < 0 ? "" : say(...points[index]); draw(); };
  const near = (event) => {
    if (!x || wanted) return;
    wanted = true;
    requestAnimationFrame(() => {
      wanted = false;
      const box = canvas.getBoundingClientRect(), a = event.clientX - box.left, b = event.clientY - box.top;
      let best = -1, least = 30 * 30;
      points.forEach(([s, i], k) => { const d = (x(s.x[i]) - a) ** 2 + (placeY(s, i) - b) ** 2; if (d < least) { least = d; best = k; } });
      choose(best);
    });
  };
  if (points.length) {
    canvas.addEventListener("pointermove", near);
    canvas.addEventListener("click", () => { if (chosen >= 0 && pick) pick(...points[chosen]); });
    canvas.addEventListener("keydown", (event) => {
      const to = { ArrowRight: chosen + 1, ArrowLeft: chosen - 1, Home: 0, End: points.length - 1, PageDown: chosen + 20, PageUp: chosen - 20 }[event.key];
      if (to !== undefined) { event.preventDefault(); choose(Math.max(0, Math.min(points.length - 1, to))); }
      else if (event.key === "Enter" && chosen >= 0 && pick) pick(...points[chosen]);
    });
  }
  attend(canvas, draw);
  return el("figure", {}, el("figcaption", {}, el("h2", {}, title), description && soft(description)), canvas, legendOf(series), say && readout,
    rows && lazyTable(`${title} as a table`, columns, rows));
};

// A table that is only made when it is opened; long ones are cut, and say so.
const LONGEST = 400;
const lazyTable = (caption, columns, rows) => {
  const box = el("details", {}, el("summary", {}, "As a table"));
  box.addEventListener("toggle", () => {
    if (!box.open || box.children.length > 1) return;
    const all = typeof rows === "function" ? rows() : rows;
    box.append(table(caption, columns, all.slice(0, LONGEST)));
    if (all.length > LONGEST) box.append(soft(`${all.length - LONGEST} more rows are left out here.`));
  });
  return box;
};

// A colour between blue (slow) and orange (fast), readable on light and dark ground.
const heat = (share) => {
  const t = Math.max(0, Math.min(1, share));
  const stops = [[69, 93, 201], [36, 145, 170], [90, 170, 90], [222, 165, 40], [226, 87, 40]];
  const at = Math.min(stops.length - 2, Math.floor(t * (stops.length - 1))), part = t * (stops.length - 1) - at;
  return `rgb(${stops[at].map((v, i) => Math.round(v + (stops[at + 1][i] - v) * part)).join(",")})`;
};

// Black or white on a colour, whichever stands out more (relative luminance of WCAG 2).
const inkOn = (colour) => {
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = colour.match(/\d+/g).map((v) => linear(Number(v)));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
};
