"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const charts = []; // functions that draw again
  const MINUS = "\u2212";

  // -- small things -----------------------------------------------------------------------------------------------

  function make(tag, attributes, ...inner) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...inner);
    return node;
  }

  function number(value) {
    if (value === null || value === undefined) return "";
    if (value === 0) return "0";
    const size = Math.abs(value);
    let text;
    if (size >= 999.5) text = Math.round(value).toLocaleString("en-US");
    else if (size >= 1e-3) text = String(Number(value.toPrecision(4)));
    else text = value.toExponential(1).replace(".0e", "e");
    return text.replaceAll("-", MINUS);
  }

  function tick(value) {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (size >= 1e6) return number(Number((value / 1e6).toPrecision(4))) + "M";
    if (size >= 1e4) return number(Number((value / 1e3).toPrecision(4))) + "k";
    return number(value);
  }

  const unpacked = new Map();
  function unpack(text, columns) {
    if (!unpacked.has(text)) {
      const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
      const view = new DataView(bytes.buffer);
      const n = bytes.length / 4 / (columns + 1);
      const read = (k, what) => Array.from({ length: n }, (_, i) => view[what](4 * (k * n + i), true));
      const parts = [read(0, "getUint32")];
      for (let k = 1; k <= columns; k++) parts.push(read(k, "getFloat32"));
      unpacked.set(text, parts);
    }
    return unpacked.get(text);
  }

  function nearest(episodes, t) {
    let low = 0;
    let high = episodes.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (episodes[middle] < t) low = middle;
      else high = middle;
    }
    return Math.abs(episodes[low] - t) <= Math.abs(episodes[high] - t) ? low : high;
  }

  const colourOf = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  let printing = false;
  const isDark = () => {
    if (printing) return false;
    const set = root.dataset.theme;
    return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };

  function shade(colour, alpha) {
    let parts = [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
    const light = (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]) / 255;
    if (isDark() && light < 0.5) parts = parts.map((p) => Math.round(p + (255 - p) * (light < 0.15 ? 0.8 : 0.35)));
    if (!isDark() && light > 0.62) parts = parts.map((p) => Math.round(p * 0.82));
    return `rgba(${parts.join(",")},${alpha})`;
  }

  function choice(label, options, value, change) {
    const select = make("select", { onchange: () => change(select.value) });
    for (const [key, text] of options) select.append(make("option", { value: key, selected: key === value }, text));
    return make("label", {}, label, select);
  }

  function swatchOf(dashes) {
    const holder = make("span", {});
    holder.innerHTML = '<svg class="swatch" width="44" height="4" aria-hidden="true"><line x1="0" y1="2" x2="44" y2="2" stroke-width="3"/></svg>';
    const swatch = holder.firstChild;
    swatch.firstChild.setAttribute("stroke-dasharray", dashes.map((d) => 2 * d).join(" "));
    return swatch;
  }

  function boxed(label) {
    const table = make("table", {});
    const caption = make("p", { class: "caption" });
    const box = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
    return { table, caption, box };
  }

  function fill({ table, caption }, text, head, rows) {
    const line = (cells, kind) =>
      make("tr", {}, ...cells.map((cell, k) => make(k === 0 || kind === "th" ? "th" : "td",
        k === 0 || kind === "th" ? { scope: kind === "th" ? "col" : "row", class: k === 0 ? "words" : null } : {},
        ...[].concat(cell))));
    caption.textContent = text;
    table.setAttribute("aria-label", text);
    table.replaceChildren(
      make("thead", {}, line(head, "th")),
      make("tbody", {}, ...rows.map((row) => line(row, "td"))),
    );
  }

  const height = (width) => Math.round(Math.min(430, Math.max(260, width * 0.48)));
  const fontOf = () => "12px system-ui, sans-serif";
  function axis(label, extra) {
    return {
      label, stroke: colourOf("--quiet"), font: fontOf(), labelFont: fontOf(), labelSize: 22,
      grid: { stroke: colourOf("--line"), width: 1 }, ticks: { stroke: colourOf("--line"), width: 1 }, ...extra,
    };
  }
  const roomy = (u, values) => 26 + 7 * Math.max(2, ...(values || []).map((v) => (v === null ? 0 : v.length)));

  // -- curves -----------------------------------------------------------------------------------------------------

  function curves(experiment, state, place) {
    const holder = make("div", { class: "chart", tabindex: "0", role: "img" });
    const readout = make("p", { class: "readout", "aria-live": "polite" });
    const note = make("p", { class: "note" });
    const table = boxed("The numbers behind this chart");
    const behind = make("details", {}, make("summary", {}, "The numbers behind this chart"), table.caption, table.box);
    let plot = null;
    let shown = [];

    function zoom(low, high) {
      const T = experiment.episodes;
      const span = Math.max(high - low, Math.min(4, T - 1));
      low = Math.max(1, Math.min(low, T - span));
      state.zoom = span >= T - 1 ? null : [low, Math.min(T, low + span)];
      draw();
    }
    function scaled(factor, shift) {
      const [low, high] = state.zoom || [1, experiment.episodes];
      const centre = plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : (low + high) / 2;
      zoom(centre - (centre - low) * factor + shift * (high - low), centre + (high - centre) * factor + shift * (high - low));
    }
    function reset() {
      state.zoom = null;
      draw();
    }

    function tell() {
      const left = plot.cursor.left;
      if (left === undefined || left < 0) {
        readout.textContent = `Point at the chart for values. Drag or use the buttons to zoom, double-click to see all. Keys: arrows, +, ${MINUS} and 0.`;
        return;
      }
      const t = plot.posToVal(left, "x");
      readout.replaceChildren(...shown.map((row) => {
        const k = nearest(row.episodes, t);
        const error = row.error ? ` \u00b1 ${number(row.error[k])}` : "";
        return make("span", {}, make("b", {}, row.name), ` ${number(row.mean[k])}${error} in episode ${row.episodes[k].toLocaleString("en-US")}`);
      }));
    }

    function behindTable() {
      const [low, high] = state.zoom || [1, experiment.episodes];
      const stops = [...new Set(Array.from({ length: 9 }, (_, k) => Math.round(low + ((high - low) * k) / 8)))];
      const rows = shown.map((row) => [row.name, ...stops.map((t) => {
        const k = nearest(row.episodes, t);
        const error = row.error ? ` \u00b1 ${number(row.error[k])}` : "";
        const where = row.episodes[k] === t ? [] : [make("small", {}, `in ${row.episodes[k].toLocaleString("en-US")}`)];
        return [number(row.mean[k]) + error, ...where];
      })]);
      const title = experiment.metrics.find((row) => row[0] === state.metric)[1];
      fill(table, `${title} on ${state.environment}: mean \u00b1 standard error at the nearest episode that was kept.`,
        ["Learner", ...stops.map((t) => t.toLocaleString("en-US"))], rows);
    }

    function draw() {
      const found = (experiment.curves[state.environment] || {})[state.metric] || {};
      const title = experiment.metrics.find((row) => row[0] === state.metric)[1];
      const tables = [];
      const series = [{ label: "Episode" }];
      const bands = [];
      shown = [];
      let lowest = Infinity;
      let least = Infinity;
      let most = 0;
      const look = (values) => values.forEach((v) => {
        lowest = Math.min(lowest, v);
        most = Math.max(most, Math.abs(v));
        if (v !== 0) least = Math.min(least, Math.abs(v));
      });
      const plain = { points: { show: false }, pxAlign: 0 };
      experiment.learners.forEach((learner) => {
        const row = found[learner.name];
        if (!row || state.hidden.has(learner.name)) return;
        if (state.seeds) Object.entries(row.seeds || {}).forEach(([seed, text]) => {
          const [episodes, values] = unpack(text, 1);
          tables.push([episodes, values]);
          look(values);
          series.push({ ...plain, label: `${learner.name}, seed ${seed}`, stroke: shade(learner.colour, 0.35), width: 1 });
        });
      });
      experiment.learners.forEach((learner) => {
        const row = found[learner.name];
        if (!row || state.hidden.has(learner.name)) return;
        const [episodes, mean, error] = unpack(row.mean, row.n > 1 ? 2 : 1);
        look(mean);
        const columns = [episodes, mean];
        if (error) columns.push(mean.map((v, k) => v + error[k]), mean.map((v, k) => v - error[k]));
        tables.push(columns);
        const at = series.length;
        series.push({ ...plain, label: learner.name, stroke: shade(learner.colour, 1), width: 2, dash: learner.dashes.map((d) => 2 * d) });
        if (error) {
          series.push({ ...plain, label: "", stroke: "transparent", width: 0 }, { ...plain, label: "", stroke: "transparent", width: 0 });
          bands.push({ series: [at + 1, at + 2], fill: shade(learner.colour, 0.16) });
          if (!state.logY) look(columns[3]);
        }
        shown.push({ name: learner.name, episodes, mean, error });
      });
      let y = { distr: 1 };
      note.textContent = "";
      if (state.logY && lowest > 0) {
        y = { distr: 3, log: 10 };
        for (const columns of tables) if (columns[3]) columns[3] = columns[3].map((v) => Math.max(v, lowest)); // no place at zero
      } else if (state.logY) {
        const threshold = 10 ** Math.floor(Math.log10(Math.max(most * 1e-3, Math.min(least, most), 1e-9)));
        y = { distr: 4, asinh: threshold };
        note.textContent = `Some values are zero or less: the vertical axis is linear within ${number(threshold)} of zero and logarithmic beyond.`;
      }
      if (!shown.length) note.textContent = "No learner is switched on, or none has a complete run here.";
      const width = printing ? 640 : holder.clientWidth || 640;
      const lines = (log) => log ? { filter: (u, splits) => splits.map((v) => (v === 0 || Number.isInteger(Number(Math.log10(Math.abs(v)).toFixed(6))) ? v : null)) } : {};
      const ruled = (log) => ({
        grid: { stroke: colourOf("--line"), width: 1, ...lines(log) }, ticks: { stroke: colourOf("--line"), width: 1, ...lines(log) },
        values: (u, splits) => splits.map(tick),
      });
      const options = {
        width, height: height(width), legend: { show: false }, series, bands,
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
        scales: {
          x: { time: false, distr: state.logX ? 3 : 1, range: () => state.zoom || [1, Math.max(2, experiment.episodes)] },
          y,
        },
        axes: [
          axis("Episode", ruled(state.logX)),
          axis(title, { ...ruled(state.logY), size: roomy }),
        ],
        hooks: {
          setCursor: [(u) => { if (plot === u) tell(); }],
          setSelect: [(u) => {
            if (u.select.width < 8) return;
            const [low, high] = [u.select.left, u.select.left + u.select.width].map((p) => u.posToVal(p, "x"));
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            setTimeout(() => zoom(low, high));
          }],
        },
      };
      if (plot) plot.destroy();
      const data = tables.length ? uPlot.join(tables) : [[1, Math.max(2, experiment.episodes)]];
      plot = new uPlot(options, data, holder);
      plot.over.addEventListener("dblclick", reset);
      plot.over.addEventListener("pointermove", (event) => {
        if (event.pointerType !== "mouse") {
          const box = plot.over.getBoundingClientRect();
          plot.setCursor({ left: event.clientX - box.left, top: 1 });
        }
      });
      const [low, high] = state.zoom || [1, experiment.episodes];
      holder.setAttribute("aria-label",
        `${title} on ${state.environment}, episodes ${Math.round(low)} to ${Math.round(high)}, of ${shown.map((row) => row.name).join(", ") || "nobody"}. ` +
        "Arrow keys read values, plus and minus zoom, 0 shows all. A table follows.");
      tell();
      behindTable();
    }

    holder.addEventListener("keydown", (event) => {
      const step = (event.shiftKey ? 0.1 : 0.01) * plot.over.clientWidth;
      const left = plot.cursor.left >= 0 ? plot.cursor.left : 0;
      const keys = {
        ArrowLeft: () => plot.setCursor({ left: Math.max(0, left - step), top: 1 }),
        ArrowRight: () => plot.setCursor({ left: Math.min(plot.over.clientWidth - 1, left + step), top: 1 }),
        "+": () => scaled(0.5, 0), "=": () => scaled(0.5, 0), "-": () => scaled(2, 0), 0: reset, Escape: reset,
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
      keys[event.key]();
      event.preventDefault();
    });
    const buttons = make("div", { class: "controls" },
      ...[["Zoom in", () => scaled(0.5, 0)], ["Zoom out", () => scaled(2, 0)], ["Earlier", () => scaled(1, -0.4)],
        ["Later", () => scaled(1, 0.4)], ["Show all", reset]].map(([text, act]) => make("button", { type: "button", onclick: act }, text)));
    place.append(make("figure", {}, holder, readout, note), buttons, behind);
    return draw;
  }

  // -- regret against violation -----------------------------------------------------------------------------------

  const SHAPES = { s: [4, 45], "^": [3, -90], D: [4, 0], d: [4, 0], v: [3, 90], p: [5, -90], h: [6, 0], 8: [8, 22.5], "<": [3, 180], ">": [3, 0] };
  function marker(context, kind, x, y, r) {
    context.beginPath();
    if (kind === "X" || kind === "P" || kind === "*") {
      const arms = kind === "*" ? 5 : 4;
      const turn = kind === "X" ? Math.PI / 4 : -Math.PI / 2;
      for (let k = 0; k < 2 * arms; k++) {
        const size = k % 2 ? 0.45 * r : 1.25 * r;
        context.lineTo(x + size * Math.cos(turn + (k * Math.PI) / arms), y + size * Math.sin(turn + (k * Math.PI) / arms));
      }
    } else if (kind in SHAPES) {
      const [sides, degrees] = SHAPES[kind];
      for (let k = 0; k < sides; k++) {
        const angle = (degrees * Math.PI) / 180 + (2 * Math.PI * k) / sides;
        context.lineTo(x + 1.15 * r * Math.cos(angle), y + 1.15 * r * Math.sin(angle));
      }
    } else context.arc(x, y, r, 0, 2 * Math.PI);
    context.closePath();
  }

  function layout(means, errors, zero) {
    const positive = means.filter((v) => v > 0);
    const ends = means.map((v, k) => v + errors[k]).filter((v) => v > 0);
    let low = Math.log10(Math.min(...(positive.length ? positive : [1]))) - 0.25;
    let high = Math.log10(Math.max(...(ends.length ? ends : [1]))) + 0.25;
    if (high - low < 1) [low, high] = [(low + high) / 2 - 0.5, (low + high) / 2 + 0.5];
    const slot = (high - low) * 0.14;
    const place = (v) => (v > 0 ? Math.max(Math.log10(v), low) : low - slot / 2);
    const splits = [];
    const factors = high - low > 4 ? [1] : high - low > 1.6 ? [1, 3] : [1, 2, 5];
    const every = Math.max(1, Math.ceil((high - low) / 8));
    for (let d = Math.floor(low); d <= high; d++) {
      if (d % every) continue;
      factors.forEach((f) => {
        const p = d + Math.log10(f);
        if (p >= low + (zero ? 0.06 * (high - low) : 0) && p <= high) splits.push(p);
      });
    }
    return { place, splits: zero ? [low - slot / 2, ...splits] : splits, range: [zero ? low - slot : low, high], border: zero ? low : null };
  }

  function pareto(experiment, state, place) {
    const holder = make("div", { class: "chart", tabindex: "0", role: "img" });
    const readout = make("p", { class: "readout", "aria-live": "polite" });
    let plot = null;
    let points = [];
    let at = -1;

    const say = () => {
      const point = points[at];
      if (!point) {
        const border = experiment.alike.includes(state.environment) ? "The stepped line is the border of what nobody beats in both."
          : "Runs are missing, so the means are over different seeds, and no border is drawn.";
        readout.textContent = `Lower left is better. ${border} Zero has a place of its own at the edge, behind the straight line.`;
        return;
      }
      readout.replaceChildren(make("b", {}, point.name), ` strong regret ${number(point.regret[0])} \u00b1 ${number(point.regret[1])}, ` +
        `strong violation ${number(point.violation[0])} \u00b1 ${number(point.violation[1])}, ${point.n} run${point.n === 1 ? "" : "s"}`);
    };

    function draw() {
      const found = experiment.pareto[state.environment] || {};
      points = experiment.learners.filter((l) => found[l.name] && !state.hidden.has(l.name)).map((l) => ({ ...l, ...found[l.name] }));
      at = -1;
      const xs = layout(points.map((p) => p.regret[0]), points.map((p) => p.regret[1]), points.some((p) => p.regret[0] === 0));
      const ys = layout(points.map((p) => p.violation[0]), points.map((p) => p.violation[1]), true);
      points.forEach((p) => { p.x = xs.place(p.regret[0]); p.y = ys.place(p.violation[0]); });
      points.sort((a, b) => a.x - b.x || a.y - b.y);
      const labels = (scale) => (u, splits) => splits.map((p) => (scale.border !== null && p < scale.border ? "0" : tick(Number((10 ** p).toPrecision(3)))));
      const paint = (u) => {
        const c = u.ctx;
        const ratio = devicePixelRatio || 1;
        const X = (v) => u.valToPos(v, "x", true);
        const Y = (v) => u.valToPos(v, "y", true);
        const { left, top, width, height: tall } = u.bbox;
        c.save();
        c.beginPath();
        c.rect(left, top, width, tall);
        c.clip();
        c.lineWidth = ratio;
        c.strokeStyle = colourOf("--quiet");
        c.setLineDash([2 * ratio, 4 * ratio]);
        if (ys.border !== null) { c.beginPath(); c.moveTo(left, Y(ys.border)); c.lineTo(left + width, Y(ys.border)); c.stroke(); }
        if (xs.border !== null) { c.beginPath(); c.moveTo(X(xs.border), top); c.lineTo(X(xs.border), top + tall); c.stroke(); }
        let best = Infinity;
        const front = points.filter((p) => { const on = p.y < best; if (on) best = p.y; return on; });
        if (front.length && experiment.alike.includes(state.environment)) {
          c.strokeStyle = colourOf("--ink");
          c.setLineDash([2 * ratio, 2 * ratio]);
          c.beginPath();
          c.moveTo(X(front[0].x), top);
          front.forEach((p, k) => { c.lineTo(X(p.x), Y(p.y)); c.lineTo(k + 1 < front.length ? X(front[k + 1].x) : left + width, Y(p.y)); });
          c.stroke();
        }
        c.setLineDash([]);
        const boxes = points.map((p) => [X(p.x) - 7 * ratio, Y(p.y) - 7 * ratio, X(p.x) + 7 * ratio, Y(p.y) + 7 * ratio]);
        points.forEach((p, k) => {
          c.strokeStyle = shade(p.colour, 1);
          c.lineWidth = 1.5 * ratio;
          const span = (scale, [mean, error]) => [scale.place(Math.max(mean - error, 1e-300)), scale.place(mean + error)];
          if (p.regret[1] > 0) { const [a, b] = span(xs, p.regret); c.beginPath(); c.moveTo(X(a), Y(p.y)); c.lineTo(X(b), Y(p.y)); c.stroke(); }
          if (p.violation[1] > 0) { const [a, b] = span(ys, p.violation); c.beginPath(); c.moveTo(X(p.x), Y(a)); c.lineTo(X(p.x), Y(b)); c.stroke(); }
          c.fillStyle = shade(p.colour, 1);
          marker(c, p.marker, X(p.x), Y(p.y), (k === at ? 8 : 6) * ratio);
          c.fill();
          c.strokeStyle = colourOf("--paper");
          c.lineWidth = ratio;
          c.stroke();
        });
        c.font = `${12 * ratio}px system-ui, sans-serif`;
        c.fillStyle = colourOf("--ink");
        c.textBaseline = "middle";
        c.textAlign = "left";
        let told = 0;
        points.forEach((p) => {
          const name = p.name.length > 34 ? `${p.name.slice(0, 32)}\u2026` : p.name;
          const w = c.measureText(name).width;
          const h = 14 * ratio;
          const [px, py] = [X(p.x), Y(p.y)];
          const room = (x) => Math.max(left + ratio, Math.min(x, left + width - w - ratio));
          const spots = [];
          for (const gap of [11, 22, 33, 44, 60, 80].map((g) => g * ratio)) for (const dy of [-gap, gap]) {
            spots.push([px + 11 * ratio, py + dy], [px - 11 * ratio - w, py + dy], [room(px - w / 2), py + dy]);
          }
          const spot = spots.find(([x, y]) => {
            const box = [x, y - h / 2, x + w, y + h / 2];
            const inside = box[0] >= left && box[2] <= left + width && box[1] >= top && box[3] <= top + tall;
            return inside && boxes.every((b) => box[2] < b[0] || box[0] > b[2] || box[3] < b[1] || box[1] > b[3]);
          });
          if (!spot) return;
          const [x, y] = spot;
          if (Math.abs(y - py) > 12 * ratio) { // far from its point: a line leads there
            c.strokeStyle = colourOf("--quiet");
            c.beginPath();
            c.moveTo(px, py + Math.sign(y - py) * 7 * ratio);
            c.lineTo(Math.max(x, Math.min(px, x + w)), y - Math.sign(y - py) * h / 2);
            c.stroke();
          }
          c.fillText(name, x, y);
          boxes.push([x, y - h / 2, x + w, y + h / 2]);
          told += 1;
        });
        holder.dataset.labels = told;
        c.restore();
      };
      const width = printing ? 640 : holder.clientWidth || 640;
      const options = {
        width, height: height(width), legend: { show: false },
        cursor: { x: false, y: false, points: { show: false }, drag: { x: false, y: false } },
        scales: { x: { time: false, range: () => xs.range }, y: { range: () => ys.range } },
        series: [{}, { paths: () => null, points: { show: false } }],
        axes: [
          axis("Strong regret", { splits: () => xs.splits, values: labels(xs) }),
          axis("Strong violation", { splits: () => ys.splits, values: labels(ys), size: roomy }),
        ],
        hooks: {
          draw: [paint],
          setCursor: [(u) => {
            if (plot !== u || u.cursor.left < 0) return;
            const far = points.map((p) => Math.hypot(u.valToPos(p.x, "x") - u.cursor.left, u.valToPos(p.y, "y") - u.cursor.top));
            const near = far.indexOf(Math.min(...far));
            choose(far[near] < 40 ? near : -1);
          }],
        },
      };
      if (plot) plot.destroy();
      plot = new uPlot(options, [points.map((p) => p.x), points.map((p) => p.y)], holder);
      holder.setAttribute("aria-label", `Strong regret against strong violation on ${state.environment}. ` +
        points.map((p) => `${p.name}: regret ${number(p.regret[0])}, violation ${number(p.violation[0])}`).join("; ") + ". Arrow keys go from learner to learner.");
      say();
    }
    function choose(k) {
      if (k === at) return;
      at = k;
      say();
      plot.redraw(false);
    }
    holder.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !points.length) return;
      choose((at + step + points.length + (at < 0 && step < 0 ? 1 : 0)) % points.length);
      event.preventDefault();
    });
    place.append(make("figure", {}, holder, readout));
    return draw;
  }

  // -- paired differences -----------------------------------------------------------------------------------------

  function differences(experiment, state, place) {
    const table = boxed("Paired differences");
    const own = { baseline: experiment.learners[0].name, metric: experiment.paired[0][0] };
    function draw() {
      const rows = [];
      for (const [environment, metric, a, b, mean, low, high, lower, equal, higher] of experiment.pairs) {
        if (environment !== state.environment || metric !== own.metric) continue;
        if (b === own.baseline) rows.push([a, mean, low, high, lower, equal, higher]);
        else if (a === own.baseline) rows.push([b, -mean, high === null ? null : -high, low === null ? null : -low, higher, equal, lower]);
      }
      const title = experiment.paired.find((row) => row[0] === own.metric)[1];
      fill(table, `${title} on ${state.environment}, less that of ${own.baseline} in the same run: mean and 95 % interval.`,
        ["Learner", "Difference", "Interval", "Lower in", "Equal in", "Higher in", "Reading"],
        rows.map(([name, mean, low, high, lower, equal, higher]) => {
          const n = lower + equal + higher;
          const reading = low === null ? "one pair" : n < experiment.enough ? "too few runs" : low === 0 && high === 0 ? "equal" : high < 0 ? "lower" : low > 0 ? "higher" : "not settled";
          const span = low === null ? "none" : `${number(low)} to ${number(high)}`;
          return [name, number(mean), span, String(lower), String(equal), String(higher), reading];
        }));
    }
    place.append(
      make("div", { class: "controls" },
        choice("Baseline", experiment.learners.map((l) => [l.name, l.name]), own.baseline, (v) => { own.baseline = v; draw(); }),
        choice("Metric", experiment.paired, own.metric, (v) => { own.metric = v; draw(); })),
      table.caption, table.box);
    if (experiment.few) place.append(make("p", { class: "note" }, experiment.few));
    return draw;
  }

  // -- an experiment ----------------------------------------------------------------------------------------------

  function start(place) {
    const experiment = DATA.experiments[Number(place.dataset.experiment)];
    const environments = Object.keys(experiment.curves);
    const state = { environment: environments[0], metric: "strong_violation", logX: false, logY: false, seeds: false, hidden: new Set(), zoom: null };
    let drawn = [];
    const again = () => drawn.forEach((draw) => draw());
    const controls = make("div", { class: "controls" });
    if (environments.length > 1) controls.append(choice("Environment", environments.map((e) => [e, e]), state.environment, (v) => {
      state.environment = v;
      const known = experiment.curves[v];
      if (!(state.metric in known)) state.metric = "strong_violation";
      again();
    }));
    const seeds = make("input", { type: "checkbox", onchange: () => { state.seeds = seeds.checked; drawn[0](); } });
    const AXES = [["linear", "linear"], ["log", "logarithmic"]];
    controls.append(
      choice("Curve", experiment.metrics, state.metric, (v) => { state.metric = v; drawn[0](); }),
      choice("Vertical axis", AXES, "linear", (v) => { state.logY = v === "log"; drawn[0](); }),
      choice("Horizontal axis", AXES, "linear", (v) => { state.logX = v === "log"; drawn[0](); }));
    const some = Object.values(experiment.curves).some((e) => Object.values(e).some((m) => Object.values(m).some((l) => l.seeds)));
    if (some) controls.append(make("label", { class: "tick" }, seeds, "Single seeds"));
    const legend = make("div", { class: "learners", role: "group", "aria-label": "Learners shown" });
    const paintLegend = () => legend.querySelectorAll(".swatch").forEach((s, k) => { s.style.stroke = shade(experiment.learners[k].colour, 1); });
    experiment.learners.forEach((learner) => {
      const swatch = swatchOf(learner.dashes);
      const button = make("button", { type: "button", "aria-pressed": "true", onclick: () => {
        const off = !state.hidden.delete(learner.name);
        if (off) state.hidden.add(learner.name);
        button.setAttribute("aria-pressed", String(!off));
        again();
      } }, swatch, learner.name);
      legend.append(button);
    });
    place.append(make("h3", {}, "Curves"), controls, legend);
    const one = curves(experiment, state, place);
    place.append(make("h3", {}, "Regret against violation"));
    const two = pareto(experiment, state, place);
    place.append(make("h3", {}, "Paired differences"));
    const three = differences(experiment, state, place);
    drawn = [one, two, three];
    charts.push(() => { paintLegend(); again(); });
    let width = place.clientWidth;
    new ResizeObserver(() => {
      if (printing || place.clientWidth === width || !place.clientWidth) return;
      width = place.clientWidth;
      again();
    }).observe(place);
    paintLegend();
    again();
  }

  // -- theme and print --------------------------------------------------------------------------------------------

  const THEMES = [["", "as the system"], ["light", "light"], ["dark", "dark"]];
  const button = document.getElementById("theme");
  const everything = () => charts.forEach((draw) => draw());
  function setTheme(name) {
    if (name) root.dataset.theme = name;
    else delete root.dataset.theme;
    button.textContent = `Theme: ${THEMES.find((row) => row[0] === name)[1]}`;
    everything();
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    const now = THEMES.findIndex((row) => row[0] === (root.dataset.theme || ""));
    setTheme(THEMES[(now + 1) % THEMES.length][0]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", everything);
  let before = "";
  addEventListener("beforeprint", () => {
    before = root.dataset.theme || "";
    printing = true;
    setTheme("light");
  });
  addEventListener("afterprint", () => {
    printing = false;
    setTheme(before);
  });

  const sides = new ResizeObserver((rows) => rows.forEach(({ target }) => {
    const box = target.closest(".scroll");
    box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
  }));
  document.querySelectorAll(".interactive").forEach(start);
  document.querySelectorAll(".scroll").forEach((box) => { sides.observe(box); sides.observe(box.firstElementChild); });
  root.dataset.ready = "true";
  if (root.dataset.live) setInterval(async () => {
    const answer = await fetch("state").catch(() => null); // a server that has stopped leaves the page as it is
    if (answer && answer.ok && (await answer.text()) !== root.dataset.live) location.reload();
  }, 3000);
})();
