// SPDX-License-Identifier: MIT
// Memory over time: the strip with the whole recording, the stacked blocks, axes
// and lines, and what mouse and keyboard do to the view.
"use strict";

const MARGIN = { left: 74, right: 10, top: 14, bottom: 24 };

const cssVariable = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class Chart {
  constructor(app) {
    this.app = app;
    this.lanes = new Lanes();
    this.strip = document.getElementById("strip");
    this.canvas = document.getElementById("lanes");
    this.over = document.getElementById("over");
    this.tip = document.getElementById("tip");
    this.picture = document.createElement("canvas");
    this.fits = false;
    this.listen();
  }

  show(device) {
    this.device = device;
    this.view = { from: 0, to: device.moments };
    this.hovered = 0;
    this.measure();
  }

  // ---- Sizes ----

  measure() {
    this.ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.strip, this.canvas, this.over]) {
      canvas.width = Math.max(1, Math.round(canvas.clientWidth * this.ratio));
      canvas.height = Math.max(1, Math.round(canvas.clientHeight * this.ratio));
    }
    const width = this.canvas.clientWidth - MARGIN.left - MARGIN.right;
    const height = this.canvas.clientHeight - MARGIN.top - MARGIN.bottom;
    this.area = { x: MARGIN.left, y: MARGIN.top, w: Math.max(8, width), h: Math.max(8, height) };
    this.lanes.resize(Math.max(8, Math.round(this.area.w * this.ratio)),
      Math.max(8, Math.round(this.area.h * this.ratio)));
    this.picture.width = this.lanes.width;
    this.picture.height = this.lanes.height;
  }

  momentAt(x) {
    const share = (x - this.area.x) / this.area.w;
    return this.view.from + share * (this.view.to - this.view.from);
  }

  xOf(moment) {
    return this.area.x + (moment - this.view.from) / (this.view.to - this.view.from) * this.area.w;
  }

  // ---- Moving ----

  setView(from, to) {
    const total = this.device.moments, span = Math.min(total, Math.max(4, to - from));
    const start = Math.max(0, Math.min(total - span, from));
    this.view = { from: start, to: start + span };
    this.app.redraw();
  }

  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    const { from, to } = this.view;
    this.setView(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share) {
    const by = share * (this.view.to - this.view.from);
    this.setView(this.view.from + by, this.view.to + by);
  }

  whole() {
    this.setView(0, this.device.moments);
  }

  reveal(moment) {
    const { from, to } = this.view, span = to - from;
    if (moment < from || moment >= to)
      this.setView(moment - span / 2, moment + span / 2);
  }

  listen() {
    const target = this.canvas;
    target.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
        this.pan(event.deltaX / 1000);
      else
        this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))),
          this.momentAt(event.offsetX));
    }, { passive: false });
    target.addEventListener("pointerdown", (event) => this.grab(event));
    target.addEventListener("pointermove", (event) => this.move(event));
    target.addEventListener("pointerup", (event) => this.drop(event));
    target.addEventListener("pointerleave", () => this.leave());
    target.addEventListener("dblclick", () => this.whole());
    for (const kind of ["pointerdown", "pointermove"])
      this.strip.addEventListener(kind, (event) => {
        if (kind === "pointerdown")
          this.strip.setPointerCapture(event.pointerId);
        else if (!event.buttons)
          return;
        const middle = event.offsetX / this.strip.clientWidth * this.device.moments;
        const half = (this.view.to - this.view.from) / 2;
        this.setView(middle - half, middle + half);
      });
  }

  grab(event) {
    this.held = { x: event.offsetX, from: this.view.from, to: this.view.to, moved: false,
      marks: event.shiftKey };
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.focus({ preventScroll: true });
  }

  move(event) {
    const held = this.held;
    this.pointer = { x: event.offsetX, y: event.offsetY };
    if (held && event.buttons) {
      const by = event.offsetX - held.x;
      held.moved = held.moved || Math.abs(by) > 3;
      if (held.moved && !held.marks) {
        const shift = -by / this.area.w * (held.to - held.from);
        this.setView(held.from + shift, held.to + shift);
      }
      held.now = event.offsetX;
    }
    this.app.hover(this.momentAt(event.offsetX));
  }

  drop(event) {
    const held = this.held;
    this.held = null;
    if (!held)
      return;
    if (held.marks && held.moved) {
      const ends = [this.momentAt(held.x), this.momentAt(event.offsetX)].sort((a, b) => a - b);
      this.setView(ends[0], ends[1]);
    } else if (!held.moved)
      this.app.pin(this.momentAt(event.offsetX));
    this.app.redraw();
  }

  leave() {
    this.pointer = null;
    this.tip.hidden = true;
    this.app.redraw(false);
  }

  // ---- Drawing ----

  draw(options) {
    const { device, view, lanes, ratio, area } = this;
    this.options = options;
    this.top = this.upperEdge();
    lanes.paint({ ...options, device, view, top: this.top, again: () => this.app.redraw() });
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    this.fillUnder(context, lanes.reserved, cssVariable("--free"));
    this.picture.getContext("2d").putImageData(lanes.image, 0, 0);
    context.drawImage(this.picture, area.x, area.y, area.w, area.h);
    this.drawStrip();
  }

  // The scale holds the peak of all, or of what is visible.
  upperEdge() {
    const meta = this.device.meta;
    if (!this.fits)
      return Math.max(meta.peakAllocated, meta.peakReserved, 1) * 1.04;
    this.lanes.mask = null;
    const level = this.lanes.choose(this.device, this.view, () => this.app.redraw());
    this.lanes.sample(this.device, this.view, level);
    return Math.max(this.lanes.reserved.reduce((a, b) => Math.max(a, b), 1),
      this.lanes.allocated.reduce((a, b) => Math.max(a, b), 1)) * 1.04;
  }

  yOf(bytes) {
    return this.area.y + this.area.h - bytes / this.top * this.area.h;
  }

  // The line of values over the columns, as steps.
  trace(context, values) {
    const step = this.area.w / values.length;
    for (let x = 0; x < values.length; x++) {
      const y = this.yOf(values[x]);
      context.lineTo(this.area.x + x * step, y);
      context.lineTo(this.area.x + (x + 1) * step, y);
    }
  }

  fillUnder(context, values, colour) {
    const floor = this.area.y + this.area.h;
    context.beginPath();
    context.moveTo(this.area.x, floor);
    this.trace(context, values);
    context.lineTo(this.area.x + this.area.w, floor);
    context.fillStyle = colour;
    context.fill();
  }

  strokeLine(context, values, colour, width) {
    context.beginPath();
    this.trace(context, values);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }

  // Axes, lines and the cursor, above the blocks; cheap enough for every move.
  drawOver(moment, pinned) {
    const context = this.over.getContext("2d"), { area, lanes, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.over.clientWidth, this.over.clientHeight);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    this.drawAxes(context);
    this.drawGlow(context);
    this.strokeLine(context, lanes.reserved, cssVariable("--soft"), 1.5);
    if (this.options.mask)
      this.strokeLine(context, lanes.allocated, cssVariable("--accent"), 1);
    this.drawMarks(context);
    const x = this.xOf(moment + 0.5);
    if (x >= area.x && x <= area.x + area.w) {
      context.strokeStyle = cssVariable("--accent");
      context.lineWidth = pinned ? 2 : 1;
      context.setLineDash(pinned ? [] : [4, 3]);
      context.beginPath();
      context.moveTo(x, area.y);
      context.lineTo(x, area.y + area.h);
      context.stroke();
      context.setLineDash([]);
    }
    if (this.held && this.held.marks && this.held.now !== undefined) {
      context.fillStyle = cssVariable("--accent") + "33";
      context.fillRect(Math.min(this.held.x, this.held.now), area.y,
        Math.abs(this.held.now - this.held.x), area.h);
    }
  }

  drawAxes(context) {
    const { area, view, device } = this, soft = cssVariable("--soft"), text = cssVariable("--text");
    context.lineWidth = 1;
    context.strokeStyle = soft + "33";
    context.fillStyle = soft;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let bytes = niceBytes(this.top / 5), at = 0; at <= this.top; at += bytes) {
      const y = Math.round(this.yOf(at)) + 0.5;
      context.fillText(at ? sizeText(at) : "0", area.x - 8, y);
      context.beginPath();
      context.moveTo(area.x, y);
      context.lineTo(area.x + area.w, y);
      context.stroke();
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    const unit = niceCount((view.to - view.from) / Math.max(2, area.w / 130));
    const clock = device.clock && device.clock[device.clock.length - 1] > 0 ? device.clock : null;
    for (let at = Math.ceil(view.from / unit) * unit; at < view.to; at += unit) {
      const x = this.xOf(at);
      if (x < area.x + 20 || x > area.x + area.w - 40)
        continue;
      context.fillRect(x, area.y + area.h, 1, 4);
      context.fillStyle = text;
      const when = clock ? " · " + timeText(clock[Math.min(at, clock.length - 1)]) : "";
      context.fillText(countText(at) + when, x, area.y + area.h + 7);
      context.fillStyle = soft;
    }
  }

  // Marks as lines, with their names where there is room.
  drawMarks(context) {
    const { area, device, view } = this, right = area.x + area.w;
    let free = area.x; // from here on no name was written
    context.textBaseline = "top";
    for (const mark of device.meta.marks) {
      const isOom = mark.kind === "oom";
      if (mark.at < view.from || mark.at > view.to || (!isOom && !mark.text))
        continue;
      const x = this.xOf(mark.at + 0.5), label = isOom ? "out of memory" : mark.text.slice(0, 40);
      const width = context.measureText(label).width, before = x + 4 + width > right;
      context.strokeStyle = context.fillStyle = cssVariable(isOom ? "--bad" : "--soft");
      context.globalAlpha = isOom ? 1 : 0.45;
      context.lineWidth = isOom ? 1.5 : 1;
      context.beginPath();
      context.moveTo(x, area.y);
      context.lineTo(x, area.y + area.h);
      context.stroke();
      context.globalAlpha = 1;
      const start = before ? x - 4 - width : x + 4;
      if (start < free)
        continue;
      context.textAlign = "left";
      context.fillText(label, start, area.y - 8);
      free = start + width + 8;
    }
  }

  drawGlow(context) {
    const id = this.hovered;
    if (!id)
      return;
    if (this.glowing !== id || this.glowStamp !== this.app.stamp) {
      this.glowCanvas = this.glowCanvas || document.createElement("canvas");
      this.glowCanvas.width = this.lanes.width;
      this.glowCanvas.height = this.lanes.height;
      this.glowCanvas.getContext("2d").putImageData(
        this.lanes.glow(id, isDark() ? 0x66ffffff : 0x59000000), 0, 0);
      this.glowing = id;
      this.glowStamp = this.app.stamp;
    }
    context.drawImage(this.glowCanvas, this.area.x, this.area.y, this.area.w, this.area.h);
  }

  // The whole recording: reserved behind, allocated before it, the view framed.
  drawStrip() {
    const context = this.strip.getContext("2d"), { ratio, device } = this;
    const width = this.strip.clientWidth, height = this.strip.clientHeight;
    const source = device.levels.find((level) => level.kept_list) || device.totals();
    const count = source.columns || device.moments;
    const top = Math.max(device.meta.peakReserved, device.meta.peakAllocated, 1) * 1.05;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const layers = [[source.reserved, "--free-edge"], [source.allocated, "--accent"]];
    for (const [values, colour] of layers) {
      context.fillStyle = cssVariable(colour);
      context.globalAlpha = colour === "--accent" ? 0.75 : 1;
      context.beginPath();
      context.moveTo(0, height);
      for (let x = 0; x < width; x++) {
        const first = Math.floor(x / width * count);
        const last = Math.max(first + 1, Math.floor((x + 1) / width * count));
        let most = 0;
        for (let c = first; c < last && c < count; c++)
          most = Math.max(most, values[c]);
        context.lineTo(x, height - most / top * height);
        context.lineTo(x + 1, height - most / top * height);
      }
      context.lineTo(width, height);
      context.fill();
    }
    context.globalAlpha = 1;
    const per = width / device.moments, from = this.view.from * per, to = this.view.to * per;
    context.fillStyle = cssVariable("--ground") + "aa";
    context.fillRect(0, 0, from, height);
    context.fillRect(to, 0, width - to, height);
    context.strokeStyle = cssVariable("--accent");
    context.strokeRect(from + 0.5, 0.5, Math.max(2, to - from - 1), height - 1);
  }

  // ---- Under the pointer ----

  idUnderPointer() {
    if (!this.pointer)
      return 0;
    return this.lanes.idAt(Math.floor((this.pointer.x - this.area.x) * this.ratio),
      Math.floor((this.pointer.y - this.area.y) * this.ratio));
  }

  // The moment that the column under the pointer shows.
  shownMoment(moment) {
    const x = Math.floor((this.xOf(moment) - this.area.x) * this.ratio);
    return x >= 0 && x < this.lanes.width ? this.lanes.shown[x]
      : Math.max(0, Math.min(this.device.moments - 1, Math.floor(moment)));
  }
}

// A round number of at least so much: 1, 2 or 5 times a power of ten.
function niceCount(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least) || 1;
}

// About so many bytes: a power of two.
function niceBytes(least) {
  return 2 ** Math.round(Math.log2(Math.max(1, least)));
}

function timeText(microseconds) {
  if (microseconds < 1e3)
    return microseconds + " µs";
  if (microseconds < 1e6)
    return (microseconds / 1e3).toFixed(1) + " ms";
  return (microseconds / 1e6).toFixed(microseconds < 1e8 ? 2 : 0) + " s";
}
