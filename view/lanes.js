// SPDX-License-Identifier: MIT
// Paints live blocks, one above the other, a column of pixels at a time. Every
// column shows the moment with most bytes of those it stands for. Beside the
// picture, ids holds who is at each pixel: 0 nobody, GROUP + g a group of small
// blocks, else the number of a block plus 1.
"use strict";

const GROUP = 0x80000000;

class Lanes {
  constructor() {
    this.width = this.height = 0;
  }

  resize(width, height) {
    if (width === this.width && height === this.height)
      return;
    Object.assign(this, { width, height });
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.ids = new Uint32Array(width * height);
    this.shown = new Uint32Array(width);
    this.allocated = new Float64Array(width);
    this.reserved = new Float64Array(width);
    this.small = new Float64Array(GROUPS * width);
  }

  // The level to draw a view from: the coarsest that has a column per pixel; null
  // for single moments. One that is not loaded is asked for and stood in for.
  choose(device, view, again) {
    const perPixel = (view.to - view.from) / this.width;
    const fitting = device.levels.find((level) => 2 ** level.shift <= perPixel);
    if (!fitting || fitting.kept_list)
      return fitting || null;
    device.loadLevel(fitting).then(again);
    return device.levels.find((level) => level.kept_list);
  }

  // Which moment each column shows, and the bytes there.
  sample(device, view, level) {
    const per = (view.to - view.from) / this.width, unit = level ? 2 ** level.shift : 1;
    const source = level || device.totals(), count = level ? level.columns : device.moments;
    for (let x = 0; x < this.width; x++) {
      const first = Math.min(count - 1, Math.max(0, Math.floor((view.from + x * per) / unit)));
      const last = Math.min(count, Math.max(first + 1,
        Math.floor((view.from + (x + 1) * per) / unit)));
      let best = first, reserved = source.reserved[first];
      for (let c = first + 1; c < last; c++) {
        if (source.allocated[c] > source.allocated[best])
          best = c;
        if (source.reserved[c] > reserved)
          reserved = source.reserved[c];
      }
      this.shown[x] = level ? level.shown[best] : best;
      this.allocated[x] = source.allocated[best];
      this.reserved[x] = reserved;
      if (level && level.given && !this.mask)
        for (let g = 0; g < GROUPS; g++)
          this.small[g * this.width + x] = level.given[g * level.columns + best];
    }
  }

  // Sums small blocks per group and column where the page brought no sums.
  sumSmall(device, threshold, groups) {
    const { begin, end, size, stack, count } = device.blocks, { shown, width, small, mask } = this;
    const firstMoment = shown[0], lastMoment = shown[width - 1];
    small.fill(0);
    for (let i = 0; i < count && begin[i] <= lastMoment; i++) {
      if (size[i] >= threshold || end[i] <= firstMoment || (mask && !mask[i]))
        continue;
      const row = groups[stack[i]] * width;
      small[row + this.column(begin[i])] += size[i];
      const last = this.column(end[i]);
      if (last < width)
        small[row + last] -= size[i];
    }
    for (let g = 0; g < GROUPS; g++)
      for (let x = 1, at = g * width + 1; x < width; x++, at++)
        small[at] += small[at - 1];
  }

  // The first column that shows this moment or a later one.
  column(moment) {
    const { shown, width } = this;
    if (moment <= shown[0])
      return 0;
    let low = 0, high = width;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (shown[middle] < moment)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  // Paints a view; top is the number of bytes at the upper edge.
  paint({ device, view, top, colours, groupColours, groups, mask, again }) {
    const level = this.choose(device, view, again);
    const threshold = level ? device.meta.threshold
      : Math.min(device.meta.threshold, top / this.height / 2);
    this.mask = mask;
    this.level = level;
    this.threshold = threshold;
    this.sample(device, view, level);
    if (!level || !level.given || mask)
      this.sumSmall(device, threshold, groups);
    this.pixels.fill(0);
    this.ids.fill(0);
    this.sweep(device.blocks, level, threshold, this.height / top, colours, groupColours);
  }

  sweep(blocks, level, threshold, scale, colours, groupColours) {
    const { begin, end, size } = blocks, { shown, width, mask } = this, live = [];
    const kept = level ? level.kept_list : null, count = kept ? kept.length : blocks.count;
    let next = 0, before = -1;
    for (let x = 0; x < width; x++) {
      const moment = shown[x];
      if (moment === before) {
        this.repeat(x);
        continue;
      }
      let left = 0;
      for (let k = 0; k < live.length; k++)
        if (end[live[k]] > moment)
          live[left++] = live[k];
      live.length = left;
      for (; next < count; next++) {
        const i = kept ? kept[next] : next;
        if (begin[i] > moment)
          break;
        if (end[i] > moment && size[i] >= threshold && (!mask || mask[i]))
          live.push(i);
      }
      this.fillColumn(x, live, size, scale, colours, groupColours);
      before = moment;
    }
  }

  fillColumn(x, live, size, scale, colours, groupColours) {
    const { width, height, small } = this;
    let sum = 0, bottom = height;
    for (let g = 0; g < GROUPS; g++) {
      sum += small[g * width + x];
      bottom = this.band(x, bottom, sum * scale, groupColours[g], GROUP + g);
    }
    for (let k = 0; k < live.length && bottom > 0; k++) {
      const i = live[k];
      sum += size[i];
      bottom = this.band(x, bottom, sum * scale, colours[i], i + 1);
    }
  }

  // Fills upwards from bottom to a height above the lower edge; returns its row.
  band(x, bottom, upTo, colour, id) {
    const { width, height, pixels, ids } = this;
    const top = Math.max(0, height - Math.round(upTo));
    if (top >= bottom)
      return bottom;
    for (let y = top, at = top * width + x; y < bottom; y++, at += width) {
      pixels[at] = colour;
      ids[at] = id;
    }
    if (bottom - top > 3)
      pixels[top * width + x] = ((colour - (colour >>> 2 & 0x3f3f3f)) | 0xff000000) >>> 0;
    return top;
  }

  // The same as the column to the left.
  repeat(x) {
    const { width, height, pixels, ids } = this;
    for (let y = 0, at = x; y < height; y++, at += width) {
      pixels[at] = pixels[at - 1];
      ids[at] = ids[at - 1];
    }
  }

  idAt(x, y) {
    return x >= 0 && y >= 0 && x < this.width && y < this.height ? this.ids[y * this.width + x] : 0;
  }

  // A picture that lights up where one id is; edges where another begins.
  glow(id, colour) {
    const glow = new ImageData(this.width, this.height);
    const out = new Uint32Array(glow.data.buffer), { ids } = this;
    for (let at = 0; at < ids.length; at++)
      if (ids[at] === id)
        out[at] = colour;
    return glow;
  }
}
