"""diffusers: the conditional UNet of latent diffusion, denoising objective. Arguments: STEPS."""

import sys

import torch
from diffusers import DDPMScheduler, UNet2DConditionModel

steps = int(sys.argv[1])
model = UNet2DConditionModel(sample_size=64, block_out_channels=(192, 384, 768, 768), cross_attention_dim=768).cuda()
scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(steps):
    size = (48, 64, 56)[step % 3]  # buckets of aspect ratios
    latents = torch.randn(4, 4, size, 64, device="cuda")
    noise, times = torch.randn_like(latents), torch.randint(0, 1000, (4,))
    noisy = scheduler.add_noise(latents, noise, times.cuda())
    with torch.autocast("cuda", torch.bfloat16):
        found = model(noisy, times.cuda(), torch.zeros(4, 77, 768, device="cuda")).sample
    torch.nn.functional.mse_loss(found.float(), noise).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
