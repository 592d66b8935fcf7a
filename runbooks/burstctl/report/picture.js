// Pictures of a resource: a line for its row, and a large one with forecast, stretches and marks. All times are UTC.
const [LEFT, TOP, LANES, RECENT] = [42, 55, 3, 6 * 3600];
const NS = "http://www.w3.org/2000/svg";
const draw = (tag, attributes = {}, ...children) => {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const shape = (level) => draw("svg", { class: `shape ${level}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
  draw("use", { href: `#shape-${level}` }));
const clock = (at) => new Date(at * 1000).toISOString().slice(11, 16);
const day = (at) => new Date(at * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const when = (at) => (data.now - data.since >= 86400 || at - data.now > 86400 ? `${day(at)} ` : "") + clock(at);
const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 1 });

// "1000x47,985,x3": values with how often they repeat; nothing before a comma or an x is a gap
const decode = (text, scale = 1) => (text === "" ? [] : text.split(",").flatMap((part) => {
  const [value, times] = part.split("x");
  return Array(Number(times ?? 1)).fill(value === "" ? null : Number(value) / scale);
}));

// unbroken pieces of a line: a gap is never bridged; each value holds to the end of its period
const pieces = (values, x, y) => {
  const lines = [];
  let open = false;
  values.forEach((value, at) => {
    if (value === null) { open = false; return; }
    if (!open) lines.push([]);
    lines.at(-1).push([x(at), y(value)]);
    open = true;
    if (values[at + 1] == null) lines.at(-1).push([x(at + 1), y(value)]);
  });
  return lines;
};
// a mean holds for the whole of its period: steps, no slopes
const steps = (values, x, y) => pieces(values, (at) => at, (value) => value).map((piece) =>
  piece.slice(0, -1).flatMap(([at, value]) => [[x(at), y(value)], [x(at + 1), y(value)]]));
const points = (piece) => piece.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
const under = (piece, floor) => `${points(piece)} ${piece.at(-1)[0].toFixed(1)},${floor} ${piece[0][0].toFixed(1)},${floor}`;

const spark = (row) => {
  if (isUnread(row)) return make("span", { class: "sub" }, "not read");
  const [width, height] = [128, 30];
  const values = decode(row.line, 10);
  const x = (at) => (at * width) / data.axis[2];
  const y = (value) => 2 + (100 - value) * (height - 4) / 100;
  const node = draw("svg", { class: `spark ${row.level}`, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  node.append(draw("line", { class: "floor", x1: 0, x2: width, y1: height - 1, y2: height - 1 }));
  for (const piece of pieces(values, x, y)) {
    node.append(draw("polygon", { class: "area", points: under(piece, height - 1) }));
    node.append(draw("polyline", { class: "line", points: points(piece) }));
  }
  return node;
};

const isUnread = (row) => data.unread.includes(row.id);
// what a picture shows of a resource; if the page has no details of it, only its balance
const viewOf = (row) => data.details[row.id] ?? { axis: data.axis, end: data.now, balance: row.line, iops: "", unit: "", scale: 1, fan: null,
  absent: isUnread(row) ? [[data.axis[0], data.now, "could not be read"]] : [], limits: [], stays: [], windows: [], holds: [], stalls: [], marks: [], facts: [], history: [] };

const STEPS = [300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const timeAxis = (from, to, x, width, y1, y2) => {
  const step = STEPS.find((value) => (to - from) / value <= width / 64) ?? 1209600;
  const node = draw("g", { class: "axis" });
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    node.append(draw("line", { x1: x(at), x2: x(at), y1, y2 }));
    if (x(at) < 16 || x(at) > width - 14) continue;
    const label = at % 86400 === 0 ? day(at) : step >= 86400 ? day(at) : clock(at);
    node.append(draw("text", { x: x(at), y: y2 + 13, "text-anchor": "middle" }, label));
  }
  return node;
};

// stretches, each sort with its words at a height of its own: they may lie over each other
const bands = (view, x, top, bottom) => {
  const node = draw("g");
  const band = (kind, lead, height, textAt, y = top) => ([from, to, label]) => {
    const [left, right] = [Math.max(x(from), LEFT), x(Math.min(to, view.end))];
    if (right - left < 0.5) return;
    const text = `${lead}${label}`;
    node.append(draw("rect", { class: `band ${kind}`, x: left, y, width: right - left, height },
      draw("title", {}, text)));
    if (right - left > text.length * 6 + 8) node.append(draw("text", { class: "said", x: left + 4, y: textAt }, text));
  };
  view.absent.forEach(band("absent", "", bottom - top, bottom - 5));
  view.stays.forEach(band("stay", "on ", bottom - top, (top + bottom) / 2 + 4));
  view.stalls.forEach(band("stall", "stalled: ", bottom - top, bottom - 19));
  view.windows.forEach(band("window", "window ", 14, top + 11));
  view.holds.forEach(band("hold", "held by ", 14, top + 27, top + 16));
  return node;
};

const fan = (view, x, y) => {
  const { from, pct, soonest, earliest, about, latest } = view.fan;
  const node = draw("g", { class: "fan" });
  const to = (at) => [[x(from), y(pct)], [x(at), y(0)]];
  const right = x(view.end);
  if (about !== null) {
    const slow = latest === null ? [[right, y(pct)], [right, y(0)]] : [[x(latest), y(0)]];
    node.append(draw("polygon", { points: points([[x(from), y(pct)], ...slow, [x(earliest ?? about), y(0)]]) }));
    node.append(draw("polyline", { class: "about", points: points(to(about)) }));
  }
  if (soonest !== null) node.append(draw("polyline", { class: "bound", points: points(to(soonest)) }));
  return node;
};

// letters on lanes, the newest first; where all are taken a line alone stays, and its words are in the story
const marks = (view, x, top, bottom) => {
  const node = draw("g", { class: "marks" });
  const free = Array(LANES).fill(Infinity);
  for (const [at, letter, kind, text] of [...view.marks].reverse()) {
    const place = x(at);
    if (place < LEFT) continue;
    node.append(draw("line", { class: `mark ${kind}`, x1: place, x2: place, y1: top, y2: bottom }));
    const lane = free.findIndex((last) => last - place > 15);
    if (lane < 0) continue;
    free[lane] = place;
    node.append(draw("g", { transform: `translate(${place} ${top - 8 - 15 * lane})` },
      draw("circle", { class: `mark ${kind}`, r: 7 }),
      draw("text", { "text-anchor": "middle", y: 4 }, letter),
      draw("title", {}, `${when(at)} ${text}`)));
  }
  return node;
};

const picture = (row, width, isSmall, isNear = isSmall) => {
  const view = viewOf(row);
  const [start, period] = view.axis;
  const from = isNear ? Math.max(start, data.now - RECENT) : start;
  const [left, top, low] = [LEFT, TOP, TOP + (isSmall ? 110 : 150)];
  const balance = decode(view.balance, 10);
  const iops = decode(view.iops, view.scale);
  const bottom = iops.length && !isSmall ? low + 130 : low;
  const x = (at) => left + (at - from) * (width - left - 6) / (view.end - from);
  const y = (pct) => top + (100 - pct) * (low - top) / 100;
  const nth = (at) => x(Math.min(start + at * period, data.now));
  const svg = draw("svg", { class: `picture ${row.level}`, viewBox: `0 0 ${width} ${bottom + 20}`, role: "img",
    tabindex: isSmall ? -1 : 0, "aria-label": labelOf(row, balance) });
  const clip = draw("clipPath", { id: `clip-${isSmall ? "card" : "large"}-${row.id}` },
    draw("rect", { x: left, y: top - 2, width: width - left - 6, height: bottom - top + 4 }));
  const inside = draw("g", { "clip-path": `url(#${clip.id})` });
  svg.append(clip, timeAxis(from, view.end, x, width, top, bottom));
  for (const pct of [0, 50, 100]) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width - 6, y1: y(pct), y2: y(pct) }),
      draw("text", { x: left - 5, y: y(pct) + 4, "text-anchor": "end" }, `${pct}${pct === 100 ? " %" : ""}`));
  }
  inside.append(bands(view, x, top, low));
  svg.append(inside);
  for (const piece of pieces(balance, nth, y)) {
    inside.append(draw("polygon", { class: "area", points: under(piece, low) }),
      draw("polyline", { class: "line", points: points(piece) }));
  }
  if (view.fan) inside.append(fan(view, x, y));
  if (bottom > low) served(view, iops, inside, svg, { x, nth, left, right: width - 6, top: low + 34, bottom });
  svg.append(draw("line", { class: "now", x1: x(data.now), x2: x(data.now), y1: top, y2: bottom }));
  svg.append(marks(view, x, top, bottom));
  return svg;
};

const served = (view, iops, inside, svg, { x, nth, left, right, top, bottom }) => {
  const [lines, labels] = [draw("g", { class: "served" }), draw("g")];
  const most = Math.max(view.limits.length ? 1 : 100, ...view.limits.map((limit) => limit[3]), ...iops.filter((value) => value !== null)) * 1.05;
  const y = (value) => bottom - value * (bottom - top) / most;
  for (const [from, to, sustained, ceiling] of view.limits) {
    for (const [kind, value] of [["ceiling", ceiling], ["baseline", sustained]]) {
      lines.append(draw("line", { class: kind, x1: x(from), x2: x(to), y1: y(value), y2: y(value) }));
    }
  }
  const [, , sustained, ceiling] = view.limits.at(-1) ?? [0, 0, 0, 0];
  for (const value of new Set([0, sustained / most < 0.12 ? 0 : sustained, ceiling])) {
    labels.append(draw("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" },
      value >= 1000 ? `${number(value / 1000)}k` : number(value)));
  }
  labels.append(draw("text", { x: left, y: top - 6 }, `${view.unit} served`));
  lines.append(draw("line", { class: "grid", x1: left, x2: right, y1: bottom, y2: bottom }));
  for (const piece of steps(iops, nth, y)) {
    lines.append(draw("polygon", { class: "area", points: under(piece, bottom) }),
      draw("polyline", { class: "line", points: points(piece) }));
  }
  inside.append(lines);
  svg.append(labels);
};

const labelOf = (row, balance) => {
  const known = balance.filter((value) => value !== null);
  const span = `${when(data.since)} to ${when(data.now)} UTC`;
  if (!known.length) return `Burst balance, ${span}: ${isUnread(row) ? "could not be read" : "no datapoint"}`;
  const [first, last, least] = [known[0], known.at(-1), Math.min(...known)].map(number);
  return `Burst balance, ${span}: from ${first} to ${last} per cent, lowest ${least}; empty: ${row.empty_text}`;
};
