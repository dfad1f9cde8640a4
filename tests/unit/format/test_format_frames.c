/* SPDX-License-Identifier: MIT */
/* The user's own line, and what memory is for, by the frames of a stack. */
#include "format/frames.h"
#include "tests/support/t.h"

TEST(kinds_of_frames)
{
    static const struct {
        const char *name, *file;
        enum frames_kind kind;
    } cases[] = {
        {"forward", "/srv/job/model.py", FRAME_OWN},
        {"<module>", "train.py", FRAME_OWN},
        {"<cell line: 3>", "<ipython-input-3-abc>", FRAME_OWN},
        {"step", "/srv/torch/train.py", FRAME_OWN},
        {"forward", "D:\\job\\model.py", FRAME_OWN},
        {"linear", "/opt/conda/lib/python3.10/site-packages/torch/nn/functional.py", FRAME_LIBRARY},
        {"einsum", "D:\\job\\.venv\\Lib\\site-packages\\einops\\einops.py", FRAME_LIBRARY},
        {"step", "/usr/lib/python3/dist-packages/torch/optim/adam.py", FRAME_LIBRARY},
        {"_call_impl", "/opt/pytorch/torch/nn/modules/module.py", FRAME_LIBRARY},
        {"_str", "/opt/pytorch/torch/_tensor_str.py", FRAME_LIBRARY},
        {"cpu", "/opt/pytorch/torch/storage.py", FRAME_LIBRARY},
        {"log_prob", "/opt/pytorch/torch/distributions/normal.py", FRAME_LIBRARY},
        {"step", "/srv/torch/signals.py", FRAME_OWN},
        {"call", "/tmp/torchinductor_me/ab/cabc.py", FRAME_LIBRARY},
        {"forward", "<eval_with_key>.4", FRAME_LIBRARY},
        {"run", "/usr/lib/python3.11/threading.py", FRAME_INTERPRETER},
        {"run", "C:\\Python311\\Lib\\threading.py", FRAME_INTERPRETER},
        {"_run_module", "<frozen runpy>", FRAME_INTERPRETER},
        {"at::empty", "??", FRAME_NATIVE},
        {"c10::x", "CUDACachingAllocator.cpp", FRAME_NATIVE},
        {"_PyEval_EvalFrameDefault", "", FRAME_NATIVE},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        EXPECT_EQ(frames_kind(cases[i].name, cases[i].file), cases[i].kind);
}

/* Adds frames up to a NULL: name, file, name, file. */
static struct frames stack_of(const char *const *parts)
{
    struct frames frames = FRAMES_NONE;

    for (; *parts; parts += 2)
        frames_add(&frames, parts[0], parts[1]);
    return frames;
}

TEST(the_own_line_is_found_however_deep)
{
    struct frames frames = FRAMES_NONE;

    for (int i = 0; i < 200; i++)
        frames_add(&frames, "at::native::x", "??");
    frames_add(&frames, "einsum", "/x/site-packages/einops/einops.py");
    frames_add(&frames, "_call_impl", "/x/site-packages/torch/nn/modules/module.py");
    frames_add(&frames, "attend", "/srv/job/model.py");
    frames_add(&frames, "main", "/srv/job/main.py");
    EXPECT_EQ(frames.own, 202);
    EXPECT_EQ(frames.library, 200);
    EXPECT_EQ(frames.count, 204);
}

TEST(categories)
{
    static const struct {
        const char *parts[7];
        enum frames_category category;
    } cases[] = {
        {{"_init_group", "/x/site-packages/torch/optim/adam.py", "main", "a.py", NULL},
         CATEGORY_OPTIMIZER},
        {{"backward", "/x/site-packages/torch/_tensor.py", "main", "a.py", NULL},
         CATEGORY_GRADIENTS},
        {{"torch::autograd::Engine::evaluate_function(x)", "??", NULL}, CATEGORY_GRADIENTS},
        {{"linear", "/x/site-packages/torch/nn/functional.py", "forward", "a.py", NULL},
         CATEGORY_ACTIVATIONS},
        {{"__init__", "model.py", "main", "a.py", NULL}, CATEGORY_PARAMETERS},
        {{"main", "a.py", NULL}, CATEGORY_OTHER},
        {{NULL}, CATEGORY_UNKNOWN},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct frames frames = stack_of(cases[i].parts);
        EXPECT_EQ(frames_category(&frames), cases[i].category);
    }
    EXPECT_EQ(frames_category_of_text("Optimizer.step"), CATEGORY_OPTIMIZER);
    EXPECT_EQ(frames_category_of_text("## backward ##"), CATEGORY_GRADIENTS);
    EXPECT_EQ(frames_category_of_text("loading"), CATEGORY_UNKNOWN);
    EXPECT_STR_EQ(frames_category_name(CATEGORY_OPTIMIZER), "optimizer state");
}

T_MAIN()
