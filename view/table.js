// SPDX-License-Identifier: MIT
// Text beside the pictures: figures, what is under the cursor, live memory by
// stack. Everything from a file becomes text nodes, never markup.
"use strict";

// An element with properties and children; strings become text.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name === "data")
      Object.assign(element.dataset, value);
    else
      element[name] = value;
  element.append(...children);
  return element;
}

// A size that is exact when copied: a click puts the bytes on the clipboard.
function copyable(text, exact) {
  return make("span", { className: "copy", title: countText(exact) + " bytes; click to copy",
    data: { copy: String(exact) } }, text);
}

function copyText(text) {
  const area = make("textarea", { value: text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  if (navigator.clipboard)
    navigator.clipboard.writeText(text).catch(() => {});
}

function streamName(app, number) {
  const id = app.meta.streams[number];
  return id === "0" ? "0 (default)" : BigInt(id) > 65535n ? "0x" + BigInt(id).toString(16) : id;
}

function poolName(app, number) {
  const [first, second] = app.meta.pools[number];
  return first === "0" && second === "0" ? "shared" : "(" + first + ", " + second + ")";
}

function facts(pairs) {
  const list = make("dl");
  for (const [name, value] of pairs)
    list.append(make("dt", {}, name), make("dd", {}, value));
  return list;
}

// A stack: the user's own line first, then its callers; frames of C++ and of the framework's
// insides are folded behind them, where the whole stack stands.
function frameList(app, stack) {
  const list = make("ol"), frames = app.stacks.of(stack);
  const own = app.stacks.own[stack] >= 0 ? app.stacks.own[stack] : frames.findIndex(isTelling);
  const item = (frame, i) => make("li",
    { className: i === own ? "own" : isTelling(frame) || own < 0 ? "" : "inside" },
    frame[0] || "?", make("span", {}, placeOf(frame)));
  const shown = frames.map(item).filter((_, i) => own < 0 || i === own ||
    (i > own && isTelling(frames[i])));
  list.append(...shown);
  if (!frames.length)
    list.append(make("li", { className: "hint" }, "no stack was recorded"));
  if (shown.length < frames.length)
    list.append(make("li", { className: "fold" }, make("details", {},
      make("summary", {}, "all " + countText(frames.length) + " frames, innermost first"),
      make("ol", {}, ...frames.map((frame, i) => {
        const whole = item(frame, i);
        whole.className = i === own ? "" : whole.className;
        return whole;
      })))));
  return list;
}

class Texts {
  constructor(app) {
    this.app = app;
    this.details = document.getElementById("details");
    this.rows = document.getElementById("rows");
    document.addEventListener("click", (event) => {
      const target = event.target.closest("[data-copy]");
      if (target)
        copyText(target.dataset.copy);
    });
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && row.dataset.stack !== undefined)
        app.filterStack(Number(row.dataset.stack));
    });
    document.getElementById("copy-table").addEventListener("click", () =>
      copyText(this.tableText()));
  }

  // ---- Figures ----

  cards() {
    const { meta } = this.app.device, box = document.getElementById("cards");
    const card = (label, bytes, bad) => make("div",
      { className: "card" + (bad ? " bad" : "") },
      make("b", {}, typeof bytes === "number" ? copyable(sizeText(bytes), bytes) : bytes),
      make("span", {}, label));
    const list = [];
    if (meta.events)
      list.push(card("most allocated", meta.peakAllocated),
        card("most reserved from the device", meta.peakReserved));
    const last = this.app.device.totals(), end = meta.moments - 1;
    list.push(card(meta.events ? "allocated at the end" : "allocated", last.allocated[end]),
      card(meta.events ? "reserved at the end" : "reserved", last.reserved[end]));
    list.push(card("allocations", countText(meta.blocks)));
    if (meta.events)
      list.push(card("events", countText(meta.events)));
    const failed = meta.marks.filter((mark) => mark.kind === "oom");
    if (failed.length)
      list.push(card(failed.length === 1 ? "request failed" : "requests failed",
        countText(failed.length), true),
      card("asked for by the last that failed", failed[failed.length - 1].bytes, true));
    box.replaceChildren(...list);
  }

  // ---- Under the cursor ----

  hint() {
    this.details.replaceChildren(make("h2", {}, "Under the cursor"),
      make("p", { className: "hint" },
        this.app.device.meta.events
          ? "Move over the picture: what lies there, how large it is, and who asked for it."
          : "Move over the segments: what lies there, and who asked for it."));
  }

  block(i) {
    const { app } = this, { device } = app, { blocks } = device, clock = device.clock;
    const when = (moment) => make("button", { className: "jump", title: "Go to this event",
      onclick: () => app.go(moment) }, "event " + countText(moment) +
      (clock && clock[clock.length - 1] > 0 ? ", " + timeText(clock[moment]) : ""));
    const early = blocks.flags[i] & EARLY, live = blocks.end[i] >= device.moments;
    const list = [["size", copyable(sizeText(blocks.size[i]), blocks.size[i])]];
    if (blocks.bytes[i] !== blocks.size[i])
      list.push(["requested", copyable(countText(blocks.bytes[i]) + " bytes", blocks.bytes[i])]);
    list.push(["address", make("span", { className: "copy",
      data: { copy: device.address(blocks.address[i]) } }, device.address(blocks.address[i]))],
    ["stream", streamName(app, blocks.stream[i])], ["pool", poolName(app, blocks.pool[i])],
    ["for", app.categoryName(app.categoryOf(i))]);
    if (device.meta.events)
      list.push(["allocated", early ? "before the recording" : when(blocks.begin[i])],
        ["freed", live ? "still live at the end" : when(blocks.end[i])]);
    if (blocks.wait[i] > 1)
      list.push(["waited", "for " + countText(blocks.wait[i]) + " events after its free"]);
    this.details.replaceChildren(make("h2", {}, "Allocation " + countText(i)), facts(list),
      frameList(app, blocks.stack[i]));
  }

  // Small blocks drawn as one band.
  group(g, moment) {
    const { app } = this, { device } = app, { blocks } = device;
    const groups = device.groupTable(app.stackCount), threshold = app.chart.lanes.threshold;
    const chosen = blocks.at(moment).filter((i) => blocks.size[i] < threshold &&
      groups[blocks.stack[i]] === g && (!app.mask || app.mask[i]));
    const bytes = chosen.reduce((sum, i) => sum + blocks.size[i], 0);
    const stack = device.meta.groups[g];
    this.details.replaceChildren(
      make("h2", {}, g < GROUPS - 1 ? "Small allocations of one stack" : "Other small allocations"),
      facts([["count", countText(chosen.length)],
        ["size", copyable(sizeText(bytes), bytes)],
        ["each below", copyable(sizeText(threshold), threshold)]]),
      stack === undefined ? make("p", { className: "hint" }, "of many stacks")
        : frameList(app, stack));
    return { bytes, count: chosen.length };
  }

  segment(segment, offset) {
    const { app } = this, { ranges } = app.device, i = segment.range;
    const flags = ranges.flags[i];
    this.details.replaceChildren(make("h2", {}, "Free, inside a segment"), facts([
      ["segment", app.device.address(segment.address)],
      ["size", copyable(sizeText(segment.bytes), segment.bytes)],
      ["allocated", copyable(sizeText(segment.used), segment.used)],
      ["largest free", copyable(sizeText(segment.largest), segment.largest)],
      ["kind", (flags & EXPANDABLE ? "expandable, " : "") + (flags & SMALL ? "small" : "large")],
      ["stream", streamName(app, ranges.stream[i])], ["pool", poolName(app, ranges.pool[i])],
      ["here", app.device.address(segment.address + Math.floor(offset))]]),
    frameList(app, ranges.stack[i]));
  }

  // A segment in the picture over time.
  range(i) {
    const { app } = this, { device } = app, { ranges } = device, flags = ranges.flags[i];
    const jump = (moment) => make("button", { className: "jump", onclick: () => app.go(moment) },
      "event " + countText(moment));
    this.details.replaceChildren(make("h2", {}, "Segment"), facts([
      ["size", copyable(sizeText(ranges.size[i]), ranges.size[i])],
      ["address", device.address(ranges.address[i])],
      ["kind", (flags & EXPANDABLE ? "expandable, " : "") + (flags & SMALL ? "small" : "large")],
      ["stream", streamName(app, ranges.stream[i])], ["pool", poolName(app, ranges.pool[i])],
      ["from the device", flags & EARLY ? "before the recording" : jump(ranges.begin[i])],
      ["given back", ranges.end[i] >= device.moments ? "still held at the end"
        : jump(ranges.end[i])]]), frameList(app, ranges.stack[i]));
  }

  // The request that failed: how much, what the device had free, and who asked.
  failure(mark) {
    const { app } = this;
    this.details.replaceChildren(make("h2", {}, "Out of memory"), facts([
      ["asked for", copyable(sizeText(mark.bytes), mark.bytes)],
      ["free on the device", copyable(sizeText(mark.free), mark.free)],
      ["at", "event " + countText(mark.at)]]), frameList(app, mark.stack));
  }

  // What live memory is for at a moment.
  categories(moment) {
    const { app } = this, { blocks } = app.device, sums = new Map();
    for (const i of blocks.at(moment))
      if (!app.mask || app.mask[i])
        sums.set(app.categoryOf(i), (sums.get(app.categoryOf(i)) || 0) + blocks.size[i]);
    const list = [...sums].sort((a, b) => b[1] - a[1]);
    document.getElementById("categories").replaceChildren(...list.map(([category, bytes]) => {
      const swatch = make("i", { className: "swatch" });
      swatch.style.background = cssOf(app.colours.ofCategory(category));
      // Colours mean something here only when the chart has them.
      return make("span", {}, app.colours.by === "category" ? swatch : "",
        " " + app.categoryName(category) + " ",
        make("b", {}, copyable(sizeText(bytes), bytes)));
    }));
  }

  // ---- Live by stack ----

  live(moment) {
    const { app } = this, { blocks } = app.device, sums = new Map();
    for (const i of blocks.at(moment)) {
      if (app.mask && !app.mask[i])
        continue;
      const sum = sums.get(blocks.stack[i]) || { stack: blocks.stack[i], bytes: 0, count: 0 };
      sum.bytes += blocks.size[i];
      sum.count++;
      sums.set(sum.stack, sum);
    }
    this.sums = [...sums.values()].sort((a, b) => b.bytes - a.bytes);
    this.rows.replaceChildren(...this.sums.slice(0, 60).map((sum) => {
      const [name, place, caller] = app.stacks.title(sum.stack);
      const swatch = make("i", { className: "swatch" });
      swatch.style.background = cssOf(app.colours.ofStack(sum.stack));
      return make("tr", { data: { stack: String(sum.stack) }, title: "Click: only this stack" },
        make("td", {}, swatch), make("td", {}, copyable(sizeText(sum.bytes), sum.bytes)),
        make("td", {}, countText(sum.count)), make("td", {}, name,
          make("small", {}, place), make("small", {}, caller ? "\u2190 " + caller : "")));
    }));
    if (this.sums.length > 60)
      this.rows.append(make("tr", {}, make("td"), make("td"), make("td"),
        make("td", { className: "hint" }, "and " + countText(this.sums.length - 60) +
          " more; Copy has them all")));
  }

  tableText() {
    return ["bytes\tcount\tstack"].concat((this.sums || []).map((sum) => [sum.bytes, sum.count,
      this.app.stacks.of(sum.stack).map((frame) => frame[0] + " " + placeOf(frame)).join(" < ")]
      .join("\t"))).join("\n");
  }

  space(figures) {
    const part = (value, bytes) =>
      make("b", {}, bytes === undefined ? value : copyable(value, bytes));
    const { count, reserved, used, free, largest, split, broken } = figures;
    document.getElementById("space-figures").replaceChildren(
      part(countText(count)), count === 1 ? " segment, " : " segments, ",
      part(sizeText(reserved), reserved), " reserved, ",
      part(sizeText(used), used), " allocated, ", part(sizeText(free), free), " free; of that ",
      part(sizeText(split), split), " in segments in use, largest free range ",
      part(sizeText(largest), largest), ", ", part((broken * 100).toFixed(0) + " %"),
      " of free memory outside it");
  }
}
