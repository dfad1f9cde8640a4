# SPDX-License-Identifier: MIT
"""Weights in local files, as the transformers library saves and loads them.

    pretrained.py FOLDER     writes a tiny model into FOLDER twice (safetensors, bin), loads both
"""
import os
import sys

import torch
import transformers

os.environ["HF_HUB_OFFLINE"] = "1"
folder = sys.argv[1]
config = transformers.GPT2Config(n_embd=256, n_layer=2, n_head=4, n_positions=64, vocab_size=4096)
model = transformers.GPT2LMHeadModel(config)
model.save_pretrained(os.path.join(folder, "safe"))
model.save_pretrained(os.path.join(folder, "bin"), safe_serialization=False)
for kind in ("safe", "bin"):
    path = os.path.join(folder, kind)
    print(kind, sorted(name for name in os.listdir(path) if "model" in name))
    loaded = transformers.AutoModelForCausalLM.from_pretrained(path)
    assert loaded.transformer.wte.weight.shape == (4096, 256)
    loaded = loaded.cuda()
    half = transformers.AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.bfloat16)
    half = half.to("cuda")
    loss = half(torch.ones(2, 16, dtype=torch.int64).cuda(),
                labels=torch.ones(2, 16, dtype=torch.int64).cuda()).loss
    loss.backward()
    state = torch.load(os.path.join(folder, "bin", "pytorch_model.bin"), map_location="cuda:0",
                       weights_only=True)
    loaded.load_state_dict(state)
    out = loaded.generate(torch.ones(1, 4, dtype=torch.int64).cuda(), max_new_tokens=3,
                          do_sample=False, pad_token_id=0)
    print(kind, loaded.device, half.dtype, tuple(out.shape), state["lm_head.weight"].device)
