"use strict";
// What all views share: the data, how figures are written, the tooltip, the theme, legends and tables.

const data = JSON.parse(document.getElementById("data").textContent);
const views = [];  // functions that draw one view; called again when the width or the theme changes

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function bytesText(bytes) {
  if (bytes < 1024) return Math.round(bytes) + " B";
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = bytes / 1024, unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return value.toFixed(2) + " " + units[unit];
}

const countText = d3.format(",");
const percentText = (share) => (100 * share).toFixed(2) + " %";

// Ticks of an axis of bytes at round binary amounts.
function byteAxis(axis, scale, count) {
  const [low, high] = scale.domain();
  let step = Math.pow(2, Math.ceil(Math.log2(Math.max(1, (high - low) / count))));
  const ticks = d3.range(Math.ceil(low / step) * step, high + 1, step);
  return axis.tickValues(ticks).tickFormat((bytes) => bytesText(bytes).replace(".00", ""));
}

// The moment of an event: how far into the run, as the trace has it.
function timeText(event) {
  const times = data.time_ns;
  if (times.length === 0) return "";
  const at = Math.min(times.length - 1, Math.max(0, Math.floor(event / data.interval_events)));
  return ", " + (times[at] / 1e9).toFixed(3) + " s";
}

const tip = document.getElementById("tip");
function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
}
function hideTip() { tip.hidden = true; }

function legend(id, entries) {
  const items = d3.select("#" + id).html("").selectAll("span").data(entries).join("span");
  items.append("i").style("background", (entry) => color(entry.color));
  items.append("span").text((entry) => entry.name);
}

// columns: {name, key, text(value): string, prose: left aligned}
function table(id, columns, rows) {
  const element = d3.select("#" + id).html("");
  if (rows.length === 0) return;
  element.append("thead").append("tr").selectAll("th").data(columns).join("th")
    .attr("class", (column) => column.prose ? "text" : null).text((column) => column.name);
  element.append("tbody").selectAll("tr").data(rows).join("tr").selectAll("td")
    .data((row) => columns.map((column) => ({column, value: row[column.key]}))).join("td")
    .attr("class", (cell) => cell.column.prose ? "text" + (cell.column.long ? " long" : "") : null)
    .text((cell) => cell.value === null || cell.value === undefined ? "-" : (cell.column.text || String)(cell.value));
}

function widthOf(id) { return Math.max(280, document.getElementById(id).clientWidth); }

function empty(id, text) { d3.select("#" + id).html("").append("div").attr("class", "empty").text(text); }

// An SVG of the view's width with a drawing area inside the margins.
function frame(id, height, margin) {
  const width = widthOf(id);
  d3.select("#" + id).html("");
  const svg = d3.select("#" + id).append("svg").attr("width", width).attr("height", height);
  return {svg, width: width - margin.left - margin.right, height: height - margin.top - margin.bottom,
          area: svg.append("g").attr("transform", `translate(${margin.left},${margin.top})`)};
}

function axes(drawing, x, y, xAxis, yAxis) {
  drawing.area.append("g").attr("class", "axis").attr("transform", `translate(0,${drawing.height})`).call(xAxis);
  drawing.area.append("g").attr("class", "axis").call(yAxis);
}

// Calls `text(position)` with what is under the pointer, for a tooltip.
function hover(drawing, x, text) {
  const line = drawing.area.append("line").attr("y1", 0).attr("y2", drawing.height)
    .attr("stroke", color("soft")).attr("stroke-dasharray", "3 3").attr("visibility", "hidden");
  drawing.area.append("rect").attr("width", drawing.width).attr("height", drawing.height).attr("fill", "transparent")
    .on("mousemove", function () {
      const at = d3.mouse(this)[0];
      line.attr("x1", at).attr("x2", at).attr("visibility", "visible");
      showTip(text(x.invert(at)), d3.event.clientX, d3.event.clientY);
    })
    .on("mouseleave", () => { line.attr("visibility", "hidden"); hideTip(); });
}
