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

// The end of a name, as long as it fits; the end tells more than the beginning.
function shortened(name, letters) {
  const slash = name.lastIndexOf("/");
  if (slash >= 0 && slash + 1 < name.length) name = name.slice(slash + 1);
  return name.length > letters ? "…" + name.slice(name.length - letters + 1) : name;
}

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
