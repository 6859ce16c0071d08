/* State, addresses (#VIEW/GRAPH/KEY) and what a person does. */

const $ = id => document.getElementById(id);
const canvas = $("canvas"), world = $("world");
const state = {
  view: data.show, graph: 0, chosen: "", query: "", hits: [], hitAt: -1, times: null,
  at: {x: 0, y: 0, k: 1}, drawn: null, chains: new Map(), scenes: new Map(), index: new Map(),
  /** Sinks of the chains of the graph on view that are not collapsed. */
  expanded() {
    const key = `${this.view}/${this.graph}`;
    if (!this.chains.has(key)) this.chains.set(key, new Set());
    return this.chains.get(key);
  },
};

const addressOf = (graph, key) => `#${state.view}/${graph}/${key}`;
const graphName = i => data[state.view].graphs[i].name || (i ? "graph " + i : "graph");
const boxOf = key => key && state.scene.at.has(key) ? state.scene.at.get(key) : -1;

/** Tells a screen reader; a message is shown for a while, too. */
let quiet = 0;
function say(text, message = true) {
  $("status").textContent = text;
  $("status").classList.toggle("on", message);
  clearTimeout(quiet);
  quiet = setTimeout(() => $("status").classList.remove("on"), 2500);
}

/* Drawing: what is in sight and half a screen around it, again when that is left. */
function redraw() {
  state.drawn = null;
  move();
}
function move() {
  const {x, y, k} = state.at, r = canvas.getBoundingClientRect(), scene = state.scene;
  world.setAttribute("transform", `translate(${x},${y}) scale(${k})`);
  const see = {x0: -x / k, y0: -y / k, x1: (r.width - x) / k, y1: (r.height - y) / k};
  const near = k >= kNearScale || scene.boxes.length <= kFewBoxes, d = state.drawn;
  if (d && d.near === near && (!near || (d.x0 <= see.x0 && d.y0 <= see.y0 && d.x1 >= see.x1 && d.y1 >= see.y1))) return;
  const w = (see.x1 - see.x0) / 2, h = (see.y1 - see.y0) / 2;
  state.drawn = {near, x0: see.x0 - w, y0: see.y0 - h, x1: see.x1 + w, y1: see.y1 + h};
  const shown = state.hits.filter(e => e.graph === state.graph && e.key).map(e => boxOf(e.key));
  const look = {hits: new Set(shown), chosen: boxOf(state.chosen)};
  const to = state.drawn;
  world.innerHTML = near ? nearSvg(scene, look, to.x0, to.y0, to.x1, to.y1) : farSvg(scene, look);
}
function fit() {
  const r = canvas.getBoundingClientRect(), {width, height} = state.scene, at = state.at;
  at.k = Math.min(1.2, Math.max(.002, Math.min((r.width - 28) / width, (r.height - 28) / height)));
  at.x = (r.width - width * at.k) / 2;
  at.y = Math.max(14, (r.height - height * at.k) / 2);
  move();
}
function center(i, scale = .8) {
  const r = canvas.getBoundingClientRect(), b = state.scene.boxes[i], at = state.at;
  at.k = Math.max(at.k, scale);
  at.x = r.width / 2 - (b.x + BOX.w / 2) * at.k;
  at.y = r.height / 2 - (b.y + BOX.h / 2) * at.k;
}
function inSight(i) {
  const r = canvas.getBoundingClientRect(), b = state.scene.boxes[i], {x, y, k} = state.at;
  return k >= .3 && b.x * k + x >= 0 && b.y * k + y >= 0 && (b.x + BOX.w) * k + x <= r.width &&
    (b.y + BOX.h) * k + y <= r.height;
}
function zoom(factor, px, py) {
  const at = state.at, k = Math.min(4, Math.max(.002, at.k * factor));
  at.x = px - (px - at.x) * k / at.k;
  at.y = py - (py - at.y) * k / at.k;
  at.k = k;
  move();
}
/** A graph that is too long to read as a whole opens at its beginning. */
function openScene() {
  fit();
  if (state.at.k >= .55 || !state.scene.boxes.length) return;
  const first = state.scene.layers[0][0], r = canvas.getBoundingClientRect();
  state.at = {k: .9, x: r.width / 2 - (first.x + BOX.w / 2) * .9, y: 24};
  move();
}

/** The graph on view, laid out; again after a change of its chains. */
function sceneOf() {
  const key = [state.view, state.graph, ...state.expanded()].join("/");
  if (!state.scenes.has(key))
    state.scenes.set(key, layout(gather(data[state.view].graphs[state.graph], state.expanded())));
  const scene = state.scenes.get(key);
  scene.time = null;
  if (state.times) colourByTime(scene, state.times, state.view, state.graph);
  return scene;
}
function showLegend() {
  const {time, slowest, total} = state.scene;
  $("legend").hidden = !time;
  const colors = [0, .25, .5, 1].map(heatColor).join();
  if (time) $("legend").innerHTML =
    `0 <i style="background:linear-gradient(90deg,${colors})"></i>${micros(slowest)} of ${micros(total)}`;
}
/** Graphs from the method's down to the one on view, by which nodes call them. */
function showPath() {
  const graphs = data[state.view].graphs, callers = new Map();
  graphs.forEach((g, i) => g.nodes.forEach((n, k) => calls(n).forEach(c => {
    if (!callers.has(c[1]) && c[1] !== i) callers.set(c[1], [i, k]);
  })));
  const links = [];
  for (let at = callers.get(state.graph); at && links.length < graphs.length; at = callers.get(at[0]))
    links.unshift(`${linkTo(at[0], "n" + at[1], "← " + graphName(at[0]))} / ` +
      `${esc(opOf(graphs[at[0]].nodes[at[1]]))} / `);
  $("path").innerHTML = links.length ? links.join("") + esc(graphName(state.graph)) : "";
}
function showPanel() {
  const b = state.scene.boxes[boxOf(state.chosen)];
  $("side").innerHTML = !b ? (state.query ? hitsHtml(state.hits) : overviewHtml())
    : b.kind !== "node" ? portHtml(b)
      : b.members.length > 1 && state.chosen === b.key ? chainHtml(b) : nodeHtml(+state.chosen.slice(1));
  $("side").scrollTop = 0;
  const i = boxOf(state.chosen);
  if (i >= 0) canvas.setAttribute("aria-activedescendant", "b" + i);
  else canvas.removeAttribute("aria-activedescendant");
}
function showSearch() {
  if (!state.index.has(state.view)) state.index.set(state.view, searchIndex(state.view));
  state.hits = state.query ? find(state.index.get(state.view), state.query) : [];
  state.hitAt = -1;
}

/** Shows a view, one of its graphs, and chooses a box of it; "" chooses none. */
function show(view, graph, key) {
  const other = view !== state.view || graph !== state.graph || !state.scene;
  const changed = view !== state.view;
  state.view = view;
  state.graph = graph;
  state.chosen = key;
  if (changed && state.query) showSearch();
  if (other) {
    state.scene = sceneOf();
    $("optimised").checked = view === "optimised";
    if (changed || !$("graph").length) listGraphs();
    $("graph").value = graph;
    showLegend();
    showPath();
    openScene();
  }
  const i = boxOf(key);
  if (i >= 0 && !inSight(i)) center(i);
  redraw();
  showPanel();
  if (i >= 0) say(spoken(state.scene, state.scene.boxes[i]), false);
}
function listGraphs() {
  const {graphs} = data[state.view];
  $("graph").replaceChildren(...graphs.map((g, i) => new Option(`${graphName(i)} (${g.nodes.length})`, i)));
  $("graph").hidden = graphs.length < 2;
}
/** Goes where an address says; what does not exist is the first method's graph. */
function follow() {
  const [view, graph, key] = location.hash.slice(1).split("/");
  if (data[view] && data[view].graphs && data[view].graphs[graph]) show(view, +graph, key || "");
  else show(data.show, data.file.methods.length ? data.file.methods[0].graph : 0, "");
}
function choose(key) {
  if (location.hash !== addressOf(state.graph, key)) history.pushState(null, "", addressOf(state.graph, key));
  show(state.view, state.graph, key);
}
/** The node of the other view that was made at the same place of the file. */
function switchView() {
  const to = state.view === "file" ? "optimised" : "file", n = state.scene.graph.nodes[state.chosen.slice(1)];
  const graph = data[to].graphs[state.graph] ? state.graph : 0;
  const k = state.chosen[0] === "n" && n ? data[to].graphs[graph].nodes.findIndex(m => m.where === n.where) : -1;
  location.hash = `#${to}/${graph}/${k >= 0 ? "n" + k : ""}`;
}
function toggleChain(sink) {
  const open = state.expanded();
  if (!open.delete(sink)) open.add(sink);
  state.scene = sceneOf();
  center(boxOf("n" + sink), state.at.k);
  choose("n" + sink);
}

function search(text) {
  state.query = text.trim();
  showSearch();
  state.chosen = "";
  const first = state.hits.find(h => h.graph === state.graph);
  if (first && !inSight(boxOf(first.key))) center(boxOf(first.key));
  redraw();
  showPanel();
  if (state.query) say(`${state.hits.length} found`, false);
}
function nextHit(step) {
  const hits = state.hits.filter(h => h.graph >= 0);
  if (!hits.length) return;
  state.hitAt = (state.hitAt + step + hits.length) % hits.length;
  location.hash = addressOf(hits[state.hitAt].graph, hits[state.hitAt].key);
}

function loadProfile(text, name) {
  try {
    state.times = timesOf(profileRows(text));
  } catch (e) {
    say(`${name}: ${e.message}`);
    return;
  }
  state.scene = sceneOf();
  showLegend();
  redraw();
  showPanel();
  say(`${name}: colour shows time`);
}
function save(blob, suffix) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(blob);
  a.download = $("title").textContent + suffix;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

/** The first graph that a box's node calls, as calls() has it. */
const bodyOf = b => b && b.kind === "node" ? calls(state.scene.graph.nodes[b.node])[0] : undefined;

/** The box that an arrow key leads to: the first source or user, or the neighbour in the layer. */
function stepTo(key) {
  const {scene} = state, i = boxOf(state.chosen);
  if (i < 0) return 0;
  const b = scene.boxes[i], {ins, outs} = scene.neighbours.get(b), list = scene.layers[b.layer], at = list.indexOf(b);
  const beside = list[at + (key === "ArrowRight" ? 1 : -1)];
  return key === "ArrowDown" ? outs[0] : key === "ArrowUp" ? ins[0] : beside ? scene.boxes.indexOf(beside) : undefined;
}
canvas.onkeydown = e => {
  const r = canvas.getBoundingClientRect(), zoomBy = f => zoom(f, r.width / 2, r.height / 2), {scene} = state;
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const ends = {Home: 0, End: scene.boxes.length - 1};
  if (e.key.startsWith("Arrow") || e.key in ends) {
    const to = e.key in ends ? ends[e.key] : stepTo(e.key);
    if (to !== undefined && scene.boxes.length) choose(scene.boxes[to].key);
  } else if (e.key === "Enter" || e.key === " ") {
    const b = scene.boxes[boxOf(state.chosen)], body = bodyOf(b);
    if (body) location.hash = addressOf(body[1], "");
    else if (b && b.members && b.members.length > 1) toggleChain(b.node);
  } else if (e.key === "Backspace") history.back();
  else if (e.key === "+" || e.key === "=") zoomBy(1.25);
  else if (e.key === "-") zoomBy(.8);
  else if (e.key === "0") fit();
  else if (e.key === "Escape") choose("");
  else return;
  e.preventDefault();
};
document.onkeydown = e => {
  if (e.key !== "/" || /INPUT|SELECT/.test(e.target.tagName)) return;
  e.preventDefault();
  $("search").focus();
};

/* One pointer drags, two pinch, two taps enter a subgraph. */
const pointers = new Map();
let dragged = false, tapped = {};
const boxAt = (px, py) => {
  const {x, y, k} = state.at, wx = (px - x) / k, wy = (py - y) / k, layer = state.scene.layers[Math.floor(wy / PITCH)];
  return layer && layer.find(b => wx >= b.x && wx <= b.x + BOX.w && wy <= b.y + BOX.h);
};
canvas.onpointerdown = e => {
  if (!pointers.size) dragged = false;
  pointers.set(e.pointerId, e);
  canvas.classList.add("drag");
};
canvas.onpointermove = e => {
  const old = pointers.get(e.pointerId);
  if (!old) return;
  const r = canvas.getBoundingClientRect(), dx = e.clientX - old.clientX, dy = e.clientY - old.clientY;
  if (!dragged && Math.hypot(dx, dy) <= 3) return;
  if (!dragged) canvas.setPointerCapture(e.pointerId);
  dragged = true;
  const other = [...pointers.values()].find(p => p.pointerId !== e.pointerId);
  if (other) {
    const span = p => Math.hypot(p.clientX - other.clientX, p.clientY - other.clientY);
    const middle = axis => (e["client" + axis] + other["client" + axis]) / 2;
    zoom(span(e) / Math.max(span(old), 1), middle("X") - r.left, middle("Y") - r.top);
  } else {
    state.at.x += dx;
    state.at.y += dy;
    move();
  }
  pointers.set(e.pointerId, e);
};
canvas.onpointerup = canvas.onpointercancel = e => {
  const r = canvas.getBoundingClientRect(), had = pointers.delete(e.pointerId);
  if (!pointers.size) canvas.classList.remove("drag");
  if (!had || dragged || e.type === "pointercancel") return;
  const b = boxAt(e.clientX - r.left, e.clientY - r.top), body = bodyOf(b);
  const twice = b && tapped.box === b && e.timeStamp - tapped.at < 400;
  tapped = {box: b, at: e.timeStamp};
  if (twice && body) location.hash = addressOf(body[1], "");
  else choose(b ? b.key : "");
};
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const r = canvas.getBoundingClientRect();
  zoom(Math.exp(-e.deltaY * .0015), e.clientX - r.left, e.clientY - r.top);
}, {passive: false});

$("side").onclick = e => {
  const {find: op, chain, member} = e.target.dataset;
  if (op !== undefined || member !== undefined) e.preventDefault();
  if (op !== undefined) { $("search").value = op; search(op); }
  if (chain !== undefined) toggleChain(+chain);
  if (member !== undefined) choose("n" + member);
};
$("graph").onchange = e => { location.hash = addressOf(+e.target.value, ""); };
$("optimised").onchange = switchView;
$("search").oninput = e => search(e.target.value);
$("search").onkeydown = e => {
  if (e.key === "Enter") nextHit(e.shiftKey ? -1 : 1);
  if (e.key === "Escape") { e.target.value = ""; search(""); canvas.focus(); }
};
$("fit").onclick = fit;
$("svg").onclick = () => save(new Blob([svgText(state.scene)], {type: "image/svg+xml"}), ".svg");
$("png").onclick = () => pngOf(state.scene).then(({blob, scale}) => {
  save(blob, ".png");
  if (scale < 1) say(`PNG at ${Math.max(1, Math.round(100 * scale))} % of full size; SVG has no limit`);
}, e => say(e.message));
$("profile").onclick = () => $("profile-file").click();
const takeProfile = file => file && file.text().then(text => loadProfile(text, file.name), e => say(e.message));
$("profile-file").onchange = e => takeProfile(e.target.files[0]);
document.ondragover = e => e.preventDefault();
document.ondrop = e => { e.preventDefault(); takeProfile(e.dataTransfer.files[0]); };
window.onhashchange = window.onpopstate = follow;
window.onresize = move;

const style = document.createElement("style");
document.head.append(style);
const colour = () => { style.textContent = drawingStyle(); };
colour();
matchMedia("(prefers-color-scheme: dark)").onchange = () => { colour(); redraw(); };

$("title").textContent = data.file.file.split("/").pop();
$("facts").textContent = `${data.file.format}, ${bytes(data.file.file_bytes)}, ${data.file.nodes} nodes`;
document.title = $("title").textContent + " – smelt";
$("optimised").disabled = !data.optimised;
$("optimised-label").title = data.optimised_error || "The graph that runs execute: nodes fused, constants folded";
if (data.profile) {
  try { state.times = timesOf(profileRows(JSON.stringify(data.profile))); } catch (e) { say(`profile: ${e.message}`); }
}
follow();
