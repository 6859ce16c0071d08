/* What is shown of a graph: boxes and edges. A box has a key: n12 a node, i0 a graph's input, o0 its output. */

const data = JSON.parse(document.getElementById("data").textContent);
const opOf = n => n.origin || n.op;
const isConstant = v => v.constant_bytes !== undefined;

/**
 * For each node the sink of its folded chain, else itself. A folded node belongs to the chain of its users if all of
 * them are of one chain: then only the sink has users outside, and a box for the whole chain makes no cycle.
 */
function foldedSinks(g) {
  const users = g.values.map(() => []);
  g.nodes.forEach((n, i) => n.inputs.forEach(v => { if (v >= 0) users[v].push(i); }));
  g.outputs.forEach(v => { if (v >= 0) users[v].push(-1); });
  const sink = g.nodes.map((n, i) => i), folded = i => i >= 0 && g.nodes[i].runs_on === "folded";
  for (let i = g.nodes.length - 1; i >= 0; i--) {
    if (!folded(i)) continue;
    const using = g.nodes[i].outputs.flatMap(v => v >= 0 ? users[v] : []);
    if (using.length && using.every(u => folded(u) && sink[u] === sink[using[0]])) sink[i] = sink[using[0]];
  }
  return sink;
}

/**
 * Boxes in an order in which sources come before users, and edges {a, b, value} between their indices. Edges follow
 * values that are computed or given, not constants. Folded chains are one box each, but for those whose sinks are in
 * `expanded`. `at` finds a box by key; members of a chain have its box. `neighbours` of a box: indices of the boxes
 * that its edges come from, `ins`, and go to, `outs`.
 */
function gather(g, expanded) {
  const boxes = [], edges = [], at = new Map(), from = new Map(), seen = new Set();
  const add = (box, keys) => { keys.forEach(k => at.set(k, boxes.length)); return boxes.push(box) - 1; };
  const connect = (v, b) => {
    if (v < 0 || !from.has(v) || from.get(v) === b || seen.has(v + ">" + b)) return;
    seen.add(v + ">" + b);
    edges.push({a: from.get(v), b, value: v});
  };
  g.inputs.forEach((v, k) => {
    if (v < 0 || isConstant(g.values[v])) return;
    const x = g.values[v];
    from.set(v, add({key: "i" + k, kind: "input", value: v, title: x.name || "input", sub: x.type}, ["i" + k]));
  });
  const sinks = foldedSinks(g), chains = new Map();
  sinks.forEach((s, i) => { if (chains.has(s)) chains.get(s).push(i); else chains.set(s, [i]); });
  g.nodes.forEach((n, i) => {
    const members = expanded.has(sinks[i]) ? [i] : chains.get(i);
    if (!members) return;
    const out = n.outputs.find(v => v >= 0), type = out === undefined ? "" : g.values[out].type;
    const chain = members.length > 1, title = chain ? `${opOf(n)} + ${members.length - 1}` : opOf(n);
    const bodies = calls(n).length ? `${calls(n).length} graph${calls(n).length > 1 ? "s" : ""} · ` : "";
    const sub = (chain ? "folded · " : bodies) + type;
    const box = {key: "n" + i, kind: "node", node: i, members, title, sub};
    const b = add(box, members.map(m => "n" + m));
    members.forEach(m => g.nodes[m].inputs.forEach(v => connect(v, b)));
    n.outputs.forEach(v => { if (v >= 0) from.set(v, b); });
  });
  g.outputs.forEach((v, k) => {
    if (v < 0) return;
    const x = g.values[v];
    connect(v, add({key: "o" + k, kind: "output", value: v, title: x.name || "output", sub: x.type}, ["o" + k]));
  });
  const neighbours = new Map(boxes.map(b => [b, {ins: [], outs: []}]));
  edges.forEach(e => {
    neighbours.get(boxes[e.b]).ins.push(e.a);
    neighbours.get(boxes[e.a]).outs.push(e.b);
  });
  return {graph: g, boxes, edges, at, sinks, neighbours};
}

/** Graphs that a node calls, as [attribute, index]. */
const calls = n => Object.entries(n.attributes).filter(([k, v]) => /(^|_)graph$/.test(k) && v >= 0);
