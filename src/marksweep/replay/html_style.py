"""The look of the report, light and dark, and the few lines of script that move its cursor."""

# ruff: noqa: E501 - style rules and script read better whole

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--bg:#fbfbf9;--card:#fff;--ink:#1b1c1a;--soft:#5d5f5a;--line:#e2e2dc;
--faint:#f1f1ec;--accent:#1f6fce;--bad:#c8322f;--s1:#2a78d6;--s2:#6a4fc0;--s3:#d9591f;--s4:#11906a;
--s5:#b8447a;--ref:#8a8c85;--bound:#1b1c1a;--user:#11906a;--agent:#a79be0;--tool:#2a78d6;--band:#dbe9fa}
@media(prefers-color-scheme:dark){:root{--bg:#151614;--card:#1d1e1c;--ink:#ecece7;--soft:#a5a69f;
--line:#34352f;--faint:#262724;--accent:#6aaef5;--bad:#ff7d76;--s1:#5aa2f2;--s2:#a795f2;--s3:#ee8449;
--s4:#3dbd92;--s5:#e07fae;--ref:#8f918a;--bound:#ecece7;--user:#3dbd92;--agent:#7c70b8;--tool:#4b93e3;
--band:#1e3450}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",
Roboto,"Helvetica Neue",Arial,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:940px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .5rem;letter-spacing:-.015em;text-wrap:balance}
h2{font-size:1.2rem;margin:0 0 .5rem}
h3{font-size:1rem;margin:0 0 .25rem}
header p{color:var(--soft);max-width:65ch;margin:0 0 1.5rem}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px 24px;
margin:0 0 20px}
section>p{max-width:70ch}
figure{margin:0}
small,.fine,figcaption{color:var(--soft);font-size:.85rem}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.86em}
p code,li code,td code{background:var(--faint);border-radius:4px;padding:.1em .35em;
overflow-wrap:anywhere}
a,summary{color:var(--accent)}
summary{cursor:pointer;padding:.35rem 0}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:4px}
.choice{font-size:1.35rem;font-weight:650;margin:.25rem 0 1rem;line-height:1.25}
.choice span{font-weight:400;color:var(--soft);font-size:1rem}
.tiles{display:grid;grid-template-columns:repeat(3,1fr);gap:12px;margin:0 0 1rem}
.tiles div{background:var(--faint);border-radius:10px;padding:12px 14px}
.tiles dt{color:var(--soft);font-size:.85rem}
.tiles dd{margin:0;font-size:1.7rem;font-weight:650;line-height:1.2;font-variant-numeric:tabular-nums}
.tiles dd small{font-size:1rem;font-weight:400}
.tiles dd.beside{font-size:.8rem;font-weight:400;color:var(--soft);line-height:1.35;margin-top:2px}
.code{position:relative}
.code pre{background:var(--faint);border-radius:10px;padding:14px 16px;margin:0;overflow-x:auto;
line-height:1.5}
button,select,input{font:inherit;color:inherit}
button,select{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.3rem .7rem;
min-height:36px}
button{cursor:pointer}
button:hover{border-color:var(--accent)}
select{max-width:100%}
.copy{position:absolute;top:8px;right:8px;font-size:.85rem}
svg.front{display:block;width:100%;height:auto;overflow:visible}
svg.w360{display:none}
svg.front text{font-size:12px;fill:var(--soft)}
.front .grid{stroke:var(--line);fill:none}
.front .axis{stroke:var(--soft);fill:none}
.front .one{stroke:var(--soft);stroke-dasharray:2 4;fill:none}
.front .lead{stroke:var(--line);fill:none}
.front polyline{fill:none;stroke-width:2;stroke-linejoin:round}
.front .pareto{stroke:var(--band);stroke-width:16;stroke-linecap:round}
.front .ring,.ringkey{fill:none;stroke:var(--ink);stroke-width:2}
.front .label{font-weight:600}
.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}.s5{--c:var(--s5)}
.ref{--c:var(--ref)}.bound{--c:var(--bound)}
g[class]{stroke:var(--c);fill:var(--c)}
g.ref polyline{stroke-width:1.25}
g.bound polyline{stroke-dasharray:5 4;stroke-width:1.5}
g.bound circle{fill:var(--card);stroke-width:1.5}
svg.front text.label{fill:var(--c)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:10px 0 0;padding:0;
font-size:.88rem}
.figures th[scope=row]{white-space:nowrap}
.legend li{overflow-wrap:anywhere}
.key{vertical-align:-2px;margin-right:7px;flex:none}
.ringkey{display:inline-block;width:13px;height:13px;border:2px solid var(--ink);border-radius:50%;
margin-right:7px;vertical-align:-2px}
.scroll{overflow-x:auto;margin:0 -24px;padding:0 24px}
table{border-collapse:collapse;width:100%;font-size:.9rem}
.figures td,.figures thead th{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.figures th:first-child{text-align:left}
th{font-weight:500}
thead th{color:var(--soft);font-size:.82rem}
td,th{padding:.38rem .6rem;border-bottom:1px solid var(--line)}
td:first-child,th:first-child{padding-left:0}
td:last-child,th:last-child{padding-right:0}
.group th{padding-top:1.1rem;font-weight:650}
.group th span{font-weight:400;color:var(--soft);font-size:.85rem;margin-left:.4em}
.bar{background:linear-gradient(var(--band),var(--band)) no-repeat 0 50%/var(--share) 62%}
.figures .bar{min-width:6rem}
.plain{list-style:none;padding:0;margin:.25rem 0 1rem}
.plain li{padding:.3rem 0;border-top:1px solid var(--line);overflow-wrap:anywhere}
.plain small{display:block}
h3.broken{margin-top:1.2rem}
.star{color:var(--accent)}
.broken,.miss b{color:var(--bad)}
label{color:var(--soft);font-size:.9rem;margin-right:.3rem}
.facts{color:var(--soft)}
.facts b{color:var(--ink)}
figcaption{margin:.8rem 0 .25rem}
svg.steps{display:block;width:100%;background:var(--faint);border-radius:6px;cursor:crosshair}
.sizes{height:90px}
.sizes .size{fill:var(--ref);fill-opacity:.55}
.sizes .bad,.lost{fill:var(--bad)}
.limit,.gone{fill:none;stroke:var(--ink);vector-effect:non-scaling-stroke}
.limit{stroke-dasharray:4 3}
.gone{stroke:var(--bad);stroke-dasharray:2 3}
.user{fill:var(--user)}.assistant{fill:var(--agent)}.tool{fill:var(--tool)}
.part{fill-opacity:.42}
.now{fill:var(--ink);fill-opacity:.14;stroke:var(--ink);stroke-width:1;vector-effect:non-scaling-stroke}
.cursor{display:flex;gap:10px;align-items:center;margin-top:10px}
.cursor input{flex:1;min-width:0;accent-color:var(--accent);height:36px}
.cursor button{white-space:nowrap}
.moment{background:var(--faint);border-radius:10px;padding:14px 16px;margin:14px 0;min-height:7rem}
.moment p{margin:.25rem 0}
.moment ul{margin:.5rem 0 0;padding:0;list-style:none}
.moment li{padding:.3rem 0;border-top:1px solid var(--line);overflow-wrap:anywhere}
.moment li small{display:block}
.action code{background:none;padding:0}
.stack td{vertical-align:top;overflow-wrap:anywhere}
.stack td:nth-child(n+3){white-space:nowrap}
.stack th{text-align:left}
[hidden]{display:none!important}
@media(max-width:640px){main{padding:20px 12px 40px}section{padding:16px}h1{font-size:1.45rem}
.scroll{margin:0;padding:0}svg.w860{display:none}svg.w360{display:block}
.tiles{grid-template-columns:1fr;gap:8px}
.tiles div{display:grid;grid-template-columns:1fr auto;align-items:baseline;column-gap:10px}
.tiles dd.beside{grid-column:1/-1;margin:0}
.figures th[scope=row]{position:sticky;left:0;background:var(--card);white-space:normal;
max-width:40vw;min-width:8.5rem;overflow-wrap:anywhere}
.figures .bar{min-width:4.2rem}
.group th span{display:block;margin:0;max-width:76vw;white-space:normal}
.stack thead{position:absolute;clip-path:inset(50%)}
.stack tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--line)}
.stack td{display:block;border:0;padding:.1rem 0;white-space:normal!important}
.stack td::before{content:attr(data-label) ": ";color:var(--soft);font-size:.82rem}
select{width:100%;margin-top:4px}
.copy{position:static;display:block;margin:0 0 8px auto}}
@media print{section{break-inside:avoid}.cursor,.copy{display:none}}
"""

SCRIPT = """
"use strict";
const number = n => n.toLocaleString("en-US");
const make = (tag, text, kind) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
};
function words(line, k) {
  const moment = line.moments[k], lives = new Map(line.lives.map(life => [life.at, life]));
  const held = line.lives.flatMap(life => life.spans.filter(s => s.first <= k && k <= s.last));
  const whole = held.filter(s => s.state === "whole").length, part = held.length - whole;
  const known = line.lives.filter(life => life.at < moment.at).length;
  const recall = moment.recall === null ? "nothing from before"
    : moment.recall.toFixed(0) + " % was there";
  const notes = moment.notes ? ` · ${number(moment.notes)} tokens of notes` : "";
  const out = [make("h3", `Step ${k + 1} of ${line.moments.length}`)];
  const action = make("p", undefined, "action");
  action.append(make("code", moment.action));
  out.push(action, make("p", `${number(moment.tokens)} of ${number(line.limit)} tokens · ` +
    `${whole} whole, ${part} in part, ${Math.max(0, known - whole - part)} gone${notes}` +
    ` · needed: ${recall}`));
  if (moment.violation) {
    const broken = make("p", undefined, "miss");
    broken.append(make("b", "Rule broken:"), " " + moment.violation);
    out.push(broken);
  }
  const lost = make("ul"), gone = make("ul");
  for (const miss of moment.missed) {
    const item = make("li", undefined, "miss"), life = lives.get(miss.source);
    item.append(make("b", "Missed"), " ");
    for (const atom of miss.atoms) item.append(make("code", atom), " ");
    if (miss.more) item.append(`and ${miss.more} more `);
    item.append(make("small", `message ${miss.source}` +
      (life ? ` (${life.role}, ${number(life.tokens)} tokens)` : "") + "; " +
      (miss.last_seen === null ? "never in context" : `last in context at step ${miss.last_seen + 1}`)));
    lost.append(item);
  }
  const dropped = moment.dropped.flatMap(at => lives.get(at) || []);
  for (const life of dropped.slice(0, 12)) {
    const item = make("li");
    item.append(make("b", "Dropped"), ` ${life.role}, ${number(life.tokens)} tokens `,
      make("small", life.text.slice(0, 90)));
    gone.append(item);
  }
  if (dropped.length > 12) gone.append(make("li", `and ${dropped.length - 12} more`));
  for (const list of [lost, gone]) if (list.children.length) out.push(list);
  return out;
}
for (const box of document.querySelectorAll(".timeline")) {
  const line = JSON.parse(box.querySelector("script").textContent);
  const range = box.querySelector("input"), shown = box.querySelector(".moment");
  const go = k => {
    range.value = k + 1;
    range.setAttribute("aria-valuetext", `step ${k + 1}`);
    for (const now of box.querySelectorAll(".now")) now.setAttribute("x", k);
    shown.replaceChildren(...words(line, k));
  };
  range.addEventListener("input", () => go(range.value - 1));
  for (const picture of box.querySelectorAll("svg.steps")) {
    picture.addEventListener("click", event => {
      const edge = picture.getBoundingClientRect();
      const k = Math.floor((event.clientX - edge.left) / edge.width * line.moments.length);
      go(Math.max(0, Math.min(line.moments.length - 1, k)));
    });
  }
  const missed = line.moments.flatMap((moment, k) => moment.missed.length ? [k] : []);
  for (const button of box.querySelectorAll("[data-go]")) {
    const step = Number(button.dataset.go);
    button.disabled = !missed.length;
    button.addEventListener("click", () => {
      const at = range.value - 1;
      const next = step > 0 ? missed.find(k => k > at) : missed.findLast(k => k < at);
      go(next === undefined ? missed.at(step > 0 ? 0 : -1) : next);
    });
  }
}
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
"""
