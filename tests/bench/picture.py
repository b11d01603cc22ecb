#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A comparison (compare.py) as a picture: bars and a roofline.

    tests/bench/picture.py tests/results/compare-DATE.json      # writes the .svg beside it

Bars: each engine's time by that of the faster rival, a model a line, the models in the order of Weir's; a tick
marks the bound. Roofline: what the engines reach in FLOP/s over the FLOP for each byte that a model has to touch,
under the peaks of the same run.
"""
import json
import math
import pathlib
import sys
from xml.sax.saxutils import escape

ENGINES = [("weir", "Weir", "#0b7285"), ("onnxruntime", "ONNX Runtime", "#e8963a"), ("openvino", "OpenVINO", "#8f6bb3")]
INK, FAINT, PAPER = "#25292e", "#c9ced4", "#ffffff"
LABEL, BARS, GAP, WIDTH = 180, 560, 30, 800
ROW, BAR, MOST = 30, 8, 2.0  # heights; the longest bar, by the faster rival
PLOT = 420  # height of the roofline


def text(x, y, words, anchor="start", size=12, fill=INK, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="{fill}">{escape(words)}</text>')


def rule(x1, y1, x2, y2, stroke=FAINT, width=1.0):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
            f'stroke-width="{width}"/>')


def median(row, engine):
    return row["times"][engine]["median_ms"] if engine in row.get("times", {}) else None


def rival(row):
    """The faster rival's time, or None."""
    return min((t for t in (median(row, name) for name, _, _ in ENGINES[1:]) if t), default=None)


def legend(y):
    out, x = [], LABEL
    for _, title, colour in ENGINES:
        out += [f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>', text(x + 15, y, title)]
        x += 40 + 7.5 * len(title)
    return out


# ---- bars ---------------------------------------------------------------------------------------


def bar_row(row, y, unit):
    least, out = rival(row), [text(LABEL - 10, y + 17, row["model"], "end")]
    for k, (name, title, colour) in enumerate(ENGINES):
        ms = median(row, name)
        if not ms:
            continue
        share, top = ms / least, y + 1 + k * (BAR + 1)
        tip = escape(f"{row['model']}, {title}: {ms:.3f} ms, {share:.2f}")
        out.append(f'<rect x="{LABEL}" y="{top}" width="{min(share, MOST) * unit:.1f}" height="{BAR}" fill="{colour}">'
                   f"<title>{tip}</title></rect>")
        if share > MOST:
            out.append(text(LABEL + BARS + 4, top + BAR, f"{share:.1f}", size=9))
    if row.get("bound_ms") and row["bound_ms"] > least / 100:
        at = LABEL + row["bound_ms"] / least * unit
        out.append(rule(at, y - 1, at, y + 3 * (BAR + 1) + 1, INK, 2))
    return out


def bars(rows, y):
    """The lines of one number of threads from y on, and where they end."""
    rows = sorted((r for r in rows if rival(r) and median(r, "weir")), key=lambda r: median(r, "weir") / rival(r))
    unit, out = BARS / MOST, []
    bottom = y + ROW * len(rows)
    for tick in (0.5, 1.0, 1.5, 2.0):
        x = LABEL + tick * unit
        out += [rule(x, y - 4, x, bottom, INK if tick == 1 else FAINT), text(x, y - 8, f"{tick:g}", "middle", 10)]
    for k, row in enumerate(rows):
        out += bar_row(row, y + k * ROW, unit)
    return out, bottom


# ---- roofline -----------------------------------------------------------------------------------


class Log:
    """Powers of ten over a stretch of pixels."""

    def __init__(self, low, high, at, to):
        self.low, self.high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        self.at, self.scale = at, (to - at) / max(self.high - self.low, 1)

    def __call__(self, value):
        return self.at + (math.log10(value) - self.low) * self.scale

    def ticks(self):
        return [10.0 ** k for k in range(self.low, self.high + 1)]


def dots(rows):
    """(model, engine, FLOP a byte, FLOP a second) of what was timed and counted."""
    for row in rows:
        if row.get("gflop") and row.get("touched_mb"):
            for name, title, colour in ENGINES:
                if median(row, name):
                    yield (row["model"], title, colour, row["gflop"] * 1e3 / row["touched_mb"],
                           row["gflop"] * 1e12 / median(row, name))


def roofline(rows, y):
    points = list(dots(rows))
    if not points:
        return [], y
    flops = sorted(row["peak"][0] for row in rows if row.get("peak"))
    bandwidths = sorted(row["peak"][1] for row in rows if row.get("peak"))
    peak, bandwidth = flops[len(flops) // 2], bandwidths[len(bandwidths) // 2]
    bottom, right = y + PLOT, WIDTH - 40
    across = Log(min(p[3] for p in points), max(p[3] for p in points), 90, right)
    up = Log(min(p[4] for p in points), max(peak, *(p[4] for p in points)), bottom, y)
    out = []
    for tick in across.ticks():
        out += [rule(across(tick), y, across(tick), bottom), text(across(tick), bottom + 16, f"{tick:g}", "middle", 10)]
    for tick in up.ticks():
        out += [rule(90, up(tick), right, up(tick)), text(84, up(tick) + 4, f"{tick / 1e9:g}", "end", 10)]
    low, knee, high = 10.0 ** across.low, peak / bandwidth, 10.0 ** across.high
    roof = [(low, low * bandwidth), (knee, peak), (high, peak)]
    foot = 10.0 ** up.low / bandwidth  # where the slope enters the picture
    if foot > low:
        roof[0] = (foot, 10.0 ** up.low)
    path = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in roof)
    out.append(f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.5"/>')
    for model, title, colour, intensity, speed in reversed(points):
        tip = escape(f"{model}, {title}: {speed / 1e9:.1f} GFLOP/s")
        out.append(f'<circle cx="{across(intensity):.1f}" cy="{up(speed):.1f}" r="4" fill="{colour}" fill-opacity="0.8">'
                   f"<title>{tip}</title></circle>")
    out += [text((90 + right) / 2, bottom + 34, "FLOP for each byte of touched weights, inputs and outputs", "middle"),
            text(90, y - 10, f"GFLOP/s; the roof: {peak / 1e9:.0f} GFLOP/s, {bandwidth / 1e9:.0f} GB/s")]
    return out, bottom + 50


# ---- the picture --------------------------------------------------------------------------------


def svg(comparison):
    rows = [row for row in comparison["rows"] if not row.get("failed")]
    out, y = [], 36
    out += [text(GAP, y, f"{comparison['date']}, {comparison['machine']}", size=13, weight="bold")]
    for threads in sorted({row["threads"] for row in rows}):
        some = [row for row in rows if row["threads"] == threads]
        plural = "s" if threads > 1 else ""
        y += 34
        out += [text(GAP, y, f"{threads} thread{plural}: time by the faster rival's (tick: the bound)", weight="bold")]
        out += legend(y + 20)
        part, y = bars(some, y + 52)
        out += part
        y += 50
        out += [text(GAP, y, f"{threads} thread{plural}: roofline", weight="bold")]
        part, y = roofline(some, y + 36)
        out += part
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 20}" viewBox="0 0 {WIDTH} {y + 20}" '
            f'font-family="sans-serif"><rect width="100%" height="100%" fill="{PAPER}"/>')
    return "\n".join([head, *out, "</svg>"]) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = pathlib.Path(sys.argv[1])
    path.with_suffix(".svg").write_text(svg(json.loads(path.read_text())))
    print(f"wrote {path.with_suffix('.svg')}")


if __name__ == "__main__":
    main()
