"""Writes a model folder that vLLM can serve. Run by the Python that vLLM is installed for:

    python -m tests.servers.vllm_models tiny FOLDER
    python -m tests.servers.vllm_models smollm2 FOLDER WEIGHTS.gguf TEMPLATE.jinja

`tiny` is a Llama of two layers with random weights and the tokenizer of `tests.servers.tiny_lm`. `smollm2` is the model
of that GGUF file, made into safetensors: vLLM does not read GGUF without a GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path


def write_tiny(folder: Path) -> None:
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from tests.servers.tiny_lm import make_tokenizer

    make_tokenizer(folder)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=4096, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(str(folder))


def write_smollm2(folder: Path, weights: Path, template: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    tokenizer.save_pretrained(str(folder))
    read = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = read.config
    # What was read knows that it had been quantised, and would not let itself be saved.
    del config.quantization_config
    whole = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    whole.load_state_dict(read.state_dict())
    whole.generation_config.eos_token_id = config.eos_token_id = tokenizer.eos_token_id
    whole.save_pretrained(str(folder))


if __name__ == "__main__":
    kind, target, *given = sys.argv[1:]
    made = Path(target)
    made.mkdir(parents=True, exist_ok=True)
    if kind == "tiny":
        write_tiny(made)
    else:
        write_smollm2(made, Path(given[0]), Path(given[1]))
