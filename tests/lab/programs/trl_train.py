"""TRL's trainers. Arguments: STEPS sft|dpo|grpo. The tokenizer is a list of words, made on the spot."""

import copy
import sys
import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

steps, kind = int(sys.argv[1]), sys.argv[2]
words = ["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(997)]
raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
model = LlamaForCausalLM(LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
                                     num_attention_heads=16, vocab_size=1000, pad_token_id=0, eos_token_id=1,
                                     bos_token_id=1))


def text(seed, least, most):
    length = least + (seed * 7919) % (most - least)
    return " ".join(f"w{(seed + i) % 997}" for i in range(length))


common = dict(max_steps=steps, per_device_train_batch_size=4, bf16=True, save_strategy="no", report_to=[],
              disable_tqdm=True, gradient_checkpointing=False)
rows = range(4 * steps)
with tempfile.TemporaryDirectory() as folder:
    if kind == "sft":
        from trl import SFTConfig, SFTTrainer

        trainer = SFTTrainer(model=model, processing_class=tokenizer,
                             train_dataset=Dataset.from_dict({"text": [text(i, 50, 900) for i in rows]}),
                             args=SFTConfig(output_dir=folder, max_length=1024, **common))
    elif kind == "dpo":
        from trl import DPOConfig, DPOTrainer

        data = {"prompt": [text(i, 20, 200) for i in rows], "chosen": [text(i + 1, 50, 500) for i in rows],
                "rejected": [text(i + 2, 50, 500) for i in rows]}
        trainer = DPOTrainer(model=model, ref_model=copy.deepcopy(model), processing_class=tokenizer,
                             train_dataset=Dataset.from_dict(data), args=DPOConfig(output_dir=folder, max_length=768, **common))
    else:
        from trl import GRPOConfig, GRPOTrainer

        trainer = GRPOTrainer(model=model, processing_class=tokenizer,
                              reward_funcs=lambda completions, **_: [float(len(c)) for c in completions],
                              train_dataset=Dataset.from_dict({"prompt": [text(i, 20, 120) for i in rows]}),
                              args=GRPOConfig(output_dir=folder, num_generations=4, max_completion_length=64, **common))
    trainer.train()
