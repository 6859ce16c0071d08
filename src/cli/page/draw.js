/* The scene as SVG text: near with all words, far as a few paths. */

const kNearScale = .35;   // below it boxes have no words, if there are many
const kFewBoxes = 250;
const esc = s => String(s).replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}[c]));
const short = (s, n) => s.length > n ? s.slice(0, n - 1) + "…" : s;

/** SI prefix and unit: 1234 -> "1.23 k". */
function human(n, unit, prefixes = ["", "k", "M", "G", "T"]) {
  let i = 0;
  while (n >= 1000 && i + 1 < prefixes.length) { n /= 1000; i++; }
  return `${i ? n.toPrecision(3) : n} ${prefixes[i]}${unit}`.trim();
}
const bytes = n => human(n, "B");
const micros = us => us >= 1000 ? (us / 1000).toPrecision(3) + " ms" : (us < .001 ? "0" : us.toPrecision(3)) + " µs";

function hue(text) {
  let h = 7;
  for (const c of text) h = (h * 31 + c.charCodeAt(0)) % 360;
  return h;
}

/** The style of what is drawn, with the page's colours by value: exported pictures have no page around them. */
function drawingStyle() {
  const of = getComputedStyle(document.documentElement), color = name => of.getPropertyValue("--" + name).trim();
  return `.node rect{fill:${color("panel")};stroke:${color("line")}}.node .bar{stroke:none}` +
    `.node text,.stub{fill:${color("fg")};font:12px system-ui,sans-serif}` +
    `.node text.sub,.stub{fill:${color("soft")};font-size:10px}` +
    `.edge{fill:none;stroke:${color("edge")};stroke-width:1.2}.edge.on{stroke:${color("accent")};stroke-width:2.4}` +
    `.node.hot text.sub{fill:${color("fg")}}.node.hit .box{fill:${color("hit")}}` +
    `.node.on .box{stroke:${color("accent")};stroke-width:3}.chain{fill:none;stroke:${color("line")}}`;
}
const heatColor = share => `hsl(${round(52 - 48 * Math.sqrt(share))} 90% ${getComputedStyle(document.documentElement)
  .getPropertyValue("--heat").trim()})`;

/** What a screen reader says of a box. */
function spoken(scene, b) {
  const kinds = {input: "input ", output: "output ", node: ""}, time = scene.time && scene.time(b);
  const counts = scene.neighbours.get(b);
  return `${kinds[b.kind]}${b.title}, ${b.sub}${time ? ", " + micros(time) : ""}, ${counts.ins.length} in, ` +
    `${counts.outs.length} out`;
}

function boxSvg(scene, b, i, look) {
  const {w, h} = BOX, time = scene.time ? scene.time(b) : 0;
  const color = b.kind === "node" ? `hsl(${hue(b.title.split(" + ")[0])} 55% 55%)` : "hsl(210 5% 55%)";
  const sub = time ? `${micros(time)} · ${(100 * time / scene.total).toFixed(1)} %` : short(b.sub.split("{")[0], 30);
  const classes = `node${time ? " hot" : ""}${look.hits.has(i) ? " hit" : ""}${look.chosen === i ? " on" : ""}`;
  return `<g class="${classes}" id="b${i}" role="img" aria-label="${esc(spoken(scene, b))}" ` +
    `transform="translate(${round(b.x)} ${b.y})">` +
    (b.members && b.members.length > 1 ? `<rect class="chain" x="5" y="5" width="${w}" height="${h}" rx="6"/>` : "") +
    `<rect class="box" width="${w}" height="${h}" rx="6"${time && !look.hits.has(i)
      ? ` style="fill:${heatColor(time / scene.slowest)}"` : ""}/>` +
    `<rect class="bar" width="5" height="${h}" style="fill:${color}"/>` +
    `<text x="13" y="18">${esc(short(b.title, 24))}</text><text class="sub" x="13" y="34">${esc(sub)}</text></g>`;
}

function edgeSvg(scene, e, look) {
  const on = e.a === look.chosen || e.b === look.chosen ? " on" : "";
  const a = scene.boxes[e.a], b = scene.boxes[e.b];
  const label = (box, y, text) => `<text class="stub" x="${round(box.x + BOX.w / 2 + 4)}" y="${y}">${esc(text)}</text>`;
  return `<path class="edge${on}" d="${edgePath(scene, e)}"/>` + (e.stub
    ? label(a, a.y + BOX.h + 11, "↓ " + short(b.title, 20)) + label(b, b.y - 4, "↑ " + short(a.title, 20)) : "");
}

/** Everything between `x0, y0` and `x1, y1`. */
function nearSvg(scene, look, x0 = -Infinity, y0 = -Infinity, x1 = Infinity, y1 = Infinity) {
  const {boxes, edges} = scene, out = [];
  const meets = (a, b, low, high) => Math.min(a, b) <= high && Math.max(a, b) >= low;
  edges.forEach(e => {
    const a = boxes[e.a], b = boxes[e.b];
    const xs = [a.x, a.x + BOX.w, b.x, b.x + BOX.w, ...e.lanes.map(p => p.x)];
    if (meets(a.y, b.y, y0, y1) && meets(Math.min(...xs), Math.max(...xs), x0, x1)) out.push(edgeSvg(scene, e, look));
  });
  boxes.forEach((b, i) => {
    if (meets(b.y, b.y + BOX.h, y0, y1) && meets(b.x, b.x + BOX.w, x0, x1)) out.push(boxSvg(scene, b, i, look));
  });
  return out.join("");
}

/** The whole scene without words: a path for all edges and one for all boxes of a colour. */
function farSvg(scene, look) {
  const paths = new Map();
  scene.boxes.forEach((b, i) => {
    const time = scene.time ? scene.time(b) : 0;
    const fill = look.chosen === i ? "var(--accent)" : look.hits.has(i) ? "var(--hit)"
      : time ? heatColor(Math.ceil(8 * time / scene.slowest) / 8)
        : b.kind === "node" ? `hsl(${hue(b.title.split(" + ")[0])} 45% 60%)` : "var(--edge)";
    paths.set(fill, (paths.get(fill) || "") + `M${round(b.x)} ${b.y}h${BOX.w}v${BOX.h}h-${BOX.w}z`);
  });
  return `<path class="edge" d="${scene.edges.map(e => edgePath(scene, e)).join("")}"/>` +
    [...paths].map(([fill, d]) => `<path class="far" style="fill:${fill}" d="${d}"/>`).join("");
}

/** The whole scene as a file. */
function svgText(scene) {
  const margin = 20, w = Math.ceil(scene.width + 2 * margin), h = Math.ceil(scene.height + 2 * margin);
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--bg").trim();
  const all = `x="${-margin}" y="${-margin}" width="${w}" height="${h}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" ` +
    `viewBox="${-margin} ${-margin} ${w} ${h}"><style>${drawingStyle()}</style><rect ${all} fill="${ground}"/>` +
    nearSvg(scene, {hits: new Set(), chosen: -1}) + "</svg>";
}

/** The whole scene as a PNG of at most `kMostPixels` a side: {blob, scale}. */
const kMostPixels = 16000;
async function pngOf(scene) {
  const picture = new Image();
  picture.src = URL.createObjectURL(new Blob([svgText(scene)], {type: "image/svg+xml"}));
  await picture.decode();
  const scale = Math.min(2, kMostPixels / picture.width, kMostPixels / picture.height,
    Math.sqrt(2e8 / (picture.width * picture.height)));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.floor(picture.width * scale));
  canvas.height = Math.max(1, Math.floor(picture.height * scale));
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(picture.src);
  const blob = await new Promise(done => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("the graph is too large for a PNG; SVG has no limit");
  return {blob, scale};
}
