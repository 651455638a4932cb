"use strict";
// Bytes live at the peak, by the functions that asked for them: callers above, callees below.

let flameFocus = null;

function drawFlame() {
  if (data.flame.v === 0) return empty("flame", "Nothing is live at the peak.");
  const root = d3.hierarchy(data.flame, (node) => node.c).sum((node) => node.s || 0)
    .sort((a, b) => b.value - a.value);
  const row = 19;
  const height = (root.height + 1) * row;
  d3.partition().size([1, height])(root);
  const focus = flameFocus === null ? root : root.descendants().find((node) => pathOf(node) === flameFocus) || root;
  const drawing = frame("flame", height, {left: 0, right: 0, top: 0, bottom: 0});
  const x = d3.scaleLinear([focus.x0, focus.x1], [0, drawing.width]).clamp(true);
  const shown = root.descendants().filter((node) => x(node.x1) - x(node.x0) > .5);
  const cells = drawing.area.selectAll("g").data(shown).join("g")
    .attr("transform", (node) => `translate(${x(node.x0)},${node.y0})`);
  cells.append("rect").attr("width", (node) => x(node.x1) - x(node.x0)).attr("height", row - 1)
    .attr("fill", (node) => node.depth === 0 ? color("held") : hue(node.data.n))
    .on("mousemove", (node) => showTip(
      `${node.data.n}\n${bytesText(node.value)} (${countText(node.value)} bytes), ${percentText(node.value / root.value)} of the peak`,
      d3.event.clientX, d3.event.clientY))
    .on("mouseleave", hideTip)
    .on("click", (node) => { flameFocus = pathOf(node); hideTip(); drawFlame(); });
  cells.append("text").attr("x", 4).attr("y", row - 6).attr("fill", "#14181f")
    .style("fill", (node) => node.depth === 0 ? color("text") : null)
    .text((node) => fitted(node.data.n, x(node.x1) - x(node.x0) - 8));
}

// A name, as far as it fits: its end says most.
function fitted(name, width) {
  const most = Math.floor(width / 6.4);
  if (most < 4) return "";
  return name.length <= most ? name : name.slice(0, most - 1) + "\u2026";
}

function pathOf(node) { return node.ancestors().map((each) => each.data.n).join("\n"); }

// The same function has the same colour wherever it stands.
function hue(name) {
  let hash = 0;
  for (let i = 0; i < name.length; ++i) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  return d3.hsl(18 + hash % 42, .72, .62 + (hash >>> 8) % 10 / 100).toString();
}

d3.select("#flame-reset").on("click", () => { flameFocus = null; drawFlame(); });
views.push(drawFlame);
