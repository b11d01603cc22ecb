#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What people look at: drawings and differences of dumps; the pages of `weir dump` and `weir report`
in headless Chromium, clicked, searched, photographed.

    tests/pages.py [--weir build/weir] [--keep FOLDER]

Each check loads a page with a script added that does what a person would and leaves what it saw in
the document. Screenshots go to FOLDER. Skipped where Chromium or Graphviz is missing. The last line
is "N passed, N failed, N skipped".
"""
import argparse
import json
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zlib

from cli_weir import ROOT, wire
from harness import run_tests, tests_of

MNIST = ROOT / "tests/data/mnist/mnist_cntk.onnx"
FAULTS = """<script>window.faults = [];
addEventListener("error", e => faults.push(String(e.message)));</script>"""


def layers(n, width=8):
    """x[4,width] through n layers of MatMul, Add, Relu."""
    nodes, params, x = [], [], "x"
    for i in range(n):
        params += [wire.tensor(f"w{i}", [width, width], [0.01 * (k % 7) for k in range(width * width)]),
                   wire.tensor(f"b{i}", [width], [0.5] * width)]
        nodes += [wire.node("MatMul", [x, f"w{i}"], [f"h{i}"], name=f"layer{i}/MatMul"),
                  wire.node("Add", [f"h{i}", f"b{i}"], [f"s{i}"], name=f"layer{i}/Add"),
                  wire.node("Relu", [f"s{i}"], [f"y{i}"], name=f"layer{i}/Relu")]
        x = f"y{i}"
    return wire.model(wire.graph(nodes, [wire.value_info("x", [4, width])], [wire.value_info(x, [4, width])], params))


def chain(n):
    """n element-wise nodes that look different, so that nothing folds."""
    nodes, x, ops = [], "x", ("Relu", "Neg", "Abs", "Sqrt", "Exp", "Floor", "Ceil", "Tanh", "Sin", "Cos", "Sign")
    state = 12345
    for i in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        nodes.append(wire.node(ops[(state >> 16) % len(ops)], [x], [f"v{i}"], name=f"node{i}"))
        x = f"v{i}"
    return wire.model(wire.graph(nodes, [wire.value_info("x", [4])], [wire.value_info(x, [4])], []))


def png_grid(path, across=24, down=15):
    """Mean brightness in across x down fields of an 8-bit RGB or RGBA file without interlacing."""
    data = path.read_bytes()
    at, packed = 8, b""
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
        packed += body if kind == b"IDAT" else b""
        at += 12 + n
    step, raw = {2: 3, 6: 4}[colour], zlib.decompress(packed)
    row, sums, counts = bytearray(width * step), [0] * (across * down), [0] * (across * down)
    for y in range(height):
        start = y * (width * step + 1)
        row = unfilter(raw[start], raw[start + 1:start + 1 + width * step], row, step)
        for x in range(0, width, 8):
            field = y * down // height * across + x * across // width
            sums[field] += row[x * step + 1]
            counts[field] += 1
    return [s / n for s, n in zip(sums, counts)]


def unfilter(kind, line, above, step):
    out = bytearray(line)
    for i in range(len(out)):
        left, up, corner = (out[i - step] if i >= step else 0), above[i], (above[i - step] if i >= step else 0)
        if kind == 1:
            out[i] = (out[i] + left) & 255
        elif kind == 2:
            out[i] = (out[i] + up) & 255
        elif kind == 3:
            out[i] = (out[i] + (left + up) // 2) & 255
        elif kind == 4:
            guess = left + up - corner
            nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
            out[i] = (out[i] + nearest[2]) & 255
    return out


class Pages:
    def __init__(self, weir, chromium, folder):
        self.weir, self.chromium, self.folder = weir, chromium, folder

    def make(self, *words):
        done = subprocess.run([self.weir, *map(str, words)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"weir {' '.join(map(str, words))}: {done.stderr[-800:]}"
        return done.stdout

    def browse(self, *words):
        return subprocess.run([self.chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                               f"--user-data-dir={self.folder}/profile", "--virtual-time-budget=20000",
                               "--window-size=1600,1000", *words], capture_output=True, text=True, timeout=120).stdout

    def see(self, page, script):
        """What `script`, a function body run on the loaded page, returns."""
        text = page.read_text().replace("<body>", "<body>" + FAULTS, 1)
        text = text.replace("</body>", f"""<script>document.body.setAttribute("data-saw",
            JSON.stringify({{faults, saw: (() => {{ {script} }})()}}))</script></body>""")
        tried = page.with_suffix(".tried.html")
        tried.write_text(text)
        found = re.search(r'data-saw="([^"]*)"', self.browse("--dump-dom", tried.as_uri()))
        assert found, "the page's script did not run to its end"
        said = json.loads(found[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        assert said["faults"] == [], said["faults"]
        return said["saw"]

    def shoot(self, page, name, keep, hash=""):
        """A screenshot, which must resemble the one kept under that name, if there is one."""
        made = self.folder / name
        self.browse(f"--screenshot={made}", page.as_uri() + hash)
        grid, kept = png_grid(made), keep / name
        assert max(grid) - min(grid) > 30, "the screenshot is blank"
        if kept.exists():
            apart = sum(abs(a - b) for a, b in zip(grid, png_grid(kept))) / len(grid)
            assert apart < 25, f"{name} differs from the one kept by {apart:.0f} of 255 in the mean"
        else:
            shutil.copy(made, kept)


def test_svg(p, keep):
    model = p.folder / "layers.onnx"
    model.write_bytes(layers(12))
    for level in ("graph", "flow", "nest"):
        svg = p.folder / f"{level}.svg"
        p.make("dump", model, "--level", level, "--format", "svg", "-o", svg)
        texts = [t.text for t in xml.etree.ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]
        assert any(t and t.startswith("×1") for t in texts), f"no folded layers in {level}: {texts}"


def test_dump(p, keep):
    page = p.folder / "dump.html"
    p.make("dump", MNIST, "--format", "html", "-o", page)
    assert "http" not in re.sub(r"http://www\.w3\.org/[\w/]*|https?://(d3js|fb\.me)\S*", "", page.read_text()[:2000]), "the page asks the network"
    saw = p.see(page, """
        const seen = {passes: passes.querySelectorAll("button").length, nodes: shown.p.nodes.length};
        const conv = shown.p.nodes.find(n => n.class === "contraction");
        pick(thingOf(conv), false);
        seen.picked = document.querySelectorAll(".node.picked").length;
        seen.marked = Object.entries(PANES).filter(([, pane]) => pane.marked.length).map(([k]) => k);
        seen.kinds = [...new Set([...state.all].map(t => t.split(" ")[0]))].sort();
        search.value = "pool"; find();
        seen.hits = hits.children.length;
        hits.firstChild.dispatchEvent(new Event("mousedown"));
        seen.found = state.thing;
        slider.value = 0; slider.dispatchEvent(new Event("input"));
        seen.first = DATA.stages[state.stage].pass;
        seen.drawn = document.querySelectorAll("g.node").length;
        return seen;""")
    assert saw["passes"] >= 15 and saw["nodes"] >= 8 and saw["picked"] >= 1, saw
    assert saw["marked"] == ["graph", "flow", "nest", "c"], saw
    assert saw["kinds"] == ["kernel", "map", "nest", "op"], saw
    assert saw["hits"] >= 1 and "pool" in saw["found"].lower(), saw
    assert saw["first"] == "import" and saw["drawn"] >= 8, saw
    p.shoot(page, "page-dump.png", keep)


def test_gpu(p, keep):
    """The text of a GPU's kernels is there, and each kernel has its lines: those of one launch the same, equal kernels or not."""
    heads = [wire.node("MatMul", ["x", f"w{i}"], [f"y{i}"], name=f"head{i}") for i in range(3)]
    weights = [wire.tensor(f"w{i}", [64, 64], [0.01] * 4096) for i in range(3)]
    others = [wire.node(op, ["x"], [f"y{i}"], name=f"other{i}") for i, op in enumerate(("Relu", "Transpose"))]
    for name, nodes, given, shapes in (("sides", heads, weights, [[4, 64]] * 3), ("ranges", others, [], [[4, 64], [64, 4]])):
        model, page = p.folder / f"{name}.onnx", p.folder / f"{name}.html"
        outputs = [wire.value_info(f"y{i}", shape) for i, shape in enumerate(shapes)]
        model.write_bytes(wire.model(wire.graph(nodes, [wire.value_info("x", [4, 64])], outputs, given)))
        p.make("dump", model, "--target", "cuda", "--gpu", "sm_80", "--format", "html", "-o", page)
        saw = p.see(page, """
            const marked = DATA.kernels.map(k => {
              pick("kernel " + k.kernel, false);
              return PANES.c.marked.map(([a, b]) => [a, b, DATA.lines[C.lines[b]]]).concat([DATA.lines[C.lines[PANES.c.marked[0][0]]]]);
            });
            return {marked, head: document.querySelector("header").textContent,
                    texts: PANES.c.marked.map(([a, b]) => d3.range(a, b + 1).map(i => DATA.lines[C.lines[i]]).join(" ")).join(" ")};""")
        assert "sm_80" in saw["head"] and "x86" not in saw["head"], saw["head"]
        assert len(saw["marked"]) == len(nodes) and all(m == saw["marked"][0] for m in saw["marked"]), saw
        assert "KERNEL(" in saw["texts"] and len(re.findall("FN void body", saw["texts"])) == (1 if name == "sides" else 2), saw["texts"]


def test_times(p, keep):
    """With --profile: a colour by share of time, whose parts add up."""
    page = p.folder / "times.html"
    p.make("dump", MNIST, "--format", "html", "--profile", "-o", page)
    saw = p.see(page, """
        colourBy.value = "time"; colourBy.dispatchEvent(new Event("change"));
        const fills = [...new Set([...document.querySelectorAll(".node rect")].map(r => r.style.fill))];
        const slow = DATA.kernels.reduce((a, b) => (a.ms || 0) > (b.ms || 0) ? a : b);
        pick("kernel " + slow.kernel, false);
        return {time: TIME, fills: fills.length, said: aside.textContent,
                share: d3.sum(DATA.kernels, k => (k.ms || 0) / TIME), flow: shown.p.nodes.filter(n => timeAt(n) > 0).length};""")
    assert saw["time"] > 0 and abs(saw["share"] - 1) < 1e-6 and saw["fills"] >= 3 and saw["flow"] >= 8, saw
    assert "µs" in saw["said"] and "%" in saw["said"], saw


def test_recipe(p, keep):
    """A kernel split in the page and a layout chosen: the bytes at once, and a recipe that compiles so."""
    page = p.folder / "recipe.html"
    p.make("dump", MNIST, "--format", "html", "-o", page)
    saw = p.see(page, """
        const click = css => aside.querySelector(css).dispatchEvent(new Event("click"));
        const change = () => document.getElementById("change").textContent;
        const seen = {own: recipeText()};
        pick("map ReLU32", false);
        seen.before = change();
        click("button.split");
        seen.split = change(), seen.splitText = recipeText();
        pick("map ReLU32", false);
        click("button.join");
        seen.joined = change(), seen.same = recipeText() === seen.own;
        pick("map Convolution110", false);
        const choose = (name, word) => {
          const layout = aside.querySelector(`select.layout[data-name="${name}"]`);
          layout.value = word; layout.dispatchEvent(new Event("change"));
        };
        choose("Pooling66_Output_0.margin", "tested");
        pick("map Convolution28", false);
        choose("Input3.margin", "tested");
        seen.tested = change(), seen.testedText = recipeText();
        choose("Input3.margin", "made");
        pick("map Convolution110", false);
        choose("Pooling66_Output_0.margin", "made");
        choose("Convolution110_Output_0", "plain");
        seen.plain = recipeText();
        choose("Convolution110_Output_0", "blocked");
        pick("map Times212", false);
        choose("Times212.panels", "lanes32");
        seen.wide = change(), seen.wideText = recipeText();
        choose("Times212.panels", "plain");
        seen.loose = change(), seen.looseText = recipeText();
        let exported = null;
        URL.createObjectURL = blob => { exported = blob; return "#"; };
        click("#export");
        seen.exported = exported.size === new Blob([seen.looseText]).size;
        return seen;""")
    assert saw["before"] == saw["joined"] == "bytes between kernels: +0 B" and saw["same"] and saw["exported"], saw
    assert saw["split"] == "bytes between kernels: +50.2 kB", saw["split"]  # 8 x 28 x 28 floats, written and read
    assert saw["tested"] == "bytes between kernels: −8.19 kB" and ".margin_" not in saw["testedText"], saw["tested"]  # 32 x 32, twice
    assert saw["wide"] == "bytes between kernels: +0 B, weights: +16.4 kB", saw["wide"]  # 256 x 16 floats that are no weights
    assert saw["loose"] == "bytes between kernels: +0 B, weights: −6.14 kB", saw["loose"]
    for text, wanted in (("own", "kernel \\S+ = Convolution28 ReLU32 "), ("splitText", "kernel \\S+ = ReLU32 "),
                         ("testedText", "t0 <- Pooling66_Output_0\\[0, c, h \\+ r - 2, s \\+ w - 2\\] else"),
                         ("plain", "tmp +Convolution110_Output_0 : f32\\[[^]]*\\](?! layout)"),
                         ("wideText", "param \\S+ : f32\\[256, 10\\] layout .* of \\[1, 256, 32\\]"),
                         ("looseText", "param \\S+ : f32\\[256, 10\\] from")):
        recipe = p.folder / "page.recipe"
        recipe.write_text(saw[text])
        flow = p.make("dump", MNIST, "--after", "place", "--recipe", recipe)
        assert re.search(wanted, flow), (text, flow)
    p.make("dump", MNIST, "--level", "nest", "-o", p.folder / "n", "--save-recipe", p.folder / "r")
    assert saw["own"] == (p.folder / "r").read_text()


def test_diff(p, keep):
    """`patch` takes a difference and makes one dump of the other; equal dumps have none."""
    a, b, c = p.folder / "a.onnx", p.folder / "b.onnx", p.folder / "c.patch"
    a.write_bytes(layers(9))
    b.write_bytes(layers(12, width=10))
    for level in ("graph", "flow", "nest"):
        p.make("dump", b, "--diff", a, "--level", level, "-o", c)
        texts = {x: p.make("dump", x, "--level", level) for x in (a, b)}
        whole = p.folder / "text"
        whole.write_text(texts[a])
        done = subprocess.run(["patch", "-s", whole, c], capture_output=True, text=True)
        assert done.returncode == 0 and whole.read_text() == texts[b], done.stdout
        assert p.make("dump", a, "--diff", a, "--level", level) == ""


def test_report(p, keep):
    """The numbers on the page are those of the JSON; profile's page has times besides."""
    report, profile = p.folder / "report.html", p.folder / "profile.html"
    p.make("report", MNIST, "--format", "html", "-o", report)
    p.make("profile", MNIST, "--min-time", "0.1", "--format", "html", "-o", profile)
    whole = json.loads(p.make("report", MNIST, "--format", "json"))["total"]
    look = """return {cells: document.querySelectorAll("g.cell").length, dots: document.querySelectorAll("circle.dot").length,
        lives: document.querySelectorAll("rect.life").length, bars: document.querySelectorAll("g.bar").length,
        planned: total("planned_bytes"), ms: total("ms"), kernels: K.length, run: DATA.run_ms};"""
    saw, timed = p.see(report, look), p.see(profile, look)
    assert saw["planned"] == whole["planned_bytes"] and saw["ms"] == 0, (saw, whole)
    assert min(saw["cells"], saw["dots"], saw["lives"], saw["bars"]) > 0 and saw["bars"] == saw["kernels"], saw
    assert 0 < timed["ms"] and timed["run"] > 0 and timed["cells"] > saw["cells"], timed
    p.shoot(report, "page-report.png", keep)


def test_fold(p, keep):
    model, page = p.folder / "fold.onnx", p.folder / "fold.html"
    model.write_bytes(layers(12))
    p.make("dump", model, "--format", "html", "-o", page)
    saw = p.see(page, """
        const folded = shown.p.nodes.length, times = d3.max(shown.p.nodes, n => n.times);
        foldButton.click();
        const whole = shown.p.nodes.length;
        foldButton.click();
        pick("op y9", true);
        return {folded, whole, times, picked: document.querySelectorAll(".node.picked").length};""")
    assert saw["folded"] < saw["whole"] and saw["times"] >= 10 and saw["picked"] >= 1, saw


def spent():
    """Seconds that processors gave to programs which have ended: a busy machine changes them little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_many(p, keep):
    model, page = p.folder / "many.onnx", p.folder / "many.html"
    model.write_bytes(chain(10000))
    start = spent()
    p.make("dump", model, "--format", "html", "--stop-after", "lower", "-o", page)
    made = spent()
    nodes = p.see(page, "show(); return shown.p.nodes.length;")
    assert nodes > 9900 and made - start < 40 and spent() - made < 40, (nodes, made - start, spent() - made)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "tests/results")
    args = parser.parse_args()
    tests = tests_of(globals())
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    missing = [what for what, there in (("chromium", chromium), ("graphviz", shutil.which("dot"))) if not there]
    if missing:
        print(f"SKIP pages: no {' and no '.join(missing)}")
        print(f"0 passed, 0 failed, {len(tests)} skipped")
        return 0
    with tempfile.TemporaryDirectory() as work:
        def attempt(name):
            folder = pathlib.Path(work) / name
            folder.mkdir()
            tests[name](Pages(args.weir.resolve(), chromium, folder), args.keep.resolve())

        return run_tests(tests, attempt)


if __name__ == "__main__":
    sys.exit(main())
