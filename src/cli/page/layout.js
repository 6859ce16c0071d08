/*
 * A layered layout. Boxes lie in layers; an edge over several layers has a lane, a place of its own, in each layer
 * between, so that it never passes behind a box. Edges of one value share lanes. An edge over more than kReach layers,
 * or fewer where lanes would be more than kMostLanes, is drawn as two labelled stubs.
 */

const BOX = {w: 190, h: 44, gapX: 26, gapY: 46, lane: 16};
const PITCH = BOX.h + BOX.gapY;
const kReach = 100;  // layers
const kMostLanes = 60000;

/** Longest path from what is given; what needs no input, and inputs, stand right above the first user. */
function assignLayers(boxes, edges) {
  const ins = boxes.map(() => []), outs = boxes.map(() => []), given = boxes.map(b => b.kind === "input");
  edges.forEach(e => { ins[e.b].push(e.a); outs[e.a].push(e.b); });
  boxes.forEach((b, i) => {
    b.layer = 0;
    ins[i].forEach(a => { if (given[a]) { given[i] = true; b.layer = Math.max(b.layer, boxes[a].layer + 1); } });
  });
  for (let i = boxes.length - 1; i >= 0; i--)
    if ((!given[i] || boxes[i].kind === "input") && outs[i].length)
      boxes[i].layer = outs[i].reduce((m, o) => Math.min(m, boxes[o].layer), Infinity) - 1;
  const top = boxes.reduce((m, b) => Math.min(m, b.layer), Infinity);
  boxes.forEach(b => b.layer -= top);
}

/** Places in layers: one for each box, and lanes, the same for all edges of a value. Sets `lanes` of edges. */
function makePlaces(boxes, edges) {
  const last = new Map();  // of each value, the lowest layer that it reaches
  let reach = kReach;
  const span = e => boxes[e.b].layer - boxes[e.a].layer;
  const lanesOf = most => {
    last.clear();
    edges.forEach(e => { if (span(e) <= most) last.set(e.value, Math.max(last.get(e.value) || 0, span(e))); });
    return [...last.values()].reduce((sum, n) => sum + n - 1, 0);
  };
  while (lanesOf(reach) > kMostLanes) reach = Math.floor(reach / 2);
  const layers = [];
  const put = (layer, box) => {
    const place = {box, w: box ? BOX.w + BOX.gapX : BOX.lane, x: 0, up: [], down: []};
    (layers[layer] = layers[layer] || []).push(place);
    return place;
  };
  boxes.forEach(b => { b.place = put(b.layer, b); });
  const link = (a, b) => { a.down.push(b); b.up.push(a); };
  const chains = new Map();
  edges.forEach(e => {
    e.stub = span(e) > reach;
    e.lanes = [];
    if (e.stub) return;
    const chain = chains.get(e.value) || [];
    chains.set(e.value, chain);
    for (let k = 0; k + 1 < span(e); k++) {
      if (!chain[k]) link(k ? chain[k - 1] : boxes[e.a].place, chain[k] = put(boxes[e.a].layer + 1 + k, null));
      e.lanes.push(chain[k]);
    }
    link(e.lanes.length ? e.lanes[e.lanes.length - 1] : boxes[e.a].place, boxes[e.b].place);
  });
  for (let l = 0; l < layers.length; l++) layers[l] = layers[l] || [];
  return layers;
}

/** Orders each layer by the mean position of neighbours, down and up in turns. */
function orderLayers(layers) {
  const number = list => list.forEach((p, k) => { p.order = k; });
  layers.forEach(number);
  for (let sweep = 0; sweep < 8; sweep++) {
    const side = sweep % 2 ? "down" : "up";
    for (let q = 0; q < layers.length; q++) {
      const list = layers[sweep % 2 ? layers.length - 1 - q : q];
      if (list.length < 2) continue;
      list.forEach(p => {
        const near = p[side];
        p.sort = near.length ? near.reduce((s, o) => s + o.order, 0) / near.length : p.order;
      });
      list.sort((a, b) => a.sort - b.sort);
      number(list);
    }
  }
}

/** Centres of a layer's places in their order without overlap, as near as can be (least squares) to `want`. */
function placeLayer(list) {
  const blocks = [];
  let offset = 0, before = 0;
  list.forEach(p => {
    offset += before ? (before + p.w) / 2 : 0;
    before = p.w;
    p.offset = offset;
    let block = {sum: (p.want - offset) * p.weight, weight: p.weight, places: [p]};
    const mean = b => b.sum / b.weight;
    while (blocks.length && mean(blocks[blocks.length - 1]) > mean(block)) {
      const left = blocks.pop();
      for (const q of block.places) left.places.push(q);
      block = {sum: left.sum + block.sum, weight: left.weight + block.weight, places: left.places};
    }
    blocks.push(block);
  });
  blocks.forEach(b => b.places.forEach(p => { p.x = b.sum / b.weight + p.offset; }));
}

function placeLayers(layers) {
  layers.forEach(list => {
    list.forEach(p => { p.want = 0; p.weight = 1; });
    placeLayer(list);
  });
  const sweeps = [["up"], ["down"], ["up"], ["down"], ["up", "down"], ["up", "down"], ["up"]];
  sweeps.forEach((sides, sweep) => {
    for (let q = 0; q < layers.length; q++) {
      const list = layers[sweep % 2 ? layers.length - 1 - q : q];
      list.forEach(p => {
        let sum = 0, weight = 0;
        sides.forEach(side => p[side].forEach(o => {
          const w = !p.box && !o.box ? 8 : 1;  // lanes want to be straight
          sum += o.x * w;
          weight += w;
        }));
        p.want = weight ? sum / weight : p.x;
        p.weight = weight ? (p.box || sides.every(side => p[side].every(o => o.box)) ? 1 : 4) : .1;
      });
      placeLayer(list);
    }
  });
}

/** Lays a scene out: x, y, layer of boxes, `layers` of boxes from left to right, `width` and `height` of everything. */
function layout(scene) {
  assignLayers(scene.boxes, scene.edges);
  const layers = makePlaces(scene.boxes, scene.edges);
  orderLayers(layers);
  placeLayers(layers);
  let left = Infinity, right = -Infinity;
  layers.forEach(list => list.forEach(p => {
    left = Math.min(left, p.x - p.w / 2);
    right = Math.max(right, p.x + p.w / 2);
  }));
  layers.forEach(list => list.forEach(p => { p.x -= left; }));
  scene.boxes.forEach(b => { b.x = b.place.x - BOX.w / 2; b.y = b.layer * PITCH; });
  scene.layers = layers.map(list => list.filter(p => p.box).map(p => p.box));
  scene.width = scene.boxes.length ? right - left : 0;
  scene.height = layers.length * PITCH - BOX.gapY;
  return scene;
}

const round = v => Math.round(v * 10) / 10;

/** The path of an edge: down lanes straight, from lane to lane a curve between the layers; or two stubs. */
function edgePath(scene, e) {
  const a = scene.boxes[e.a], b = scene.boxes[e.b];
  let x = round(a.x + BOX.w / 2), y = a.y + BOX.h;
  if (e.stub) return `M${x} ${y}v12M${round(b.x + BOX.w / 2)} ${b.y - 12}v12`;
  let d = `M${x} ${y}`;
  const curve = (toX, toY) => {
    const m = (y + toY) / 2;
    d += x === toX ? `V${toY}` : `C${x} ${m},${toX} ${m},${toX} ${toY}`;
    x = toX;
    y = toY;
  };
  e.lanes.forEach((p, k) => {
    const top = (a.layer + 1 + k) * PITCH;
    curve(round(p.x), top);
    d += `V${y = top + BOX.h}`;
  });
  curve(round(b.x + BOX.w / 2), b.y);
  return d;
}
