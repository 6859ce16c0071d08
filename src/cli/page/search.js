/* Search over everything: nodes, attributes, values, constants, kernels, of all graphs; variables, metadata, files. */

/** Entries {title, sub, link, graph, key, words: [...]} of all that can be found in a view of the model. */
function searchIndex(view) {
  const entries = [], graphs = data[view].graphs;
  const add = (title, sub, graph, key, words) => entries.push({title, sub, graph, key, words: words.filter(w => w)});
  const wordsOf = v => [v.name, v.type, v.constant && JSON.stringify(v.constant), v.doc,
    v.dim_names && v.dim_names.join(" ")];
  graphs.forEach((g, gi) => {
    const values = list => list.filter(v => v >= 0).flatMap(v => wordsOf(g.values[v]));
    const port = kind => (v, k) => {
      if (v >= 0 && !(kind === "i" && isConstant(g.values[v])))
        add(g.values[v].name || (kind === "i" ? "input" : "output"), g.values[v].type, gi, kind + k, values([v]));
    };
    g.inputs.forEach(port("i"));
    g.nodes.forEach((n, i) => add(opOf(n), n.name || n.where, gi, "n" + i, [
      n.origin, n.op, n.name, n.where, n.runs_on, n.storage, n.host_reason,
      n.partition >= 0 && data.file.partitions[n.partition].name,
      ...Object.entries(n.attributes).map(([k, v]) => `${k}=${typeof v === "string" ? v : JSON.stringify(v)}`),
      ...values(n.outputs), ...values(n.inputs)]));
    g.outputs.forEach(port("o"));
  });
  const other = (list, title, sub) => (list || []).forEach(x => add(title(x), sub(x), -1, "", [title(x), sub(x)]));
  other(data.file.states, s => s.name, s => `variable ${s.type}`);
  other(Object.entries(data.file.metadata || {}), m => m[0], m => `metadata ${m[1]}`);
  other(data.file.parts, p => p.name, p => `part of the file, ${bytes(p.bytes)}`);
  other(data.file.associated_files, f => f.name, f => `associated file, ${f.lines} lines`);
  entries.forEach(e => { e.text = e.words.join("\n").toLowerCase(); });
  return entries;
}

/** Entries that have all words of `query`, each with `found`: the field that has the first word. */
function find(index, query) {
  const words = query.toLowerCase().split(/\s+/).filter(w => w);
  if (!words.length) return [];
  return index.filter(e => words.every(w => e.text.includes(w)))
    .map(e => ({...e, found: e.words.find(w => w.toLowerCase().includes(words[0]))}));
}
