/* The texts beside the graph. */

const rowOf = (name, text, cls = "") => `<tr><td>${esc(name)}</td><td class="${cls}">${esc(text)}</td></tr>`;
const tableOf = rows => `<table>${rows.join("")}</table>`;
const section = (title, rows) => rows.length ? `<h3>${title}</h3>${tableOf(rows)}` : "";
const linkTo = (graph, key, text) => `<a href="${addressOf(graph, key)}">${esc(text)}</a>`;

function histogram(c) {
  const top = Math.max(...c.histogram), n = c.histogram.length;
  const bars = c.histogram.map((v, i) => `<rect x="${i * 8}" y="${round(50 - 50 * v / top)}" width="7" ` +
    `height="${round(50 * v / top)}"><title>${v}</title></rect>`);
  return `<svg class="histogram" viewBox="0 0 ${n * 8} 50" preserveAspectRatio="none" role="img" ` +
    `aria-label="Histogram of ${n} bins from ${figure(c.min)} to ${figure(c.max)}: ${c.histogram.join(", ")}">` +
    `${bars.join("")}</svg><span class="soft">${figure(c.min)} … ${figure(c.max)}</span>`;
}

/** A number of at most six digits; texts like "NaN" as they are. */
const figure = x => typeof x === "number" ? String(+x.toPrecision(6)) : typeof x === "string" ? x : JSON.stringify(x);

/** Statistics, histogram and first values of a constant. */
function constantHtml(v) {
  const c = data.constants[v.data], q = v.quantization, texts = [];
  if (c.min !== undefined) {
    texts.push(`mean ${figure(c.mean)}, deviation ${figure(c.deviation)}, ${c.zeros} zeros, ${c.nan} NaN`);
    if (c.sampled) texts.push(`of ${c.sampled} elements spread over all ${c.elements}`);
    if (q && q.scale !== undefined && q.zero_point !== undefined)
      texts.push(`real ${((c.min - q.zero_point) * q.scale).toPrecision(4)} … ` +
        `${((c.max - q.zero_point) * q.scale).toPrecision(4)}`);
  }
  const more = c.elements - c.values.length;
  return texts.map(t => `<div class="soft">${esc(t)}</div>`).join("") + (c.histogram ? histogram(c) : "") +
    `<div class="values">${esc(c.values.map(figure).join(", "))}` +
    `${more > 0 ? ` <span class="soft">and ${more} more</span>` : ""}</div>`;
}

/** A row of a value; `ends`: indices of the boxes at its other end, where the `arrow` points. */
function valueRow(v, arrow, ends) {
  if (v < 0) return rowOf("absent", "");
  const x = state.scene.graph.values[v], name = x.name || "#" + v;
  const link = b => linkTo(state.graph, b.key, `${arrow} ${b.title}`);
  const links = ends.map(i => link(state.scene.boxes[i])).join(", ");
  const doc = x.doc ? `<div class="soft">${esc(x.doc)}</div>` : "";
  if (x.data === undefined)
    return `<tr><td>${esc(name)}</td><td>${esc(x.type)}${doc}${links ? `<br>${links}` : ""}</td></tr>`;
  return `<tr><td>${esc(name)}</td><td>${esc(x.type)} <i>constant</i>, ${bytes(x.constant_bytes)}${doc}` +
    `<details><summary>values</summary>${constantHtml(x)}</details></td></tr>`;
}

function attributeRow(n, [name, value]) {
  const call = calls(n).find(c => c[0] === name);
  if (!call) return rowOf(name, JSON.stringify(value));
  const body = data[state.view].graphs[call[1]];
  const link = linkTo(call[1], "", graphName(call[1]));
  return `<tr><td>${esc(name)}</td><td>${link}, ${body.nodes.length} nodes</td></tr>`;
}

const chainButton = sink => `<button data-chain="${sink}">` +
  `${state.expanded().has(sink) ? "Collapse" : "Expand"} folded chain</button>`;

function nodeHtml(i) {
  const n = state.scene.graph.nodes[i], delegate = data.file.partitions[n.partition];
  const sources = v => state.scene.edges.filter(e => e.value === v).map(e => e.a).slice(0, 1);
  const users = v => state.scene.edges.filter(e => e.value === v).map(e => e.b);
  const time = state.times && state.times.get(`${state.view}/${state.graph}/${i}`);
  const facts = [["graph operator", n.op], ["name", n.name], ["where", n.where], ["runs on", n.runs_on],
    ["storage", n.storage], ["on the host", n.host_reason], ["time", time && micros(time) + " a run"],
    ["multiply-adds", n.multiply_adds && human(n.multiply_adds, "")],
    ["weights", n.weights_bytes && bytes(n.weights_bytes)],
    ["reads and writes", n.moved_bytes && bytes(n.moved_bytes)],
    ["delegate", delegate && `${delegate.name}, ${delegate.backend}`]];
  const sink = state.scene.sinks[i], chained = state.scene.sinks.filter(s => s === sink).length > 1;
  return `<h2>${esc(opOf(n))}</h2>` + tableOf(facts.filter(f => f[1]).map(f => rowOf(...f))) +
    (chained ? chainButton(sink) : "") +
    section("Attributes in the file", Object.entries(n.file_attributes || {}).map(([k, v]) => rowOf(k, JSON.stringify(v)))) +
    section("Attributes", Object.entries(n.attributes).map(a => attributeRow(n, a))) +
    section("Inputs", n.inputs.map(v => valueRow(v, "←", sources(v)))) +
    section("Outputs", n.outputs.map(v => valueRow(v, "→", users(v))));
}

function chainHtml(b) {
  const near = list => list.map(i => state.scene.boxes[i])
    .map(o => `<tr><td>${linkTo(state.graph, o.key, o.title)}</td></tr>`);
  const {ins, outs} = state.scene.neighbours.get(b), nodes = state.scene.graph.nodes;
  return `<h2>${esc(b.title)}</h2><p>${b.members.length} nodes whose results are known before a run.</p>` +
    chainButton(b.node) +
    section("Nodes", b.members.map(m => `<tr><td><a href="#" data-member="${m}">${esc(opOf(nodes[m]))}</a></td>` +
      `<td>${esc(nodes[m].name || nodes[m].where)}</td></tr>`)) +
    section("Comes from", near(ins)) + section("Goes to", near(outs));
}

function portHtml(b) {
  const {ins, outs} = state.scene.neighbours.get(b);
  return `<h2>${esc(b.title)}</h2><p class="soft">${b.kind} of the graph</p>` +
    tableOf([ins.length ? valueRow(b.value, "←", ins) : valueRow(b.value, "→", outs)]);
}

function operatorRows(g) {
  const count = new Map();
  g.nodes.forEach((n, i) => {
    const c = count.get(opOf(n)) || {n: 0, weights: 0, time: 0, seen: new Set()};
    count.set(opOf(n), c);
    c.n++;
    c.time += state.times ? state.times.get(`${state.view}/${state.graph}/${i}`) || 0 : 0;
    n.inputs.filter(v => v >= 0 && !c.seen.has(v)).forEach(v => {
      c.seen.add(v);
      c.weights += g.values[v].constant_bytes || 0;
    });
  });
  const cell = text => `<td class="n">${text}</td>`;
  return [...count].sort((a, b) => b[1].time - a[1].time || b[1].n - a[1].n).map(([op, c]) =>
    `<tr><td><a href="#" data-find="${esc(op)}">${esc(op)}</a></td>${cell(c.n)}` +
    `${cell(c.weights ? bytes(c.weights) : "")}${c.time ? cell(micros(c.time)) : ""}</tr>`);
}

function slowestRows() {
  const {scene} = state;
  if (!scene.time) return [];
  return scene.boxes.filter(b => scene.time(b) > 0).sort((a, b) => scene.time(b) - scene.time(a)).slice(0, 12).map(b =>
    `<tr><td>${linkTo(state.graph, b.key, b.title)}</td><td class="n">${micros(scene.time(b))}</td>` +
    `<td class="n">${(100 * scene.time(b) / scene.total).toFixed(1)} %</td></tr>`);
}

function overviewHtml() {
  const g = state.scene.graph, d = g.device, file = data.file;
  const facts = [["nodes", g.nodes.length], ["weights", bytes(file.weights_bytes)],
    ["activations", g.arena_bytes !== undefined && bytes(g.arena_bytes)],
    ["lower bound", g.arena_lower_bound !== undefined && bytes(g.arena_lower_bound)],
    ["multiply-adds", file.multiply_adds && human(file.multiply_adds, "")],
    ["on the device", d && `${d.nodes} nodes, ${d.segments} segment${d.segments === 1 ? "" : "s"}`],
    ["activations there", d && bytes(d.arena_bytes)], ["no plan", g.plan_error],
    ...file.methods.filter(m => m.graph === state.graph && m.planned_bytes)
      .map(m => ["planned by the file", m.planned_bytes.map(bytes).join(" + ")])];
  return `<h2>${esc(graphName(state.graph))}</h2>` +
    tableOf(facts.filter(f => f[1] || f[1] === 0).map(([k, v]) => rowOf(k, v, "n"))) +
    section("Slowest", slowestRows()) + section("Operators", operatorRows(g)) +
    section("Delegates", file.partitions.map(p => `<tr><td>${esc(p.name)}<br>${esc(p.backend)}</td>` +
      `<td class="n">${p.nodes} nodes</td><td class="n">${p.bytes ? bytes(p.bytes) : ""}</td></tr>`)) +
    section("Variables", file.states.map(s => rowOf(s.name, `${s.type}, ${s.initial}`))) +
    section("File", file.parts.map(p => `<tr><td>${esc(p.name)}</td><td class="n">${p.count}</td>` +
      `<td class="n">${bytes(p.bytes)}</td></tr>`)) +
    section("Metadata", Object.entries(file.metadata || {}).map(([k, v]) => rowOf(k, v)));
}

/** What was found, the graphs one after the other. */
function hitsHtml(hits, shown = 200) {
  const several = new Set(hits.map(h => h.graph)).size > 1;
  const soft = text => `<div class="soft">${esc(text)}</div>`;
  const rows = hits.slice(0, shown).map(h =>
    `<tr><td>${h.graph >= 0 ? linkTo(h.graph, h.key, h.title) : esc(h.title)}` +
    `${several && h.graph >= 0 ? soft(graphName(h.graph)) : ""}</td>` +
    `<td>${esc(h.sub)}${[h.title, h.sub].includes(h.found) ? "" : soft(short(h.found, 80))}</td></tr>`);
  return `<h2>${hits.length} found</h2>` + tableOf(rows) +
    (hits.length > shown ? `<p class="soft">and ${hits.length - shown} more</p>` : "");
}
