"""Megatron-core's GPT as one rank of eight. Arguments: STEPS [recompute] [experts] [pipeline] [interleaved].

Tensor parallel 2, or expert parallel 2; with `pipeline` pipeline parallel 4 as well, whose neighbours' messages the world's stand-in answers.
"""

import os
import sys

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.moe import moe_utils

if not hasattr(moe_utils, "te_general_gemm"):
    moe_utils.te_general_gemm = None  # megatron-core 0.16 asks for it where there is no TransformerEngine, too

steps, options = int(sys.argv[1]), sys.argv[2:]
recompute, experts, interleaved = "recompute" in options, "experts" in options, "interleaved" in options
tensor = 1 if experts else 2  # experts want sequence parallelism beside tensor parallelism, and that TransformerEngine
stages = 4 if "pipeline" in options or interleaved else 1
LENGTH, BATCH, MICROBATCHES, WORDS = 1024, 4, 4, 32000
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
parallel_state.initialize_model_parallel(
    tensor_model_parallel_size=tensor, pipeline_model_parallel_size=stages,
    virtual_pipeline_model_parallel_size=2 if interleaved else None, expert_model_parallel_size=2 if experts else 1)
model_parallel_cuda_manual_seed(1)
settings = {}
if recompute:
    settings.update(recompute_granularity="full", recompute_method="uniform", recompute_num_layers=1)
if experts:
    settings.update(num_moe_experts=8, moe_router_topk=2, moe_token_dispatcher_type="alltoall", add_bias_linear=False,
                    expert_model_parallel_size=2)
config = TransformerConfig(
    num_layers=8 if experts else 16, hidden_size=2048, num_attention_heads=16, tensor_model_parallel_size=tensor,
    pipeline_model_parallel_size=stages, virtual_pipeline_model_parallel_size=2 if interleaved else None, bf16=True,
    params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, bias_activation_fusion=False,
    masked_softmax_fusion=False, gradient_accumulation_fusion=False, bias_dropout_fusion=False, apply_rope_fusion=False,
    **settings)
spec = get_gpt_layer_local_spec(num_experts=8 if experts else None, moe_grouped_gemm=False)
chunks = []
for chunk in range(2 if interleaved else 1):
    virtual = {"vp_stage": chunk} if interleaved else {}
    model = GPTModel(config=config, transformer_layer_spec=spec, vocab_size=WORDS, max_sequence_length=LENGTH,
                     pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, **virtual),
                     post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, **virtual), **virtual)
    chunks.append(DistributedDataParallel(
        config, DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=True),
        model.cuda().bfloat16()))
optimizer = get_megatron_optimizer(
    OptimizerConfig(optimizer="adam", lr=1e-4, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=True,
                    clip_grad=1.0), chunks)
config.finalize_model_grads_func = None
config.grad_scale_func = optimizer.scale_loss


def forward(_, model):
    ids = torch.zeros(BATCH, LENGTH, dtype=torch.long, device="cuda")
    positions = torch.arange(LENGTH, device="cuda").expand(BATCH, LENGTH)
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool, device="cuda")
    output = model(ids, positions, mask, labels=ids)
    return output, lambda losses: (losses.float().mean(), {})


for _ in range(steps):
    for chunk in chunks:
        chunk.zero_grad_buffer()
    optimizer.zero_grad()
    get_forward_backward_func()(
        forward_step_func=forward, data_iterator=[iter(())] * len(chunks) if interleaved else iter(()), model=chunks,
        num_microbatches=MICROBATCHES, seq_length=LENGTH, micro_batch_size=BATCH, forward_only=False)
    for chunk in chunks:
        chunk.finish_grad_sync()
    optimizer.step()
dist.destroy_process_group()
