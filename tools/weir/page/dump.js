// SPDX-License-Identifier: Apache-2.0
// `weir dump --format html`: the drawing of a stage above, the texts of all levels below, linked.
// A thing is known by what it is and its name ("map relu"); things of different levels belong
// together when a kernel computes a map or a map comes from an operator.

// ---- the texts and what stands where in them ---------------------------------------------------

const NAME = '("(?:[^"\\\\]|\\\\.)*"|[A-Za-z_][\\w.]*)';
const unquoted = s => s[0] === '"' ? JSON.parse(s.replace(/\\x(..)/g, "\\u00$1")) : s;
const textLines = runs => runs.flatMap(([first, n]) => d3.range(first, first + n));

// Ends of the block that begins on line i: the next line that closes with as many blanks before it.
function blockEnd(lines, i) {
  const indent = DATA.lines[lines[i]].match(/^ */)[0];
  if (!/\{\s*(#.*)?$/.test(DATA.lines[lines[i]])) return i;
  for (let k = i + 1; k < lines.length; k++)
    if (DATA.lines[lines[k]].startsWith(indent + "}")) return k;
  return i;
}

const HEADS = [
  ["kernel", new RegExp("^ *kernel " + NAME + " = (.*)$")], ["map", new RegExp("^ *map " + NAME + " \\[")],
  ["call", new RegExp("^ *call " + NAME + " = ")], ["nest", new RegExp("^nest " + NAME)],
  ["value", new RegExp("^ *(?:in|out|param|tmp|state|literal) +" + NAME + " :")],
];
const OPERATOR = new RegExp("^ +" + NAME + " : .* = [\\w.\"]+@?");
const fromNames = line => {
  const from = line.match(/ from ((?:"(?:[^"\\]|\\.)*"\s*)+)/);
  return from ? from[1].match(/"(?:[^"\\]|\\.)*"/g).map(unquoted) : [];
};

// Where things stand in a stage's text: "map relu" -> [first line, last line]; and who belongs to whom.
const indexed = new Map();
function indexOf(stage) {
  if (indexed.has(stage)) return indexed.get(stage);
  const lines = textLines(stage.text), at = new Map(), from = new Map(), maps = new Map();
  for (let i = 0; i < lines.length; i++) {
    const line = DATA.lines[lines[i]];
    if (stage.level === "graph") {
      const op = line.match(OPERATOR);
      if (!op) continue;
      at.set("op " + unquoted(op[1]), [i, i]);
      for (const name of fromNames(line)) from.set(name, unquoted(op[1]));
      continue;
    }
    for (const [kind, head] of HEADS) {
      const m = line.match(head);
      if (!m) continue;
      const name = unquoted(m[1]), thing = kind + " " + name;
      if (!at.has(thing)) at.set(thing, [i, blockEnd(lines, i)]);
      if (kind === "map" || kind === "call") from.set(thing, fromNames(line));
      if (kind === "kernel")
        maps.set(name, m[2].replace(/ (on|when) .*| \{.*$/, "").match(new RegExp(NAME, "g")).map(unquoted));
    }
  }
  const index = { lines, at, from, maps };
  indexed.set(stage, index);
  return index;
}

// The C text: a call of a kernel's function stands behind its name; functions are shared by equal kernels. On a GPU it is a
// launch, by a row of a table; names with no launch of their own are done by the one before them, in functions "body" that it calls.
const C = (() => {
  const lines = textLines(DATA.c), functionOf = new Map(), at = new Map(), rows = [], launches = [];
  const belongs = (kernel, name) => functionOf.set(kernel, (functionOf.get(kernel) || []).concat(name));
  let kernel = null, launched = true;
  const share = () => { if (!launched && launches.length) launches.push([kernel, launches[launches.length - 1][1]]); };
  for (let i = 0; i < lines.length; i++) {
    const line = DATA.lines[lines[i]], name = line.match(/^ +\/\* (.*) \*\/$/), call = line.match(/\b((?:prepare_)?kernel\d+)\(/);
    const launch = line.match(/weir_device_launch\(f, (\d+),/), row = line.match(/^ \{"((?:prepare_)?kernel\d+)", /);
    if (name) { share(); kernel = name[1]; launched = false; }
    if (launch) { launches.push([kernel, +launch[1]]); launched = true; }
    if (row) rows.push(row[1]);
    const made = call || line.match(/^\S.* (body\d+)\(/);
    if (!made) continue;
    if (/^ /.test(line)) { if (kernel) belongs(kernel, made[1]); continue; }
    if (!/;\s*$/.test(line)) at.set(made[1], [i > 0 && /^\/\*/.test(DATA.lines[lines[i - 1]]) ? i - 1 : i, lines.findIndex((l, k) => k > i && DATA.lines[l] === "}")]);
  }
  share();
  const bodiesOf = name => {
    const [from, to] = at.get(name) || [0, -1];
    return [...new Set(lines.slice(from, to + 1).flatMap(l => DATA.lines[l].match(/\bbody\d+(?=\()/g) || []))];
  };
  for (const [kernel, n] of launches) if (rows[n]) belongs(kernel, bodiesOf(rows[n]).concat(rows[n]));
  return { lines, functionOf, at };
})();

const last = level => { for (let i = DATA.stages.length - 1; i >= 0; i--) if (DATA.stages[i].level === level) return DATA.stages[i]; return null; };
const FINAL = { graph: last("graph"), flow: last("flow") || last("nest"), nest: last("nest") };
const KERNELS = new Map(DATA.kernels.map(k => [k.kernel, k]));
// Of one run, where --profile measured it; an operator's are those of all kernels that it has a part in.
const TIME = d3.sum(DATA.kernels, k => k.ms || 0);
const timeAt = n => d3.sum([...family(thingOf(n)).all].filter(t => t.startsWith("kernel ")), t => (KERNELS.get(t.slice(7)) || {}).ms || 0) * Math.max(1, n.times);
const OPERATORS = new Set(), kernelOfMap = new Map(), opOfSource = new Map(), sourcesOfOp = new Map(), mapsOfSource = new Map();
if (FINAL.flow)
  for (const [kernel, maps] of indexOf(FINAL.flow).maps) for (const m of maps) kernelOfMap.set(m, kernel);
// A map that the compiler made to copy a value says the value's name, which is also that of the operator that makes it.
for (const stage of DATA.stages.filter(s => s.level === "graph"))
  for (const thing of indexOf(stage).at.keys()) OPERATORS.add(thing.slice(3));
for (const stage of DATA.stages.filter(s => s.level === "graph"))
  for (const [source, op] of indexOf(stage).from) opOfSource.set(source, op);
for (const [source, op] of opOfSource) sourcesOfOp.set(op, (sourcesOfOp.get(op) || []).concat(source));
if (FINAL.flow)
  for (const [thing, names] of indexOf(FINAL.flow).from)
    for (const name of names) mapsOfSource.set(name, (mapsOfSource.get(name) || []).concat(thing));

// Everything that belongs with a thing, on all levels.
function family(thing) {
  const all = new Set(), sources = new Set();
  const addMap = t => { all.add(t); if (FINAL.flow) for (const s of indexOf(FINAL.flow).from.get(t) || []) sources.add(s); };
  const addKernel = k => { all.add("kernel " + k); all.add("nest " + k); for (const m of FINAL.flow ? indexOf(FINAL.flow).maps.get(k) || [] : []) addMap("map " + m); };
  const kind = thing.slice(0, thing.indexOf(" ")), name = thing.slice(thing.indexOf(" ") + 1);
  all.add(thing);
  if (kind === "kernel" || kind === "nest") addKernel(name);
  if (kind === "map" || kind === "call") {
    addMap(thing);
    for (const stage of DATA.stages) for (const s of stage.level === "graph" ? [] : indexOf(stage).from.get(thing) || []) sources.add(s);
    if (kernelOfMap.has(name)) { all.add("kernel " + kernelOfMap.get(name)); all.add("nest " + kernelOfMap.get(name)); }
  }
  if (kind === "op")
    for (const source of sourcesOfOp.get(name) || []) {
      sources.add(source);
      for (const m of mapsOfSource.get(source) || []) { all.add(m); const k = kernelOfMap.get(m.slice(4)); if (k) { all.add("kernel " + k); all.add("nest " + k); } }
    }
  for (const s of sources) for (const op of [opOfSource.get(s), s]) if (OPERATORS.has(op)) all.add("op " + op);
  return { all, sources: [...sources] };
}

// ---- recipes: kernels split and joined, layouts chosen, as text for `weir compile --recipe` --------

const quoted = s => /^[A-Za-z_][\w.]*$/.test(s) && !s.endsWith(".") && !s.includes("..") ? s : JSON.stringify(s);
const RECIPE = (() => {
  const head = [], kernels = [], lines = DATA.recipe.split("\n");
  for (let i = 0; i < lines.length; i++) {
    const m = lines[i].match(new RegExp("^kernel " + NAME + " = (.*) on \\w+ \\{$"));
    if (!m) { if (lines[i]) head.push(lines[i]); continue; }
    const start = i;
    while (lines[i] !== "}") i++;
    kernels.push({ maps: m[2].match(new RegExp(NAME, "g")).map(unquoted), text: lines.slice(start, i + 1).join("\n") });
  }
  return { head, kernels };
})();
// The kernels as they are to be: those with a text are as they were.
const plan = { kernels: RECIPE.kernels.slice(), layout: new Map() };
const layoutChosen = new Map(RECIPE.head.map(l => l.match(new RegExp("^layout " + NAME + " (\\w+)$"))).filter(m => m).map(m => [unquoted(m[1]), m[2]]));
const layoutOf = name => plan.layout.get(name) || layoutChosen.get(name);
// What may be chosen in place of a word: how a container is stored, whether a margin is around it ("NAME.margin"), whether
// an operand is copied with its lanes side by side ("MAP.lanes"), how wide the panels of weights are ("MAP.panels").
const LANES = +(DATA.recipe.match(/ vector \S+:(\d+)/) || [0, 16])[1];
const PANELS = ["plain", ...[1, 2, 3, 4].map(n => "lanes" + n * LANES)];
const LAYOUTS = [["blocked", "plain"], ["made", "tested"], ["copied", "strided"]];
const wordsFor = name => name.endsWith(".panels") ? PANELS : LAYOUTS.find(pair => pair.includes(layoutOf(name)));
const layoutsFor = map => [...new Set(mapEdges().filter(e => e.from.name === map || e.to.kind === "map" && e.to.name === map).flatMap(e => [e.what, e.what.replace(/\.padded$/, "") + ".margin"]).concat(map + ".lanes", map + ".panels"))].filter(n => layoutChosen.has(n));
// Maps that a choice does without: they are as good as part of who reads what they copy.
function dropped(m) {
  const to = mapEdges().find(e => e.from.name === m && e.to.kind === "map");
  if (!to) return null;
  const lanes = /\.lanes\d*$/.test(to.what) && layoutOf(to.to.name + ".lanes") === "strided";
  const margin = /\.(copy|margin(_\d+)?)$/.test(m) && layoutOf(m.replace(/\.(copy|margin(_\d+)?)$/, "") + ".margin") === "tested";
  return lanes || margin ? to.to.name : null;
}

// Edges between maps, and from maps to what stays: bytes of a container are written once and read by each kernel.
const mapEdges = () => {
  if (!FINAL.flow) return [];
  const p = DATA.pictures[FINAL.flow.picture].whole, node = i => ({ kind: p.nodes[i][2], name: p.nodes[i][0] });
  return p.edges.map(e => ({ from: node(e[0]), to: node(e[1]), what: e[2], bytes: e[3] })).filter(e => e.from.kind === "map");
};
// How much larger than its elements a container is when its channels are stored in blocks.
function padding(name) {
  const at = indexOf(FINAL.flow).at.get("value " + name), line = at ? DATA.lines[indexOf(FINAL.flow).lines[at[0]]] : "";
  const m = line.match(/ : \w+\[([\d, ]+)\](?: layout .* of \[([\d, ]+)\])?/), product = s => s.split(",").reduce((a, b) => a * +b, 1);
  if (!m) return 1;
  if (m[2]) return product(m[2]) / product(m[1]);
  const channels = +(m[1].split(",")[1] || LANES);
  return Math.ceil(channels / LANES) * LANES / channels;
}
// Bytes of a map's weights in such panels: the last panel is stored whole. They lie as (.., i/P, .., i%P) now.
function panelBytes(map, word) {
  const { lines, at } = indexOf(FINAL.flow), text = name => { const [a, b] = at.get(name) || [0, -1]; return lines.slice(a, b + 1).map(l => DATA.lines[l]); };
  for (const read of text("map " + map)) {
    const from = read.match(new RegExp("<- " + NAME + "\\[")), value = from && text("value " + unquoted(from[1]))[0];
    const m = value && value.match(/^ *param .* : \D+(\d+)\w*\[([\d, ]+)\] layout .* -> \((.*)\) of \[([\d, ]+)\]/);
    if (!m) continue;
    const shape = m[2].split(",").map(Number), box = m[4].split(",").map(Number), product = a => a.reduce((x, y) => x * y, 1);
    const places = m[3].split(", "), i = places.findIndex(p => /^_\d+\/\d+$/.test(p) && places.includes(p.replace("/", "%")));
    if (i < 0) continue;
    const [dim, panel] = places[i].slice(1).split("/").map(Number), lanes = +word.replace("lanes", "");
    return m[1] / 8 * (word === "plain" ? product(shape) : product(box) / (box[i] * panel) * Math.ceil(shape[dim] / lanes) * lanes);
  }
  return 0;
}
function bytesMoved(kernels, layouts) {
  const kernelOf = new Map(), seen = new Set();
  kernels.forEach((k, i) => k.maps.forEach(m => kernelOf.set(m, i)));
  if (layouts) for (const m of [...kernelOf.keys()]) if (plan.layout.size && dropped(m)) kernelOf.set(m, kernelOf.get(dropped(m)));
  let bytes = 0;
  for (const e of mapEdges()) {
    const a = kernelOf.get(e.from.name), b = e.to.kind === "map" ? kernelOf.get(e.to.name) : e.to.kind;
    if (a === b) continue;
    const size = e.bytes * (layouts && layoutOf(e.what) === "blocked" || !layouts && layoutChosen.get(e.what) === "blocked" ? padding(e.what) : 1);
    for (const key of ["write " + e.what, "read " + e.what + " " + b])
      if (!seen.has(key)) { seen.add(key); bytes += size; }
  }
  return bytes;
}
const bytesChanged = () => bytesMoved(plan.kernels, true) - bytesMoved(RECIPE.kernels, false);
const weightsChanged = () => d3.sum([...plan.layout].filter(([name]) => name.endsWith(".panels")), ([name, word]) => {
  const map = name.replace(/\.panels$/, "");
  return panelBytes(map, word) - panelBytes(map, layoutChosen.get(name));
});

const mapOrder = m => (indexOf(FINAL.flow).at.get("map " + m) || [0])[0];
// As the recipe had it, where the same maps are together again.
function planned(maps) {
  maps = maps.slice().sort((a, b) => mapOrder(a) - mapOrder(b));
  return RECIPE.kernels.find(k => k.maps.join("\n") === maps.join("\n")) || { maps };
}
function splitKernel(kernel, at) {
  plan.kernels.splice(plan.kernels.indexOf(kernel), 1, planned(kernel.maps.slice(0, at)), planned(kernel.maps.slice(at)));
  describe();
}
function joinKernels(a, b) {
  plan.kernels = plan.kernels.filter(k => k !== a);
  plan.kernels.splice(plan.kernels.indexOf(b), 1, planned(a.maps.concat(b.maps)));
  describe();
}
// Kernels of other maps, or of weights in other panels, have their lines chosen anew.
function recipeText() {
  const head = RECIPE.head.map(l => { const m = l.match(new RegExp("^layout " + NAME + " ")); return m ? `layout ${m[1]} ${layoutOf(unquoted(m[1]))}` : l; });
  const repacked = m => plan.layout.has(m + ".panels") && plan.layout.get(m + ".panels") !== layoutChosen.get(m + ".panels");
  const kernels = plan.kernels.map(k => k.maps.some(repacked) ? { maps: k.maps } : k).map(k => k.maps.some(dropped) ? { maps: k.maps.filter(m => !dropped(m)) } : k).filter(k => k.maps.length);
  return head.concat(kernels.map(k => k.text || `kernel ${quoted(k.maps[k.maps.length - 1])} = ${k.maps.map(quoted).join(" ")}`)).join("\n") + "\n";
}
function exportRecipe() {
  const link = element("a", { href: URL.createObjectURL(new Blob([recipeText()], { type: "text/plain" })), download: title + ".recipe" });
  link.click();
}
const signed = b => (b < 0 ? "−" : "+") + scaled(Math.abs(b), "B");

// The kernel of a map as it is planned: where it can be split, whom it can join, how results lie.
function recipePart(map) {
  const kernel = plan.kernels.find(k => k.maps.includes(map));
  if (!kernel) return [];
  const part = element("div", { class: "recipe" }, element("h2", {}, "recipe"));
  kernel.maps.forEach((m, i) => {
    if (i) part.append(element("button", { class: "split", onclick: () => splitKernel(kernel, i) }, "split here"));
    part.append(element("div", {}, linkTo("map " + m)));
  });
  const near = new Set(mapEdges().filter(e => e.to.kind === "map" && kernel.maps.includes(e.to.name)).map(e => plan.kernels.find(k => k.maps.includes(e.from.name))));
  for (const other of near)
    if (other && other !== kernel) part.append(element("button", { class: "join", onclick: () => joinKernels(other, kernel) }, "join with " + shortened(other.maps[other.maps.length - 1], 40)));
  for (const name of new Set(kernel.maps.flatMap(layoutsFor))) {
    const words = wordsFor(name);
    const choose = element("select", { class: "layout", "data-name": name, onchange: () => { plan.layout.set(name, choose.value); describe(); } }, ...words.map(v => element("option", v === layoutOf(name) ? { value: v, selected: "" } : { value: v }, v)));
    part.append(element("div", {}, shortened(name, 40) + ": ", choose));
  }
  part.append(element("p", { id: "change" }, `bytes between kernels: ${signed(bytesChanged())}` + (weightsChanged() ? `, weights: ${signed(weightsChanged())}` : "")), element("button", { id: "export", onclick: exportRecipe }, "export recipe"));
  return [part];
}

// ---- state and frame -----------------------------------------------------------------------------

const startAt = DATA.stages.findIndex(s => s.pass === "fuse");
const state = { stage: startAt >= 0 ? startAt : DATA.stages.length - 1, folded: true, colour: "class", thing: null, all: new Set() };
const title = DATA.model.replace(/.*\//, "");
const search = element("input", { type: "search", placeholder: "search a name (press /)" });
const foldButton = element("button", { id: "fold", onclick: () => { state.folded = !state.folded; show(); } }, "layers folded");
const colourBy = element("select", { id: "colour", onchange: () => { state.colour = colourBy.value; paint(); } },
  ...[["class", "colour: class"], ["flop", "colour: operations"], ["bytes", "colour: bytes moved"], ...(TIME ? [["time", "colour: share of time"]] : [])].map(([v, t]) => element("option", { value: v }, t)));
const passes = element("div", { id: "passes" });
const drawing = element("div", { class: "drawing" }), aside = element("aside", {});
const panes = element("div", { class: "texts" });
document.body.append(element("header", {}, element("h1", {}, title), element("span", { class: "quiet" }, madeFor(DATA.build)),
  search, foldButton, colourBy, passes), element("main", {}, element("div", { class: "upper" }, drawing, aside), panes));

const textKeys = DATA.stages.map(stage => JSON.stringify(stage.text)), changes = i => i === 0 || textKeys[i] !== textKeys[i - 1];
const passRow = element("div", {});
DATA.stages.forEach((stage, i) => passRow.append(element("button", { title: stage.what + (stage.ms ? ` (${stage.ms} ms)` : "") + (changes(i) ? "" : "; changes nothing here"), class: changes(i) ? "" : "same", "data-i": i, onclick: () => { state.stage = i; show(); } },
  stage.pass, element("small", {}, stage.level))));
const slider = element("input", { type: "range", min: 0, max: DATA.stages.length - 1, id: "slider", oninput: () => { state.stage = +slider.value; show(); } });
passes.append(passRow, slider);

// ---- text panes: only the rows in view are elements ------------------------------------------------

const ROW = 16;
class Pane {
  constructor(title) {
    this.said = element("span", {});
    this.all = element("div", { class: "all" });
    this.scroll = element("div", { class: "scroll" }, this.all);
    this.box = element("div", { class: "pane" }, element("div", { onclick: () => { this.box.classList.toggle("shut"); this.rows(); } }, title + " ", this.said), this.scroll);
    this.lines = []; this.fresh = new Set(); this.marked = []; this.thingAt = () => null; this.skip = 0;
    this.scroll.addEventListener("scroll", () => this.rows());
    panes.append(this.box);
  }
  // Rows before `skip` are left out; ranges and thingAt count them.
  set(lines, said, fresh, thingAt, skip = 0) {
    this.lines = lines; this.skip = skip; this.fresh = fresh; this.thingAt = thingAt;
    this.said.textContent = said;
    this.all.style.height = (lines.length - skip) * ROW + "px";
    this.rows();
  }
  mark(ranges) {
    this.marked = ranges;
    if (ranges.length) this.scroll.scrollTop = Math.max(0, (ranges[0][0] - this.skip - 3) * ROW);
    this.rows();
  }
  rows() {
    const first = this.skip + Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - 5), n = Math.ceil(this.scroll.clientHeight / ROW) + 10;
    const rows = [];
    for (let i = first; i < Math.min(this.lines.length, first + n); i++) {
      const marked = this.marked.some(([a, b]) => i >= a && i <= b), thing = this.thingAt(i);
      rows.push(element("div", { class: "row" + (marked ? " mark" : this.fresh.has(i) ? " new" : "") + (thing ? " link" : ""), "data-n": i + 1, style: `top:${(i - this.skip) * ROW}px`,
        onclick: () => thing && pick(thing, true) }, DATA.lines[this.lines[i]]));
    }
    this.all.replaceChildren(...rows);
  }
}
const PANES = { graph: new Pane("Graph"), flow: new Pane("Flow"), nest: new Pane("Nest"), c: new Pane(DATA.build.target === "cuda" ? "C and CUDA" : "C") };

function thingFinder(stage) {
  const starts = new Map();
  for (const [thing, [a]] of indexOf(stage).at) if (!thing.startsWith("value ")) starts.set(a, thing);
  return i => starts.get(i) || null;
}

function stageShown(level) {
  const now = DATA.stages[state.stage];
  if (now.level === level) return now;
  return FINAL[level];
}

function showTexts() {
  for (const level of ["graph", "flow", "nest"]) {
    const stage = level === "flow" && DATA.stages[state.stage].level === "nest" ? last("flow") : stageShown(level), pane = PANES[level];
    if (!stage) { pane.set([], "none", new Set(), () => null); continue; }
    const i = DATA.stages.indexOf(stage), before = i > 0 && DATA.stages[i - 1].level === stage.level ? new Set(indexOf(DATA.stages[i - 1]).lines) : null;
    const { lines } = indexOf(stage), fresh = new Set();
    if (before) lines.forEach((l, k) => { if (!before.has(l)) fresh.add(k); });
    const here = new Set(lines), gone = before ? [...before].filter(l => !here.has(l)).length : 0;
    const skip = level === "nest" ? Math.max(0, lines.findIndex(l => DATA.lines[l].startsWith("nest "))) : 0;
    pane.set(lines, `after ${stage.pass}` + (before ? `: ${fresh.size} lines new, ${gone} gone` : ""), fresh, thingFinder(stage), skip);
  }
  const starts = new Map();
  for (const [name, [a]] of C.at) starts.set(a, name);
  const kernelOf = new Map();
  for (const [kernel, names] of C.functionOf) for (const f of names) if (!kernelOf.has(f)) kernelOf.set(f, kernel);
  PANES.c.set(C.lines, `${C.lines.length} lines`, new Set(), i => starts.has(i) && kernelOf.has(starts.get(i)) ? "kernel " + kernelOf.get(starts.get(i)) : null);
}

function markTexts() {
  for (const level of ["graph", "flow", "nest"]) {
    const stage = level === "flow" && DATA.stages[state.stage].level === "nest" ? last("flow") : stageShown(level);
    const ranges = [];
    if (stage) for (const thing of state.all) { const at = indexOf(stage).at.get(thing); if (at && (level !== "nest" || thing.startsWith("nest "))) ranges.push(at); }
    PANES[level].mark(ranges.sort((a, b) => a[0] - b[0]));
  }
  const ranges = [];
  for (const thing of state.all) if (thing.startsWith("kernel ")) for (const f of C.functionOf.get(thing.slice(7)) || []) if (C.at.has(f)) ranges.push(C.at.get(f));
  PANES.c.mark(ranges.sort((a, b) => a[0] - b[0]));
}

// ---- the drawing ---------------------------------------------------------------------------------

const svg = d3.select(drawing).append("svg"), plane = svg.append("g");
const layer = { boxes: plane.append("g"), edges: plane.append("g"), nodes: plane.append("g") };
let filling = 0;
const zoom = d3.behavior.zoom().scaleExtent([0.01, 6]).on("zoom", () => {
  plane.attr("transform", `translate(${d3.event.translate})scale(${d3.event.scale})`);
  svg.classed("far", d3.event.scale < 0.35);
  if (shown && shown.large && !filling) filling = requestAnimationFrame(() => { filling = 0; fill(); });
});
svg.call(zoom).on("dblclick.zoom", null);
function lookAt(scale, x, y) {
  const box = svg.node().getBoundingClientRect();
  zoom.scale(scale).translate([box.width / 2 - x * scale, box.height / 2 - y * scale]).event(svg);
}

const asNode = (a, i) => ({ i, name: a[0], label: a[1], kind: a[2], class: a[3], from: a[4], group: a[5], times: a[6], flop: a[7], weights: a[8], x: a[9], y: a[10], w: a[11], h: a[12] });
const asEdge = a => ({ from: a[0], to: a[1], what: a[2], bytes: a[3], again: a[4], at: a[5] });
// Which node of the folded drawing stands for each node of the whole one.
function standsFor(n, folds) {
  const of = new Array(n).fill(-1), stands = [];
  for (const [start, period, times] of folds) for (let i = start + period; i < start + period * times; i++) of[i] = i - period;
  let next = 0;
  for (let i = 0; i < n; i++) stands.push(of[i] < 0 ? next++ : stands[of[i]]);
  return stands;
}
const thingOf = n => (n.kind === "in" || n.kind === "out" ? "value" : n.kind) + " " + n.name;
const pictures = new Map();
function picture(i, folded) {
  const key = i + (folded ? "f" : "w");
  if (!pictures.has(key)) {
    const p = folded && DATA.pictures[i].folded || DATA.pictures[i].whole;
    const nodes = p.nodes.map(asNode), whole = DATA.pictures[i].whole.nodes, nodeOf = new Map();
    const stands = p === DATA.pictures[i].whole ? d3.range(whole.length) : standsFor(whole.length, DATA.pictures[i].folds);
    whole.forEach((a, k) => nodeOf.set(thingOf({ kind: a[2], name: a[0] }), nodes[stands[k]]));
    const edges = p.edges.map(asEdge);
    for (const n of nodes) n.bytes = n.weights, n.x0 = n.x - n.w / 2, n.x1 = n.x + n.w / 2, n.y0 = n.y - n.h / 2, n.y1 = n.y + n.h / 2;
    for (const e of edges) {
      const ends = [nodes[e.from], nodes[e.to]], xs = e.at.filter((v, k) => k % 2 === 0), ys = e.at.filter((v, k) => k % 2);
      for (const n of ends) n.bytes += e.bytes, xs.push(n.x0, n.x1), ys.push(n.y0, n.y1);
      e.x0 = d3.min(xs), e.x1 = d3.max(xs), e.y0 = d3.min(ys), e.y1 = d3.max(ys);
    }
    pictures.set(key, { width: p.width, height: p.height, nodes, edges, groups: p.groups, nodeOf });
  }
  return pictures.get(key);
}

const edgeWidth = bytes => bytes > 0 ? Math.max(0.7, Math.min(11, 0.8 * Math.log2(bytes / 256))) : 0.7;
function edgePath(p, e) {
  const a = p.nodes[e.from], b = p.nodes[e.to], n = e.at;
  if (n.length < 8) return `M${a.x},${a.y + a.h / 2}C${a.x},${(a.y + b.y) / 2} ${b.x},${(a.y + b.y) / 2} ${b.x},${b.y - b.h / 2}`;
  let d = `M${n[0]},${n[1]}`;
  for (let k = 2; k + 5 < n.length; k += 6) d += `C${n.slice(k, k + 6).join(" ")}`;
  return d;
}

// What is drawn: a picture, its kernels' boxes, and the elements of what is in view.
let shown = null;
const LARGE = 1500; // nodes; of larger pictures only what is in view is in the document
function draw() {
  const i = DATA.stages[state.stage].picture, p = picture(i, state.folded), before = state.stage > 0 ? DATA.stages[state.stage - 1] : null;
  const same = shown && shown.p === p;
  const known = before && DATA.stages[state.stage].level === before.level ? new Set(picture(before.picture, false).nodes.map(thingOf)) : null;
  for (const n of p.nodes) n.fresh = known && !known.has(thingOf(n));
  const groups = p.groups.map((name, group) => ({ name, group, x0: Infinity, x1: -Infinity, y0: Infinity, y1: -Infinity }));
  for (const n of p.nodes) {
    const g = groups[n.group];
    if (g) g.x0 = Math.min(g.x0, n.x0 - 6), g.x1 = Math.max(g.x1, n.x1 + 6), g.y0 = Math.min(g.y0, n.y0 - 6), g.y1 = Math.max(g.y1, n.y1 + 6);
  }
  shown = { p, large: p.nodes.length > LARGE, groups: groups.filter(g => g.x0 < g.x1) };
  for (const kind of Object.values(layer)) kind.selectAll("*").remove();
  if (!same) {
    const box = svg.node().getBoundingClientRect(), first = p.nodes[0], fit = Math.min(box.width / (p.width + 60), box.height / (p.height + 60));
    fit > 0.75 || !first ? lookAt(Math.min(fit, 1.2), p.width / 2, p.height / 2) : lookAt(0.9, first.x, first.y + box.height / 2 / 0.9 - 40);
  }
  foldButton.textContent = DATA.pictures[i].folded ? (state.folded ? "layers folded" : "all layers") : "nothing repeats";
  foldButton.classList.toggle("on", state.folded && !!DATA.pictures[i].folded);
  fill();
}

// Adds to the document what has come into view, and takes out what has left it.
function fill() {
  const p = shown.p, scale = zoom.scale(), [left, top] = zoom.translate(), box = svg.node().getBoundingClientRect();
  const x0 = -left / scale - 100, x1 = (box.width - left) / scale + 100, y0 = -top / scale - 100, y1 = (box.height - top) / scale + 100;
  const near = all => shown.large ? all.filter(a => a.x1 >= x0 && a.x0 <= x1 && a.y1 >= y0 && a.y0 <= y1) : all;
  const join = (kind, all, key) => { const joined = layer[kind].selectAll(`.${kind}`).data(near(all), key); joined.exit().remove(); return joined; };
  shown.boxes = join("boxes", shown.groups, g => g.group);
  shown.boxes.enter().append("rect").attr({ class: "boxes kernel", rx: 8, x: b => b.x0, y: b => b.y0, width: b => b.x1 - b.x0, height: b => b.y1 - b.y0 })
    .on("click", b => pick("kernel " + b.name, false)).call(tipped, b => "kernel " + b.name);
  shown.edges = join("edges", p.edges, e => e.from + " " + e.to + " " + e.what);
  shown.edges.enter().append("path").attr({ class: e => "edges edge" + (e.again ? " again" : ""), d: e => edgePath(p, e), "stroke-width": e => edgeWidth(e.bytes) })
    .call(tipped, e => `${e.what}: ${scaled(e.bytes, "B")}`);
  shown.nodes = join("nodes", p.nodes, n => n.i);
  shown.nodes.enter().append("g").attr("class", n => "nodes node" + (n.fresh ? " new" : "")).attr("transform", n => `translate(${n.x},${n.y})`).call(addNode);
  paint();
  highlight();
}

function addNode(node) {
  const letters = n => Math.floor((n.w - 8) / 5.6), below = n => Math.floor(letters(n) * 1.15);
  node.on("click", n => pick(thingOf(n), false)).call(tipped, n => `${n.kind} ${n.name}: ${n.label}` + (n.flop ? `, ${scaled(n.flop, "FLOP")}` : "") + (n.weights ? `, weights ${scaled(n.weights, "B")}` : ""));
  node.append("rect").attr({ x: n => -n.w / 2, y: n => -n.h / 2, width: n => n.w, height: n => n.h, rx: n => n.kind === "in" || n.kind === "out" ? 15 : 4 });
  node.append("text").attr("y", -2).text(n => shortened(n.kind === "op" ? n.label : n.name, letters(n)));
  node.append("text").attr({ y: 10, class: "sub" }).text(n => n.kind === "op" ? shortened(n.name, below(n)) : clipped(n.label, below(n)));
  node.filter(n => n.times > 1).append("text").attr({ x: n => n.w / 2 + 5, y: n => -n.h / 2 - 2, class: "times", style: "text-anchor:end" }).text(n => "×" + n.times);
}

const legend = d3.select(drawing).append("div").attr("class", "legend");
function paint() {
  const p = shown.p, time = n => n.time === undefined ? n.time = timeAt(n) : n.time, of = n => ({ flop: n.flop, bytes: n.bytes })[state.colour] ?? (state.colour === "time" ? time(n) : 0);
  const most = state.colour === "class" ? 1 : d3.max(p.nodes, of) || 1, shade = d3.scale.linear().domain([0, 1]).range(["#eef2f6", "#e4572e"]);
  shown.nodes.select("rect").style("fill", n => n.kind === "in" || n.kind === "out" ? "var(--port)" : state.colour !== "class" ? shade(Math.sqrt(of(n) / most)) : CLASS_COLOUR[n.class] || "var(--other)")
    .style("fill-opacity", state.colour === "class" ? "var(--solid)" : 1);
  const there = new Set(p.nodes.map(n => n.class));
  legend.html("").text(`${p.nodes.length} nodes, ${p.edges.length} edges; width: bytes`);
  if (state.colour === "class") for (const [name, colour] of Object.entries(CLASS_COLOUR)) if (there.has(name)) { legend.append("i").style("background", colour); legend.append("span").text(name); }
}

// ---- picking ---------------------------------------------------------------------------------------

const linkTo = thing => element("a", { onclick: () => pick(thing, true) }, thing.slice(thing.indexOf(" ") + 1));
function describe() {
  aside.replaceChildren();
  if (!state.thing) {
    const total = k => d3.sum(DATA.kernels, r => r[k]);
    aside.append(element("h2", {}, title), element("p", { class: "quiet" }, "Click a node, a kernel or a line to see what belongs to it on all levels. Wheel zooms, drag pans; edges are as wide as the bytes they move; ringed nodes are new in this pass."));
    if (DATA.kernels.length) aside.append(table([["kernels", DATA.kernels.length], ["operations", scaled(total("flop"), "FLOP")], ["bytes, map by map", scaled(total("before_bytes"), "B")], ["bytes, planned", scaled(total("planned_bytes"), "B")], ["bytes, least possible", scaled(total("bound_bytes"), "B")],
      ...(TIME ? [["time in kernels", `${TIME.toPrecision(3)} ms`]] : [])]));
    return;
  }
  const kind = state.thing.slice(0, state.thing.indexOf(" ")), name = state.thing.slice(kind.length + 1), { all, sources } = family(state.thing);
  aside.append(element("h2", {}, name), element("p", { class: "quiet" }, kind));
  const node = shown.p.nodeOf.get(state.thing);
  if (node) aside.append(table([["is", node.label], ["class", node.class], ["stands for", node.times > 1 ? `${node.times} equal ones` : ""], ["operations", node.flop ? scaled(node.flop, "FLOP") : ""], ["weights", node.weights ? scaled(node.weights, "B") : ""],
    ["takes", shown.p.edges.filter(e => e.to === node.i).map(e => `${e.what} (${scaled(e.bytes, "B")})`).join("; ")], ["gives", shown.p.edges.filter(e => e.from === node.i).map(e => `${e.what} (${scaled(e.bytes, "B")})`).join("; ")]].filter(r => r[1])));
  const first = kind === "map" ? name : kind === "kernel" && FINAL.flow && (indexOf(FINAL.flow).maps.get(name) || [])[0];
  if (first) aside.append(...recipePart(first));
  for (const [title, prefix] of [["kernel", "kernel "], ["maps", "map "], ["calls", "call "], ["operators", "op "]]) {
    const things = [...all].filter(t => t.startsWith(prefix) && t !== state.thing);
    if (!things.length) continue;
    aside.append(element("h2", {}, title));
    for (const t of things.slice(0, MANY)) {
      aside.append(element("div", {}, linkTo(t)));
      const k = prefix === "kernel " && KERNELS.get(t.slice(7));
      if (k) aside.append(kernelTable(k));
    }
    aside.append(...andMore(things));
  }
  const k = kind === "kernel" && KERNELS.get(name);
  if (k) aside.append(element("h2", {}, "cost"), kernelTable(k));
  if (sources.length) aside.append(element("h2", {}, "from the model's nodes"), ...sources.slice(0, MANY).map(s => element("div", { class: "quiet" }, s)), ...andMore(sources));
}
const MANY = 60; // entries of a list that are shown
const andMore = list => list.length > MANY ? [element("div", { class: "quiet" }, `and ${list.length - MANY} more`)] : [];
const timeOf = k => k && k.ms ? `${(k.ms * 1e3).toPrecision(3)} µs, ${(100 * k.ms / TIME).toFixed(1)} %` : "";
const table = rows => element("table", {}, ...rows.map(([a, b]) => element("tr", {}, element("td", { class: "quiet" }, a), element("td", {}, String(b)))));
const kernelTable = k => table([["class", k.class], ...(TIME ? [["time", timeOf(k)]] : []), ["operations", scaled(k.flop, "FLOP")], ["bytes, map by map", scaled(k.before_bytes, "B")], ["bytes, planned", scaled(k.planned_bytes, "B")], ["bytes, least possible", scaled(k.bound_bytes, "B")], ["FLOP per byte", k.planned_bytes ? (k.flop / k.planned_bytes).toFixed(1) : ""]]);

function pick(thing, travel) {
  state.thing = thing;
  state.all = thing ? family(thing).all : new Set();
  highlight();
  markTexts();
  describe();
  history.replaceState(null, "", thing ? "#" + encodeURIComponent(thing) : location.pathname);
  if (thing && travel) {
    const n = pickedNodes()[0];
    if (n) lookAt(Math.max(0.8, zoom.scale()), n.x, n.y);
  }
}
const pickedNodes = () => [...state.all].map(t => shown.p.nodeOf.get(t)).filter(n => n);
function highlight() {
  const picked = new Set(pickedNodes().map(n => n.i)), groups = new Set(pickedNodes().map(n => n.group));
  shown.nodes.classed("picked", n => picked.has(n.i));
  shown.edges.classed("picked", e => picked.has(e.from) || picked.has(e.to));
  shown.boxes.classed("picked", b => state.thing && groups.has(b.group));
}

// ---- search ------------------------------------------------------------------------------------------

const hits = element("div", { class: "hits" });
function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(w => w), found = new Set();
  if (words.length) for (const stage of [DATA.stages[state.stage], FINAL.flow, FINAL.graph]) {
    if (!stage) continue;
    for (const thing of indexOf(stage).at.keys()) if (found.size < 80 && words.every(w => thing.toLowerCase().includes(w))) found.add(thing);
  }
  hits.replaceChildren(...[...found].map(t => element("div", { onmousedown: () => { hits.remove(); pick(t, true); } }, t)));
  const box = search.getBoundingClientRect();
  hits.style.left = box.left + "px"; hits.style.top = box.bottom + 2 + "px";
  found.size ? document.body.append(hits) : hits.remove();
}
search.addEventListener("input", find);
search.addEventListener("keydown", e => { if (e.key === "Enter" && hits.firstChild) hits.firstChild.dispatchEvent(new Event("mousedown")); });
search.addEventListener("blur", () => hits.remove());
addEventListener("keydown", e => {
  if (e.target === search) return;
  if (e.key === "/") { search.focus(); e.preventDefault(); }
  if (e.key === "Escape") pick(null, false);
  if (e.key === "ArrowRight" && state.stage + 1 < DATA.stages.length) { state.stage++; show(); }
  if (e.key === "ArrowLeft" && state.stage > 0) { state.stage--; show(); }
});

function show() {
  slider.value = state.stage;
  passes.querySelectorAll("button").forEach(b => b.classList.toggle("on", +b.dataset.i === state.stage));
  draw();
  showTexts();
  pick(state.thing, false);
}
const linked = decodeURIComponent(location.hash.slice(1));
show();
PANES.c.scroll.scrollTop = (Math.min(C.lines.length, ...[...C.at.values()].map(([first]) => first)) - 2) * ROW;
if (linked) pick(linked, true);
