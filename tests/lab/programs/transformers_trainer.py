"""transformers' Trainer: a decoder in bf16, lengths that vary, evaluation. Arguments: STEPS [recompute] [long]."""

import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

steps, recompute, longest = int(sys.argv[1]), "recompute" in sys.argv, 1600 if "long" in sys.argv else 1024


class Texts(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(100, longest, (count,), generator=generator).tolist()

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return {"input_ids": torch.arange(self.lengths[index]) % 32000}


def collate(rows):
    ids = torch.nn.utils.rnn.pad_sequence([row["input_ids"] for row in rows], batch_first=True)
    return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}


config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16,
                     vocab_size=32000, use_cache=False)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, max_steps=steps, per_device_train_batch_size=8, per_device_eval_batch_size=8, bf16=True,
        gradient_checkpointing=recompute, eval_strategy="steps", eval_steps=max(1, steps // 3), logging_steps=10,
        save_strategy="no", report_to=[], disable_tqdm=True, seed=1)
    Trainer(model=LlamaForCausalLM(config), args=arguments, data_collator=collate,
            train_dataset=Texts(8 * steps, 1), eval_dataset=Texts(24, 2)).train()
