/* SPDX-License-Identifier: MIT */
#include "format/frames.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* What frames.seen holds. */
enum {
    SEEN_OPTIMIZER = 1u << 0,
    SEEN_BACKWARD = 1u << 1,
    SEEN_FORWARD = 1u << 2,
    SEEN_SETUP = 1u << 3,
    SEEN_NOTE = 1u << 8 /* times the category that a note of the program names */
};

static bool is_separator(char c)
{
    return c == '/' || c == '\\';
}

/* Whether a folder of this name is in the path; gives what stands behind it. */
static const char *folder_find(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    for (const char *at = path; (at = strstr(at, folder)) != NULL; at++)
        if ((at == path || is_separator(at[-1])) && is_separator(at[length]))
            return at + length + 1;
    return NULL;
}

/* ---- Kinds --------------------------------------------------------------------------------- */

static bool has_ending(const char *text, const char *ending)
{
    size_t length = strlen(text), tail = strlen(ending);

    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

/* A folder "torch" belongs to PyTorch when one of its own parts follows; a project may have
 * a folder of that name too. */
static bool is_torch(const char *file)
{
    static const char *const parts[] = {
        "nn",          "optim",      "autograd",      "utils",       "cuda",
        "distributed", "_dynamo",    "_inductor",     "_functorch",  "fx",
        "amp",         "_tensor.py", "_ops.py",       "_higher_",    "functional.",
        "_prims",      "_refs",      "_decomp",       "_compile.py", "_library",
        "export",      "jit",        "_subclass",     "profiler",    "random.py",
        "_C",          "__init__",   "serialization", "npu",         "_jit_internal",
        "_tensor_str", "_utils",     "storage.py",    "overrides",   "_meta_registrations",
        "_linalg",     "_vmap",      "_lobpcg",       "_lowrank",    "_guards",
        "_numpy",      "_export",    "_lazy",         "_logging",    "_weights_only",
        "_custom_op",  "library.py", "quasirandom",   "hub.py",      "multiprocessing"};
    static const char *const folders[] = {
        "linalg",  "sparse", "nested",       "distributions", "ao",       "func",       "fft",
        "special", "masked", "onnx",         "backends",      "compiler", "signal",     "xpu",
        "mps",     "mtia",   "quantization", "futures",       "testing",  "accelerator"};
    const char *rest = folder_find(file, "torch");

    for (size_t i = 0; rest && i < sizeof parts / sizeof *parts; i++)
        if (strncmp(rest, parts[i], strlen(parts[i])) == 0)
            return true;
    for (size_t i = 0; rest && i < sizeof folders / sizeof *folders; i++)
        if (strncmp(rest, folders[i], strlen(folders[i])) == 0 &&
            is_separator(rest[strlen(folders[i])]))
            return true;
    return false;
}

/* lib/python3.11/threading.py, Lib\threading.py */
static bool is_standard(const char *file)
{
    for (const char *at = file; (at = strstr(at, "python")) != NULL; at++)
        if (at > file && is_separator(at[-1]) && isdigit((unsigned char)at[6]) && at - file >= 5 &&
            (strncmp(at - 4, "lib", 3) == 0 || strncmp(at - 6, "lib64", 5) == 0))
            return true;
    const char *rest = folder_find(file, "Lib");
    return rest && strchr(file, '\\') && !strchr(rest, '\\');
}

enum frames_kind frames_kind(const char *name, const char *file)
{
    if (strncmp(file, "<frozen", 7) == 0)
        return FRAME_INTERPRETER;
    if (strncmp(file, "<eval_with_key", 14) == 0 || strstr(file, "torchinductor_"))
        return FRAME_LIBRARY;
    if (*file == '<' || has_ending(file, ".ipynb"))
        return strstr(name, "::") ? FRAME_NATIVE : FRAME_OWN;
    if (!has_ending(file, ".py") && !has_ending(file, ".pyx"))
        return FRAME_NATIVE;
    if (folder_find(file, "site-packages") || folder_find(file, "dist-packages") || is_torch(file))
        return FRAME_LIBRARY;
    return is_standard(file) ? FRAME_INTERPRETER : FRAME_OWN;
}

bool frames_is_dull(const char *name)
{
    static const char *const names[] = {"torch::unwind",           "torch::CapturedTraceback",
                                        "torch::cuda::(anonymous", "c10::cuda::CUDACachingAll",
                                        "c10::CachingDeviceAll",   "_call_impl",
                                        "_wrapped_call_impl",      "decorate_context"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* ---- Categories ---------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static uint32_t frame_sight(const char *name, const char *file)
{
    static const char *const forward[] = {"forward", "_call_impl", "_wrapped_call_impl", NULL};
    static const char *const setup[] = {"__init__",        "_apply",
                                        "from_pretrained", "reset_parameters",
                                        "load_state_dict", "init_empty_weights",
                                        "to_empty",        "_load_pretrained_model",
                                        "load_model",      NULL};
    const char *torch = folder_find(file, "torch");
    uint32_t seen = 0;

    if ((torch && strncmp(torch, "optim", 5) == 0) || strcmp(name, "_init_group") == 0 ||
        strcmp(name, "init_state") == 0 || (strcmp(name, "step") == 0 && strstr(file, "optim")))
        seen |= SEEN_OPTIMIZER;
    if (strstr(name, "autograd::Engine") || strstr(name, "AccumulateGrad") ||
        strcmp(name, "_engine_run_backward") == 0 || strcmp(name, "backward") == 0)
        seen |= SEEN_BACKWARD;
    if (is_one_of(name, forward))
        seen |= SEEN_FORWARD;
    if (is_one_of(name, setup))
        seen |= SEEN_SETUP;
    return seen;
}

void frames_add(struct frames *frames, const char *name, const char *file)
{
    enum frames_kind kind = frames_kind(name, file);

    if (strcmp(file, FRAMES_NOTE) == 0) {
        frames->seen |= (uint32_t)frames_category_of_text(name) * SEEN_NOTE;
        frames->count++;
        return;
    }
    if (kind == FRAME_OWN && frames->own < 0 && !frames_is_dull(name))
        frames->own = frames->count;
    if (kind == FRAME_LIBRARY && frames->library < 0 && !frames_is_dull(name))
        frames->library = frames->count;
    frames->seen |= frame_sight(name, file);
    frames->count++;
}

enum frames_category frames_category(const struct frames *frames)
{
    if (frames->count == 0)
        return CATEGORY_UNKNOWN;
    if (frames->seen / SEEN_NOTE)
        return (enum frames_category)(frames->seen / SEEN_NOTE);
    if (frames->seen & SEEN_OPTIMIZER)
        return CATEGORY_OPTIMIZER;
    if (frames->seen & SEEN_BACKWARD)
        return CATEGORY_GRADIENTS;
    if (frames->seen & SEEN_FORWARD)
        return CATEGORY_ACTIVATIONS;
    return frames->seen & SEEN_SETUP ? CATEGORY_PARAMETERS : CATEGORY_OTHER;
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);

    for (; *text; text++)
        if (strncasecmp(text, word, length) == 0)
            return true;
    return false;
}

enum frames_category frames_category_of_text(const char *text)
{
    static const struct {
        const char *word;
        enum frames_category category;
    } words[] = {{"optim", CATEGORY_OPTIMIZER},    {"gradient", CATEGORY_GRADIENTS},
                 {"backward", CATEGORY_GRADIENTS}, {"param", CATEGORY_PARAMETERS},
                 {"weight", CATEGORY_PARAMETERS},  {"activation", CATEGORY_ACTIVATIONS},
                 {"forward", CATEGORY_ACTIVATIONS}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(text, words[i].word))
            return words[i].category;
    return CATEGORY_UNKNOWN;
}

const char *frames_category_name(enum frames_category category)
{
    static const char *const names[] = {
#define FRAMES_NAME(constant, name) name,
        FRAMES_CATEGORIES(FRAMES_NAME)
#undef FRAMES_NAME
    };

    return names[category];
}
