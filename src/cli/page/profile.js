/* Times of nodes from `smelt bench --profile`. Its rows are of the optimised graphs. */

/** Rows [graph, node, microseconds a run] of a profile; throws an Error that says what is wrong with it. */
function profileRows(text) {
  let rows;
  try { rows = JSON.parse(text); } catch (e) { throw new Error("no JSON: " + e.message); }
  if (!Array.isArray(rows)) throw new Error("no list of nodes, as smelt bench --profile=FILE.json writes it");
  const graphs = data.optimised ? data.optimised.graphs : [];
  return rows.map((r, i) => {
    if (!r || !Number.isInteger(r.graph) || !Number.isInteger(r.index) || !(r.micros_per_run >= 0))
      throw new Error(`row ${i} lacks graph, index or micros_per_run`);
    const node = graphs[r.graph] && graphs[r.graph].nodes[r.index];
    if (!node || node.op !== r.op)
      throw new Error(`row ${i} is of another model: no ${r.op} at node ${r.index} of graph ${r.graph}`);
    return [r.graph, r.index, r.micros_per_run];
  });
}

/**
 * Microseconds of each node, by "view/graph/node". A node of the file has the time of the optimised node of the same
 * graph that was made at its place in the file.
 */
function timesOf(rows) {
  const times = new Map(), add = (key, us) => times.set(key, (times.get(key) || 0) + us);
  rows.forEach(([g, n, us]) => add(`optimised/${g}/${n}`, us));
  const places = new Map();
  data.file.graphs.forEach((g, gi) => g.nodes.forEach((n, i) => {
    if (!places.has(`${gi}/${n.where}`)) places.set(`${gi}/${n.where}`, `file/${gi}/${i}`);
  }));
  rows.forEach(([g, n, us]) => {
    const place = places.get(`${g}/${data.optimised.graphs[g].nodes[n].where}`);
    if (place) add(place, us);
  });
  return times;
}

/** Gives a scene times of boxes: `time(box)`, their sum `total` and the `slowest`. */
function colourByTime(scene, times, view, graph) {
  const of = b => b.members ? b.members.reduce((s, m) => s + (times.get(`${view}/${graph}/${m}`) || 0), 0) : 0;
  const all = new Map(scene.boxes.map(b => [b, of(b)]));
  scene.total = [...all.values()].reduce((s, t) => s + t, 0);
  scene.slowest = [...all.values()].reduce((m, t) => Math.max(m, t), 0);
  scene.time = scene.total > 0 ? b => all.get(b) : null;
}
