"""The entries of the registry: sizes, licences, citations, official sources and checksums."""

from oneof.datasets.catalogue.cifar import CIFAR
from oneof.datasets.catalogue.idx import IDX
from oneof.datasets.catalogue.tables import TABLES
from oneof.datasets.catalogue.tiny_imagenet import TINY_IMAGENET

ENTRIES = {entry.name: entry for entry in (*TABLES, *IDX, *CIFAR, TINY_IMAGENET)}

ALIASES = {
    "bird-song": "birdsong",
    "birdac": "birdsong",
    "cifar-10": "cifar10",
    "cifar-100": "cifar100",
    "fashion-mnist": "fmnist",
    "fashionmnist": "fmnist",
    "kuzushiji-mnist": "kmnist",
    "lyn": "yahoo-news",
    "soccer": "soccer-player",
    "soccerplayer": "soccer-player",
    "spd": "soccer-player",
    "tiny-imagenet-200": "tiny-imagenet",
    "tinyimagenet": "tiny-imagenet",
    "yahoo!-news": "yahoo-news",
    "yahoonews": "yahoo-news",
}
"""Other spellings met in papers and codes."""
