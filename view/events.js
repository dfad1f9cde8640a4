// SPDX-License-Identifier: MIT
// The list of events: only rows in sight exist, so that a million is as quick as ten.
"use strict";

const EVENT_ROW = 22;

class Events {
  constructor(app) {
    this.app = app;
    this.box = byId("events-box");
    this.room = byId("events-room");
    this.kind = byId("events-kind");
    this.box.addEventListener("scroll", () => this.draw());
    this.kind.addEventListener("input", () => this.filter());
    this.room.addEventListener("click", (event) => {
      const row = event.target.closest(".event");
      if (row)
        this.choose(Number(row.dataset.moment));
    });
  }

  // Shows the events of a device, later: nothing waits for the list.
  show(device) {
    this.device = device;
    this.moments = null;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.filter(), 0);
  }

  // For each event what it was: block + 1 that began, -(block + 1) that ended; ranges alike.
  collect() {
    const { device } = this, { blocks, ranges, moments } = device;
    if (device.eventBlocks)
      return;
    device.eventBlocks = new Int32Array(moments);
    device.eventRanges = new Int32Array(moments);
    for (const [spans, table] of [[blocks, device.eventBlocks], [ranges, device.eventRanges]])
      for (let i = 0; i < spans.count; i++) {
        if (!(spans.flags[i] & EARLY))
          table[spans.begin[i]] = i + 1;
        if (spans.end[i] < moments)
          table[spans.end[i]] = -(i + 1);
      }
    device.eventMarks = new Map(device.meta.marks.map((mark) => [mark.at, mark]));
  }

  // What kind of event it is: alloc, free, segment or mark; "" for one that changed nothing.
  kindOf(moment) {
    const { device } = this, block = device.eventBlocks[moment];
    return device.eventMarks.has(moment) ? "mark" : block > 0 ? "alloc" : block < 0 ? "free"
      : device.eventRanges[moment] ? "segment" : "";
  }

  filter() {
    const { device } = this;
    if (!device || !device.meta.events || !device.blocks.flags || !device.ranges.flags)
      return;
    this.collect();
    const { mask } = this.app, kind = this.kind.value, chosen = [];
    for (let m = 0; m < device.meta.events; m++) {
      const is = this.kindOf(m), block = device.eventBlocks[m];
      if (is && (!kind || is === kind) && (!mask || (block ? mask[Math.abs(block) - 1] : !kind
        ? is === "mark" : true)))
        chosen.push(m);
    }
    this.moments = chosen;
    this.room.style.height = chosen.length * EVENT_ROW + "px";
    byId("events-count").textContent = countText(chosen.length) + " of " +
      countText(device.meta.events);
    this.follow(this.app.moment);
    this.draw();
  }

  // Scrolls to the moment, unless the pointer is in the list.
  follow(moment) {
    if (!this.moments)
      return;
    this.now = moment;
    if (!this.box.matches(":hover")) {
      const row = Math.max(0, upperBound(this.moments, moment) - 1);
      this.box.scrollTop = Math.max(0, (row - 5) * EVENT_ROW);
    }
    this.draw();
  }

  // Goes to an event, and shows what it was about.
  choose(moment) {
    const { app, device } = this, block = device.eventBlocks[moment];
    const mark = device.eventMarks.get(moment);
    app.go(moment);
    if (mark && mark.kind === "oom")
      app.texts.failure(mark);
    else if (block)
      app.texts.block(Math.abs(block) - 1);
  }

  // The cells of a row: what happened, how much, and where.
  cells(moment) {
    const { device, app } = this, mark = device.eventMarks.get(moment);
    if (mark)
      return [mark.kind === "oom" ? "out of memory" : "mark", mark.bytes,
        mark.kind === "oom" ? mark.stack : undefined, mark.text];
    const block = device.eventBlocks[moment], range = device.eventRanges[moment];
    const spans = block ? device.blocks : device.ranges, i = Math.abs(block || range) - 1;
    return [block ? (block > 0 ? "alloc" : "free") : range > 0 ? "segment alloc" : "segment free",
      spans.size[i], spans.stack[i], ""];
  }

  row(index) {
    const moment = this.moments[index], { device, app } = this;
    const [what, bytes, stack, text] = this.cells(moment), clock = device.clock;
    const [name, place] = stack === undefined ? [text, ""] : app.stacks.title(stack);
    const row = make("div", { className: "event" + (what === "out of memory" ? " oom" : "") +
      (moment === this.now ? " now" : ""), data: { moment: String(moment) } },
    make("span", {}, countText(moment)),
    make("span", {}, clock && clock[clock.length - 1] > 0 ? timeText(clock[moment]) : ""),
    make("span", {}, what), make("span", {}, bytes ? sizeText(bytes) : ""),
    make("span", { title: place }, name, make("small", {}, place)));
    row.style.top = index * EVENT_ROW + "px";
    return row;
  }

  draw() {
    if (!this.moments)
      return;
    const first = Math.max(0, Math.floor(this.box.scrollTop / EVENT_ROW) - 4);
    const last = Math.min(this.moments.length,
      first + Math.ceil(this.box.clientHeight / EVENT_ROW) + 8);
    const rows = [];
    for (let i = first; i < last; i++)
      rows.push(this.row(i));
    this.room.replaceChildren(...rows);
  }
}
