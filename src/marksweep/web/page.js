"use strict";
// Segment texts are untrusted: render them only as text nodes.
const POLL_MS = 2000;
const $ = id => document.getElementById(id);
const number = n => n.toLocaleString("en-US");
const STATES = {root: "must stay", reached: "in use", related: "related", garbage: "garbage"};
let heap = "", view = null, etag = "", plan = null, by = "kind", token = "", offset = 0;

function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === "click") node.addEventListener("click", value);
    else if (key === "width") node.style.width = `${Math.max(0, Math.min(100, value))}%`;
    else if (key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

class Problem extends Error {
  constructor(status, words) { super(words); this.status = status; }
}

async function ask(path, {query = {}, body, headers = {}} = {}) {
  const url = `api/${path}?${new URLSearchParams(query)}`;
  const sent = {headers: {...headers}, cache: "no-store", credentials: "omit"};
  if (token) sent.headers.Authorization = `Bearer ${token}`;
  if (body) {
    sent.method = "POST";
    sent.body = JSON.stringify(body);
    sent.headers["Content-Type"] = "application/json";
  }
  let answer;
  try { answer = await fetch(url, sent); }
  catch { throw new Problem(0, "The server does not answer. Is it still running?"); }
  if (answer.ok || answer.status === 304) return answer;
  const said = await answer.json().catch(() => ({}));
  const words = said.error?.message ?? said.error ?? `the server answered ${answer.status}.`;
  throw new Problem(answer.status, words[0].toUpperCase() + words.slice(1));
}
const get = async (path, query) => (await ask(path, {query: {heap, ...query}})).json();
const post = async (path, body) => (await ask(path, {body: {heap, ...body}})).json();

// Show a problem until the next action, or until `cause` ends.
function complain(problem, cause = "") {
  const shown = $("detail").open ? "detail-problem" : "problem";
  for (const id of ["problem", "detail-problem"]) {
    $(id).textContent = problem && id === shown ? problem.message : "";
    $(id).hidden = !$(id).textContent;
  }
  $("enter").hidden = problem?.status !== 401;
  $("problem").dataset.cause = cause;
}

// Run a button's action; the button is disabled meanwhile, and a failure is shown.
function doing(work) {
  return async event => {
    event?.preventDefault();
    const button = event?.submitter ?? event?.currentTarget;
    if (button instanceof HTMLButtonElement) button.disabled = true;
    try { complain(null); await work(); }
    catch (problem) { complain(problem); }
    finally { if (button instanceof HTMLButtonElement) button.disabled = false; }
  };
}

async function choose() {
  const heaps = await (await ask("heaps")).json();
  const kinds = {segments: "Working set", conversation: "Conversation", memory: "Memory"};
  const named = each => heaps.filter(other => other.kind === each.kind && other.title === each.title).length > 1
    ? `${each.title} (${each.workspace.slice(-8)})` : each.title;
  const options = heaps.map(each => make("option", {value: each.heap}, `${kinds[each.kind]}: ${named(each)}`));
  if (JSON.stringify(heaps.map(h => [h.heap, h.title])) !== $("heap").dataset.known) {
    $("heap").replaceChildren(...options);
    $("heap").dataset.known = JSON.stringify(heaps.map(h => [h.heap, h.title]));
  }
  if (!heaps.some(each => each.heap === heap)) heap = heaps[0]?.heap ?? "";
  $("heap").value = heap;
}

async function refresh() {
  if (!heap) return false;
  const asked = heap;
  const answer = await ask("view", {query: {heap}, headers: etag ? {"If-None-Match": etag} : {}});
  if (answer.status === 304) return false;
  const found = await answer.json();
  if (asked !== heap) return false; // Another heap was chosen meanwhile.
  etag = answer.headers.get("ETag");
  view = found;
  if (plan && !plan.version) plan.version = view.version.split(".")[0];
  await draw();
  return true;
}

async function draw() {
  const unit = view.unit;
  const sizes = Object.fromEntries(view.states.map(each => [each.name, each.size]));
  const share = n => view.size ? `${Math.round(100 * n / view.size)} %` : "0 %";
  const figures = [
    [view.budget ? "In the window" : "In the memory", number(view.size), view.budget ? `of ${number(view.budget.limit)} ${unit}` : unit],
    ["Garbage", number(sizes.garbage ?? 0), share(sizes.garbage ?? 0)],
    ["Must stay", number(sizes.root ?? 0), share(sizes.root ?? 0)],
    ["Swept, restorable", number(view.swept), view.swept === 1 ? "piece" : "pieces"],
  ];
  $("figures").replaceChildren(...figures.map(([name, value, more]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, `${value} `, make("small", {}, more)))));
  $("h-window").textContent = view.budget ? "The window" : "The memory";
  for (const id of ["window", "collecting", "timeline", "garbage", "staying", "all", "stash"]) $(id).hidden = false;
  drawBy();
  drawReasons("garbage-list", view.garbage, "Nothing is garbage.", "garbage");
  drawReasons("staying-list", view.staying, "Nothing must stay.", "root");
  drawTimeline();
  drawPins();
  drawRoots();
  drawPlan();
  await Promise.all([drawPicture(), list(0, offset), stash()]);
  document.documentElement.dataset.version = view.version;
}

function drawBy() {
  const names = Object.keys(view.groups);
  if (!names.includes(by)) by = "kind";
  if ($("by").dataset.known === names.join()) return;
  $("by").dataset.known = names.join();
  const choices = names.map(name => make("label", {}, make("input", {
    type: "radio", name: "by", value: name, checked: name === by,
    onchange: doing(() => { by = name; return drawPicture(); }),
  }), name));
  $("by").replaceChildren(make("legend", {}, "Grouped by"), ...choices);
}

async function drawPicture() {
  const place = $("picture"), width = Math.round(place.clientWidth);
  const query = {heap, by, width, ...(plan ? {plan: plan.plan.plan_id} : {})};
  const text = await (await ask("picture", {query})).text();
  if (query.heap !== heap) return;
  const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  place.replaceChildren(document.adoptNode(svg));
}

function point(tile) {
  for (const old of $("picture").querySelectorAll(".at")) old.classList.remove("at");
  tile?.classList.add("at");
  if (tile) $("pointed").textContent = tile.querySelector("title").textContent;
}

function drawReasons(id, found, nothing, state) {
  const most = Math.max(1, ...found.map(each => each.size));
  $(id).replaceChildren(...(found.length ? found.slice(0, 12).map(each => make("li", {},
    make("div", {className: "text"}, make("span", {}, each.name),
      make("span", {className: "n"}, `${number(each.size)} `, make("small", {}, `in ${number(each.tiles)}`))),
    make("div", {className: "bar"}, make("i", {width: 100 * each.size / most})))) : [make("li", {}, nothing)]));
  if (found.length) $(id).append(make("li", {}, make("button", {click: doing(() => {
    $("state").value = state;
    $("words").value = "";
    $("h-all").scrollIntoView();
    return list(0);
  })}, "List them")));
}

const when = text => new Date(text).toLocaleString([], {dateStyle: "medium", timeStyle: "short"});

function drawTimeline() {
  const did = {swept: "Collected", undone: "Undone", restored: "Restored", purged: "Purged"};
  const most = Math.max(1, view.budget?.limit ?? 0, ...view.timeline.map(each => each.size_before ?? 0));
  drawChart(most);
  $("done").replaceChildren(...(view.timeline.length ? view.timeline.map(each => {
    const swept = each.event === "swept";
    const words = swept
      ? `${did.swept}: ${number(each.size_before)} → ${number(each.size_after)} ${view.unit}, ${number(each.tiles)} removed`
      : `${did[each.event] ?? each.event}: ${number(each.tiles)} ${each.event === "purged" ? "are gone" : "are back"}`;
    const facts = [when(each.at), each.strategy, each.actor && `by ${each.actor}`, each.plan_id].filter(Boolean);
    const item = make("li", {"data-plan": each.plan_id}, make("div", {className: "row"},
      make("div", {}, words, make("small", {}, facts.join(" · ")))));
    if (swept) {
      item.firstChild.after(make("div", {className: "swing"}, make("i", {width: 100 * each.size_before / most}),
        make("b", {width: 100 * each.size_after / most})));
      item.firstChild.append(make("button", {click: doing(() => lookAt(each.plan_id))}, "Details"));
      if (each.can_undo) item.firstChild.append(make("button", {click: doing(() => undo(each.plan_id))}, "Undo"));
    }
    return item;
  }) : [make("li", {}, "No collections yet.")]));
}

function drawChart(most) {
  const swings = view.timeline.filter(each => each.event === "swept").reverse();
  if (swings.length < 2) return $("chart").replaceChildren();
  const NS = "http://www.w3.org/2000/svg", svg = document.createElementNS(NS, "svg");
  const put = (tag, attributes) => {
    const node = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    svg.append(node);
  };
  const y = size => (88 - 84 * size / most).toFixed(1);
  svg.setAttribute("viewBox", `0 0 ${swings.length} 90`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Size before and after the last ${swings.length} collections`);
  if (view.budget) put("line", {class: "limit", x1: 0, x2: swings.length, y1: y(view.budget.limit), y2: y(view.budget.limit)});
  put("polyline", {points: swings.map((each, n) =>
    `${n + .45},${y(each.size_before)} ${n + .55},${y(each.size_after)}`).join(" ")});
  $("chart").replaceChildren(svg);
}

function cost(found) {
  if (found.edits_from === null || found.edits_from === undefined) return "";
  const pays = found.pays_after_turns;
  const after = pays === null || pays === undefined ? "it never pays off with the prompt cache"
    : `it pays off after ${Math.ceil(pays)} ${Math.ceil(pays) === 1 ? "turn" : "turns"}`;
  return `Cost: ${number(found.reread_tokens ?? 0)} tokens are read again, once; ${after}.`;
}

function drawPlan(said) {
  if (!plan) {
    if (said) $("plan").replaceChildren(said);
    return;
  }
  const p = plan.plan, steps = p.steps ?? [], moved = plan.version !== view.version.split(".")[0];
  const rows = steps.map(step => make("tr", {},
    make("td", {}, plan.labels[step.segments[0]] || step.segments[0],
      make("small", {}, step.segments.slice(0, 3).join(", ") + (step.segments.length > 3 ? ` and ${number(step.segments.length - 3)} more` : "")),
      make("small", {}, step.reason)),
    make("td", {}, step.action), make("td", {className: "n"}, number(step.size))));
  const card = make("div", {className: "card", id: "card"},
    make("h3", {}, plan.done ? "Removed by " : "", make("code", {}, p.plan_id)),
    make("p", {}, plan.steps
      ? `${number(p.size_before)} → ${number(p.size_after)} ${p.unit ?? "tokens"}: ${number(plan.steps)} steps free ${number(p.size_before - p.size_after)}, by ${p.strategy}.`
      : "Nothing would be removed."),
    make("p", {className: "fine"}, cost(p.cost ?? {}),
      plan.deletes ? " Removed items are deleted; they can be restored during the grace period." : " Removed items are kept in the stash."));
  for (const each of p.blockers ?? []) card.append(make("p", {className: "fine"},
    `Stays: ${number(each.size)} in ${number(each.segments)}, ${each.reason}.`));
  if (moved && !plan.done) card.append(make("p", {className: "bad"},
    "The heap has changed since this plan was made: make a new plan to collect."));
  const buttons = make("div", {className: "buttons"});
  if (plan.steps && !plan.done) buttons.append(make("button", {className: "main", id: "collect", click: doing(collect)}, "Collect exactly this"));
  buttons.append(make("button", {click: doing(() => { plan = null; $("plan").replaceChildren(); return drawPicture(); })},
    plan.done ? "Close" : "Dismiss"));
  card.append(buttons);
  if (rows.length) card.append(make("div", {className: "scroll", tabIndex: 0}, make("table", {},
    make("thead", {}, make("tr", {}, make("th", {}, "What, and why"), make("th", {}, "Action"), make("th", {className: "n"}, "Frees"))),
    make("tbody", {}, ...rows))));
  if (plan.steps > rows.length) card.append(make("p", {className: "fine"}, `and ${number(plan.steps - rows.length)} smaller steps`));
  $("plan").replaceChildren(card);
}

async function makePlan() {
  const wanted = $("target").value.trim();
  plan = await post("plan", {target: wanted ? Number(wanted) : null});
  if (await refresh()) return;
  plan.version = view.version.split(".")[0];
  drawPlan();
  await drawPicture();
}

async function lookAt(planId) {
  plan = {...await get("plan", {plan: planId}), done: true};
  drawPlan();
  $("h-collect").scrollIntoView();
}

function said(words, ...more) {
  plan = null;
  drawPlan(make("p", {className: "good", id: "said"}, words, " ", ...more));
}

async function collect() {
  const id = plan.plan.plan_id;
  const report = await post("collect", {plan_id: id});
  said(`Collected ${id}: ${number(report.size_before)} → ${number(report.size_after)} ${report.unit ?? "tokens"}.`,
    make("button", {id: "undo", click: doing(() => undo(id))}, "Undo"));
  await refresh();
}

async function undo(id) {
  const back = await post("undo", {plan_id: id});
  said(`Undone ${id}: ${number(back.length)} are back where they were.`);
  await refresh();
}

// List a part of the heap, or as many parts as it takes to have `least` rows.
async function list(from, least = 0) {
  const asked = heap, tiles = [];
  let found;
  do {
    found = await get("tiles", {words: $("words").value, state: $("state").value, offset: from + tiles.length});
    tiles.push(...found.tiles);
  } while (tiles.length < Math.min(least, found.total) && found.tiles.length);
  if (asked !== heap) return;
  const rows = tiles.map(tile => make("tr", {},
    make("td", {}, tile.name ? make("button", {click: doing(() => open(tile.name))}, tile.label || tile.name) : tile.label,
      make("small", {}, [tile.label && tile.name, tile.tool, tile.file].filter(Boolean).join(" · "))),
    make("td", {}, tile.kind),
    make("td", {}, make("span", {className: `state ${tile.state}`}, STATES[tile.state]), make("small", {}, tile.reason)),
    make("td", {className: "n"}, number(tile.size))));
  const body = $("tiles").tBodies[0];
  if (from) body.append(...rows);
  else body.replaceChildren(...(rows.length ? rows : [make("tr", {}, make("td", {colSpan: 4}, "No match."))]));
  offset = from + tiles.length;
  $("more").hidden = offset >= found.total;
  $("more").textContent = `Show more (${number(found.total - offset)} left)`;
}

async function stash() {
  const asked = heap;
  const found = await get("swept", {words: $("swept-words").value});
  if (asked !== heap) return;
  $("swept").replaceChildren(...(found.length ? found.slice(0, 20).map(each => make("li", {},
    make("div", {className: "row"},
      make("div", {}, make("button", {className: "link", click: doing(() => open(each.segment.segment_id))}, each.segment.segment_id),
        make("small", {}, `${when(each.stashed_at)} · ${each.reason ?? ""}`),
        make("small", {}, each.segment.text?.slice(0, 160) ?? "")),
      make("button", {click: doing(() => restore(each.segment.segment_id))}, "Restore")))) : [make("li", {}, $("swept-words").value ? "No match." : "Nothing has been swept.")]));
  if (found.length > 20) $("swept").append(make("li", {className: "fine"}, "More results: search by words."));
}

async function restore(name) {
  const back = await post("restore", {names: [name]});
  $("detail").close();
  said(`Restored: ${number(back.length)} are back where they were.`);
  await refresh();
}

const pinning = (path, name) => doing(async () => {
  await post(path, {names: [name]});
  await refresh();
  if ($("detail").open) await open(name);
});

function drawPins() {
  $("pins").hidden = !view.pins.length;
  $("pin-list").replaceChildren(...view.pins.map(tile => make("li", {}, make("div", {className: "row"},
    make("div", {}, make("button", {className: "link", click: doing(() => open(tile.name))}, tile.label || tile.name),
      make("small", {}, `${tile.name} · ${tile.reason}`)),
    make("button", {click: pinning("unpin", tile.name)}, "Unpin")))));
}

function drawRoots() {
  $("roots").hidden = !view.roots.length;
  $("root-list").replaceChildren(...view.roots.map(root => make("li", {}, root.repository,
    make("small", {}, `${number(root.files)} files, ${number(root.lines)} lines, last seen ${when(root.last_seen_at)}`),
    ...(root.there ? [] : [make("small", {className: "bad"}, "the folder is gone")]),
    ...(root.stale ? [make("small", {className: "bad"}, `${number(root.stale)} stale: their files are gone`)] : []))));
}

async function open(name) {
  const {segment, why, is_live: live} = await get("segment", {name});
  $("detail-name").textContent = name;
  $("detail-facts").textContent = [segment.type, segment.file_path, segment.task_id && `task ${segment.task_id}`,
    `${number(segment.tokens ?? 0)} ${view.unit}`, when(segment.created_at)].filter(Boolean).join(" · ");
  $("detail-why").textContent = why;
  $("detail-text").textContent = segment.text ?? "";
  $("detail-actions").replaceChildren(!live ? make("button", {click: doing(() => restore(name))}, "Restore")
    : segment.pinned ? make("button", {click: pinning("unpin", name)}, "Unpin")
    : make("button", {click: pinning("pin", name)}, "Pin"));
  if (!$("detail").open) $("detail").showModal();
}

async function poll() {
  if (!document.hidden) {
    try {
      await choose();
      await refresh();
      $("live").textContent = "live";
      $("live").className = "on";
      if (!heap) complain(new Problem(0, "There is nothing to show yet. The page updates by itself."), "poll");
      else if ($("problem").dataset.cause === "poll") complain(null);
    } catch (problem) {
      $("live").textContent = "not connected";
      $("live").className = "off";
      complain(problem, "poll");
    }
  }
  setTimeout(poll, POLL_MS);
}

function start() {
  const given = location.hash.slice(1);
  token = given || sessionStorage.getItem("marksweep-token") || "";
  if (given) {
    sessionStorage.setItem("marksweep-token", given);
    history.replaceState(null, "", location.pathname);
  }
  $("heap").addEventListener("change", doing(() => {
    heap = $("heap").value;
    etag = "";
    offset = 0;
    plan = null;
    $("plan").replaceChildren();
    return refresh();
  }));
  $("enter").addEventListener("submit", doing(async () => {
    token = $("token").value.trim();
    sessionStorage.setItem("marksweep-token", token);
    await choose();
    await refresh();
  }));
  $("plan-form").addEventListener("submit", doing(makePlan));
  $("find").addEventListener("submit", doing(() => list(0)));
  $("state").addEventListener("change", doing(() => list(0)));
  $("find-swept").addEventListener("submit", doing(stash));
  $("more").addEventListener("click", doing(() => list(offset)));
  const picture = $("picture");
  picture.addEventListener("pointerover", event => point(event.target.closest(".tile")));
  picture.addEventListener("click", event => {
    const name = event.target.closest(".tile")?.dataset.name;
    if (name) doing(() => open(name))();
  });
  picture.addEventListener("keydown", event => {
    const tiles = [...picture.querySelectorAll(".tile[data-name]")];
    const at = tiles.findIndex(tile => tile.classList.contains("at"));
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (step && tiles.length) {
      event.preventDefault();
      point(tiles.at((at < 0 && step < 0 ? 0 : at) + step) ?? tiles[0]);
    } else if (event.key === "Enter" && at >= 0) doing(() => open(tiles[at].dataset.name))();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width && view) { width = innerWidth; doing(drawPicture)(); }
  });
  poll();
}
start();
