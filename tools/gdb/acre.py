# SPDX-License-Identifier: MIT
"""Acre in gdb: what a cache holds, without running a line of the program.

    (gdb) source tools/gdb/acre.py
    (gdb) acre cache EXPRESSION      statistics, segments and blocks, as acre_cache_dump()
    (gdb) acre pools EXPRESSION      what the pools of a cache hold
    (gdb) acre block EXPRESSION      the block around an address: acre block CACHE, ADDRESS
    (gdb) print *block               blocks, segments and data pointers in one line

EXPRESSION is of type acre_cache *. Works on live processes and on core files; the library
must have been built with debug information (the preset dev). Statistics of policy "acre"
are those without what threads have at hand.
"""
import gdb

STATES = ("free", "live", "waiting", "unmapped", "direct", "spare", "lent")
UNMAPPED, LENT, LIVE = 3, 6, 1
TAG_USED = 1 << 63  # in the tag of a block that other streams use
ARRAYS = ("allocation", "segment", "active", "inactive_split", "allocated_bytes",
          "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes")
SINGLES = ("oversize_allocations", "oversize_segments")
COUNTERS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
            "num_device_free", "num_oom_rejections", "max_split_size")
STAT_FIELDS = ("current", "peak", "allocated", "freed")


# ---- Walking ---------------------------------------------------------------------------

def number(value):
    """A number or an address."""
    return int(value.cast(gdb.lookup_type("unsigned long")))


def pointer(value):
    """An address as printf writes it with %p."""
    address = number(value)
    return f"0x{address:x}" if address else "(nil)"


def linked(head, type_name, member="link"):
    """The elements of a list of base/list.h."""
    kind = gdb.lookup_type(type_name)
    field = next(field for field in kind.fields() if field.name == member)
    link = head["next"]
    while number(link) != number(head.address):
        yield gdb.Value(number(link) - field.bitpos // 8).cast(kind.pointer()).dereference()
        link = link["next"]


def blocks_of(segment):
    """The blocks of a segment in address order."""
    block = segment["first"]
    while number(block):
        yield block.dereference()
        block = block["next"]


def segments_of(cache):
    """The segments of a cache in address order."""
    found = list(linked(cache["segments"], "struct segment"))
    return sorted(found, key=lambda segment: number(segment["base"]))


def state_of(block):
    """What a block is doing; one that a thread keeps at hand is free."""
    state = number(block["state"])
    at_hand = state == LIVE and number(block["arena"]) and \
        number(block["tag"]) & ~TAG_USED != number(block["base"])
    return "free" if at_hand else STATES[state]


def runs_of(segment):
    """Runs of blocks that have memory of their own: what users see as segments."""
    run = []
    for block in blocks_of(segment):
        if number(block["state"]) in (UNMAPPED, LENT):
            if run:
                yield run
            run = []
        else:
            run.append(block)
    if run:
        yield run


# ---- Pictures --------------------------------------------------------------------------

def stat_line(name, stat):
    return f"{name:<24} " + " ".join(f"{int(stat[field]):16d}" for field in STAT_FIELDS)


def stat_lines(stats):
    """The statistics, as acre_cache_dump() prints them."""
    yield "statistic".ljust(24) + " " + " ".join(field.rjust(16) for field in STAT_FIELDS)
    for name in ARRAYS:
        yield stat_line(name, stats[name]["all"])
        yield stat_line("  small", stats[name]["small_pool"])
        yield stat_line("  large", stats[name]["large_pool"])
    for name in SINGLES:
        yield stat_line(name, stats[name])
    for name in COUNTERS:
        yield f"{name:<24} {int(stats[name]):16d}"


def block_text(block):
    return (f"{pointer(block['base'])} {number(block['bytes']):12d} {state_of(block)}, "
            f"asked {number(block['requested'])}")


def segment_lines(segment):
    """A segment and its blocks, as acre_cache_dump() prints them."""
    pool = segment["pool"].dereference()
    for run in runs_of(segment):
        size = sum(number(block["bytes"]) for block in run)
        yield (f"segment {pointer(run[0]['base'])} {size} bytes, "
               f"{'small' if pool['is_small'] else 'large'}, stream {pointer(segment['stream'])}, "
               f"number {number(segment['order'])}")
        for block in run:
            yield "    " + block_text(block)


def pool_line(name, pool):
    return (f"{name:<24} holds {number(pool['held_bytes'])} bytes in "
            f"{number(pool['segment_count'])} segments, {number(pool['free_bytes'])} free in "
            f"{number(pool['free_count'])} blocks")


# ---- Commands --------------------------------------------------------------------------

def cache_of(text):
    """The cache that an expression points to."""
    value = gdb.parse_and_eval(text)
    if value.type.strip_typedefs().code != gdb.TYPE_CODE_PTR or not number(value):
        raise gdb.GdbError(f"{text} is not the address of a cache (acre_cache *)")
    return value.cast(gdb.lookup_type("struct acre_cache").pointer()).dereference()


class Acre(gdb.Command):
    """What caches of Acre hold: acre cache, acre pools, acre block."""

    def __init__(self):
        super().__init__("acre", gdb.COMMAND_DATA, prefix=True)


class AcreCache(gdb.Command):
    """acre cache EXPRESSION: statistics, segments and blocks of a cache."""

    def __init__(self):
        super().__init__("acre cache", gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        cache = cache_of(argument)
        for line in stat_lines(cache["stats"]):
            print(line)
        for segment in segments_of(cache):
            for line in segment_lines(segment):
                print(line)


class AcrePools(gdb.Command):
    """acre pools EXPRESSION: what the pools of a cache hold."""

    def __init__(self):
        super().__init__("acre pools", gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        cache = cache_of(argument)
        print(pool_line("shared, small", cache["small"]))
        print(pool_line("shared, large", cache["large"]))
        for private in linked(cache["private_pools"], "struct private_pool"):
            name = f"{number(private['large']['id'][0])}, {number(private['large']['id'][1])}"
            print(pool_line(f"private {name}, small", private["small"]))
            print(pool_line(f"private {name}, large", private["large"]))


class AcreBlock(gdb.Command):
    """acre block CACHE, ADDRESS: the block of a cache around an address."""

    def __init__(self):
        super().__init__("acre block", gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        first, comma, second = argument.partition(",")
        if not comma:
            raise gdb.GdbError("acre block CACHE, ADDRESS: two expressions are needed")
        address = number(gdb.parse_and_eval(second))
        for segment in segments_of(cache_of(first)):
            for block in (block for run in runs_of(segment) for block in run):
                base = number(block["base"])
                if base <= address < base + number(block["bytes"]):
                    print(block_text(block))
                    return
        print(f"0x{address:x} is in no segment of this cache")


# ---- Values in one line ----------------------------------------------------------------

class Line:
    """Shows a value by a function that makes a line of it."""

    def __init__(self, value, show):
        self.value = value
        self.show = show

    def to_string(self):
        return self.show(self.value)


def segment_text(segment):
    count = sum(1 for _ in blocks_of(segment))
    return f"segment {pointer(segment['base'])} {number(segment['bytes'])} bytes, {count} blocks"


def data_ptr_text(ptr):
    device = ptr["device"]
    return f"{pointer(ptr['data'])} on {device['type']}:{int(device['index'])}"


LINES = {"block": block_text, "segment": segment_text, "acre_data_ptr": data_ptr_text}


def printer(value):
    """A printer for the types above, None for others."""
    name = value.type.strip_typedefs().unqualified().tag
    return Line(value, LINES[name]) if name in LINES else None


Acre()
AcreCache()
AcrePools()
AcreBlock()
gdb.pretty_printers.append(printer)
