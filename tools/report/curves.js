"use strict";
// Live and held memory over the run, and the idle part of it by reason.

const kMargin = {left: 76, right: 16, top: 8, bottom: 26};
const kEventFormat = d3.format("~s");

function drawCurves() {
  const drawing = frame("curves", 320, kMargin);
  const x = d3.scaleLinear([0, data.events], [0, drawing.width]);
  const highest = d3.max(data.allocators, (allocator) => allocator.peak_reserved_bytes);
  const y = d3.scaleLinear([0, highest * 1.03], [drawing.height, 0]);
  axes(drawing, x, y, d3.axisBottom(x).ticks(Math.max(2, drawing.width / 110)).tickFormat(kEventFormat),
       byteAxis(d3.axisLeft(y), y, 6));
  const at = (_, i) => x(Math.min(data.events, i * data.interval_events));
  drawing.area.append("path").attr("fill", color("live")).attr("opacity", .55)
    .attr("d", d3.area().curve(d3.curveStepAfter).x(at).y0(drawing.height).y1((bytes) => y(bytes))(data.live));
  data.allocators.forEach((allocator, i) => {
    drawing.area.append("path").attr("fill", "none").attr("stroke", color("c" + i)).attr("stroke-width", i === 0 ? 2 : 1.4)
      .attr("d", d3.line().curve(d3.curveStepAfter).x(at).y((bytes) => y(bytes))(allocator.reserved));
  });
  hover(drawing, x, (event) => {
    const i = Math.max(0, Math.min(data.live.length - 1, Math.floor(event / data.interval_events)));
    return [`event ${countText(Math.round(event))}${timeText(event)}`, `live: ${bytesText(data.live[i])}`]
      .concat(data.allocators.map((allocator) => `${allocator.name}: ${bytesText(allocator.reserved[i])}`)).join("\n");
  });
  legend("curves-legend", [{name: "live", color: "live"}].concat(
    data.allocators.map((allocator, i) => ({name: allocator.name + (i === 0 ? "" : " (model)"), color: "c" + i}))));
}

function drawIdle() {
  const reasons = [
    {key: "usable", color: "usable", name: "usable: whole pages, ready for any request"},
    {key: "ordered", color: "ordered", name: "ordered: last use in some stream may not be over"},
    {key: "remainder", color: "remainder", name: "remainder: rest of pages in which a block lives"},
    {key: "view", color: "view", name: "view: behind a view in which a block lives"}];
  const rows = data.idle.event.map((event, i) => {
    const row = {event};
    reasons.forEach((reason) => { row[reason.key] = data.idle[reason.key][i]; });
    return row;
  });
  legend("idle-legend", reasons);
  const drawing = frame("idle", 220, kMargin);
  const layers = d3.stack().keys(reasons.map((reason) => reason.key))(rows);
  const x = d3.scaleLinear([0, data.events], [0, drawing.width]);
  const y = d3.scaleLinear([0, d3.max(layers[layers.length - 1], (row) => row[1]) || 1], [drawing.height, 0]);
  axes(drawing, x, y, d3.axisBottom(x).ticks(Math.max(2, drawing.width / 110)).tickFormat(kEventFormat),
       byteAxis(d3.axisLeft(y), y, 5));
  const area = d3.area().curve(d3.curveStepAfter).x((row) => x(row.data.event)).y0((row) => y(row[0])).y1((row) => y(row[1]));
  drawing.area.selectAll(".layer").data(layers).join("path").attr("class", "layer")
    .attr("fill", (_, i) => color(reasons[i].color)).attr("d", area);
  const find = d3.bisector((row) => row.event).right;
  hover(drawing, x, (event) => {
    const row = rows[Math.max(0, find(rows, event) - 1)];
    return [`event ${countText(row.event)}${timeText(row.event)}`]
      .concat(reasons.map((reason) => `${reason.key}: ${bytesText(row[reason.key])}`)).join("\n");
  });
}

views.push(drawCurves, drawIdle);
