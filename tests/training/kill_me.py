"""A training in a process of its own, for tests that kill it: METHOD, FOLDER, seconds per epoch."""

import sys
import time

import torch

from oneof.methods import make_method
from oneof.training import Run
from tests.methods.harness import fit


class Slow:
    """Says which epoch has ended, and leaves the parent time to kill this process."""

    def __init__(self, say, seconds):
        self.say, self.seconds = say, seconds

    def start(self, title, epochs, done):
        pass

    def epoch(self, row):
        self.say(row["epoch"])
        time.sleep(self.seconds)

    def finish(self):
        pass


def train(name, folder, seconds, say):
    torch.set_num_threads(1)
    recipe = {"epochs": 12, "checkpoint_every": 2}
    fit(make_method(name), recipe=recipe, run=Run(folder), progress=Slow(say, seconds))


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], float(sys.argv[3]), lambda epoch: print("epoch", epoch, flush=True))
