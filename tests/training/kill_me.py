"""A training in a process of its own, for tests that kill it: METHOD, FOLDER, seconds per epoch."""

import sys

import torch

from oneof.methods import make_method
from oneof.training import Run
from tests.methods.harness import fit

if __name__ == "__main__":
    torch.set_num_threads(1)
    name, folder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])

    class Slow:
        """Leaves the parent time to kill this process in the middle of an epoch's log line."""

        def start(self, title, epochs, done):
            pass

        def epoch(self, row):
            print("epoch", row["epoch"], flush=True)
            if seconds:
                import time

                time.sleep(seconds)

        def finish(self):
            pass

    fit(make_method(name), recipe={"epochs": 12, "checkpoint_every": 2}, run=Run(folder), progress=Slow())
