"use strict";
// Transcripts are untrusted: their text only ever becomes text nodes.
const ROW_PIXELS = 7, MAX_HEIGHT = 460, MIN_MARK_PIXELS = 5, MAX_DROPPED = 12, MAX_MISSES = 200;
const SVG = new Set(["svg", "rect", "path"]);
const LEGEND = {
  user: "user", assistant: "agent", tool: "tool result", "tool part": "in part", lost: "missed",
};
const number = n => n.toLocaleString("en-US");
const misses = n => `${number(n)} miss${n === 1 ? "" : "es"}`;

function make(tag, attributes = {}, ...children) {
  const node = SVG.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const bar = (kind, x, y, width, height) => make("rect", {class: kind, x, y, width, height});

function steps(line, kind, height, label, ...marks) {
  const box = `0 0 ${line.moments.length} ${height}`;
  const picture = {viewBox: box, preserveAspectRatio: "none", role: "img", "aria-label": label};
  return make("svg", {class: `steps ${kind}`, ...picture}, ...marks, bar("now", 0, 0, 1, height));
}

function sizes(line) {
  const top = 1.05 * Math.max(line.limit, ...line.moments.map(moment => moment.tokens)) || 1;
  const bars = line.moments.map((moment, k) => {
    const height = 100 * moment.tokens / top;
    const kind = moment.missed.length || moment.violation ? "bad" : "size";
    return bar(kind, k + 0.08, 100 - height, 0.84, height);
  });
  const limit = `M0 ${100 - 100 * line.limit / top}H${line.moments.length}`;
  const label = "Tokens in context at each step";
  return steps(line, "sizes", 100, label, ...bars, make("path", {class: "limit", d: limit}));
}

function lives(line) {
  const rows = new Map(line.lives.map((life, row) => [life.at, row]));
  const height = Math.min(MAX_HEIGHT, ROW_PIXELS * Math.max(8, rows.size));
  const tall = Math.max(1.2, MIN_MARK_PIXELS * rows.size / height);
  const bars = line.lives.flatMap((life, row) => life.spans.map(span => {
    const role = life.role in LEGEND ? life.role : "user";
    const kind = span.state === "part" ? `${role} part` : role;
    return bar(kind, span.first, row + 0.08, span.last - span.first + 1, 0.84);
  }));
  const lost = line.moments.flatMap((moment, k) => moment.missed.flatMap(miss => {
    if (!rows.has(miss.source)) return [];
    const middle = rows.get(miss.source) + 0.5;
    const mark = bar("lost", k + 0.1, middle - tall / 2, 0.8, tall);
    if (miss.last_seen === null) return [mark];
    return [make("path", {class: "gone", d: `M${miss.last_seen + 1} ${middle}H${k}`}), mark];
  }));
  const label = "When each message was in context";
  const picture = steps(line, "lives", rows.size, label, ...bars, ...lost);
  picture.style.height = `${height}px`;
  return picture;
}

function legend() {
  return make("ul", {class: "legend"}, ...Object.entries(LEGEND).map(([kind, name]) => {
    const frame = {viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": true};
    return make("li", {}, make("svg", {class: "key", ...frame}, bar(kind, 0, 0, 14, 14)), name);
  }));
}

const atoms = miss => [
  ...miss.atoms.flatMap(atom => [make("code", {}, atom), " "]),
  miss.more ? `and ${miss.more} more ` : "",
];

function source(line, miss) {
  const life = line.lives.find(each => each.at === miss.source);
  return `message ${miss.source}` + (life ? ` (${life.role}, ${number(life.tokens)} tokens)` : "");
}

const lastSeen = miss => miss.last_seen === null
  ? "never in context" : `last in context at step ${miss.last_seen + 1}`;

/** One step: what the agent did, what its context was, what it missed and what went. */
function words(line, k) {
  const moment = line.moments[k];
  const held = line.lives.flatMap(life => life.spans.filter(s => s.first <= k && k <= s.last));
  const whole = held.filter(s => s.state === "whole").length, part = held.length - whole;
  const known = line.lives.filter(life => life.at < moment.at).length;
  const recall = moment.recall === null ? "nothing from before"
    : moment.recall.toFixed(0) + " % was there";
  const notes = moment.notes ? ` · ${number(moment.notes)} tokens of notes` : "";
  const lost = moment.missed.map(miss => make("li", {class: "miss"}, make("b", {}, "Missed"), " ",
    ...atoms(miss), make("small", {}, `${source(line, miss)}; ${lastSeen(miss)}`)));
  const dropped = line.lives.filter(life => moment.dropped.includes(life.at));
  const gone = dropped.slice(0, MAX_DROPPED).map(life => make("li", {}, make("b", {}, "Dropped"),
    ` ${life.role}, ${number(life.tokens)} tokens `, make("small", {}, life.text.slice(0, 90))));
  if (dropped.length > MAX_DROPPED) {
    gone.push(make("li", {}, `and ${dropped.length - MAX_DROPPED} more`));
  }
  return [
    make("h3", {}, `Step ${k + 1} of ${line.moments.length}`),
    make("p", {class: "action"}, make("code", {}, moment.action)),
    make("p", {}, `${number(moment.tokens)} of ${number(line.limit)} tokens · ` +
      `${whole} whole, ${part} in part, ${Math.max(0, known - whole - part)} gone${notes}` +
      ` · needed: ${recall}`),
    ...(moment.violation
      ? [make("p", {class: "miss"}, make("b", {}, "Rule broken:"), ` ${moment.violation}`)] : []),
    ...[lost, gone].filter(items => items.length).map(items => make("ul", {}, ...items)),
  ];
}

function table(line, every) {
  if (!every.length) return make("p", {}, "Nothing was missed.");
  const heads = ["step", "needed", "from", "last in context"];
  const rows = every.slice(0, MAX_MISSES).map(([k, miss]) => {
    const cells = [[`${k + 1}`], atoms(miss), [source(line, miss)], [lastSeen(miss)]];
    return make("tr", {}, ...cells.map((cell, n) => make("td", {"data-label": heads[n]}, ...cell)));
  });
  const rest = every.length - rows.length;
  return make("details", {},
    make("summary", {}, `All ${misses(every.length)} as a table`),
    make("table", {class: "stack"},
      make("thead", {}, make("tr", {}, ...heads.map(head => make("th", {}, head)))),
      make("tbody", {}, ...rows)),
    rest ? make("p", {}, `${rest} more are in the JSON.`) : "");
}

function draw(box) {
  const line = JSON.parse(box.querySelector("script").textContent);
  const every = line.moments.flatMap((moment, k) => moment.missed.map(miss => [k, miss]));
  const count = line.moments.length;
  const range = make("input", {type: "range", min: 1, max: count, "aria-label": "Step"});
  const button = (step, name) => make("button", {type: "button", "data-go": step}, name);
  const buttons = [button(-1, "‹ miss"), button(1, "miss ›")];
  const pictures = [sizes(line), lives(line)];
  const shown = make("div", {class: "moment", "aria-live": "polite"});
  const go = k => {
    range.value = k + 1;
    range.setAttribute("aria-valuetext", `step ${k + 1}`);
    for (const now of box.querySelectorAll(".now")) now.setAttribute("x", k);
    shown.replaceChildren(...words(line, k));
  };
  range.addEventListener("input", () => go(range.value - 1));
  for (const picture of pictures) {
    picture.addEventListener("click", event => {
      const edge = picture.getBoundingClientRect();
      const k = Math.floor((event.clientX - edge.left) / edge.width * count);
      go(Math.max(0, Math.min(count - 1, k)));
    });
  }
  for (const each of buttons) {
    const step = Number(each.dataset.go);
    each.disabled = !every.length;
    each.addEventListener("click", () => {
      const at = range.value - 1, missed = every.map(([k]) => k);
      const next = step > 0 ? missed.find(k => k > at) : missed.findLast(k => k < at);
      go(next === undefined ? missed.at(step > 0 ? 0 : -1) : next);
    });
  }
  box.append(
    make("p", {class: "facts"}, make("b", {}, line.strategy), ` at ${line.budget}: ` +
      `${number(line.limit)} tokens, ${number(line.pinned)} of them pinned · ${count} steps · ` +
      `${line.lives.length} messages · ${misses(every.length)}`),
    make("figure", {},
      make("figcaption", {}, "Tokens in context at each step; the line is the limit"),
      pictures[0],
      make("figcaption", {},
        "Each row is a message, oldest on top; a bar is while it was in context"),
      pictures[1],
      make("div", {class: "cursor"}, buttons[0], range, buttons[1]),
      legend()),
    shown,
    table(line, every));
  go(every.length ? every[0][0] : count - 1);
}

document.querySelectorAll(".timeline").forEach(draw);
const which = document.getElementById("which");
if (which) which.addEventListener("change", () => {
  for (const box of document.querySelectorAll(".timeline")) box.hidden = box.id !== which.value;
});
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", () => {
    const code = button.parentElement.querySelector("code");
    const said = () => { button.textContent = "Copied"; };
    const select = () => getSelection().selectAllChildren(code);
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(said, select);
    else select();
  });
}
document.documentElement.dataset.ready = "yes";
