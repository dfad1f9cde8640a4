// SPDX-License-Identifier: MIT
// The page as a whole: which device, which moment, which filter; and the keys.
"use strict";

const byId = (id) => document.getElementById(id);

class App {
  constructor(meta) {
    this.meta = meta;
    this.stacks = new Stacks();
    this.devices = meta.devices.map((device) => new Device(device));
    this.mask = null;
    this.pinned = false;
    this.moment = 0;
    this.stamp = 0; // of the picture: changes with every drawing
    byId("title").textContent = meta.title;
    this.showNotes();
    this.chart = new Chart(this);
    this.map = new SegmentMap(this);
    this.texts = new Texts(this);
    this.timeline = new Timeline(this);
    this.events = new Events(this);
    this.listen();
  }

  // ---- Starting ----

  async start() {
    byId("devices").replaceChildren(...this.devices.map((device, i) => make("button",
      { role: "tab", onclick: () => this.open(i), data: { device: String(i) },
        className: device.meta.failed ? "failed" : "",
        title: device.meta.failed ? "a request failed on this device" : "" },
      device.meta.name)));
    byId("devices").hidden = this.devices.length < 2;
    this.fillSelect(byId("stream"), this.meta.streams.map((_, i) => streamName(this, i)));
    this.fillSelect(byId("pool"), this.meta.pools.map((_, i) => poolName(this, i)));
    if (this.meta.warning)
      this.notice("Not all of this can be trusted: " + this.meta.warning);
    document.body.classList.toggle("empty", !this.devices.length);
    if (!this.devices.length)
      return this.notice("No memory of any device was recorded.");
    await this.stacks.load();
    this.stackCount = this.stacks.lists.length;
    await this.open(this.firstDevice());
  }

  // The device where a request failed last, else the one that holds most.
  firstDevice() {
    let best = 0;
    this.devices.forEach(({ meta }, i) => {
      const now = this.devices[best].meta;
      if (meta.failed > now.failed || (meta.failed === now.failed && meta.held > now.held))
        best = i;
    });
    return best;
  }

  // What a block is for: by its stack, or that it was there before.
  categoryOf(block) {
    const { stack, flags } = this.device.blocks, category = this.stacks.category[stack[block]];
    return category || !(flags && flags[block] & EARLY) || !this.device.meta.events
      ? category : BEFORE;
  }

  categoryName(category) {
    return this.meta.categories[category];
  }

  fillSelect(select, names) {
    select.replaceChildren(make("option", { value: "" }, "all"),
      ...names.map((name, i) => make("option", { value: String(i) }, name)));
    select.parentElement.hidden = names.length < 2;
  }

  async open(number) {
    const device = this.devices[number];
    await device.load();
    this.device = device;
    this.mask = null;
    document.body.classList.toggle("still", !device.meta.events);
    for (const button of byId("devices").children)
      button.setAttribute("aria-selected", String(button.dataset.device === String(number)));
    byId("moment").max = String(device.moments - 1);
    this.chart.show(device);
    const failed = device.meta.marks.filter((mark) => mark.kind === "oom").pop();
    this.moment = failed ? Math.min(failed.at, device.moments - 1) : device.meta.peak;
    this.pinned = false;
    this.texts.cards();
    if (failed)
      this.texts.failure(failed);
    else
      this.texts.hint();
    await this.recolour();
    await this.applyFilter();
    this.drawNow();
    await Promise.all([device.blocks.loadPlaces(), device.ranges.loadPlaces(), device.times()]);
    this.redraw();
    this.events.show(device);
  }

  notice(text) {
    byId("notice").textContent = text;
    byId("notice").hidden = false;
  }

  showNotes() {
    byId("notes").replaceChildren(...this.meta.notes.map(([heading, text]) =>
      make("article", {}, make("h2", {}, heading), ...this.noteParts(text))));
  }

  // Lines as paragraphs; those with a tab as rows of a table.
  noteParts(text) {
    const parts = [];
    for (const line of text.split("\n").filter((line) => line)) {
      const cells = line.split("\t");
      if (cells.length < 2)
        parts.push(make("p", {}, line));
      else {
        if (!parts.length || parts[parts.length - 1].tagName !== "TABLE")
          parts.push(make("table"));
        parts[parts.length - 1].append(make("tr", {}, ...cells.map((cell) =>
          make("td", {}, cell))));
      }
    }
    return parts;
  }

  // ---- Drawing ----

  // Draws at the next frame; the blocks too unless only the cursor moved.
  redraw(all = true) {
    this.stale = this.stale || all;
    if (!this.asked) {
      this.asked = true;
      requestAnimationFrame(() => this.drawNow());
    }
  }

  drawNow() {
    this.asked = false;
    if (!this.device || !this.colours)
      return;
    if (this.device.meta.events) {
      if (this.stale !== false) {
        this.chart.draw({ colours: this.colours.table(), groups: this.groups, mask: this.mask,
          groupColours: this.groupColours });
        this.stamp++;
      }
      if (this.stale !== false)
        this.timeline.draw();
      this.chart.drawOver(this.moment, this.pinned);
      this.drawTip();
    }
    this.stale = false;
    this.drawMoment();
  }

  // What depends on the moment: map, table, texts.
  drawMoment() {
    const { device, moment } = this, stamp = [moment, device.meta.device, this.stampOfFilter,
      this.colours.by, isDark(), Boolean(device.blocks.flags), window.innerWidth].join();
    if (stamp === this.momentStamp || !device.blocks.flags || !device.ranges.flags)
      return;
    this.momentStamp = stamp;
    const totals = device.totals(), clock = device.clock;
    const when = clock && clock[clock.length - 1] > 0 ? ", " + timeText(clock[moment]) : "";
    byId("moment").value = String(moment);
    byId("moment-text").replaceChildren("event ", make("b", {}, countText(moment)), when, ": ",
      make("b", {}, copyable(sizeText(totals.allocated[moment]), totals.allocated[moment])),
      " of ", copyable(sizeText(totals.reserved[moment]), totals.reserved[moment]));
    const label = device.meta.events ? "after event " + countText(moment) : "";
    byId("space-when").textContent = byId("stacks-when").textContent = label;
    this.map.show(device, moment, this.colours.table());
    this.texts.space(this.map.figures());
    this.texts.live(moment);
    this.texts.categories(moment);
    this.events.follow(moment);
  }

  async recolour() {
    const by = byId("colour").value;
    if (by === "stream" || by === "pool")
      await this.device.blocks.loadPlaces();
    this.colours = new Colours(this.device, this.stackCount, by, this.stacks.category);
    this.groups = this.device.groupTable(this.stackCount);
    this.groupColours = Uint32Array.from({ length: GROUPS }, (_, g) => {
      const stack = this.device.meta.groups[g];
      return blend(stack === undefined ? this.colours.unknown : this.colours.ofStack(stack),
        this.colours.unknown, 0.35);
    });
    this.redraw();
  }

  // ---- The moment ----

  hover(moment) {
    const id = this.chart.idUnderPointer();
    if (!this.pinned)
      this.moment = this.chart.shownMoment(moment);
    if (id !== this.chart.hovered) {
      this.chart.hovered = id;
      this.showDetails(id, this.chart.shownMoment(moment));
    }
    this.redraw(false);
  }

  pin(moment) {
    this.pinned = !this.pinned || moment === undefined;
    if (moment !== undefined && this.pinned)
      this.moment = this.chart.shownMoment(moment);
    this.redraw(false);
  }

  go(moment) {
    this.moment = Math.max(0, Math.min(this.device.moments - 1, Math.round(moment)));
    this.pinned = true;
    this.chart.reveal(this.moment);
    this.redraw(false);
  }

  showDetails(id, moment = this.moment) {
    if (!this.device.blocks.flags || !id)
      return;
    if (id >= GROUP)
      this.texts.group(id - GROUP, moment);
    else
      this.texts.block(id - 1);
  }

  showSegment(segment, offset) {
    this.texts.segment(segment, offset);
  }

  drawTip() {
    const { chart } = this, { tip, pointer, hovered } = chart;
    tip.hidden = !pointer || !hovered || Boolean(chart.held && chart.held.moved);
    if (tip.hidden)
      return;
    const { blocks } = this.device, block = hovered - 1;
    const stack = hovered >= GROUP ? this.device.meta.groups[hovered - GROUP] : blocks.stack[block];
    const [name, place] = stack === undefined ? ["small allocations of many stacks", ""]
      : this.stacks.title(stack);
    tip.replaceChildren(make("b", {}, hovered >= GROUP ? "small allocations"
      : sizeText(blocks.size[block])), name, make("span", {}, place ? " " + place : ""));
    const width = chart.canvas.clientWidth, right = pointer.x > width * 0.6;
    tip.style.left = right ? "auto" : pointer.x + 14 + "px";
    tip.style.right = right ? width - pointer.x + 14 + "px" : "auto";
    tip.style.top = Math.max(0, Math.min(chart.canvas.clientHeight - 80, pointer.y + 14)) + "px";
  }

  nextMark() {
    const { marks } = this.device.meta;
    const next = marks.find((mark) => mark.at > this.moment) || marks[0];
    if (next)
      this.go(next.at);
  }

  // ---- Filters ----

  filterStack(stack) {
    this.onlyStack = stack;
    byId("search").value = "";
    this.applyFilter();
  }

  clearFilter() {
    for (const id of ["search", "size-min", "size-max", "stream", "pool"])
      byId(id).value = "";
    this.onlyStack = undefined;
    this.applyFilter();
  }

  async applyFilter() {
    const text = byId("search").value.trim(), low = parseSize(byId("size-min").value);
    const high = parseSize(byId("size-max").value), { blocks } = this.device;
    const stream = byId("stream").value, pool = byId("pool").value, only = this.onlyStack;
    const isOn = text || !isNaN(low) || !isNaN(high) || stream || pool || only !== undefined;
    if (stream || pool)
      await blocks.loadPlaces();
    this.mask = null;
    if (isOn) {
      const stacks = text ? this.stacks.matching(text) : null;
      const mask = new Uint8Array(blocks.count);
      for (let i = 0; i < blocks.count; i++)
        mask[i] = (!stacks || stacks[blocks.stack[i]]) && !(blocks.size[i] < low) &&
          !(blocks.size[i] > high) && (!stream || blocks.stream[i] === Number(stream)) &&
          (!pool || blocks.pool[i] === Number(pool)) &&
          (only === undefined || blocks.stack[i] === only) ? 1 : 0;
      this.mask = mask;
    }
    this.tellMatches(only);
    this.events.filter();
    this.stampOfFilter = (this.stampOfFilter || 0) + 1;
    this.redraw();
  }

  tellMatches(only) {
    const output = byId("matches"), { blocks } = this.device;
    byId("clear").hidden = !this.mask;
    output.replaceChildren();
    if (!this.mask)
      return;
    const count = this.mask.reduce((sum, hit) => sum + hit, 0);
    output.append(countText(count) + " of " + countText(blocks.count) + " allocations" +
      (only === undefined ? "" : " of " + this.stacks.title(only)[0]));
  }

  // ---- Listening ----

  listen() {
    const filters = byId("filters");
    filters.addEventListener("submit", (event) => event.preventDefault());
    filters.addEventListener("input", (event) => {
      if (event.target.id === "colour")
        this.recolour();
      else
        this.applyFilter();
    });
    byId("clear").onclick = () => this.clearFilter();
    byId("moment").oninput = (event) => this.go(Number(event.target.value));
    byId("back").onclick = () => this.go(this.moment - 1);
    byId("forth").onclick = () => this.go(this.moment + 1);
    byId("to-peak").onclick = () => this.go(this.device.meta.peak);
    byId("whole").onclick = () => this.chart.whole();
    byId("fit").onclick = () => this.toggleFit();
    byId("theme").onclick = () => this.setTheme(isDark() ? "light" : "dark");
    byId("help-open").onclick = () => byId("help").showModal();
    document.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => {
      if (this.device) {
        this.chart.measure();
        this.redraw();
      }
    }).observe(byId("plot"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) =>
      this.setTheme(event.matches ? "dark" : "light"));
  }

  toggleFit() {
    this.chart.fits = !this.chart.fits;
    byId("fit").setAttribute("aria-pressed", String(this.chart.fits));
    this.redraw();
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    if (this.device)
      this.recolour();
  }

  key(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) &&
      event.target.type !== "range";
    if (event.key === "Escape" && !byId("help").open)
      return this.clearFilter(), event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !this.device)
      return;
    const at = this.moment, page = event.shiftKey ? 0.9 : 0.15;
    const keys = {
      ArrowLeft: () => this.chart.pan(-page), ArrowRight: () => this.chart.pan(page),
      ArrowUp: () => this.chart.zoom(0.7, at), ArrowDown: () => this.chart.zoom(1 / 0.7, at),
      "+": () => this.chart.zoom(0.7, at), "=": () => this.chart.zoom(0.7, at),
      "-": () => this.chart.zoom(1 / 0.7, at), 0: () => this.chart.whole(),
      Home: () => this.go(0), End: () => this.go(this.device.moments - 1),
      "[": () => this.go(at - 1), "]": () => this.go(at + 1), " ": () => this.pin(at),
      p: () => this.go(this.device.meta.peak), n: () => this.nextMark(),
      y: () => this.toggleFit(), t: () => this.setTheme(isDark() ? "light" : "dark"),
      "/": () => byId("search").focus(), "?": () => byId("help").showModal(),
    };
    const number = Number(event.key);
    if (number >= 1 && number <= this.devices.length)
      keys[event.key] = () => this.open(number - 1);
    const act = keys[event.key] || keys[event.key.toLowerCase()];
    if (act) {
      event.preventDefault();
      act();
    }
  }
}

document.documentElement.dataset.theme =
  matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
const app = new App(JSON.parse(byId("meta").textContent));
// For scripts that drive the page: done when everything is drawn.
window.acre = { app, ready: app.start().catch((error) => {
  app.notice("This page could not be drawn: " + error.message);
  throw error;
}) };
