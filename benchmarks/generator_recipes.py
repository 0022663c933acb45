"""How the recipe of the generator network shapes instance-dependent candidate sets.

    ONEOF_DATA=DIR OMP_NUM_THREADS=1 python -m benchmarks.generator_recipes \\
        > results/candidates/fmnist_recipes.jsonl

Trains the same network on the clean labels of Fashion-MNIST with several recipes (one seed each, all are
listed) and draws candidate sets at rate 0.4, seed 0. One line of JSON per recipe.
"""

import json
import tempfile
import warnings
from dataclasses import replace

from oneof.candidates import NoInformationWarning
from oneof.candidates.describe import describe
from oneof.candidates.generate import instance_sets
from oneof.datasets import load
from oneof.lab.generator import GENERATORS, beliefs
from oneof.training import Recipe

NAME, RATE, SEED = "fmnist", 0.4, 0
RECIPES = {
    "adam 2e-3, one-cycle, 30 epochs": Recipe(epochs=30, optimiser="adam", lr=2e-3, schedule="one-cycle"),
    "adam 2e-3, one-cycle, 8 epochs": Recipe(epochs=8, optimiser="adam", lr=2e-3, schedule="one-cycle"),
    "sgd 0.01, weight decay 1e-3, constant, 20 epochs": Recipe(
        epochs=20, optimiser="sgd", lr=0.01, weight_decay=1e-3, schedule="constant"
    ),
    "sgd 0.05, weight decay 5e-4, cosine, 20 epochs": Recipe(
        epochs=20, optimiser="sgd", lr=0.05, weight_decay=5e-4, schedule="cosine"
    ),
    "sgd 0.05, weight decay 1e-3, cosine, 20 epochs": Recipe(
        epochs=20, optimiser="sgd", lr=0.05, weight_decay=1e-3, schedule="cosine"
    ),
    "sgd 0.05, weight decay 5e-3, cosine, 20 epochs": Recipe(
        epochs=20, optimiser="sgd", lr=0.05, weight_decay=5e-3, schedule="cosine"
    ),
}


def main() -> None:
    warnings.simplefilter("ignore", NoInformationWarning)
    data = load(NAME)
    generator = GENERATORS[NAME]
    for text, recipe in RECIPES.items():
        GENERATORS[NAME] = replace(generator, recipe=replace(recipe, batch_size=256))
        with tempfile.TemporaryDirectory() as folder:
            made = beliefs(data, folder)
        sets = instance_sets(data.y_train, RATE, SEED, q=made.q, classes=data.classes)
        facts, net = describe(sets, made.q), made.facts["generator"]
        row = {
            "data_set": NAME,
            "recipe": text,
            "rate": RATE,
            "seed": SEED,
            "train_accuracy": net["train_accuracy"],
            "test_accuracy": net["test_accuracy"],
            "mean_size": facts["mean_size"],
            "singletons": facts["singletons"],
            "pairs": facts["pairs"],
            "top_wrong_label_in": facts["top_wrong_label_in"],
            "seconds": net["seconds"],
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
