"""Libraries of hand-written Triton kernels. Arguments: STEPS liger|fla."""

import sys

import torch

steps, kind = int(sys.argv[1]), sys.argv[2]
if kind == "liger":
    from liger_kernel.transformers import apply_liger_kernel_to_llama
    from transformers import LlamaConfig, LlamaForCausalLM

    apply_liger_kernel_to_llama()
    model = LlamaForCausalLM(LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=6,
                                         num_attention_heads=16, vocab_size=32000, use_cache=False))  # fmt: skip
else:
    from fla.models import GLAConfig, GLAForCausalLM

    model = GLAForCausalLM(GLAConfig(hidden_size=1024, num_hidden_layers=6, num_heads=4, vocab_size=32000,
                                     use_cache=False))  # fmt: skip
model = model.to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
for _ in range(steps):
    ids = torch.randint(0, 32000, (4, 1024), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
a, r = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
print(f"{kind}: peak live {a / 2**30:.3f} GiB, reserved {r / 2**30:.3f} GiB, fragmentation {100 * (1 - a / r):.2f} %")
