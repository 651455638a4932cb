"""A recurrent language model: packed sequences of changing length in windows of truncated backpropagation (a window is
smaller where sequences have ended), cuDNN's reserve and workspace, and a loop over cells with many small live blocks.
"""

import random
import sys

import torch
import torch.nn.functional as F
from common import main
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Model(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.recurrent = nn.LSTM(width, width, layers, batch_first=True)
        self.cell = nn.LSTMCell(width, width)  # the decoder's, fed with what it says itself
        self.head = nn.Linear(width, vocabulary)


def build(job):
    vocabulary, width, layers = job.pick((24000, 1024, 3), (97, 32, 2))
    batch, longest, window, decoded = job.batch(128, 4), job.pick(384, 24), job.pick(96, 8), job.pick(24, 4)
    with job.device:
        model = Model(vocabulary, width, layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    draw = random.Random(job.seed)
    job.keep(model)

    def classify(states, target):
        with job.autocast():
            return F.cross_entropy(model.head(states), target)

    def windows(tokens, lengths):
        """The loss of each window in turn, the state carried over and cut off; `lengths` must fall."""
        state = None
        for start in range(0, lengths[0] - 1, window):
            here = [min(window, length - 1 - start) for length in lengths if length - 1 > start]
            inputs = tokens[: len(here), start : start + here[0]]
            target = pack_padded_sequence(tokens[: len(here), start + 1 : start + 1 + here[0]], here, batch_first=True)
            packed = pack_padded_sequence(model.token(inputs), here, batch_first=True)
            if state is not None:
                state = tuple(s[:, : len(here)].detach().contiguous() for s in state)
            outputs, state = model.recurrent(packed, state)
            yield classify(outputs.data, target.data)

    def decode(tokens):
        """The cell continues from each first token, with its own best word instead of the true one at random."""
        word, state, outputs = tokens[:, 0], None, []
        for k in range(decoded):
            with job.autocast():
                state = model.cell(model.token(word), state)
            outputs.append(state[0])
            if draw.random() < 0.5:
                word = tokens[:, k + 1]
            else:
                with torch.no_grad(), job.autocast():
                    word = model.head(state[0]).argmax(-1)
        return classify(torch.cat(outputs), tokens[:, 1 : decoded + 1].t().reshape(-1))

    def step(_):
        lengths = sorted((draw.randint(decoded + 2, longest) for _ in range(batch)), reverse=True)
        tokens, total = job.tokens(batch, lengths[0], vocabulary), torch.zeros((), device=job.device)
        for loss in windows(tokens, lengths):
            loss.backward()
            nn.utils.clip_grad_norm_(model.recurrent.parameters(), 1.0)
            total += loss.detach()
            del loss
        loss = decode(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total + loss.detach()

    return step


if __name__ == "__main__":
    sys.exit(main("lstm_packed", build))
