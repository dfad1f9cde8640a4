// SPDX-License-Identifier: MIT
// What the page shows: devices with blocks and ranges, stacks, and what is live
// at a moment. A block is there at moment m when begin[i] <= m < end[i].
"use strict";

const EARLY = 0x80, EXPANDABLE = 1, SMALL = 2, GROUPS = 16;

class Stacks {
  // All stacks, as frames [name, file, line], innermost first.
  async load() {
    if (this.frames)
      return this;
    const frames = JSON.parse(new TextDecoder().decode(await piece("frames")));
    const bytes = await piece("stacks"), titles = await piece("titles"), lists = [];
    const flat = readNumbers(bytes, new Uint32Array(countNumbers(bytes)));
    for (let at = 0; at < flat.length; at += flat[at] + 1)
      lists.push(flat.subarray(at + 1, at + 1 + flat[at]));
    const pairs = readNumbers(titles, new Uint32Array(2 * lists.length));
    this.lists = lists;
    this.own = Int32Array.from(lists, (_, i) => pairs[2 * i] - 1);
    this.category = Uint8Array.from(lists, (_, i) => pairs[2 * i + 1]);
    this.frames = frames;
    return this;
  }

  of(stack) {
    return Array.from(this.lists[stack] || [], (i) => this.frames[i]);
  }

  // One line for a stack: the user's own line, by the rule of all reports (the innermost
  // frame outside PyTorch, packages and the interpreter), where it is, and who called it.
  title(stack) {
    const list = this.lists[stack];
    if (!list || !list.length)
      return ["unknown: before the recording, or without a stack", "", ""];
    const find = Array.prototype.find;
    const own = list[this.own[stack]] ?? find.call(list, (i) => isTelling(this.frames[i])) ??
      find.call(list, (i) => !/unwind|Traceback|Allocator/.test(this.frames[i][0])) ?? list[0];
    const rest = list.subarray(list.indexOf(own) + 1);
    const caller = this.frames[find.call(rest, (i) => isTelling(this.frames[i]))];
    return [this.frames[own][0] || this.frames[own][1] || "?", placeOf(this.frames[own]),
      caller ? caller[0] : ""];
  }

  // 1 for every stack in which a frame holds the text.
  matching(text) {
    const wanted = text.toLowerCase();
    const hit = this.frames.map((frame) =>
      (frame[0] + " " + placeOf(frame)).toLowerCase().includes(wanted));
    return Uint8Array.from(this.lists, (list) => list.some((i) => hit[i]) ? 1 : 0);
  }
}

function countNumbers(bytes) {
  let count = 0;
  for (let i = 0; i < bytes.length; i++)
    count += bytes[i] < 128;
  return count;
}

function placeOf(frame) {
  return frame[1] + (frame[1] && frame[2] > 0 ? ":" + frame[2] : "");
}

// Frames of the framework's own insides tell little about whose memory it is.
function isTelling(frame) {
  return frame[0] && frame[1] !== "??" &&
    !/^(\?\?|(torch|c10|at|std|pybind11)::|_?Py[A-Z_])/.test(frame[0]) &&
    !/[\/\\]torch[\/\\](nn[\/\\]modules[\/\\]module|_ops|utils[\/\\]_)/.test(frame[1]);
}

class Spans {
  constructor(prefix, count, moments) {
    Object.assign(this, { prefix, count, moments });
  }

  // What drawing over time needs.
  async loadTimes() {
    if (this.end)
      return;
    const count = this.count, at = this.prefix;
    const [begin, life, bytes, extra, stack] = await Promise.all([
      steps(at + "begin", new Uint32Array(count)), numbers(at + "life", new Uint32Array(count)),
      numbers(at + "bytes", new Float64Array(count)),
      numbers(at + "extra", new Float64Array(count)),
      numbers(at + "stack", new Uint32Array(count))]);
    const end = life; // in place
    for (let i = 0; i < count; i++) {
      extra[i] += bytes[i];
      end[i] = life[i] ? begin[i] + life[i] - 1 : this.moments;
    }
    Object.assign(this, { begin, bytes, size: extra, stack, end });
  }

  // What the map and the details need.
  async loadPlaces() {
    await this.loadTimes();
    if (this.flags)
      return;
    const count = this.count, at = this.prefix;
    const [address, stream, pool, wait, flags] = await Promise.all([
      steps(at + "address", new Float64Array(count)),
      numbers(at + "stream", new Uint32Array(count)),
      numbers(at + "pool", new Uint32Array(count)), numbers(at + "wait", new Uint32Array(count)),
      numbers(at + "flags", new Uint8Array(count))]);
    Object.assign(this, { address, stream, pool, wait, flags });
  }

  // Numbers of those that are there at a moment, in order of begin.
  at(moment) {
    const { begin, end } = this, found = [];
    const last = upperBound(begin, moment);
    for (let i = 0; i < last; i++)
      if (end[i] > moment)
        found.push(i);
    return found;
  }
}

// How many numbers of a sorted array are at most the value.
function upperBound(array, value) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (array[middle] <= value)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

class Device {
  constructor(meta) {
    this.meta = meta;
    meta.marks.sort((a, b) => a.at - b.at);
    this.prefix = "d" + meta.device + ".";
    this.moments = meta.moments;
    this.blocks = new Spans(this.prefix + "a.", meta.blocks, meta.moments);
    this.ranges = new Spans(this.prefix + "s.", meta.ranges, meta.moments);
    this.levels = meta.levels.map((level) => ({ ...level }));
    this.groupOf = new Map(meta.groups.map((stack, i) => [stack, i]));
  }

  async load() {
    await Promise.all([this.blocks.loadTimes(), this.ranges.loadTimes()]);
    if (this.levels.length)
      await this.loadLevel(this.levels[0]);
  }

  async loadLevel(level) {
    if (level.kept_list)
      return;
    const at = this.prefix + "l" + level.shift + ".", columns = level.columns;
    const [shown, allocated, reserved, kept, sums] = await Promise.all([
      numbers(at + "shown", new Uint32Array(columns)),
      steps(at + "allocated", new Float64Array(columns)),
      steps(at + "reserved", new Float64Array(columns)),
      steps(at + "kept", new Uint32Array(level.kept)),
      level.sums ? steps(at + "sums", new Float64Array(GROUPS * columns), columns) : null]);
    for (let c = 0; c < columns; c++)
      shown[c] += c * 2 ** level.shift;
    Object.assign(level, { shown, allocated, reserved, given: sums, kept_list: kept });
  }

  // Bytes at every moment, worked out when single events are first looked at.
  totals() {
    if (!this.allocated) {
      this.allocated = sumOverTime(this.blocks, this.moments);
      this.reserved = sumOverTime(this.ranges, this.moments);
    }
    return this;
  }

  async times() {
    if (!this.clock) {
      const clock = await numbers(this.prefix + "time", new Float64Array(this.meta.events));
      for (let i = 1; i < clock.length; i++)
        clock[i] += clock[i - 1];
      this.clock = clock;
    }
    return this.clock;
  }

  // The address of a block or range as people write it.
  address(offset) {
    return "0x" + (BigInt(this.meta.base) + BigInt(offset)).toString(16);
  }

  // The group a small block is summed into.
  group(stack) {
    const found = this.groupOf.get(stack);
    return found === undefined ? GROUPS - 1 : found;
  }

  // The group of every stack, as an array.
  groupTable(stackCount) {
    if (!this.groupsByStack) {
      this.groupsByStack = new Uint8Array(stackCount).fill(GROUPS - 1);
      for (const [stack, group] of this.groupOf)
        this.groupsByStack[stack] = group;
    }
    return this.groupsByStack;
  }
}

function sumOverTime(spans, moments) {
  const sums = new Float64Array(moments + 1), { begin, end, size } = spans;
  for (let i = 0; i < spans.count; i++) {
    sums[begin[i]] += size[i];
    sums[end[i]] -= size[i];
  }
  for (let m = 1; m < moments; m++)
    sums[m] += sums[m - 1];
  return sums;
}

// A size for people.
function sizeText(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0, value = bytes;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 ? 0 : Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(digits) + " " + units[unit];
}

// A size as people write it, "1.5MiB" or "20m" or bytes; NaN when it is none.
function parseSize(text) {
  const match = /^\s*([0-9]*\.?[0-9]+)\s*([kmgt]?)(?:i?b|bytes)?\s*$/i.exec(text);
  return match ? Number(match[1]) * 1024 ** " kmgt".indexOf(match[2].toLowerCase() || " ") : NaN;
}

function countText(count) {
  return Math.round(count).toLocaleString("en-US");
}
