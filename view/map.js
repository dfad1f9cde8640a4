// SPDX-License-Identifier: MIT
// The segments at one moment, drawn to scale one after the other: what is
// allocated in them, what waits, and what is free in between.
"use strict";

const ROW = 18, ROW_GAP = 6, SEGMENT_GAP = 5;

class SegmentMap {
  constructor(app) {
    this.app = app;
    this.canvas = document.getElementById("map");
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => app.showDetails(0));
  }

  // Joins what is mapped side by side; puts blocks into their segments.
  build(device, moment) {
    const { ranges, blocks } = device, segments = [];
    const order = ranges.at(moment).sort((a, b) => ranges.address[a] - ranges.address[b]);
    for (const i of order) {
      const last = segments[segments.length - 1], at = ranges.address[i];
      if (last && (ranges.flags[i] & EXPANDABLE) && (ranges.flags[last.range] & EXPANDABLE) &&
          last.address + last.bytes === at && ranges.stream[last.range] === ranges.stream[i])
        last.bytes += ranges.size[i];
      else
        segments.push({ range: i, address: at, bytes: ranges.size[i], blocks: [], used: 0 });
    }
    const starts = Float64Array.from(segments, (segment) => segment.address);
    for (const i of blocks.at(moment)) {
      const segment = segments[upperBound(starts, blocks.address[i]) - 1];
      if (segment && blocks.address[i] < segment.address + segment.bytes)
        segment.blocks.push(i);
    }
    for (const segment of segments)
      this.measureFree(segment, blocks);
    return segments;
  }

  measureFree(segment, blocks) {
    let at = segment.address, largest = 0;
    segment.blocks.sort((a, b) => blocks.address[a] - blocks.address[b]);
    for (const i of segment.blocks) {
      largest = Math.max(largest, blocks.address[i] - at);
      at = Math.max(at, blocks.address[i] + blocks.size[i]);
      segment.used += blocks.size[i];
    }
    segment.largest = Math.max(largest, segment.address + segment.bytes - at);
    segment.used = Math.min(segment.used, segment.bytes);
  }

  // Places segments in rows; returns how many rows a scale needs.
  place(segments, width, scale) {
    let x = 0, row = 0;
    for (const segment of segments) {
      const left = Math.max(3, segment.bytes / scale);
      if (x > 0 && x + Math.min(left, width) > width) {
        x = 0;
        row++;
      }
      segment.x = x;
      segment.row = row;
      const full = Math.max(0, Math.ceil((x + left) / width - 1e-6) - 1);
      row += full;
      x += left - full * width + SEGMENT_GAP;
    }
    return row + 1;
  }

  show(device, moment, colours) {
    const segments = this.build(device, moment), width = this.canvas.parentElement.clientWidth;
    const total = segments.reduce((sum, segment) => sum + segment.bytes, 0);
    const rowsMax = segments.length < 40 ? 10 : 16;
    let scale = Math.max(1, total / (width * rowsMax * 0.8)), rows;
    while ((rows = this.place(segments, width, scale)) > rowsMax && scale < total)
      scale *= 1.15;
    Object.assign(this, { device, segments, width, scale, moment, total });
    const ratio = window.devicePixelRatio || 1, height = rows * (ROW + ROW_GAP);
    this.canvas.style.height = height + "px";
    this.canvas.style.width = width + "px";
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const paints = { free: cssVariable("--free"), edge: cssVariable("--free-edge"),
      wait: cssVariable("--wait"), panel: cssVariable("--panel"), colours,
      mask: this.app.mask };
    for (const segment of segments)
      this.drawSegment(context, segment, paints);
  }

  // Pieces of [from, to) of a segment, in pixels along it, as rectangles by row.
  *pieces(segment, from, to) {
    let row = segment.row, x = segment.x + from, left = to - from;
    const full = this.width;
    row += Math.floor(x / full);
    x %= full;
    while (left > 0) {
      const length = Math.min(left, full - x);
      yield [x, row * (ROW + ROW_GAP) + ROW_GAP / 2, length];
      left -= length;
      x = 0;
      row++;
    }
  }

  drawSegment(context, segment, paints) {
    const { blocks } = this.device, length = Math.max(3, segment.bytes / this.scale);
    for (const [x, y, w] of this.pieces(segment, 0, length)) {
      context.fillStyle = paints.free;
      context.fillRect(x, y, w, ROW);
      context.strokeStyle = paints.edge;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, Math.max(1, w - 1), ROW - 1);
    }
    for (const i of segment.blocks) {
      const from = (blocks.address[i] - segment.address) / this.scale;
      const to = from + blocks.size[i] / this.scale;
      const waits = blocks.wait[i] && this.moment >= blocks.end[i] - blocks.wait[i];
      context.globalAlpha = paints.mask && !paints.mask[i] ? 0.15 : 1;
      for (const [x, y, w] of this.pieces(segment, from, Math.min(to, length))) {
        context.fillStyle = waits ? paints.wait : cssOf(paints.colours[i]);
        context.fillRect(x, y, w > 3 ? w - 1 : w, ROW);
        if (waits && w > 4) {
          context.strokeStyle = paints.panel;
          for (let at = x - ROW + 4; at < x + w; at += 6) {
            context.beginPath();
            context.moveTo(Math.max(x, at), y + ROW - Math.max(0, x - at));
            context.lineTo(Math.min(x + w, at + ROW), y + Math.max(0, at + ROW - x - w));
            context.stroke();
          }
        }
      }
      context.globalAlpha = 1;
    }
  }

  // What is at a point: { segment, offset, block or -1 }, or null.
  find(px, py) {
    const row = Math.floor(py / (ROW + ROW_GAP)), { blocks } = this.device;
    for (const segment of this.segments || []) {
      const along = px - segment.x + (row - segment.row) * this.width;
      const offset = along * this.scale;
      if (row < segment.row || along < 0 || offset >= Math.max(segment.bytes, 3 * this.scale))
        continue;
      const at = segment.address + offset;
      const block = segment.blocks.find((i) =>
        blocks.address[i] <= at && at < blocks.address[i] + blocks.size[i]);
      return { segment, offset, block: block === undefined ? -1 : block };
    }
    return null;
  }

  hover(event) {
    const found = this.find(event.offsetX, event.offsetY);
    if (!found)
      this.app.showDetails(0);
    else if (found.block >= 0)
      this.app.showDetails(found.block + 1);
    else
      this.app.showSegment(found.segment, found.offset);
  }

  // How the free memory is cut up.
  figures() {
    let used = 0, largest = 0, split = 0;
    for (const segment of this.segments) {
      used += segment.used;
      largest = Math.max(largest, segment.largest);
      if (segment.used > 0)
        split += segment.bytes - segment.used;
    }
    const free = this.total - used;
    return { count: this.segments.length, reserved: this.total, used, free, largest, split,
      broken: free > 0 ? 1 - largest / free : 0 };
  }
}
