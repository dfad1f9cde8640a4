# SPDX-License-Identifier: MIT
"""Training steps of models of the transformers library, from configurations written out.

    transformer.py --model gpt-neo-125m --batch 38 --optimizer AdamW
"""
import argparse

import torch
import transformers

CONFIGS = {
    "gpt-neo-125m": ("GPTNeo", dict(
        hidden_size=768, num_layers=12, num_heads=12, vocab_size=50257, window_size=256,
        max_position_embeddings=2048, attention_types=[[["global", "local"], 6]],
        attention_dropout=0, embed_dropout=0, resid_dropout=0)),
    "t5-small": ("T5", dict(
        d_model=512, d_ff=2048, d_kv=64, num_layers=6, num_decoder_layers=6, num_heads=8,
        vocab_size=32128, decoder_start_token_id=0, pad_token_id=0)),
    "cerebras-111m": ("GPT2", dict(
        n_embd=768, n_inner=3072, n_layer=10, n_head=12, n_positions=2048, vocab_size=50257,
        activation_function="gelu", attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)),
    "distilgpt2": ("GPT2", dict(n_embd=768, n_layer=6, n_head=12, n_positions=1024,
                                vocab_size=50257)),
    "opt-125m": ("OPT", dict(
        hidden_size=768, ffn_dim=3072, num_hidden_layers=12, num_attention_heads=12,
        vocab_size=50272, max_position_embeddings=2048, dropout=0.1, attention_dropout=0.0)),
    "opt-350m": ("OPT", dict(
        hidden_size=1024, ffn_dim=4096, num_hidden_layers=24, num_attention_heads=16,
        vocab_size=50272, max_position_embeddings=2048, dropout=0.1, attention_dropout=0.0,
        word_embed_proj_dim=512, do_layer_norm_before=False)),
    "qwen3-4b": ("Qwen3", dict(
        hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, vocab_size=151936, max_position_embeddings=40960,
        tie_word_embeddings=True, rms_norm_eps=1e-6, rope_theta=1000000.0)),
    "llama-3b": ("Llama", dict(
        hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24,
        num_key_value_heads=8, head_dim=128, vocab_size=128256, max_position_embeddings=131072,
        tie_word_embeddings=True, rope_theta=500000.0,
        rope_scaling={"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                      "original_max_position_embeddings": 8192, "rope_type": "llama3"})),
    "tiny": ("GPT2", dict(n_embd=64, n_layer=2, n_head=4, n_positions=128, vocab_size=512)),
}
HEADS = {"T5": "T5ForConditionalGeneration", "GPT2": "GPT2LMHeadModel"}


def build(name):
    """A model with random weights."""
    family, settings = CONFIGS[name]
    config = getattr(transformers, family + "Config")(**settings)
    return getattr(transformers, HEADS.get(family, family + "ForCausalLM"))(config)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=CONFIGS, default="tiny")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--optimizer", default="AdamW")
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    device = torch.device("cuda")
    model = build(options.model)
    model.train()
    if options.optimizer == "Adafactor":
        optimizer = transformers.Adafactor(model.parameters(), lr=1e-3, relative_step=False)
    else:
        optimizer = getattr(torch.optim, options.optimizer)(model.parameters(), lr=1e-3)
    model.to(device)
    shape = (options.batch, options.length)
    for _ in range(options.steps):
        optimizer.zero_grad()
        batch = {"input_ids": torch.randint(0, 500, shape),
                 "attention_mask": torch.ones(shape, dtype=torch.int64),
                 "labels": torch.randint(0, 500, shape)}
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        outputs = model(**batch)
        loss = outputs.loss
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
