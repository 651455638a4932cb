"""Lightning's Trainer: a GPT-2 in bf16-mixed, lengths that vary, validation. Arguments: STEPS."""

import sys

import lightning
import torch
from transformers import GPT2Config, GPT2LMHeadModel

steps = int(sys.argv[1])


class Language(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = GPT2LMHeadModel(GPT2Config(n_embd=1024, n_layer=12, n_head=16, use_cache=False))

    def training_step(self, ids, _):
        return self.model(input_ids=ids, labels=ids).loss

    def validation_step(self, ids, _):
        self.log("loss", self.model(input_ids=ids, labels=ids).loss)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


def texts(count, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.zeros(8, int(torch.randint(100, 1024, (1,), generator=generator)), dtype=torch.long)
            for _ in range(count)]
    return torch.utils.data.DataLoader(rows, batch_size=None)


trainer = lightning.Trainer(max_steps=steps, precision="bf16-mixed", accelerator="gpu", devices=1, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                            val_check_interval=max(1, steps // 2), limit_val_batches=3, num_sanity_val_steps=1)
trainer.fit(Language(), texts(steps, 1), texts(3, 2))
