// SPDX-License-Identifier: Apache-2.0
// `weir report --format html` and `weir profile --format html`: what kernels compute and move, where
// the bytes go, the roofline, the arena over the run.

const K = DATA.kernels, M = DATA.machine, measured = DATA.run_ms > 0;
const total = key => d3.sum(K, k => k[key] || 0);
const memory = M.levels[M.levels.length - 1];
const cores = DATA.threads || M.cores, peak = M.flops * cores;
const colourOf = k => CLASS_COLOUR[k.class] || "#ccc";
const said = k => `${k.kernel}: ${k.class}, ${scaled(k.flop, "FLOP")}, ${scaled(k.planned_bytes, "B")} planned, ${scaled(k.bound_bytes, "B")} at least` + (k.ms ? `, ${k.ms.toFixed(3)} ms, ${scaled(k.flop / k.ms * 1e3, "FLOP/s")}` : "");

const content = element("div", { class: "scrolling" });
document.body.append(element("header", {}, element("h1", {}, DATA.model.replace(/.*\//, "")), element("span", { class: "quiet" }, madeFor(DATA.build) + (measured ? ` · ${DATA.threads} threads` : ""))), content);

function card(value, what) {
  return element("div", { class: "card" }, element("b", {}, value), element("span", { class: "quiet" }, what));
}
content.append(element("div", { class: "cards" }, card(K.length, "kernels"), ...(measured ? [card(DATA.run_ms.toFixed(3) + " ms", "a run")] : []), card(scaled(total("flop"), "FLOP"), "operations"),
  card(scaled(total("before_bytes"), "B"), "moved map by map"), card(scaled(total("planned_bytes"), "B"), "moved as planned"), card(scaled(total("bound_bytes"), "B"), "least possible"),
  card(scaled(DATA.weights, "B"), "weights"), card(scaled(DATA.arena_bytes, "B"), "arena")));

function figure(title, note, height) {
  const box = element("div", { class: "figure" }, element("h2", {}, title), element("div", { class: "quiet" }, note));
  content.append(box);
  const width = Math.max(600, box.clientWidth - 34);
  return { width, height, svg: d3.select(box).append("svg").attr({ width, height }) };
}

function legend(svg, x, y) {
  const there = Object.keys(CLASS_COLOUR).filter(c => K.some(k => k.class === c));
  const g = svg.append("g").attr("transform", `translate(${x},${y})`);
  there.forEach((c, i) => {
    g.append("rect").attr({ x: i * 105, y: -9, width: 10, height: 10, rx: 2 }).style("fill", CLASS_COLOUR[c]);
    g.append("text").attr({ x: i * 105 + 14 }).style("font-size", "11px").text(c);
  });
}

// ---- where the bytes go ----------------------------------------------------------------------------

function treemap(key, title, note, text) {
  const f = figure(title, note, 330);
  const cells = d3.layout.treemap().size([f.width, f.height - 24]).value(k => k[key]).sort((a, b) => a.value - b.value).sticky(false).nodes({ children: K.filter(k => k[key] > 0).map(k => Object.assign({}, k)) }).filter(c => !c.children);
  const g = f.svg.selectAll("g.cell").data(cells).enter().append("g").attr("class", "cell").attr("transform", c => `translate(${c.x},${c.y})`).call(tipped, said);
  g.append("rect").attr({ width: c => Math.max(0, c.dx - 1), height: c => Math.max(0, c.dy - 1), rx: 2 }).style("fill", colourOf).style("fill-opacity", "var(--solid)");
  g.filter(c => c.dx > 60 && c.dy > 16).append("text").attr({ x: 5, y: 13 }).style("font-size", "10px").text(c => shortened(c.kernel, Math.floor((c.dx - 8) / 5.8)));
  g.filter(c => c.dx > 60 && c.dy > 30).append("text").attr({ x: 5, y: 26 }).style("font-size", "10px").text(text);
  legend(f.svg, 0, f.height - 6);
}
treemap("planned_bytes", "Where the bytes go", "One field a kernel, as large as the bytes it is planned to move through the second cache.", c => scaled(c.planned_bytes, "B"));
if (measured) treemap("ms", "Where the time goes", "One field a kernel, as large as its measured time.", c => c.ms.toFixed(3) + " ms");

// ---- roofline -----------------------------------------------------------------------------------------

function roofline() {
  const dots = K.filter(k => k.flop > 0 && k.planned_bytes > 0);
  if (!dots.length) return;
  const f = figure("Roofline", measured ? "One dot a kernel: what it reached, against what arithmetic and memory allow; as large as its share of the time." : "One dot a kernel on the roof that the machine's figures give; weir profile --format html shows what it reached.", 380);
  const left = 70, bottom = 40, intensity = k => k.flop / k.planned_bytes;
  const x = d3.scale.log().domain([Math.min(0.05, d3.min(dots, intensity)), Math.max(100, d3.max(dots, intensity) * 2)]).range([left, f.width - 20]);
  const roof = v => Math.min(peak, v * memory.bandwidth * (memory.shared === false ? cores : 1));
  const reached = k => k.ms ? k.flop / k.ms * 1e3 : roof(intensity(k));
  const y = d3.scale.log().domain([Math.min(1e8, d3.min(dots, reached)), peak * 2]).range([f.height - bottom, 10]);
  const rows = M.levels.map(l => ({ name: l.name, at: v => Math.min(peak, v * l.bandwidth) }));
  const points = d3.range(0, 101).map(i => x.domain()[0] * Math.pow(x.domain()[1] / x.domain()[0], i / 100));
  for (const r of rows) {
    f.svg.append("path").attr("d", d3.svg.line()(points.filter(v => r.at(v) >= y.domain()[0]).map(v => [x(v), y(r.at(v))]))).style({ fill: "none", stroke: r.name === memory.name ? "var(--ink)" : "var(--faint)", "stroke-width": 1.5 });
    const v = points.find(v => r.at(v) > y.domain()[0] * 3);
    f.svg.append("text").attr({ class: "halo", x: x(v) + 4, y: y(r.at(v)) - 6 }).text(r.name);
  }
  f.svg.append("g").attr("transform", `translate(0,${f.height - bottom})`).call(d3.svg.axis().scale(x).orient("bottom").ticks(8, "g").tickSize(3)).style("font-size", "10px");
  f.svg.append("g").attr("transform", `translate(${left},0)`).call(d3.svg.axis().scale(y).orient("left").ticks(6, "s").tickSize(3)).style("font-size", "10px");
  f.svg.selectAll(".domain").style({ fill: "none", stroke: "#999" });
  f.svg.append("text").attr({ x: f.width - 20, y: f.height - 6, "text-anchor": "end" }).style("font-size", "11px").text("FLOP per byte planned");
  f.svg.append("text").attr({ x: left + 6, y: 20 }).style("font-size", "11px").text("FLOP/s");
  const share = k => measured ? Math.sqrt((k.ms || 0) / DATA.run_ms) : Math.sqrt(k.planned_bytes / total("planned_bytes"));
  f.svg.selectAll("circle").data(dots).enter().append("circle").attr({ class: "dot", cx: k => x(intensity(k)), cy: k => y(reached(k)), r: k => 3 + 22 * share(k) }).style("fill", colourOf).style("fill-opacity", 0.55).style("stroke", "var(--ink)").call(tipped, said);
  legend(f.svg, left, f.height - 6);
}
roofline();

// ---- memory over time -----------------------------------------------------------------------------------

function arena() {
  if (!DATA.arena.length) return;
  const bottom = 36, f = figure("The arena over the run", "Each box is a container: as wide as the kernels it lives for, as high as its bytes, where it lies in the arena.", 350);
  const left = 80, x = d3.scale.linear().domain([0, DATA.steps.length]).range([left, f.width - 10]), y = d3.scale.linear().domain([0, DATA.arena_bytes || 1]).range([f.height - bottom, 8]);
  const hue = d3.scale.category20();
  f.svg.selectAll("rect").data(DATA.arena).enter().append("rect").attr({ class: "life", x: c => x(c.first), y: c => y(c.offset + c.bytes), width: c => Math.max(1, x(c.last + 1) - x(c.first) - 0.5), height: c => Math.max(0.7, y(c.offset) - y(c.offset + c.bytes) - 0.5) })
    .style("fill", (c, i) => hue(i % 20)).style("fill-opacity", 0.75).call(tipped, c => `${c.name}: ${scaled(c.bytes, "B")} at ${c.offset}, from ${DATA.steps[c.first]} to ${DATA.steps[c.last]}`);
  const wide = c => x(c.last + 1) - x(c.first) - 8, high = c => y(c.offset) - y(c.offset + c.bytes);
  f.svg.selectAll("text.life").data(DATA.arena.filter(c => wide(c) > 60 && high(c) > 15)).enter().append("text").attr({ class: "life", x: c => x(c.first) + 4, y: c => y(c.offset + c.bytes) + 12 }).text(c => shortened(c.name, Math.floor(wide(c) / 5.8)));
  f.svg.append("text").attr({ x: f.width - 10, y: f.height - 2, "text-anchor": "end" }).style("font-size", "11px").text("kernel of the run");
  f.svg.append("g").attr("transform", `translate(${left},0)`).call(d3.svg.axis().scale(y).orient("left").ticks(5).tickFormat(v => scaled(v, "B")).tickSize(3)).style("font-size", "10px");
  f.svg.append("g").attr("transform", `translate(0,${f.height - bottom})`).call(d3.svg.axis().scale(x).orient("bottom").ticks(8).tickSize(3)).style("font-size", "10px");
  f.svg.selectAll(".domain").style({ fill: "none", stroke: "#999" });
}
arena();

// ---- movement before and after fusion --------------------------------------------------------------------

function bars() {
  const rows = K.slice().sort((a, b) => b.before_bytes - a.before_bytes).slice(0, 40), step = 15;
  const f = figure("Movement before and after fusion, against the bound", `The ${rows.length} kernels that would move most map by map: map by map (pale), as planned (full), least possible (line).`, rows.length * step + 30);
  const left = 260, x = d3.scale.linear().domain([0, d3.max(rows, k => k.before_bytes)]).range([left, f.width - 70]);
  const g = f.svg.selectAll("g.bar").data(rows).enter().append("g").attr("class", "bar").attr("transform", (k, i) => `translate(0,${i * step})`).call(tipped, said);
  g.append("text").attr({ x: left - 6, y: 11, "text-anchor": "end" }).style("font-size", "10px").text(k => shortened(k.kernel, 42));
  g.append("rect").attr({ x: left, y: 2, height: step - 4, width: k => x(k.before_bytes) - left }).style("fill", colourOf).style("fill-opacity", 0.25);
  g.append("rect").attr({ x: left, y: 2, height: step - 4, width: k => x(k.planned_bytes) - left }).style("fill", colourOf).style("fill-opacity", 0.85);
  g.append("line").attr({ x1: k => x(k.bound_bytes), x2: k => x(k.bound_bytes), y1: 0, y2: step }).style("stroke", "var(--ink)").style("stroke-width", 1.5);
  f.svg.append("g").attr("transform", `translate(0,${rows.length * step + 2})`).call(d3.svg.axis().scale(x).orient("bottom").ticks(6).tickFormat(v => scaled(v, "B")).tickSize(3)).style("font-size", "10px");
  f.svg.selectAll(".domain").style({ fill: "none", stroke: "#999" });
}
bars();
