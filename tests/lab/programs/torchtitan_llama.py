"""torchtitan 0.2's trainer over a Llama. Arguments: STEPS FLAVOUR, then torchtitan's own.

    torchtitan_llama.py 4 8B --parallelism.tensor_parallel_degree 8       as one rank of a world
"""

import json
import pathlib
import sys
import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers

steps, flavour, options = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
words = ["<unk>", "<s>", "</s>"] + [f"w{i}" for i in range(997)]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
texts = [{"text": " ".join(f"w{(i + j) % 997}" for j in range(400))} for i in range(200)]
with tempfile.TemporaryDirectory() as folder:
    tokenizer.save(f"{folder}/tokenizer.json")
    pathlib.Path(folder, "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    sys.argv[1:] = [
        "--model.name=llama3", f"--model.flavor={flavour}", f"--model.hf_assets_path={folder}",
        f"--training.steps={steps}", "--training.dataset=made", "--training.dataset_path=made",
        "--training.local_batch_size=2", "--training.seq_len=2048", f"--job.dump_folder={folder}", *options,
    ]  # fmt: skip
    # It reads its arguments when it is imported.
    import torchtitan.train as train
    from torchtitan.hf_datasets import DatasetConfig, text_datasets

    text_datasets.DATASETS["made"] = DatasetConfig(
        path="", loader=lambda path: Dataset.from_list(texts), sample_processor=lambda row: row["text"])
    train.main(train.Trainer)
