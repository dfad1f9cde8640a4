/* SPDX-License-Identifier: MIT */
#include "sim/sim_conf.h"

#include "sim/sim_fault.h"
#include "base/bits.h"
#include "base/conf.h"
#include "base/status.h"
#include "base/struct_size.h"

#include <string.h>
#include <unistd.h>

#define MEMORY_BYTES_MAX ((uint64_t)1 << 45)

/* ---- Defaults and limits ------------------------------------------------------ */

static acre_status sim_conf_fail(const char *field, uint64_t value, const char *limits)
{
    return status_fail(ACRE_ERR_CONFIG, "reference device: %s %llu; %s", field,
                       (unsigned long long)value, limits);
}

static acre_status sim_conf_check(const acre_sim_config *config)
{
    uint64_t page = config->page_bytes;

    if (config->devices > SIM_DEVICES_MAX)
        return sim_conf_fail("devices", config->devices, "1 to 64 are possible");
    if (config->memory_bytes > MEMORY_BYTES_MAX)
        return sim_conf_fail("memory", config->memory_bytes, "at most 32 TiB are possible");
    if (!is_power_of_two(page) || page < (uint64_t)sysconf(_SC_PAGESIZE) || page > GIB)
        return sim_conf_fail("page", page,
                             "a power of two from the system's page to 1 GiB is possible");
    if (config->dry > 1)
        return sim_conf_fail("dry", config->dry, "0 or 1 is possible");
    if (config->open > 1)
        return sim_conf_fail("open", config->open, "0 or 1 is possible");
    if ((unsigned)config->peers > ACRE_SIM_PEERS_PAIR)
        return sim_conf_fail("peers", (unsigned)config->peers, "0 to 3 are possible");
    if ((unsigned)config->type >= ACRE_DEVICE_TYPE_COUNT)
        return sim_conf_fail("type", (unsigned)config->type, "it is no device type");
    if (config->codec > ACRE_STREAM_CODEC_CUDA)
        return sim_conf_fail("codec", config->codec, "0 or 1 is possible");
    if (config->fault_count > ACRE_SIM_FAULT_MAX)
        return sim_conf_fail("fault_count", config->fault_count, "at most 32 are possible");
    return ACRE_OK;
}

acre_status sim_conf_complete(const acre_sim_config *given, acre_sim_config *out)
{
    acre_sim_config config = {.struct_size = 0};

    if (given) {
        acre_status taken = STRUCT_TAKE("acre_sim_start", acre_sim_config, given, &config);
        if (taken != ACRE_OK)
            return taken;
    }
    config.struct_size = sizeof config;
    config.devices = config.devices ? config.devices : 2;
    config.memory_bytes = config.memory_bytes ? config.memory_bytes : 8 * GIB;
    config.page_bytes = config.page_bytes ? config.page_bytes : 2 * MIB;
    config.type = config.type ? config.type : ACRE_DEVICE_PRIVATE;
    acre_status status = sim_conf_check(&config);
    if (status == ACRE_OK)
        *out = config;
    return status;
}

/* ---- Strings ---------------------------------------------------------------------- */

static acre_status parse_switch(const struct conf_value *value, uint32_t *out)
{
    bool is_on = strcmp(value->text, "1") == 0 || strcmp(value->text, "True") == 0;

    if (!is_on && strcmp(value->text, "0") != 0 && strcmp(value->text, "False") != 0)
        return conf_fail(value, "write 1 or 0");
    *out = is_on;
    return ACRE_OK;
}

static acre_status parse_dry(const struct conf_value *value, void *target)
{
    return parse_switch(value, &((acre_sim_config *)target)->dry);
}

static acre_status parse_open(const struct conf_value *value, void *target)
{
    return parse_switch(value, &((acre_sim_config *)target)->open);
}

/* Names of statuses a fault may answer with. */
static const struct {
    const char *name;
    acre_status status;
} fault_statuses[] = {
    {"device", ACRE_ERR_DEVICE}, {"oom", ACRE_ERR_DEVICE_MEMORY}, {"host", ACRE_ERR_HOST_MEMORY},
    {"limit", ACRE_ERR_LIMIT},   {"busy", ACRE_ERR_BUSY},
};

/* Reads the number behind a mark, if the mark is next. 1 read, 0 not there, -1 bad. */
static int number_after(const char **text, const char *mark, uint64_t *out)
{
    size_t length = strlen(mark), digits;

    if (strncmp(*text, mark, length) != 0)
        return 0;
    digits = strcspn(*text + length, "@%/>=");
    if (!text_parse_bytes(*text + length, digits, out))
        return -1;
    *text += length + digits;
    return 1;
}

static bool parse_call(const char *text, size_t length, acre_sim_call *out)
{
    for (int i = 0; i <= ACRE_SIM_CALL_COUNT; i++) {
        acre_sim_call call = i < ACRE_SIM_CALL_COUNT ? (acre_sim_call)i : ACRE_SIM_ANY;
        const char *name = sim_call_name(call);

        if (strlen(name) == length && memcmp(name, text, length) == 0) {
            *out = call;
            return true;
        }
    }
    return false;
}

/* Reads CALL[@NTH][%PPM[/SEED]][>=BYTES] and leaves text behind it. */
static acre_status parse_when(const struct conf_value *value, const char **text,
                              acre_sim_fault *out)
{
    size_t length = strcspn(*text, "@%/>=");
    uint64_t ppm = 0, seed = 0;

    if (!parse_call(*text, length, &out->call))
        return conf_fail(value, "there is no call \"%.*s\"", (int)length, *text);
    *text += length;
    int nth = number_after(text, "@", &out->nth);
    int chance = number_after(text, "%", &ppm);
    int has_seed = chance > 0 ? number_after(text, "/", &seed) : 0;
    int least = number_after(text, ">=", &out->bytes_min);
    if (nth < 0 || chance < 0 || has_seed < 0 || least < 0 || (nth && out->nth == 0))
        return conf_fail(value, "write CALL[@NTH][%%PPM[/SEED]][>=BYTES], numbers from 1");
    if (chance && (ppm < 1 || ppm > 1000000 || seed > UINT32_MAX))
        return conf_fail(value, "a chance is 1 to 1000000 in a million, a seed has 32 bits");
    out->probability_ppm = (uint32_t)ppm;
    out->seed = (uint32_t)seed;
    return ACRE_OK;
}

static acre_status fault_add(const struct conf_value *value, acre_sim_config *config,
                             const acre_sim_fault *fault)
{
    if (config->fault_count >= ACRE_SIM_FAULT_MAX)
        return conf_fail(value, "at most %d faults are possible", ACRE_SIM_FAULT_MAX);
    config->faults[config->fault_count++] = *fault;
    return ACRE_OK;
}

static acre_status parse_fail(const struct conf_value *value, void *target)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .status = ACRE_ERR_DEVICE};
    const char *text = value->text;
    acre_status status = parse_when(value, &text, &fault);

    if (status != ACRE_OK)
        return status;
    bool is_known = *text == '\0';
    for (size_t i = 0; *text == '=' && i < sizeof fault_statuses / sizeof *fault_statuses; i++)
        if (strcmp(text + 1, fault_statuses[i].name) == 0) {
            fault.status = fault_statuses[i].status;
            is_known = true;
            break;
        }
    if (!is_known)
        return conf_fail(value,
                         "after the call, nothing or =device, =oom, =host, =limit, "
                         "=busy is possible, not \"%s\"",
                         text);
    return fault_add(value, target, &fault);
}

static acre_status parse_late(const struct conf_value *value, void *target)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .is_delay = 1};
    const char *text = value->text;
    acre_status status = parse_when(value, &text, &fault);

    if (status != ACRE_OK)
        return status;
    if (number_after(&text, "=", &fault.delay_ns) != 1 || *text)
        return conf_fail(value, "it ends with =NANOSECONDS");
    return fault_add(value, target, &fault);
}

static const char *const topologies[] = {"all", "none", "ring", "pair", NULL};

static const struct conf_option options[] = {
    {.name = "devices",
     .kind = CONF_UNSIGNED,
     CONF_FIELD(acre_sim_config, devices),
     .min = 1,
     .max = SIM_DEVICES_MAX,
     .help = "number of devices, 1 to 64; default 2"},
    {.name = "memory",
     .kind = CONF_BYTES,
     CONF_FIELD(acre_sim_config, memory_bytes),
     .min = 1,
     .max = MEMORY_BYTES_MAX,
     .help = "capacity of each; default 8GiB"},
    {.name = "page",
     .kind = CONF_BYTES,
     .flags = CONF_POWER_OF_TWO,
     CONF_FIELD(acre_sim_config, page_bytes),
     .min = 4096,
     .max = GIB,
     .help = "granularity of virtual memory; default 2MiB"},
    {.name = "dry",
     .kind = CONF_CUSTOM,
     .parse = parse_dry,
     .help = "1: addresses only, nothing moves; default 0"},
    {.name = "open",
     .kind = CONF_CUSTOM,
     .parse = parse_open,
     .help = "1: the host reaches device memory without a window; default 0"},
    {.name = "peers",
     .kind = CONF_WORD,
     CONF_FIELD(acre_sim_config, peers),
     .words = topologies,
     .help = "which devices reach one another; default all"},
    {.name = "call_ns",
     .kind = CONF_UNSIGNED,
     CONF_FIELD(acre_sim_config, call_ns),
     .max = 10000000000u,
     .help = "nanoseconds added to every call; default 0"},
    {.name = "byte_ps",
     .kind = CONF_UNSIGNED,
     CONF_FIELD(acre_sim_config, byte_ps),
     .max = 1000000000u,
     .help = "picoseconds per byte of alloc, create, map, copy, fill; default 0"},
    {.name = "limit",
     .kind = CONF_BYTES,
     CONF_FIELD(acre_sim_config, limit_bytes),
     .min = 1,
     .help = "out of memory beyond it; default the capacity"},
    {.name = "fail",
     .kind = CONF_CUSTOM,
     .parse = parse_fail,
     .help = "CALL[@NTH][%PPM[/SEED]][>=BYTES][=STATUS]: these calls fail"},
    {.name = "late",
     .kind = CONF_CUSTOM,
     .parse = parse_late,
     .help = "CALL[@NTH][%PPM[/SEED]][>=BYTES]=NANOSECONDS: these calls are late"},
};

static const struct conf_spec spec = {.options = options,
                                      .option_count = sizeof options / sizeof *options,
                                      .target_bytes = sizeof(acre_sim_config)};

acre_status acre_sim_parse(const char *text, acre_sim_config *config)
{
    if (!text || !config)
        return status_fail(ACRE_ERR_INVALID, "acre_sim_parse: %s is NULL",
                           text ? "config" : "text");
    acre_sim_config whole;
    acre_status status = STRUCT_TAKE("acre_sim_parse", acre_sim_config, config, &whole);
    if (status == ACRE_OK)
        status = conf_parse(&spec, "ACRE_SIM", text, &whole, NULL);
    if (status == ACRE_OK)
        STRUCT_GIVE(acre_sim_config, config, &whole);
    return status;
}
