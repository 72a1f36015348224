// The timeline that can be moved in. Without it the page shows a picture of one step instead.
// Data is read as numbers and names; names are only ever set as text or drawn.
(() => {
  const source = document.getElementById("timeline-data");
  const box = document.getElementById("timeline");
  if (!source || !box) return;
  const data = JSON.parse(source.textContent);
  const LANES = [
    { key: "path", name: "critical path", ink: "idle", height: 9, rows: 1 },
    { key: "phases", name: "phases", ink: "phase", height: 13, rows: 3 },
    { key: "compute", name: "compute", ink: "compute", height: 15, rows: 3 },
    { key: "comm", name: "communication", ink: "comm", height: 15, rows: 3 },
    { key: "copies", name: "copies", ink: "copies", height: 10, rows: 2 },
    { key: "unknown", name: "unknown", ink: "unclassified", height: 12, rows: 1 },
    { key: "channels", name: "NPKit channels", ink: "comm", height: 5, rows: 32 },
    { key: "counters", name: "GPU counters", ink: "phase", height: 14, rows: 10 },
  ];
  const PATH_INK = { compute: "compute", transfer: "comm", wait: "high", copy: "copies" };
  const [MERGED, NAMED, COPY, COMM, LEVEL] = [0, 1, 2, 3, 4];
  const COUNTERS = LANES.length - 1;

  // ---- data
  function numbers(text) {
    const bytes = atob(text);
    let at = 0;
    const next = () => {
      let [value, scale] = [0, 1];
      for (;;) {
        const byte = bytes.charCodeAt(at++);
        value += (byte & 0x7f) * scale;
        if (byte < 0x80) return value;
        scale *= 128;
      }
    };
    const maybe = () => {
      const value = next();
      return value === 0 ? null : value - 1;
    };
    return { next, maybe, more: () => at < bytes.length };
  }

  function item(read, start) {
    const it = { start, ns: read.next(), kind: read.next() };
    if (it.kind === MERGED) [it.count, it.busy] = [read.next(), read.next()];
    else it.name = data.names[read.next()];
    if (it.kind === COPY) it.bytes = read.next();
    if (it.kind === LEVEL) [it.level, it.count] = [read.next() / 100, read.next()];
    if (it.kind === COMM) {
      it.op = data.names[read.next()];
      [it.bytes, it.wait, it.collective] = [read.maybe(), read.maybe(), read.maybe()];
    }
    return it;
  }

  function rankOf(text) {
    const read = numbers(text);
    const rank = { from: read.next(), to: read.next(), resolution: read.next(), leftOut: read.next(), lanes: [[]] };
    for (let lane = 1; lane < LANES.length; lane++) {
      const list = [];
      let at = 0;
      for (let left = read.next(); left > 0; left--) {
        at = lane === COUNTERS ? read.next() : at + read.next();
        list.push(item(read, at));
      }
      rank.lanes.push(list);
    }
    return rank;
  }

  // Items that overlap lie in rows of their lane, each in the first that is free.
  function intoRows(list, most) {
    const free = [];
    for (const it of list) {
      let row = free.findIndex((end) => end <= it.start);
      if (row < 0) row = free.length < most ? free.length : most - 1;
      it.row = row;
      free[row] = Math.max(free[row] ?? 0, it.start + it.ns);
    }
    return Math.max(1, free.length);
  }

  // A counter has a row of its own.
  function intoCounters(list) {
    const names = [...new Set(list.map((it) => it.name))];
    for (const it of list) it.row = names.indexOf(it.name);
    return names;
  }

  const opened = new Map();
  function stepAt(at) {
    if (opened.has(at)) return opened.get(at);
    const raw = data.steps[at];
    const step = { ...raw, ranks: raw.ranks.map(rankOf), collectives: [] };
    const read = numbers(raw.collectives);
    while (read.more()) {
      const [comm, size, transfer, busbw, last, spread] = Array.from({ length: 6 }, read.maybe);
      step.collectives.push({ comm: comm === null ? null : data.names[comm], size, transfer, busbw, last, spread, members: [] });
    }
    const path = numbers(raw.path);
    let begin = 0;
    while (path.more()) {
      begin += path.next();
      const [ns, rank, part] = [path.next(), path.next(), data.names[path.next()]];
      step.ranks[rank]?.lanes[0].push({ start: begin, ns, path: part });
    }
    step.ranks.forEach((rank, r) => {
      rank.counters = intoCounters(rank.lanes[COUNTERS]);
      rank.rows = rank.lanes.map((list, lane) => (lane === COUNTERS ? Math.max(1, rank.counters.length) : intoRows(list, LANES[lane].rows)));
      for (const it of rank.lanes[3]) if (it.collective != null) step.collectives[it.collective]?.members.push({ rank: r, it });
    });
    if (opened.size > 4) opened.delete(opened.keys().next().value);
    opened.set(at, step);
    return step;
  }

  // ---- words
  // As the rest of the page writes them.
  const digits = (value) => value.toFixed(value < 10 ? 2 : 1);
  const gbs = (value) => (value < 1 ? value.toFixed(3) : digits(value)) + " GB/s";
  function time(ns) {
    if (ns >= 999.95e6) return (ns / 1e9).toFixed(3) + " s";
    if (ns >= 999.95e3) return digits(ns / 1e6) + " ms";
    if (ns >= 1e3) return digits(ns / 1e3) + " µs";
    return ns + " ns";
  }
  function size(bytes) {
    const units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let at = 0;
    while (bytes >= 999.5 && at < units.length - 1) [bytes, at] = [bytes / 1000, at + 1];
    return (at ? bytes.toFixed(bytes < 9.995 ? 2 : bytes < 99.95 ? 1 : 0) : bytes) + " " + units[at];
  }
  const rankName = (r) => "rank " + data.ranks[r];

  // What is said of an item, line by line.
  function words(step, r, lane, it) {
    const when = time(it.ns) + ", from " + time(it.start);
    if (it.path) return [`critical path on ${rankName(r)}: ${it.path}`, when];
    if (it.kind === MERGED) return [`${it.count} short operations, ${LANES[lane].name}, ${rankName(r)}`, `${time(it.busy)} of work in ${when}`];
    if (it.kind === LEVEL) {
      return [`${it.name}: ${digits(it.level)} % on ${rankName(r)}`, when, it.count > 1 ? `mean of ${it.count} samples` : "one sample"];
    }
    const lines = [it.name || "(no name)", `${rankName(r)}, ${LANES[lane].name}`, when];
    if (it.kind === COPY) {
      lines.push(size(it.bytes) + (it.ns > 0 && it.bytes > 0 ? `, ${gbs(it.bytes / it.ns)}` : ""));
    }
    if (it.kind !== COMM) return lines;
    lines[1] = `${it.op} on ${rankName(r)}` + (it.bytes === null ? ", size not known" : `, ${size(it.bytes)} as logged`);
    const one = it.collective === null ? null : step.collectives[it.collective];
    if (!one) return [...lines, "not matched with other ranks: waiting is not known"];
    if (one.comm) lines.push(`communicator ${one.comm}` + (one.size === null ? "" : `, ${one.size} ranks`));
    if (one.transfer !== null) lines.push(`transfer ${time(one.transfer)}` + (one.busbw === null ? "" : `, ${gbs(one.busbw / 1000)} bus bandwidth`));
    if (it.wait === null) lines.push("waiting cannot be told from transfer");
    else if (it.wait > 0) lines.push(`waits ${time(it.wait)}` + (one.last !== null && one.last !== r ? ` for ${rankName(one.last)}` : ", for whom is not certain"));
    else lines.push("does not wait");
    if (one.last === r) lines.push("arrives last");
    return lines;
  }

  // ---- elements
  const make = (name, set = {}, ...inside) => {
    const element = Object.assign(document.createElement(name), set);
    element.append(...inside);
    return element;
  };
  const picker = make("select", { id: "timeline-step" });
  data.steps.forEach((step, at) => {
    const marks = [at === data.first ? "median" : "", step.outlier ? "outlier" : "", step.counted ? "" : "not counted"].filter(Boolean);
    picker.append(make("option", { value: at, textContent: `${step.name}: ${time(step.ns)}` + (marks.length ? ` (${marks.join(", ")})` : "") }));
  });
  const button = (text, title, act) => {
    const element = make("button", { type: "button", textContent: text, title });
    element.setAttribute("aria-label", title);
    element.addEventListener("click", act);
    return element;
  };
  const ranks = make("details", { className: "ranks" });
  const about = make("p", { className: "about" });
  const help = make("p", {
    className: "help", id: "timeline-help",
    textContent: "Drag to move, Ctrl + wheel or two fingers to zoom, double-click to zoom in, click a collective to see it on all ranks. Keys: arrows choose operations and lanes, + and − zoom, Shift + arrows move, Enter shows a collective, Home the whole step, Page Up and Page Down other steps.",
  });
  const canvas = make("canvas", { tabIndex: 0 });
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-describedby", "timeline-help");
  const tip = make("div", { className: "tip", hidden: true });
  const said = make("div", { className: "said" });
  said.setAttribute("aria-live", "polite");
  const legend = make("ul", { className: "legend" });
  const stage = make("div", { className: "stage" }, canvas, tip);
  const notes = make("div", { className: "notes" }, ...box.children);
  box.append(
    make("div", { className: "controls" },
      make("label", { htmlFor: "timeline-step", textContent: "Step" }), picker,
      button("◀", "Previous step", () => goTo(state.at - 1)), button("▶", "Next step", () => goTo(state.at + 1)),
      button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)), button("Whole step", "Show the whole step", whole), ranks),
    about, legend, stage, said, help, notes);

  // ---- state
  const state = { at: data.first, step: null, from: 0, to: 1, shown: [], chosen: null, mark: null, spots: [], areas: [] };
  const least = 200; // ns on the whole width

  function shownAtFirst(step) {
    const all = step.ranks.map((_, r) => r);
    if (all.length <= data.shown) return all;
    const first = step.matter.map(([r]) => r);
    return [...new Set([...first, ...all])].slice(0, data.shown).sort((a, b) => a - b);
  }

  function goTo(at) {
    if (at < 0 || at >= data.steps.length) return;
    const before = state.step;
    state.at = at;
    state.step = stepAt(at);
    if (!before || state.automatic !== false) state.shown = shownAtFirst(state.step);
    [state.chosen, state.mark] = [null, null];
    picker.value = String(at);
    whole();
    const step = state.step;
    const slow = step.matter.find(([, why]) => why === "slowest");
    const parts = [`${step.name} takes ${time(step.ns)}` + (slow ? `; ${rankName(slow[0])} is the slowest` : "")];
    const total = new Map();
    for (const rank of step.ranks) for (const it of rank.lanes[0]) total.set(it.path, (total.get(it.path) ?? 0) + it.ns);
    const path = [...total].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, ns]) => `${name} ${time(ns)}`);
    if (path.length) parts.push(`Critical path: ${path.join(", ")}`);
    about.textContent = parts.join(". ") + ".";
    canvas.setAttribute("aria-label", `Timeline of ${step.name}`);
    listRanks();
    tell();
  }

  function listRanks() {
    const open = ranks.open;
    const why = new Map();
    for (const [r, text] of state.step.matter) why.set(r, [...(why.get(r) ?? []), text]);
    const boxes = state.step.ranks.map((_, r) => {
      const check = make("input", { type: "checkbox", checked: state.shown.includes(r) });
      check.addEventListener("change", () => {
        state.automatic = false;
        state.shown = state.step.ranks.map((_, i) => i).filter((i) => (i === r ? check.checked : state.shown.includes(i)));
        count();
        draw();
      });
      return make("label", {}, check, rankName(r) + (why.has(r) ? ` (${why.get(r).join(", ")})` : ""));
    });
    const every = button("All ranks", "Show all ranks", () => {
      state.automatic = false;
      state.shown = state.step.ranks.map((_, r) => r);
      listRanks();
      draw();
    });
    const summary = make("summary");
    const count = () => (summary.textContent = `Ranks: ${state.shown.length} of ${data.ranks.length}`);
    count();
    ranks.replaceChildren(summary, make("div", { className: "boxes" }, every, ...boxes));
    ranks.open = open;
  }

  function view(from, to) {
    const length = Math.min(Math.max(to - from, least), state.step.end);
    state.from = Math.min(Math.max(from, 0), state.step.end - length);
    state.to = state.from + length;
    draw();
  }
  function whole() {
    view(0, state.step.end);
  }
  function zoom(by, about) {
    const chosen = state.chosen?.it;
    const middle = about ?? (chosen && chosen.start + chosen.ns >= state.from && chosen.start <= state.to ? chosen.start + chosen.ns / 2 : (state.from + state.to) / 2);
    view(middle - (middle - state.from) * by, middle + (state.to - middle) * by);
  }
  const move = (share) => view(state.from + share * (state.to - state.from), state.to + share * (state.to - state.from));

  // ---- drawing
  let pending = 0;
  function draw() {
    if (!pending) pending = requestAnimationFrame(() => { pending = 0; paint(); });
  }

  function paint() {
    const step = state.step;
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue("--" + name).trim();
    const inks = { compute: ink("compute"), comm: ink("comm"), copies: ink("copies"), unclassified: ink("unclassified"), idle: ink("idle"), high: ink("high"), phase: ink("muted") };
    const width = Math.max(stage.clientWidth, 240);
    const gutter = width < 560 ? 62 : 120;
    const used = LANES.map((_, lane) => lane === 2 || lane === 3 || state.shown.some((r) => step.ranks[r].lanes[lane].length));
    const heightOf = (r) => LANES.reduce((sum, lane, i) => sum + (used[i] ? lane.height * step.ranks[r].rows[i] + 2 : 0), 14);
    const height = 26 + state.shown.reduce((sum, r) => sum + heightOf(r), 0);
    const ratio = Math.min(window.devicePixelRatio || 1, 8000 / Math.max(height, width));
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    const room = width - gutter - 4;
    const x = (ns) => gutter + ((ns - state.from) / (state.to - state.from)) * room;
    Object.assign(state, { x, gutter, room });
    state.areas = [];
    g.fillStyle = ink("page");
    g.fillRect(0, 0, width, height);
    g.textBaseline = "middle";
    const font = style.fontFamily || "sans-serif";
    const body = getComputedStyle(document.body).fontFamily || font;
    g.font = `11px ${body}`;

    // Axis: steps of 1, 2 or 5 times a power of ten.
    const rough = (state.to - state.from) / Math.max(2, Math.floor(room / 90));
    const power = 10 ** Math.floor(Math.log10(rough));
    const tick = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const [unit, scale] = tick >= 1e6 ? ["ms", 1e6] : tick >= 1e3 ? ["µs", 1e3] : ["ns", 1];
    g.textAlign = "center";
    for (let at = Math.ceil(state.from / tick) * tick; at <= state.to; at += tick) {
      g.fillStyle = ink("grid");
      g.fillRect(x(at), 20, 1, height);
      g.fillStyle = ink("muted");
      const text = `${+(at / scale).toFixed(3)} ${unit}`;
      const half = g.measureText(text).width / 2;
      g.fillText(text, Math.min(Math.max(x(at), gutter + half), width - half), 9);
    }

    const inChosen = (it) => state.mark !== null && it.collective === state.mark;
    let y = 24;
    for (const r of state.shown) {
      const rank = step.ranks[r];
      g.textAlign = "left";
      g.fillStyle = ink("text");
      g.font = `600 11px ${body}`;
      const why = step.matter.filter(([at]) => at === r).map(([, text]) => text);
      g.fillText(rankName(r) + (step.ranks.length > 1 && why.length && width >= 560 ? `: ${why.join(", ")}` : ""), 0, y + 6);
      g.font = `11px ${body}`;
      y += 13;
      const left = x(Math.max(rank.from, state.from));
      const right = x(Math.min(rank.to, state.to));
      const top = y;
      LANES.forEach((lane, i) => {
        if (!used[i]) return;
        const tall = lane.height * rank.rows[i];
        if (right > left) {
          g.fillStyle = ink("ground");
          g.fillRect(left, y, right - left, tall);
        }
        g.fillStyle = ink("muted");
        g.textAlign = "left";
        if (i === COUNTERS && width >= 560) rank.counters.forEach((name, row) => g.fillText(name, 0, y + (row + 0.5) * lane.height, gutter - 4));
        else g.fillText(width < 560 ? (lane.key === "path" ? "path" : lane.key) : lane.name, 0, y + tall / 2);
        state.areas.push({ r, lane: i, y, tall });
        bars(g, rank.lanes[i], lane, y, inks, ink, inChosen, r);
        y += tall + 2;
      });
      if (state.mark !== null) arrivals(g, step, r, top, y, ink);
      y += 1;
    }
    legendOf(used);
  }

  function bars(g, list, lane, y, inks, ink, inChosen, r) {
    const { x, gutter, room } = state;
    for (const it of list) {
      if (it.start > state.to || it.start + it.ns < state.from) continue;
      const a = Math.max(x(it.start), gutter);
      const b = Math.min(Math.max(x(it.start + it.ns), a + 1), gutter + room + 2);
      const top = y + (it.row ?? 0) * lane.height;
      const tall = lane.height - 1;
      g.globalAlpha = state.mark !== null && lane.key === "comm" && !inChosen(it) ? 0.3 : 1;
      const colour = it.path ? inks[PATH_INK[it.path] ?? "idle"] : inks[lane.ink];
      if (lane.key === "phases") {
        g.strokeStyle = colour;
        g.strokeRect(a + 0.5, top + 0.5, Math.max(b - a - 1, 1), tall - 1);
      } else if (it.wait > 0) {
        // Waiting is the frame of a bar, what moves data is full.
        const moves = Math.max(a, Math.min(x(it.start + it.wait), b));
        g.strokeStyle = colour;
        g.strokeRect(a + 0.5, top + 0.5, Math.max(moves - a - 1, 0.5), tall - 1);
        g.fillStyle = colour;
        g.fillRect(moves, top, b - moves, tall);
      } else if (it.kind === LEVEL) {
        const high = (Math.min(it.level, 100) / 100) * tall;
        g.fillStyle = colour;
        g.fillRect(a, top + tall - high, b - a, high);
      } else {
        g.fillStyle = colour;
        g.fillRect(a, top, Math.max(b - a - (b - a > 3 ? 0.5 : 0), 1), tall);
      }
      g.globalAlpha = 1;
      if (b - a > 40 && it.name && it.kind !== LEVEL && tall > 10) {
        g.save();
        g.beginPath();
        g.rect(a + 2, top, b - a - 4, tall);
        g.clip();
        g.textAlign = "left";
        const moves = it.wait > 0 ? x(it.start + it.wait) : a;
        const inside = lane.key !== "phases" && moves < a + 8;
        g.fillStyle = inside ? ink(lane.key === "compute" ? "on-dark" : "on-light") : ink("text");
        if (inside || lane.key === "phases") g.fillText(it.op ?? it.name, a + 3, top + tall / 2 + 0.5);
        g.restore();
      }
      if (state.chosen?.it === it || inChosen(it)) {
        g.strokeStyle = ink("text");
        g.lineWidth = 2;
        g.strokeRect(a, top, Math.max(b - a, 2), tall);
        g.lineWidth = 1;
      }
    }
  }

  // When each rank arrives at the chosen collective, and when the last one does.
  function arrivals(g, step, r, top, bottom, ink) {
    const members = step.collectives[state.mark]?.members ?? [];
    if (!members.length) return;
    const latest = Math.max(...members.map(({ it }) => it.start));
    const at = state.x(latest);
    if (at < state.gutter || at > state.gutter + state.room) return;
    g.strokeStyle = ink("high");
    g.setLineDash([4, 3]);
    g.beginPath();
    g.moveTo(at, top);
    g.lineTo(at, bottom);
    g.stroke();
    g.setLineDash([]);
  }

  function legendOf(used) {
    const entries = [];
    const entry = (className, glyph, text) => {
      const mark = make("span", { className, textContent: glyph });
      mark.setAttribute("aria-hidden", "true");
      entries.push(make("li", {}, mark, " " + text));
    };
    if (used[1]) entry("", "▭", "phases (the user's ranges)");
    entry("t-compute", "■", "compute");
    entry("t-comm", "■", "communication: data moves");
    entry("t-comm", "▭", "communication: waits for other ranks");
    entry("t-copies", "■", "copies");
    if (used[5]) entry("t-unclassified", "■", "unknown");
    if (used[COUNTERS]) entry("", "▁", "GPU counters: the height of a row is 100 %");
    if (used[0]) entry("t-idle", "■", "critical path: host, launch or delay");
    if (legend.childElementCount !== entries.length) legend.replaceChildren(...entries);
  }

  // ---- choosing
  function find(px, py) {
    const area = state.areas.find(({ y, tall }) => py >= y && py < y + tall);
    if (!area || px < state.gutter) return null;
    const row = Math.floor((py - area.y) / LANES[area.lane].height);
    const list = state.step.ranks[area.r].lanes[area.lane];
    let best = null;
    for (const it of list) {
      if ((it.row ?? 0) !== row) continue;
      const [a, b] = [state.x(it.start), Math.max(state.x(it.start + it.ns), state.x(it.start) + 1)];
      const off = px < a ? a - px : px > b ? px - b : 0;
      if (off < 3 && (!best || off <= best.off)) best = { ...area, it, off };
    }
    return best;
  }

  function tell() {
    said.replaceChildren();
    if (state.chosen) {
      const { r, lane, it } = state.chosen;
      const [title, ...rest] = words(state.step, r, lane, it);
      said.append(make("p", {}, make("b", { textContent: title }), ". " + rest.join("; ") + "."));
    }
    const one = state.mark === null ? null : state.step.collectives[state.mark];
    if (!one) return;
    const first = Math.min(...one.members.map(({ it }) => it.start));
    const list = make("ol", { className: "arrivals" });
    for (const { rank, it } of [...one.members].sort((a, b) => a.it.start - b.it.start)) {
      list.append(make("li", { textContent: `${rankName(rank)}: ` + (data.oneClock ? `arrives ${it.start === first ? "first" : "+" + time(it.start - first)}, ` : "") + (it.wait === null ? "waiting not known" : it.wait > 0 ? `waits ${time(it.wait)}` : "does not wait") + (one.last === rank ? ", last" : "") }));
    }
    const hidden = one.members.filter(({ rank }) => !state.shown.includes(rank)).length;
    said.append(make("p", { textContent: `This collective on ${one.members.length} ranks here` + (data.oneClock && one.spread !== null ? `, arrivals ${time(one.spread)} apart` : "") + (hidden ? `, ${hidden} of them not shown` : "") + ":" }), list);
  }

  function choose(spot, show) {
    state.chosen = spot;
    const collective = spot?.it.collective ?? null;
    state.mark = show ? collective : null;
    tell();
    draw();
  }

  function showTip(spot, px, py) {
    tip.hidden = !spot;
    if (!spot) return;
    tip.replaceChildren(...words(state.step, spot.r, spot.lane, spot.it).map((line, i) => make(i ? "div" : "b", { textContent: line })));
    const wide = stage.clientWidth;
    tip.style.left = Math.max(0, Math.min(px + 12, wide - tip.offsetWidth - 2)) + "px";
    tip.style.top = py + 16 + "px";
  }

  // ---- hands
  const fingers = new Map();
  let drag = null;
  const place = (event) => {
    const at = canvas.getBoundingClientRect();
    return [event.clientX - at.left, event.clientY - at.top];
  };
  const timeAt = (px) => state.from + ((px - state.gutter) / state.room) * (state.to - state.from);
  canvas.addEventListener("pointerdown", (event) => {
    const [px, py] = place(event);
    fingers.set(event.pointerId, px);
    drag = { px, py, moved: false, from: state.from, to: state.to };
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = place(event);
    if (fingers.size === 2 && fingers.has(event.pointerId)) {
      const before = [...fingers.values()];
      fingers.set(event.pointerId, px);
      const after = [...fingers.values()];
      const by = Math.abs(before[0] - before[1]) / Math.max(8, Math.abs(after[0] - after[1]));
      zoom(by, timeAt((after[0] + after[1]) / 2));
      if (drag) drag.moved = true;
    } else if (drag && fingers.has(event.pointerId)) {
      if (Math.abs(px - drag.px) > 4) drag.moved = true;
      if (drag.moved) {
        const by = ((drag.px - px) / state.room) * (drag.to - drag.from);
        view(drag.from + by, drag.to + by);
        showTip(null);
      }
    } else showTip(find(px, py), px, py);
  });
  const up = (event) => {
    fingers.delete(event.pointerId);
    if (drag && !drag.moved && event.type === "pointerup") {
      const [px, py] = place(event);
      const spot = find(px, py);
      choose(spot, true);
      if (event.pointerType === "touch") showTip(spot, px, py);
    }
    drag = null;
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => showTip(null));
  canvas.addEventListener("dblclick", (event) => zoom(0.25, timeAt(place(event)[0])));
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))), timeAt(place(event)[0]));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / state.room);
    else return;
    event.preventDefault();
  }, { passive: false });

  function walk(by) {
    const { r, lane, it } = state.chosen ?? {};
    if (!it) return lanes(0);
    const list = state.step.ranks[r].lanes[lane];
    const next = list[list.indexOf(it) + by];
    if (!next) return;
    choose({ r, lane, it: next }, false);
    reveal(next);
  }
  function lanes(by) {
    const areas = state.areas.filter(({ r, lane }) => state.step.ranks[r].lanes[lane].length);
    if (!areas.length) return;
    const now = state.chosen ? areas.findIndex(({ r, lane }) => r === state.chosen.r && lane === state.chosen.lane) : -1;
    const { r, lane } = areas[Math.max(0, Math.min(areas.length - 1, now < 0 ? 0 : now + by))];
    const about = state.chosen?.it.start ?? state.from;
    const list = state.step.ranks[r].lanes[lane];
    const it = list.find((it) => it.start + it.ns > about) ?? list[list.length - 1];
    choose({ r, lane, it }, false);
    reveal(it);
  }
  function reveal(it) {
    const length = state.to - state.from;
    if (it.start < state.from || it.start + Math.min(it.ns, length) > state.to) view(it.start - length / 4, it.start + (length * 3) / 4);
  }
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      ArrowLeft: () => (event.shiftKey ? move(-0.2) : walk(-1)), ArrowRight: () => (event.shiftKey ? move(0.2) : walk(1)),
      ArrowUp: () => lanes(-1), ArrowDown: () => lanes(1), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
      Home: whole, Escape: () => choose(null, false), Enter: () => state.chosen && choose(state.chosen, true),
      PageUp: () => goTo(state.at - 1), PageDown: () => goTo(state.at + 1),
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
  });
  picker.addEventListener("change", () => goTo(Number(picker.value)));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  box.hidden = false;
  document.documentElement.classList.add("moves");
  new ResizeObserver(() => draw()).observe(stage);
  goTo(data.first);
})();
