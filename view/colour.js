// SPDX-License-Identifier: MIT
// Colours of blocks, for both themes. A stack that holds much gets one of the
// distinct colours; the others get a muted one made of their number.
"use strict";

const DISTINCT = [
  "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
  "#9c6b4e", "#5b8c9e", "#d1495b", "#86a83b", "#7768ae", "#e08e45", "#2f8f9d", "#b5739d"];
const DISTINCT_DARK = [
  "#5b83f0", "#e6b33d", "#ff7f6a", "#5fc9b1", "#49b860", "#ff8fbc", "#b37bff", "#8fb6f5",
  "#b98463", "#6ea3b7", "#e0606f", "#9abf4a", "#8f80c9", "#eb9d57", "#3fa8b6", "#c989b3"];

const BEFORE = 5; // the category of what was there before the recording (format/frames.h)

const isDark = () => document.documentElement.dataset.theme === "dark";

// 0xAABBGGRR, as ImageData holds it on all machines that browsers run on.
function packed(hex) {
  const value = parseInt(hex.slice(1), 16);
  return (0xff000000 | (value & 255) << 16 | (value & 0xff00) | value >> 16) >>> 0;
}

function cssOf(colour) {
  return "rgb(" + (colour & 255) + " " + (colour >> 8 & 255) + " " + (colour >> 16 & 255) + ")";
}

// Between two packed colours.
function blend(a, b, share) {
  let out = 0xff000000;
  for (let shift = 0; shift < 24; shift += 8) {
    const from = a >>> shift & 255, to = b >>> shift & 255;
    out |= Math.round(from + (to - from) * share) << shift;
  }
  return out >>> 0;
}

function muted(number) {
  const hue = (number * 137.508) % 360, light = isDark() ? 0.46 : 0.7, chroma = 0.18;
  const channel = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - chroma * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return (0xff000000 | channel(4) << 16 | channel(8) << 8 | channel(0)) >>> 0;
}

class Colours {
  // Ranks stacks by the bytes they hold and for how long.
  constructor(device, stackCount, by, categories) {
    this.by = by;
    this.categories = categories;
    this.blocks = device.blocks;
    const palette = (isDark() ? DISTINCT_DARK : DISTINCT).map(packed);
    this.palette = palette;
    this.unknown = packed(isDark() ? "#4a5566" : "#b3bcc8");
    this.stacks = Uint32Array.from({ length: stackCount }, (_, i) => i ? muted(i) : this.unknown);
    rankStacks(device, stackCount).forEach((stack, i) => {
      if (stack)
        this.stacks[stack] = palette[i % palette.length];
    });
  }

  ofStack(stack) {
    return this.by === "stack" ? this.stacks[stack]
      : this.by === "category" ? this.ofCategory(this.categories[stack]) : this.unknown;
  }

  ofCategory(category) {
    return category && category !== BEFORE ? this.palette[category - 1]
      : category === BEFORE ? blend(this.unknown, this.palette[0], 0.25) : this.unknown;
  }

  // The colour of every block, as an array.
  table() {
    if (this.made)
      return this.made;
    const { count, stack, size, stream, pool } = this.blocks, { palette, stacks } = this;
    const made = new Uint32Array(count);
    for (let i = 0; i < count; i++)
      made[i] = this.by === "stack" ? stacks[stack[i]]
        : this.by === "category" ? this.ofCategory(this.categories[stack[i]])
        : this.by === "size" ? palette[Math.floor(Math.log2(size[i] + 1)) % palette.length]
        : palette[(this.by === "stream" ? stream : pool)[i] % palette.length];
    this.made = made;
    return made;
  }
}

function rankStacks(device, stackCount) {
  if (!device.ranked) {
    const { begin, end, size, stack, count } = device.blocks;
    const weights = new Float64Array(stackCount);
    for (let i = 0; i < count; i++)
      weights[stack[i]] += size[i] * (end[i] - begin[i]);
    device.ranked = Array.from(weights.keys()).filter((i) => weights[i] > 0)
      .sort((a, b) => weights[b] - weights[a]).slice(0, DISTINCT.length);
  }
  return device.ranked;
}
