"use strict";
// Time against address: every block where it lay. Zoomed out, or beyond the part of the run whose blocks are in the
// file one by one, a picture of averages is drawn instead.

const kMapHeight = 460;
const map = {x: null, y: null, blocks: null, zoomX: d3.zoomIdentity, zoomY: d3.zoomIdentity};

// The blocks and the averages, packed by zlib: see report_map.h for the layout.
async function loadBlocks() {
  const packed = Uint8Array.from(atob(document.getElementById("blocks").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  const n = data.map.rectangles, held = data.map.held;
  let at = 0;
  const take = (Type, count) => { const part = new Type(bytes, at, count); at += part.byteLength; return part; };
  const blocks = {};
  for (const name of ["begin", "end", "address", "length", "sizeLow", "sizeHigh", "site"]) blocks[name] = take(Uint32Array, n);
  blocks.held = {};
  for (const name of ["begin", "end", "address", "length"]) blocks.held[name] = take(Uint32Array, held);
  blocks.planned = take(Uint8Array, data.map.columns * data.map.rows);
  blocks.online = take(Uint8Array, data.map.columns * data.map.rows);
  return blocks;
}

const kPlannedBit = 0x80000000;
const kUnit = 512;  // addresses and lengths count granules of so many bytes

function averages() {
  if (map.image && map.imageTheme === document.documentElement.dataset.theme) return map.image;
  const {columns, rows} = data.map;
  const image = document.createElement("canvas");
  image.width = columns;
  image.height = rows;
  const context = image.getContext("2d");
  const pixels = context.createImageData(columns, rows);
  const planned = d3.rgb(color("planned")), online = d3.rgb(color("online"));
  for (let column = 0; column < columns; ++column) {
    for (let row = 0; row < rows; ++row) {
      const from = column * rows + row, to = 4 * ((rows - 1 - row) * columns + column);
      const p = map.blocks.planned[from], o = map.blocks.online[from], sum = p + o;
      if (sum === 0) continue;
      pixels.data[to] = (planned.r * p + online.r * o) / sum;
      pixels.data[to + 1] = (planned.g * p + online.g * o) / sum;
      pixels.data[to + 2] = (planned.b * p + online.b * o) / sum;
      pixels.data[to + 3] = Math.min(255, sum);
    }
  }
  context.putImageData(pixels, 0, 0);
  map.image = image;
  map.imageTheme = document.documentElement.dataset.theme;
  return image;
}

function isExact() {
  const [first, last] = map.x.domain();
  return first >= data.map.detail_first - 1 && last <= data.map.detail_last + 1;
}

function drawMapContents() {
  const {context, width, height, blocks} = map;
  const [first, last] = map.x.domain(), [low, high] = map.y.domain();
  context.fillStyle = color("absent");
  context.fillRect(0, 0, width, height);
  const perEvent = width / (last - first), perByte = height / (high - low);
  const rectangle = (begin, end, address, length) => {
    const top = height - (address + length - low) * perByte;
    context.fillRect((begin - first) * perEvent, top, Math.max(.4, (end - begin) * perEvent), Math.max(.4, length * perByte));
  };
  context.fillStyle = color("held");
  const held = blocks.held;
  for (let i = 0; i < data.map.held; ++i)
    rectangle(held.begin[i], held.end[i], held.address[i] * kUnit, held.length[i] * kUnit);
  if (!isExact()) {
    const image = averages();
    const top = height - (data.map.address_bytes - low) * perByte;
    context.imageSmoothingEnabled = true;
    context.drawImage(image, -first * perEvent, top, data.events * perEvent, data.map.address_bytes * perByte);
  } else {
    const colors = [color("online"), color("planned")];
    for (let planned = 0; planned < 2; ++planned) {
      context.fillStyle = colors[planned];
      for (let i = 0; i < data.map.rectangles; ++i) {
        if ((blocks.site[i] >= kPlannedBit) !== (planned === 1)) continue;
        if (blocks.end[i] < first || blocks.begin[i] > last) continue;
        const begin = blocks.begin[i], end = blocks.end[i];
        rectangle(begin, end, blocks.address[i] * kUnit, blocks.length[i] * kUnit);
      }
    }
    // Edges, where blocks are large enough to tell apart.
    context.strokeStyle = color("card");
    context.lineWidth = .6;
    for (let i = 0; i < data.map.rectangles; ++i) {
      const w = (blocks.end[i] - blocks.begin[i]) * perEvent, h = blocks.length[i] * kUnit * perByte;
      if (w < 4 || h < 4 || blocks.end[i] < first || blocks.begin[i] > last) continue;
      context.strokeRect((blocks.begin[i] - first) * perEvent,
                         height - ((blocks.address[i] + blocks.length[i]) * kUnit - low) * perByte, w, h);
    }
  }
  // The peak.
  const at = (data.peak_event - first) * perEvent;
  context.strokeStyle = color("text");
  context.setLineDash([4, 4]);
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(at, 0);
  context.lineTo(at, height);
  context.stroke();
  context.setLineDash([]);
  map.xAxis.call(d3.axisBottom(map.x).ticks(Math.max(2, width / 110)));
  map.yAxis.call(byteAxis(d3.axisLeft(map.y), map.y, 8));
  d3.select("#map").attr("data-drawn", isExact() ? "blocks" : "averages");
}

function blockAt(event, address) {
  const {blocks} = map, granule = address / kUnit;
  for (let i = data.map.rectangles - 1; i >= 0; --i) {
    if (event >= blocks.begin[i] && event < blocks.end[i] && granule >= blocks.address[i] &&
        granule < blocks.address[i] + blocks.length[i]) return i;
  }
  return -1;
}

function describe(event, address) {
  const at = `event ${countText(Math.floor(event))}${timeText(event)}, ${bytesText(address)}`;
  if (!isExact()) return at + "\nzoom in to see single blocks";
  const i = blockAt(event, address);
  if (i >= 0) {
    const {blocks} = map, planned = blocks.site[i] >= kPlannedBit;
    const size = blocks.sizeHigh[i] * 4294967296 + blocks.sizeLow[i];
    const site = data.map.sites[blocks.site[i] & 0x7fffffff];
    const ends = blocks.end[i] >= data.events ? "its end is not in the trace" : `freed at event ${countText(blocks.end[i])}`;
    return `${bytesText(size)} (${countText(size)} bytes), ${planned ? "planned" : "online"}\n` +
      `allocated at event ${countText(blocks.begin[i])}${timeText(blocks.begin[i])}, ${ends}\n${site}`;
  }
  const held = map.blocks.held, granule = address / kUnit;
  for (let k = 0; k < data.map.held; ++k) {
    if (event >= held.begin[k] && event < held.end[k] && granule >= held.address[k] &&
        granule < held.address[k] + held.length[k]) return at + "\nidle: held, and no block is here";
  }
  return at + "\nnot held";
}

function baseScales() {
  return [d3.scaleLinear([0, data.events], [0, map.width]),
          d3.scaleLinear([0, data.map.address_bytes], [map.height, 0])];
}

function setMap(zoomX, zoomY) {
  const clamp = (zoom, size) => {
    const k = Math.max(1, Math.min(1e6, zoom.k));
    return d3.zoomIdentity.translate(Math.min(0, Math.max(size * (1 - k), zoom.x)), 0).scale(k);
  };
  map.zoomX = clamp(zoomX, map.width);
  map.zoomY = clamp(zoomY, map.height);
  const [x, y] = baseScales();
  map.x = map.zoomX.rescaleX(x);
  const [low, high] = [0, map.height].map((pixel) => y.invert((pixel - map.zoomY.x) / map.zoomY.k));
  map.y = d3.scaleLinear([high, low], [map.height, 0]);
  drawMapContents();
}

function scaledAbout(zoom, factor, point) {
  const k = zoom.k * factor;
  return d3.zoomIdentity.translate(point - (point - zoom.x) * factor, 0).scale(k);
}

function showEvents(first, last) {
  const k = data.events / Math.max(1, last - first);
  setMap(d3.zoomIdentity.translate(-first / data.events * map.width * k, 0).scale(k), d3.zoomIdentity);
}

function drawMap() {
  if (map.blocks === null) return;
  const margin = {left: 76, right: 16, top: 6, bottom: 26};
  const known = map.x === null ? null : map.x.domain();
  const box = d3.select("#map").html("").style("height", kMapHeight + "px");
  map.width = widthOf("map") - margin.left - margin.right;
  map.height = kMapHeight - margin.top - margin.bottom;
  const ratio = window.devicePixelRatio || 1;
  const canvas = box.append("canvas").attr("width", map.width * ratio).attr("height", map.height * ratio)
    .style("position", "absolute").style("left", margin.left + "px").style("top", margin.top + "px")
    .style("width", map.width + "px").style("height", map.height + "px");
  map.context = canvas.node().getContext("2d");
  map.context.scale(ratio, ratio);
  const svg = box.append("svg").attr("class", "overlay").attr("width", map.width + margin.left + margin.right)
    .attr("height", kMapHeight);
  map.xAxis = svg.append("g").attr("class", "axis").attr("transform", `translate(${margin.left},${margin.top + map.height})`);
  map.yAxis = svg.append("g").attr("class", "axis").attr("transform", `translate(${margin.left},${margin.top})`);
  const pane = svg.append("rect").attr("x", margin.left).attr("y", margin.top).attr("width", map.width)
    .attr("height", map.height).attr("fill", "transparent").style("cursor", "crosshair");
  const local = (event) => {
    const rect = canvas.node().getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  };
  pane.on("wheel", () => {
    const event = d3.event;
    event.preventDefault();
    const [px, py] = local(event);
    const factor = Math.pow(2, -(event.deltaY || event.deltaX) * (event.deltaMode === 1 ? .05 : .002));
    if (event.shiftKey) setMap(map.zoomX, scaledAbout(map.zoomY, factor, py));
    else setMap(scaledAbout(map.zoomX, factor, px), map.zoomY);
  }).call(d3.drag().on("drag", () => {
    setMap(map.zoomX.translate(d3.event.dx / map.zoomX.k, 0), map.zoomY.translate(d3.event.dy / map.zoomY.k, 0));
  })).on("mousemove", () => {
    const [px, py] = local(d3.event);
    showTip(describe(map.x.invert(px), map.y.invert(py)), d3.event.clientX, d3.event.clientY);
  }).on("mouseleave", hideTip);
  if (known === null) showEvents(data.map.peak_first, data.map.peak_last);
  else showEvents(known[0], known[1]);
  legend("map-legend", [{name: "planned", color: "planned"}, {name: "online", color: "online"},
                        {name: "idle", color: "held"}, {name: "not held", color: "absent"}]);
}

d3.selectAll("#map-controls button").on("click", function () {
  const view = this.dataset.view;
  if (map.blocks === null) return;
  if (view === "peak") showEvents(data.map.peak_first, data.map.peak_last);
  else if (view === "run") showEvents(0, data.events);
  else setMap(scaledAbout(map.zoomX, view === "in" ? 2 : .5, map.width / 2), map.zoomY);
});

views.push(drawMap);
