"""A vision-language model and its processor, small enough for tests and made of the classes that real ones are."""

from __future__ import annotations

from typing import Any

TEMPLATE = (
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{ message.content }}"
    "{%- else %}{% for part in message.content %}"
    "{%- if part.type == 'image' %}{{ '<image>' }}{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "{{- '<|im_end|>\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
IMAGE_SIZE, PATCH_SIZE = 28, 14
TOKENS_OF_IMAGE = (IMAGE_SIZE // PATCH_SIZE) ** 2


def make_processor() -> Any:
    """A LLaVA processor with a byte-level tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlavaProcessor, PreTrainedTokenizerFast
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    words.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|pad|>", "<image>"])
    return LlavaProcessor(
        image_processor=CLIPImageProcessorPil(
            size={"shortest_edge": IMAGE_SIZE}, crop_size={"height": IMAGE_SIZE, "width": IMAGE_SIZE}
        ),
        tokenizer=PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|im_end|>", pad_token="<|pad|>"),
        patch_size=PATCH_SIZE,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )


def make_model(processor: Any) -> Any:
    """A LLaVA of random weights."""
    import torch
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**small, num_hidden_layers=2, image_size=IMAGE_SIZE, patch_size=PATCH_SIZE),
        text_config=LlamaConfig(**small, num_hidden_layers=1, vocab_size=len(processor.tokenizer)),
        image_token_id=processor.tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=TOKENS_OF_IMAGE,
    )
    return LlavaForConditionalGeneration(config)
