// The table, its filter and its keys, and a resource's page. Whatever names and tags say is set as text, never as markup.
const $ = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const data = JSON.parse($("data").textContent);
const rows = data.volumes.id.map((id, at) => ({ at, ...Object.fromEntries(
  Object.entries(data.volumes).map(([name, column]) => [name, column[at]])) }));
const byId = new Map(rows.map((row) => [row.id, row]));
const state = { sort: "level", isDown: false, levels: new Set(), visible: rows, active: 0, first: -1, last: -1, opener: null };
const ROW = 52;
const MOST_PRINTED = 1000;
const [scroller, body, filter, dialog] = [$("scroller"), $("rows"), $("filter"), $("detail")];
const title = (row) => row.name || row.id;

const KEYS = { level: (row) => row.at, volume: title, balance: (row) => row.balance, least: (row) => row.least,
  empty: (row) => row.empty_s, drain: (row) => row.drain, gib: (row) => row.gib, instance: (row) => row.instance || null,
  mark: (row) => row.mark || null };
const collator = new Intl.Collator("en", { numeric: true });
const compare = (a, b) => (typeof a === "string" ? collator.compare(a, b) : a - b);

const searchedOf = (row) => (row.searched ??= [row.id, row.name, row.level, row.type, row.bucket, row.instance, row.device, row.mode, row.mark,
  row.empty_text, ...row.tags].join("\n").toLowerCase());
const isWanted = (row, terms) => (state.levels.size === 0 || state.levels.has(row.level)) &&
  terms.every((term) => (term.startsWith("-") ? !searchedOf(row).includes(term.slice(1)) : searchedOf(row).includes(term)));

const update = () => {
  const terms = filter.value.toLowerCase().split(/\s+/).filter((term) => term && term !== "-");
  const key = KEYS[state.sort];
  const keyed = rows.filter((row) => isWanted(row, terms)).map((row) => [key(row), row]);
  const way = state.isDown ? -1 : 1;
  keyed.sort(([a, left], [b, right]) => (a === null) - (b === null) || (a === null ? 0 : way * compare(a, b)) || left.at - right.at);
  state.visible = keyed.map(([, row]) => row);
  state.active = 0;
  $("count").textContent = state.visible.length === rows.length ? `${number(rows.length)} ${data.noun}s`
    : `${number(state.visible.length)} of ${number(rows.length)} ${data.noun}s`;
  $("nothing").hidden = state.visible.length > 0;
  for (const head of document.querySelectorAll("th[data-sort]")) {
    const isIt = head.dataset.sort === state.sort;
    head.setAttribute("aria-sort", !isIt ? "none" : state.isDown ? "descending" : "ascending");
  }
  scroller.scrollTop = 0;
  render(true);
};

// rows are of one height, or what is drawn would not be what is scrolled to
const clamped = (text) => make("span", { class: "clamped", title: text }, text);
const line = (row, at) => {
  const cell = (kind, ...children) => make("td", { class: kind }, ...children);
  const link = make("a", { href: `#${row.id}`, tabindex: at === state.active ? 0 : -1, class: "open" }, title(row));
  const node = make("tr", { "aria-rowindex": at + 2, "data-at": at },
    cell("level", shape(row.level), make("span", { class: `word ${row.level}` }, row.level)),
    cell("volume", make("bdi", {}, link), make("span", { class: "sub" }, row.name ? row.id : "")),
    cell("balance", row.balance === null ? "" : `${row.balance.toFixed(1)} %`),
    cell("least", spark(row)),
    cell("empty", clamped(row.empty_text)),
    cell("drain", row.drain === null ? "" : number(Math.round(row.drain)), make("span", { class: "sub" }, row.drain === null ? "" : row.unit)),
    cell("gib", row.gib === null ? "" : number(row.gib), make("span", { class: "sub" }, row.gib === null ? "" : row.type)),
    cell("instance", row.gib === null ? row.type : row.instance, make("span", { class: "sub" }, row.bucket || row.device)),
    cell("mark", clamped(row.mark)));
  return node;
};

// one cell alone: on narrow screens a table as wide as columns that are hidden would squeeze the others
const spacer = (count) => {
  const node = make("td");
  node.style.height = `${count * ROW}px`;
  return make("tr", { class: "spacer", "aria-hidden": "true" }, node);
};
const render = (isNew, all = false) => {
  const room = Math.ceil(innerHeight / ROW);
  const top = Math.floor(scroller.scrollTop / ROW);
  const first = all ? 0 : Math.max(0, top - 8);
  const last = all ? Math.min(state.visible.length, MOST_PRINTED) : Math.min(state.visible.length, top + room + 8);
  if (!isNew && first === state.first && last === state.last) return;
  [state.first, state.last] = [first, last];
  const hadFocus = body.contains(document.activeElement);
  const lines = state.visible.slice(first, last).map((row, index) => line(row, first + index));
  if (!all && first > 0) lines.unshift(spacer(first));
  if (!all && last < state.visible.length) lines.push(spacer(state.visible.length - last));
  body.replaceChildren(...lines);
  $("table").setAttribute("aria-rowcount", state.visible.length + 1);
  if (hadFocus) body.querySelector("a[tabindex='0']")?.focus({ preventScroll: true });
};

const moveTo = (at) => {
  if (!state.visible.length) return;
  state.active = Math.min(Math.max(at, 0), state.visible.length - 1);
  const [top, head] = [state.active * ROW, $("head").offsetHeight];
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  if (top + ROW + head > scroller.scrollTop + scroller.clientHeight) {
    scroller.scrollTop = top + ROW + head - scroller.clientHeight;
  }
  scroller.scrollIntoView({ block: "nearest" });
  render(true);
  body.querySelector("a[tabindex='0']")?.focus({ preventScroll: true });
};

// a resource's page
const fact = (name, value) => (value === "" || value === null ? [] : [make("dt", {}, name), make("dd", {}, make("bdi", {}, value))]);
const baselineOf = (row) => (row.baseline === null ? "" : `, baseline ${number(row.baseline)} ${row.unit ? `${row.unit}/s` : "IOPS"}`);
const factsOf = (row) => [
  ...fact("Balance", row.balance === null ? "" : `${row.balance.toFixed(1)} %, lowest ${row.least?.toFixed(1) ?? "?"} % in this time`),
  ...fact("Empty", row.empty_text),
  ...fact("Bucket", row.bucket),
  ...(row.gib === null ? fact("Type", `${row.type}${baselineOf(row)}`) : [
    ...fact("Size", `${number(row.gib)} GiB ${row.type}${baselineOf(row)}`),
    ...fact("Attached", row.instance ? `${row.instance}${row.device ? ` as ${row.device}` : ""}` : "to no instance")]),
  ...fact("Mode", row.mode),
  ...viewOf(row).facts.flatMap(([name, value]) => fact(name, value)),
  ...fact("Flip", row.mark),
  ...row.tags.flatMap((tag) => fact("Tag", tag)),
];
const historyOf = (row) => viewOf(row).history.map(([at, letter, sort, text, details]) => make("li", {},
  make("time", {}, when(at)), make("span", { class: "letter" }, letter), make("span", { class: "sort" }, sort),
  make("div", {}, make("bdi", {}, text), ...details.map((detail) => make("p", {}, detail)))));
const legendOf = (row) => {
  const view = viewOf(row);
  const minutes = Math.round(view.axis[1] / 60);
  const sentences = [`Line: the lowest balance of each ${minutes < 60 ? `${minutes} min` : `${minutes / 60} h`}; a gap has no datapoint.`];
  if (view.fan?.about != null) sentences.push("Right of now: dashed the forecast, shaded from the earliest to the latest.");
  if (view.fan?.soonest != null) sentences.push("Dotted: no load can empty it sooner.");
  if (view.limits.length) sentences.push(`${view.unit}: dashed the baseline, dotted the burst.`);
  if (view.windows.length) sentences.push(`Boxes on top: ${[...new Set(view.windows.map(([, , name]) => `window ${name}`))].join(", ")}.`);
  if (view.holds.length) sentences.push(`Dashed boxes: held by ${view.holds.map(([, , label]) => label).join("; ")}.`);
  const letters = new Map(view.marks.map(([, letter, kind]) => [letter, kind.replaceAll("_", " ")]));
  if (letters.size) sentences.push(`${[...letters].map(([letter, kind]) => `${letter} ${kind}`).join(", ")}.`);
  return sentences.join(" ");
};

const readable = (row, svg, output, left) => {
  const view = viewOf(row);
  const [start, period] = view.axis;
  const [balance, iops] = [decode(view.balance, 10), decode(view.iops, view.scale)];
  const cursor = draw("line", { class: "cursor", y1: TOP, y2: svg.viewBox.baseVal.height - 20 });
  let at = balance.length - 1;
  const showAt = (index) => {
    at = Math.min(Math.max(index, 0), balance.length - 1);
    const [from, value, rate] = [start + at * period, balance[at], iops[at]];
    const x = LEFT + (from + period / 2 - left) * (svg.viewBox.baseVal.width - LEFT - 6) / (view.end - left);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    svg.append(cursor);
    output.textContent = `${when(from)} UTC: ${value == null ? "no datapoint" : `${number(value)} %`}`
      + (rate == null ? "" : `, ${number(rate)} ${view.unit}`);
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const place = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const pointed = left + (place - LEFT) * (view.end - left) / (svg.viewBox.baseVal.width - LEFT - 6);
    showAt(Math.floor((pointed - start) / period));
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -12, PageDown: 12 }[event.key];
    if (!step) return;
    event.preventDefault();
    showAt(at + step);
  });
};

// a command is not broken inside an id or a flag, and is copied as one line
const commandOf = (command) => {
  const parts = command.split(/ (?=--|vol-|&& )/).flatMap((part, at) => (at ? [" ", make("span", {}, part)] : [make("span", {}, part)]));
  const verb = command.split(" ", 2).join(" ");
  return make("div", { class: "command" }, make("code", { class: "act" }, ...parts),
    make("button", { type: "button", class: "plain copy", "aria-label": `Copy the command ${verb}` }, "Copy"));
};
const select = (node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
};
const copy = async (button) => {
  const code = button.previousElementSibling;
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch { // some browsers allow no page from a file to write to the clipboard
    select(code);
    isCopied = document.execCommand("copy");
  }
  const label = button.dataset.label ??= button.getAttribute("aria-label");
  button.textContent = isCopied ? "Copied" : "Press Ctrl+C";
  button.setAttribute("aria-label", `${button.textContent}: ${code.textContent}`);
  clearTimeout(button.timer);
  button.timer = setTimeout(() => { button.textContent = "Copy"; button.setAttribute("aria-label", label); }, 3000);
};

const fill = (row) => {
  const at = state.visible.indexOf(row);
  $("detail-level").replaceChildren(shape(row.level), make("span", { class: `word ${row.level}` }, row.level));
  $("detail-title").textContent = title(row);
  $("detail-id").textContent = row.id;
  $("detail-place").textContent = at < 0 ? "" : `${number(at + 1)} of ${number(state.visible.length)}`;
  $("detail-facts").replaceChildren(...factsOf(row));
  $("detail-story").replaceChildren(...historyOf(row));
  $("detail-story-none").hidden = viewOf(row).history.length > 0;
  $("detail-commands").replaceChildren(...[...(viewOf(row).commands ?? []), `burstctl explain ${row.id} --region ${data.region}`,
    `burstctl history ${row.id} --region ${data.region}`].map(commandOf));
  $("detail-legend").textContent = legendOf(row);
  const output = make("output", { class: "readout" }, "Point at the picture, or focus it and press the left and right arrows.");
  const isNear = $("near").getAttribute("aria-pressed") === "true";
  $("near").hidden = data.now - data.since <= RECENT;
  const svg = picture(row, Math.max(300, $("detail-picture").clientWidth), false, isNear);
  $("detail-picture").replaceChildren(svg, output);
  readable(row, svg, output, isNear ? Math.max(viewOf(row).axis[0], data.now - RECENT) : viewOf(row).axis[0]);
};
const show = () => {
  const row = byId.get(location.hash.slice(1));
  if (!row) { if (dialog.open) dialog.close(); return; }
  if (!dialog.open) dialog.showModal();
  const at = state.visible.indexOf(row);
  if (at >= 0) state.active = at;
  fill(row);
};
const go = (step) => {
  const at = state.visible.indexOf(byId.get(location.hash.slice(1))) + step;
  if (at < 0 || at >= state.visible.length) return;
  history.replaceState(null, "", `#${state.visible[at].id}`);
  state.opener = null;
  show();
  dialog.scrollTop = 0;
};

// who listens to what
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (button) copy(button);
});
addEventListener("hashchange", show);
document.addEventListener("click", (event) => {
  if (!dialog.contains(event.target)) state.opener = event.target.closest("main a:not(#rows a)");
}, true);
dialog.addEventListener("close", () => {
  if (byId.has(location.hash.slice(1))) history.replaceState(null, "", location.pathname + location.search);
  if (state.opener) state.opener.focus({ preventScroll: true });
  else if (state.visible.length) moveTo(state.active);
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
$("near").addEventListener("click", () => {
  $("near").setAttribute("aria-pressed", $("near").getAttribute("aria-pressed") !== "true");
  show();
});
$("close").addEventListener("click", () => dialog.close());
$("previous").addEventListener("click", () => go(-1));
$("next").addEventListener("click", () => go(1));
scroller.addEventListener("scroll", () => requestAnimationFrame(() => render(false)), { passive: true });
addEventListener("resize", () => render(true));
filter.addEventListener("input", update);
body.addEventListener("click", (event) => {
  const tableRow = event.target.closest("tr[data-at]");
  if (tableRow && !event.target.closest("a") && getSelection().isCollapsed) location.hash = state.visible[tableRow.dataset.at].id;
});
for (const head of document.querySelectorAll("th[data-sort] button")) {
  head.addEventListener("click", () => {
    const sort = head.parentElement.dataset.sort;
    state.isDown = sort === state.sort ? !state.isDown : sort === "drain" || sort === "gib";
    state.sort = sort;
    update();
  });
}
for (const chip of document.querySelectorAll("button[data-level]")) {
  chip.addEventListener("click", () => {
    const isOn = chip.getAttribute("aria-pressed") !== "true";
    chip.setAttribute("aria-pressed", isOn);
    state.levels[isOn ? "add" : "delete"](chip.dataset.level);
    update();
  });
}
for (const chip of document.querySelectorAll("button[data-kind]")) {
  chip.addEventListener("click", () => {
    const isOn = chip.getAttribute("aria-pressed") !== "true";
    chip.setAttribute("aria-pressed", isOn);
    const on = [...document.querySelectorAll("button[data-kind][aria-pressed='true']")].map((button) => button.dataset.kind);
    for (const item of document.querySelectorAll("li[data-activity]")) item.hidden = on.length > 0 && !on.includes(item.dataset.activity);
  });
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { j: 1, k: -1 }[event.key];
  if (dialog.open) { if (step) go(step); return; }
  const isTyping = event.target === filter;
  const inTable = body.contains(event.target);
  if (isTyping && event.key === "Escape") {
    if (filter.value) { filter.value = ""; update(); } else filter.blur();
  } else if (isTyping && (event.key === "ArrowDown" || event.key === "Enter")) {
    event.preventDefault();
    moveTo(0);
  } else if (!isTyping && event.key === "/") {
    event.preventDefault();
    filter.focus();
    filter.select();
  } else if (!isTyping && step) {
    moveTo(inTable ? state.active + step : state.active);
  } else if (inTable) {
    const page = Math.floor(scroller.clientHeight / ROW) - 1;
    const far = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (far === undefined) return;
    event.preventDefault();
    moveTo(state.active + far);
  }
});

// on paper: every row up to a limit, every closed part open
addEventListener("beforeprint", () => {
  render(true, true);
  drawCards();
  $("unprinted").hidden = state.visible.length <= MOST_PRINTED;
  for (const part of document.querySelectorAll("details:not([open])")) { part.open = true; part.dataset.forPrint = ""; }
});
addEventListener("afterprint", () => {
  requestAnimationFrame(() => render(true));
  $("unprinted").hidden = true;
  for (const part of document.querySelectorAll("details[data-for-print]")) { part.open = false; delete part.dataset.forPrint; }
});
const drawCards = () => {
  for (const place of document.querySelectorAll(".card [data-picture]:empty")) {
    const row = byId.get(place.dataset.picture);
    if (row) place.append(picture(row, Math.max(300, place.clientWidth || 400), true));
  }
};
const age = () => {
  const minutes = Math.floor((Date.now() / 1000 - data.now) / 60);
  const text = minutes < 120 ? `${minutes} min` : minutes < 2880 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} days`;
  $("age").textContent = minutes < 1 ? "" : `, ${text} ago`;
  $("age").classList.toggle("old", minutes >= 60);
};

document.documentElement.classList.add("live");
update();
drawCards();
$("more-urgent")?.addEventListener("toggle", drawCards);
age();
setInterval(age, 60000);
show();
