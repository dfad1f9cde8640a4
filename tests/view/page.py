#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of `acre view` in a real browser: page.py [TEST...]

Pages with known content come from build/tests/view_page. Screenshots stay in
build/view for people to look at. With ACRE_TEST_LONG, a million events are opened
and moved through, and the times are checked.
"""
import base64
import os
import pathlib
import pickle
import re
import subprocess
import sys
import time
import zlib

import browser

BUILD = pathlib.Path(os.environ.get("ACRE_BUILD", "build-dev"))
OUT = BUILD / "view"
MIB = 1 << 20
UP, DOWN, LEFT, RIGHT, ESCAPE = "\ue013", "\ue015", "\ue012", "\ue014", "\ue00c"
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def make(kind):
    path = OUT / f"{kind}.html"
    if not path.exists():
        subprocess.run([BUILD / "tests" / "view_page", kind, path], check=True)
    return path


def spot(b, moment, size):
    """Where in the window a moment and a number of bytes are."""
    return b.run("""
        const c = acre.app.chart, box = c.canvas.getBoundingClientRect();
        return [box.x + c.xOf(arguments[0] + 0.5), box.y + c.yOf(arguments[1])];
        """, moment, size)


def view(b):
    return b.run("const v = acre.app.chart.view; return [v.from, v.to]")


def pixel(b, moment, size):
    """The colour drawn there, [red, green, blue, opacity]."""
    return b.run("""
        const c = acre.app.chart, x = Math.floor(c.xOf(arguments[0] + 0.5));
        return [...c.canvas.getContext("2d").getImageData(x, Math.floor(c.yOf(arguments[1])), 1, 1)
            .data];
        """, moment, size)


def swatch(b, name):
    """The colour of a stack in the table of live memory."""
    text = b.run("""
        for (const row of document.querySelectorAll("#rows tr"))
          if (row.innerText.includes(arguments[0]))
            return getComputedStyle(row.querySelector(".swatch")).backgroundColor;
        """, name)
    return [int(part) for part in text[4:-1].split(",")] + [255]


def quiet(b):
    """Nothing on the console, but for advice about how this test reads pixels."""
    logs = [log for log in b.logs() if "willReadFrequently" not in log["message"]]
    assert not logs, logs


@test
def loads_without_network_and_without_complaint(b):
    b.open(make("known"))
    assert b.run("return performance.getEntriesByType('resource').length") == 0
    assert b.run("return document.title") == '<i>Known</i> & "quoted"'
    assert b.text("#title") == '<i>Known</i> & "quoted"'
    assert b.run("return document.getElementById('notice').hidden")
    forms = (OUT / "known.html").read_text()
    assert 'data-form="plain"' in forms
    assert "step \\u003c2\\u003e" in forms
    quiet(b)


@test
def hostile_names_stay_text(b):
    b.open(make("known"))
    b.pointer(spot(b, 20, 24 * MIB))
    assert 'backward </script><img src=x onerror="window.hacked=1">' in b.text("#details")
    assert "<b>evil</b>.py:7" in b.text("#details")
    assert b.run("return window.hacked") is None
    assert b.run("return document.querySelectorAll('main b img, #details img, #notes i').length") \
        == 0
    assert "second <i>line</i>" in b.text("#notes")
    quiet(b)


@test
def draws_what_is_live(b):
    b.open(make("known"))
    b.keys("p")
    forward, backward = swatch(b, "forward"), swatch(b, "backward")
    assert forward != backward
    assert pixel(b, 20, 8 * MIB) == forward
    assert pixel(b, 95, 8 * MIB) == forward
    assert pixel(b, 20, 24 * MIB) == backward
    assert pixel(b, 55, 20 * MIB) == forward          # what was above fell down
    reserved = pixel(b, 95, 40 * MIB)                 # held, and nothing allocated
    assert reserved[3] == 255 and reserved not in (forward, backward)
    assert pixel(b, 95, 64.5 * MIB)[3] == 0           # above what is held
    cards = b.text("#cards")
    assert "48.0 MiB" in cards and "64.0 MiB" in cards and "101" in cards, cards
    exact = b.run("return [...document.querySelectorAll('#cards [data-copy]')]"
                  ".map(e => e.dataset.copy)")
    assert str(48 * MIB) in exact and str(64 * MIB) in exact, exact
    b.screenshot(OUT / "known-light.png")


@test
def every_column_is_as_high_as_the_bytes_there(b):
    """At the level of the whole, at a finer one and at single events."""
    b.open(make("busy"))
    for begin, end in ((0, 40000), (10000, 20000), (20000, 20300)):
        wrong = b.wait(f"""
            const {{app}} = acre, {{chart}} = app, {{lanes}} = chart;
            for (let i = 0; i < 3; i++) {{   // a level may have to be decoded first
              chart.setView({begin}, Math.min({end}, app.device.moments));
              await new Promise(r => setTimeout(r, 50));
            }}
            const totals = app.device.totals(), scale = lanes.height / chart.top;
            let wrong = [], groups = 0, blocks = 0;
            for (let x = 0; x < lanes.width; x++) {{
              let rows = 0;
              for (let y = 0; y < lanes.height; y++) {{
                const id = lanes.ids[y * lanes.width + x];
                rows += id !== 0;
                groups += id >= 0x80000000;
                blocks += id > 0 && id < 0x80000000;
              }}
              const right = totals.allocated[lanes.shown[x]] * scale;
              if (Math.abs(rows - right) > 1)
                wrong.push([x, rows, right]);
            }}
            return [wrong.slice(0, 5), groups, blocks, lanes.level ? lanes.level.shift : 0];
            """)
        assert not wrong[0], (begin, end, wrong)
        assert wrong[2] > 1000, wrong
        if end == 40000:
            assert wrong[3] == 4 and wrong[1] > 0, wrong
            b.screenshot(OUT / "busy-light.png")
        if end == 20300:
            assert wrong[3] == 0, wrong
    quiet(b)


@test
def hovering_tells_the_stack(b):
    b.open(make("known"))
    b.pointer(spot(b, 20, 8 * MIB))
    text = b.text("#details")
    assert "forward" in text and "model.py:42" in text and "main" in text, text
    assert "16.0 MiB" in text and "0x700000000000" in text and "event 1" in text, text
    assert "forward" in b.text("#tip")
    assert b.text("#moment-text").startswith("event 20, 19.0 ms: "), b.text("#moment-text")
    b.pointer(spot(b, 20, 24 * MIB))
    text = b.text("#details")
    assert "backward" in text and "stream\n7" in text and "event 50" in text, text
    b.pointer(spot(b, 70, 28 * MIB))
    text = b.text("#details")
    assert "waiting" in text and "8,388,508" in text and "20 events" in text, text
    quiet(b)


@test
def mouse_zooms_and_pans(b):
    b.open(make("busy"))
    whole = view(b)
    x, y = spot(b, 10000, 0)
    b.wheel(x, y - 50, -300)
    near = view(b)
    assert near[1] - near[0] < 0.5 * (whole[1] - whole[0]), near
    under = near[0] + (10000 - whole[0]) / (whole[1] - whole[0]) * (near[1] - near[0])
    assert abs(under - 10000) < 0.01 * (near[1] - near[0]), (near, under)
    b.pointer((x, y - 50), "down", (x - 200, y - 50), "up")
    moved = view(b)
    assert moved[0] > near[0] and abs((moved[1] - moved[0]) - (near[1] - near[0])) < 1e-6, moved
    b.wheel(x, y - 50, 3000)
    b.wheel(x, y - 50, 3000)
    b.wheel(x, y - 50, 3000)
    assert view(b) == whole
    quiet(b)


@test
def keys_zoom_pan_and_step(b):
    b.open(make("busy"))
    whole = view(b)
    b.keys("+", "+", UP)
    near = view(b)
    assert near[1] - near[0] < 0.4 * (whole[1] - whole[0]), near
    b.keys(RIGHT)
    right = view(b)
    assert right[0] > near[0]
    b.keys(LEFT)
    assert abs(view(b)[0] - near[0]) < 1
    b.keys(DOWN, "-")
    far = view(b)
    assert far[1] - far[0] > near[1] - near[0]
    b.keys("0")
    assert view(b) == whole
    b.keys("p")
    peak = b.run("return acre.app.device.meta.peak")
    assert b.run("return acre.app.moment") == peak
    b.keys("]", "]", "[")
    assert b.run("return acre.app.moment") == peak + 1
    assert b.text("#space-when") == f"after event {peak + 1:,}"
    b.keys("y")
    assert b.run("return document.getElementById('fit').getAttribute('aria-pressed')") == "true"
    quiet(b)


@test
def search_and_filters(b):
    b.open(make("known"))
    b.keys("p")
    forward, backward = swatch(b, "forward"), swatch(b, "backward")
    b.keys("/")
    b.keys(*"BACKW")
    assert b.text("#matches") == "1 of 4 allocations"
    assert pixel(b, 20, 8 * MIB) == backward          # alone, so at the bottom
    b.keys(ESCAPE)
    assert b.text("#matches") == "" and pixel(b, 20, 8 * MIB) == forward
    for script, count in (
            ("size-min", ("10MiB", 2)), ("size-max", ("8 MiB", 2)), ("stream", ("1", 1)),
            ("pool", ("1", 1))):
        b.run("""
            const field = document.getElementById(arguments[0]);
            field.value = arguments[1];
            field.dispatchEvent(new Event("input", {bubbles: true}));
            """, script, count[0])
        b.frame()
        assert b.text("#matches") == f"{count[1]} of 4 allocations", (script, b.text("#matches"))
        b.click("#clear")
    b.run("document.querySelector('#rows tr').click()")
    b.frame()
    assert b.text("#matches").endswith("allocations of forward"), b.text("#matches")
    b.keys(ESCAPE)
    b.run("""
        const by = document.getElementById("colour");
        by.value = "stream";
        by.dispatchEvent(new Event("input", {bubbles: true}));
        """)
    b.frame()
    assert pixel(b, 20, 24 * MIB) != pixel(b, 20, 8 * MIB)
    quiet(b)


@test
def segments_at_any_moment(b):
    b.open(make("known"))
    b.run("acre.app.go(70)")
    b.frame()
    figures = b.text("#space-figures")
    assert "1 segment, 64.0 MiB reserved, 32.0 MiB allocated, 32.0 MiB free" in figures, figures
    assert "largest free range 24.0 MiB, 25 % of free memory outside" in figures, figures
    place = """
        const m = acre.app.map, s = m.segments[0], box = m.canvas.getBoundingClientRect();
        const along = s.x + arguments[0] / m.scale, row = s.row + Math.floor(along / m.width);
        m.canvas.scrollIntoView({block: "center"});
        const moved = m.canvas.getBoundingClientRect();
        return [moved.x + along % m.width, moved.y + row * 24 + 12];
        """
    b.pointer(b.run(place, 8 * MIB))
    assert "Allocation" in b.text("#details") and "forward" in b.text("#details")
    b.pointer(b.run(place, 20 * MIB))
    assert "Free, inside a segment" in b.text("#details"), b.text("#details")
    b.pointer(b.run(place, 60 * MIB))
    assert "waiting" in b.text("#details")
    b.run("window.scrollTo(0, 0); acre.app.go(20)")
    b.frame()
    assert "48.0 MiB allocated" in b.text("#space-figures")
    b.keys("n")
    assert b.run("return acre.app.moment") > 20
    quiet(b)


@test
def dark_as_the_system_or_by_hand(b):
    b.media("dark")
    b.open(make("known"))
    dark = b.run("return getComputedStyle(document.body).backgroundColor")
    assert b.run("return document.documentElement.dataset.theme") == "dark"
    assert sum(int(part) for part in dark[4:-1].split(",")) < 120, dark
    assert pixel(b, 20, 8 * MIB) == swatch(b, "forward")
    b.screenshot(OUT / "known-dark.png")
    b.keys("t")
    light = b.run("return getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in light[4:-1].split(",")) > 700, light
    b.media("light")
    b.open(make("busy"))
    assert b.run("return document.documentElement.dataset.theme") == "light"
    b.click("#theme")
    b.screenshot(OUT / "busy-dark.png")
    quiet(b)


@test
def several_devices_on_one_page(b):
    b.open(make("known"))
    assert b.text("#devices").split() == ["device", "0", "device", "1"]
    b.keys("2")
    b.wait("await new Promise(r => setTimeout(r, 50));")
    assert b.run("return acre.app.device.meta.device") == 1
    assert "20.0 MiB" in b.text("#cards"), b.text("#cards")
    assert "777" in b.run("return String(acre.app.device.blocks.bytes[0])")
    b.click("#devices button:first-child")
    assert b.run("return acre.app.device.meta.device") == 0
    quiet(b)


@test
def a_state_without_history(b):
    b.open(make("still"))
    assert b.run("return document.getElementById('time').offsetParent === null")
    assert "1 segment, 20.0 MiB reserved, 10.0 MiB allocated" in b.text("#space-figures")
    assert "weights" in b.text("#rows") and "5" in b.text("#rows")
    coloured = b.run("""
        const c = acre.app.map.canvas;
        const data = c.getContext("2d").getImageData(0, 0, c.width, 24).data;
        const seen = new Set();
        for (let i = 0; i < data.length; i += 4)
          seen.add(data.slice(i, i + 4).join());
        return seen.size;
        """)
    assert coloured >= 3, coloured
    b.screenshot(OUT / "still.png")
    quiet(b)


def sample(name):
    """A page of `acre view` for one of the sample snapshots."""
    OUT.mkdir(parents=True, exist_ok=True)
    make_samples = pathlib.Path(__file__).parents[1] / "samples" / "make.py"
    subprocess.run([sys.executable, make_samples, OUT], check=True)
    page = OUT / f"{name}.html"
    subprocess.run([BUILD / "acre", "view", OUT / f"{name}.pickle", "-o", page], check=True,
                   stdout=subprocess.DEVNULL)
    return page


@test
def opens_at_the_failure_of_its_device(b):
    b.open(sample("devices"))
    assert b.run("return acre.app.device.meta.device") == 1
    assert b.run("return acre.app.moment") == 49
    tabs = b.run("return [...document.querySelectorAll('#devices button')].map(e => e.className)")
    assert tabs == ["", "failed", ""], tabs
    assert "Out of memory" in b.text("#details") and "20.0 MiB" in b.text("#details")
    assert b.text("#details li.own").startswith("forward"), b.text("#details li.own")
    b.screenshot(OUT / "devices.png")
    b.open(make("known"))
    assert b.run("return acre.app.moment") == 90
    quiet(b)


@test
def the_own_line_stands_first_and_the_rest_is_folded(b):
    torch = "/x/site-packages/torch/nn/modules/"
    frames = [{"name": name, "filename": file, "line": line} for name, file, line in (
        ("torch::unwind::unwind()", "??", 0), ("at::empty(long)", "??", 0),
        ("forward", torch + "linear.py", 116), ("_call_impl", torch + "module.py", 1518),
        ("attend", "/srv/job/model.py", 31), ("_call_impl", torch + "module.py", 1518),
        ("main", "/srv/job/train.py", 80))]
    failure = {"action": "oom", "device_free": 0, "size": 1 << 20, "stream": 0, "frames": frames,
               "time_us": 5}
    OUT.mkdir(parents=True, exist_ok=True)
    made = [{"action": action, "addr": 1 << 30, "size": 2 * MIB, "stream": 0, "time_us": 1,
             "frames": frames} for action in ("segment_alloc", "alloc")]
    segment = {"device": 0, "address": 1 << 30, "total_size": 2 * MIB, "allocated_size": 2 * MIB,
               "active_size": 2 * MIB, "stream": 0, "segment_type": "large",
               "blocks": [{"size": 2 * MIB, "state": "active_allocated"}]}
    (OUT / "folded.pickle").write_bytes(
        pickle.dumps({"segments": [segment], "device_traces": [[*made, failure]]}))
    subprocess.run([BUILD / "acre", "view", OUT / "folded.pickle", "-o", OUT / "folded.html"],
                   check=True, stdout=subprocess.DEVNULL)
    b.open(OUT / "folded.html")
    shown = b.run("return [...document.querySelectorAll('#details > ol > li')]"
                  ".map(e => e.className + ':' + e.firstChild.textContent)")
    assert shown[:2] == ["own:attend", ":main"] and len(shown) == 3, shown
    assert "unwind" not in b.text("#details"), b.text("#details")
    assert b.text("#details summary").startswith("all 7 frames"), b.text("#details summary")
    b.run("document.querySelector('#details details').open = true")
    assert b.text("#details details").count("_call_impl") == 2
    b.screenshot(OUT / "folded.png")
    quiet(b)


@test
def events_are_listed_and_lead_both_ways(b):
    b.open(sample("oom"))
    b.wait("await new Promise(r => setTimeout(r, 100));")
    assert b.text("#events-count") == "38 of 50", b.text("#events-count")
    now = ".event.now"
    assert b.text(now).startswith("49") and "out of memory" in b.text(now), b.text(now)
    b.run("acre.app.go(5)")
    b.frame()
    assert b.text(now).startswith("5") and "alloc" in b.text(now), b.text(now)
    b.run("document.querySelector('.event[data-moment=\"6\"]').click()")
    b.frame()
    assert b.run("return acre.app.moment") == 6
    assert "append_loss" in b.text("#details"), b.text("#details")
    b.run("[...document.querySelectorAll('#details .jump')][0].click()")
    b.frame()
    assert b.run("return acre.app.moment") == 6
    for kind, count in (("alloc", 24), ("free", 12), ("segment", 1), ("mark", 1), ("", 38)):
        b.run("""
            const kind = document.getElementById("events-kind");
            kind.value = arguments[0];
            kind.dispatchEvent(new Event("input", {bubbles: true}));
            """, kind)
        assert b.text("#events-count") == f"{count} of 50", (kind, b.text("#events-count"))
    b.keys("/")
    b.keys(*"append_loss")
    assert b.text("#events-count") == "12 of 50", b.text("#events-count")
    quiet(b)


@test
def categories_and_segments_over_time(b):
    b.open(sample("oom"))
    assert b.text("#categories").split() == \
        "other 22.0 MiB parameters 16.0 MiB".split(), b.text("#categories")
    b.run("""
        const by = document.getElementById("colour");
        by.value = "category";
        by.dispatchEvent(new Event("input", {bubbles: true}));
        """)
    b.frame()
    assert pixel(b, 45, 8 * MIB) != pixel(b, 45, 20 * MIB)
    found = b.run("""
        const {timeline, chart} = acre.app, height = timeline.canvas.clientHeight;
        timeline.hover({offsetX: chart.xOf(20), offsetY: height - 2});
        return document.getElementById("details").innerText;
        """)
    assert "Segment" in found and "64.0 MiB" in found and "still held at the end" in found, found
    drawn = b.run("""
        const {canvas} = acre.app.timeline, {chart} = acre.app;
        return canvas.getContext("2d").getImageData(chart.xOf(20), canvas.height - 3, 1, 1).data[3];
        """)
    assert drawn > 0
    quiet(b)


@test
def pages_of_builds_without_zlib(b):
    """The same page with every piece as it is gives the same picture."""
    def widen(match):
        data = zlib.decompress(base64.b64decode(match[1]))
        return 'data-form="plain">' + base64.b64encode(data).decode() + "<"

    digest = """
        const {lanes} = acre.app.chart;
        return lanes.ids.reduce((sum, id, at) => (sum * 31 + id + at) % 1000003, 7);
        """
    page = make("busy").read_text()
    plain, count = re.subn(r'data-form="deflate">([^<]*)<', widen, page)
    if count == 0:
        return  # this build has no zlib: all other tests were about such pages
    (OUT / "plain.html").write_text(plain)
    b.open(OUT / "busy.html")
    right = b.run(digest)
    b.open(OUT / "plain.html")
    assert b.run(digest) == right
    assert b.run("return acre.app.chart.lanes.ids.some((id) => id !== 0)")
    quiet(b)


def a_million_events_open_and_move(b):
    path = make("million")
    began = time.monotonic()
    b.open(path)
    opened = time.monotonic() - began
    frames = b.wait("""
        const {app} = acre, {chart} = app, times = [];
        for (const span of [1e6, 3e5, 5e4, 5e3]) {
          chart.setView(2e5, 2e5 + span);
          await new Promise(r => setTimeout(r, 300));
          for (let i = 0; i < 12; i++) {
            chart.pan(i % 2 ? -0.05 : 0.05);
            const from = performance.now();
            app.drawNow();
            times.push(performance.now() - from);
          }
        }
        const hover = performance.now();
        for (let i = 0; i < 10; i++) {
          app.moment = 1e5 + i * 1000;
          app.drawNow();
        }
        times.sort((a, b) => a - b);
        return {most: times[Math.floor(times.length * 0.9)],
                hover: (performance.now() - hover) / 10,
                middle: times[times.length >> 1]};
        """)
    print(f"a million events: open in {opened:.2f} s, page {path.stat().st_size / MIB:.1f} MiB, "
          f"a frame {frames['middle']:.0f} ms, nine of ten below {frames['most']:.0f} ms, "
          f"another moment {frames['hover']:.0f} ms")
    b.screenshot(OUT / "million.png")
    quiet(b)
    assert opened < 3, opened
    assert frames["middle"] < 50 and frames["most"] < 150, frames
    path.unlink()


def main(names):
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.html"):
        old.unlink()
    tests = TESTS + ([a_million_events_open_and_move] if os.environ.get("ACRE_TEST_LONG") else [])
    tests = [function for function in tests if not names or function.__name__ in names]
    failed = 0
    with browser.Browser() as b:
        for function in tests:
            try:
                b.media("light")
                function(b)
                print("ok  ", function.__name__, flush=True)
            except (AssertionError, RuntimeError, TypeError) as error:
                failed += 1
                b.screenshot(OUT / f"failed-{function.__name__}.png")
                line = error.__traceback__
                while line.tb_next:
                    line = line.tb_next
                print(f"FAIL {function.__name__}:{line.tb_lineno}: {error!r}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
