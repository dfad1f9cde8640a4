// SPDX-License-Identifier: MIT
// Segments over time: a bar for each segment, from when the device gave it until it went
// back, in order of addresses, on the time axis of the picture above.
"use strict";

class Timeline {
  constructor(app) {
    this.app = app;
    this.canvas = byId("timeline");
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("click", (event) => {
      const found = this.find(event.offsetX, event.offsetY);
      if (found >= 0)
        app.go(app.device.ranges.begin[found]);
    });
  }

  // Segments by address; worked out once for each device.
  order(device) {
    const { ranges } = device;
    if (!device.rangeOrder && ranges.address)
      device.rangeOrder = Array.from({ length: ranges.count }, (_, i) => i)
        .sort((a, b) => ranges.address[a] - ranges.address[b] || ranges.begin[a] - ranges.begin[b]);
    return device.rangeOrder;
  }

  // Rows: segments at one address that follow each other share one.
  rows(device) {
    const { ranges } = device, order = this.order(device);
    if (device.rangeRows || !order)
      return device.rangeRows;
    let row = -1, end = 0, address = -1;
    device.rangeRows = new Uint32Array(ranges.count);
    for (const i of order) {
      if (ranges.address[i] !== address || ranges.begin[i] < end)
        row++;
      address = ranges.address[i];
      end = ranges.end[i];
      device.rangeRows[i] = row;
    }
    device.rangeRowCount = row + 1;
    return device.rangeRows;
  }

  draw() {
    const { app } = this, { device, chart } = app, rows = this.rows(device);
    const ratio = window.devicePixelRatio || 1, { canvas } = this;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    if (!rows)
      return;
    const context = canvas.getContext("2d"), { ranges } = device, { view, area } = chart;
    const step = height / Math.max(device.rangeRowCount, 12);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (let i = 0; i < ranges.count; i++) {
      if (ranges.end[i] <= view.from || ranges.begin[i] >= view.to)
        continue;
      const from = Math.max(area.x, chart.xOf(ranges.begin[i]));
      const to = Math.min(area.x + area.w, chart.xOf(Math.min(ranges.end[i], device.moments)));
      const flags = ranges.flags[i];
      context.fillStyle = cssVariable(flags & EXPANDABLE ? "--wait" : flags & SMALL ? "--soft"
        : "--accent");
      context.globalAlpha = 0.55;
      context.fillRect(from, height - (rows[i] + 1) * step, Math.max(1, to - from),
        Math.max(0.75, step > 3 ? step - 1 : step));
    }
    context.globalAlpha = 1;
  }

  // The segment at a point, or -1.
  find(x, y) {
    const { device, chart } = this.app, rows = this.rows(device), { ranges } = device;
    const height = this.canvas.clientHeight, moment = chart.momentAt(x);
    if (!rows)
      return -1;
    const row = Math.floor((height - y) / (height / Math.max(device.rangeRowCount, 12)));
    return rows.findIndex((at, i) => at === row && ranges.begin[i] <= moment &&
      moment < ranges.end[i]);
  }

  hover(event) {
    const found = this.find(event.offsetX, event.offsetY);
    if (found >= 0)
      this.app.texts.range(found);
  }
}
