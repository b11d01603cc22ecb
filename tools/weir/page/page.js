// SPDX-License-Identifier: Apache-2.0
// What pages share: numbers with units, colours of classes, tips.
"use strict";

const CLASS_COLOUR = {
  "contraction": "var(--contraction)", "normalisation": "var(--normalisation)", "reduction": "var(--reduction)",
  "element-wise": "var(--elementwise)", "movement": "var(--movement)", "call": "var(--call)",
};

function scaled(v, unit) {
  const steps = ["", "k", "M", "G", "T"];
  let u = 0;
  while (v >= 1000 && u < 4) { v /= 1000; u++; }
  return (v < 10 && u ? v.toFixed(2) : v < 100 && u ? v.toFixed(1) : v.toFixed(0)) + " " + steps[u] + unit;
}

// Of a path what fits: its end, which tells more than its beginning, behind the first part with a number, which
// tells of which layer it is.
function shortened(name, letters) {
  const parts = name.replace(/^k\d+\.\//, "").split("/").filter(p => p), end = parts.length - 1, layer = parts.findIndex(p => /\d/.test(p));
  let said = parts[end] || name, layered = "";
  for (let k = end; k >= 0; k--) {
    const tail = parts.slice(k).join("/"), both = layer < k ? parts[layer] + (layer + 1 < k ? "…" : "/") + tail : tail;
    if (tail.length <= letters) said = tail;
    if (layer >= 0 && both.length <= letters) layered = both;
  }
  said = layered || said;
  return said.length > letters ? "…" + said.slice(said.length - letters + 1) : said;
}

// Of a text that is no path its beginning.
const clipped = (text, letters) => text.length > letters ? text.slice(0, letters - 1) + "…" : text;

// What a compilation was for.
const madeFor = build => `weir ${build.weir} · ${build.target === "cuda" ? build.gpu.replace(/,/g, ", ") : build.cpu} · math ${build.math}`;

const tip = d3.select("body").append("div").attr("class", "tip");
function tipped(selection, text) {
  selection.on("mousemove", datum => {
    tip.style("display", "block").style("left", Math.min(d3.event.clientX + 14, innerWidth - 430) + "px")
      .style("top", d3.event.clientY + 14 + "px").text(text(datum));
  }).on("mouseleave", () => tip.style("display", "none"));
}

// An element with children and attributes: element("td", {class: "x"}, "text", child, ...).
function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value);
  e.append(...children);
  return e;
}
