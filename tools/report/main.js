"use strict";
// Figures, tables and sentences; then all views, again whenever the width or the theme changes.

function tiles() {
  const shown = data.show, stalloc = data.allocators[0];
  const figures = [
    {name: "peak live", key: "peak_live_bytes", value: shown.peak_live_bytes, text: bytesText},
    {name: "held by stalloc at most", key: "peak_reserved_bytes", value: stalloc.peak_reserved_bytes, text: bytesText},
    {name: "fragmentation under stalloc", key: "fragmentation", value: stalloc.fragmentation, text: percentText},
    {name: "requests", key: "allocations", value: shown.allocations, text: countText},
    {name: "allocated in all", key: "allocated_bytes", value: shown.allocated_bytes, text: bytesText},
    {name: "live at the end", key: "live_at_end_bytes", value: shown.live_at_end_bytes, text: bytesText},
    {name: "call sites", key: "call_sites", value: shown.call_sites, text: countText},
    {name: "streams", key: "streams", value: shown.streams, text: countText}];
  const tile = d3.select("#figures").selectAll("div").data(figures).join("div").attr("class", "tile")
    .attr("data-figure", (figure) => figure.key).attr("data-value", (figure) => figure.value);
  tile.append("span").text((figure) => figure.name);
  tile.append("b").text((figure) => figure.text(figure.value));
}

function tables() {
  table("allocators", [
    {name: "allocator", key: "name", prose: true}, {name: "peak held", key: "peak_reserved_bytes", text: bytesText},
    {name: "fragmentation", key: "fragmentation", text: percentText}, {name: "planned", key: "planned", text: countText},
    {name: "online", key: "online", text: countText}, {name: "map calls", key: "map_calls", text: countText}],
    data.allocators);
  table("sites", [
    {name: "at the peak", key: "at_peak_bytes", text: bytesText}, {name: "its own peak", key: "peak_live_bytes", text: bytesText},
    {name: "requests", key: "requests", text: countText}, {name: "where", key: "place", prose: true, long: true},
    {name: "call site", key: "call_site", prose: true}], data.show.largest_call_sites);
  table("plan", [{name: "figure", key: "name", prose: true}, {name: "value", key: "value", prose: true}], data.plan.rows);
  table("settings", [{name: "what", key: "name", prose: true}, {name: "value", key: "value", prose: true, long: true}], data.settings);
  document.getElementById("plan-note").textContent = data.plan.note;
}

function sentences() {
  const set = (id, text) => { document.getElementById(id).textContent = text; };
  set("file", data.show.file + ": " + data.show.format + ", " + countText(data.show.events) + " events" +
    (data.show.devices > 1 ? `; device ${data.device} of ${data.show.devices} is drawn` : ""));
  const whole = data.map.detail_first <= 0 && data.map.detail_last >= data.events;
  set("map-note", "stalloc is replayed with these requests, and its blocks are drawn at their physical addresses. The dashed " +
    "line is the peak of live bytes. " + (whole ? "All blocks are in this file one by one." :
    `Blocks between events ${countText(data.map.detail_first)} and ${countText(data.map.detail_last)} are in this file ` +
    "one by one; beyond, averages are drawn."));
  set("flame-note", data.has_frames ?
    `${bytesText(data.flame.v)} live at the peak, callers above callees. A click zooms.` :
    "This trace has no stack frames; blocks are listed by what is known of them.");
  const alike = data.iterations.map((row) => row.alike).filter((share) => share !== null);
  set("iterations-note", data.iterations.length === 0 ? "" :
    `${countText(data.iterations.length)} iterations` + (alike.length === 0 ? "." :
    `; in the median, ${percentText(d3.median(alike))} of an iteration's requests are as in the one before (same size, stream and call site).`));
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  document.getElementById("theme").textContent = name === "dark" ? "Light" : "Dark";
}

function drawAll() { views.forEach((draw) => draw()); }

async function main() {
  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  d3.select("#theme").on("click", () => {
    theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    drawAll();
  });
  sentences();
  tiles();
  tables();
  drawAll();
  map.blocks = await loadBlocks();
  drawMap();
  let waiting = null;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 120); });
  document.documentElement.dataset.ready = "yes";
}

main();
