"use strict";
// The iterations that were found: peak of each as a bar, likeness to the one before as a line.

function drawIterations() {
  const rows = data.iterations;
  if (rows.length === 0) return empty("iterations", "No iteration was found: nothing repeats in this trace.");
  legend("iterations-legend", [{name: "peak live", color: "c0"}, {name: "alike with the one before", color: "c1"}]);
  const drawing = frame("iterations", 240, {left: 76, right: 52, top: 8, bottom: 26});
  const x = d3.scaleBand(rows.map((row) => row.step), [0, drawing.width]).paddingInner(rows.length > 200 ? 0 : .15);
  const y = d3.scaleLinear([0, d3.max(rows, (row) => row.peak_live_bytes) || 1], [drawing.height, 0]);
  const share = d3.scaleLinear([0, 1], [drawing.height, 0]);
  const every = Math.ceil(rows.length / Math.max(2, drawing.width / 60));
  axes(drawing, x, y, d3.axisBottom(x).tickValues(x.domain().filter((_, i) => i % every === 0)),
       byteAxis(d3.axisLeft(y), y, 5));
  drawing.area.append("g").attr("class", "axis").attr("transform", `translate(${drawing.width},0)`)
    .call(d3.axisRight(share).ticks(5, "%"));
  const text = (row) => `iteration ${row.step}: ${countText(row.requests)} requests, ${bytesText(row.bytes)} in all\n` +
    `peak live ${bytesText(row.peak_live_bytes)}` +
    (row.alike === null ? "" : `\n${percentText(row.alike)} of the requests are as in the one before`);
  drawing.area.selectAll(".bar").data(rows).join("rect").attr("class", "bar").attr("fill", color("c0"))
    .attr("x", (row) => x(row.step)).attr("width", Math.max(.5, x.bandwidth()))
    .attr("y", (row) => y(row.peak_live_bytes)).attr("height", (row) => drawing.height - y(row.peak_live_bytes))
    .on("mousemove", (row) => showTip(text(row), d3.event.clientX, d3.event.clientY)).on("mouseleave", hideTip);
  drawing.area.append("path").attr("fill", "none").attr("stroke", color("c1")).attr("stroke-width", 2)
    .style("pointer-events", "none")
    .attr("d", d3.line().defined((row) => row.alike !== null)
      .x((row) => x(row.step) + x.bandwidth() / 2).y((row) => share(row.alike))(rows));
}

views.push(drawIterations);
