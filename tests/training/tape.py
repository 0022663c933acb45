"""A stand-in for CUDA graphs that runs on a processor: what a step computes, recorded and played again.

Every operation below autograd is written down with the very tensors and numbers it was called with. A replay
calls them again and puts the results where they were: numbers outside of tensors stay those of the recording,
as in a graph. As there, a recording itself changes nothing, and an operation that would wait for the GPU, or
whose result has a size that depends on values, is an error.
"""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from oneof.training import capture

WAITS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


def tensors(tree):
    """Those of a call; the zeros that forward differentiation leaves out have no memory."""
    found = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
    return [tensor for tensor in found if not tensor._is_zerotensor()]


def place(tensor):
    return tensor.untyped_storage()._cdata


class Tape(TorchDispatchMode):
    """In place of `torch.cuda.CUDAGraph`."""

    def __init__(self):
        super().__init__()
        self.generators = [torch.default_generator]
        self.calls = []
        self.before = {}
        self.made = set()

    def register_generator_state(self, generator):
        self.generators.append(generator)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        check(function, args)
        for tensor in tensors((args, kwargs)):
            if place(tensor) not in self.made and place(tensor) not in self.before:
                self.before[place(tensor)] = (tensor, tensor.untyped_storage().clone())
        results = function(*args, **kwargs)
        own = {place(tensor) for tensor in tensors((args, kwargs))}
        new = [place(tensor) not in own for tensor in tensors(results)]
        self.made |= {place(tensor) for tensor in tensors(results)} - own
        self.calls.append((function, args, kwargs, results, new))
        return results

    @contextmanager
    def recording(self):
        states = [generator.get_state() for generator in self.generators]
        with OneHotAsOnGpu(), self:
            yield
        for generator, state in zip(self.generators, states):
            generator.set_state(state)
        for tensor, content in self.before.values():
            tensor.untyped_storage().copy_(content)

    @torch.no_grad()
    def replay(self):
        for function, args, kwargs, results, new in self.calls:
            again = function(*args, **kwargs)
            for old, value, is_new in zip(tensors(results), tensors(again), new):
                if is_new:
                    old.untyped_storage().copy_(value.untyped_storage())


class OneHotAsOnGpu(TorchFunctionMode):
    """Only on a processor does `one_hot` look at its values first."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.one_hot:
            labels, n_classes = args
            return (labels[..., None] == torch.arange(n_classes, device=labels.device)).long()
        return function(*args, **(kwargs or {}))


def check(function, args):
    """Raise where a GPU would have to be waited for."""
    indices = (
        args[1] if function.namespace == "aten" and "index" in function.__name__ and len(args) > 1 else ()
    )
    by_integers = indices and not any(t.dtype in (torch.bool, torch.uint8) for t in tensors(indices))
    if any(tag in function.tags for tag in WAITS) and not by_integers:
        raise RuntimeError(f"{function} waits for the GPU, which cannot be recorded")


class NoStream:
    def wait_stream(self, other):
        pass


def use(monkeypatch):
    """Let captured steps be taped; the list of tapes made from now on."""
    tapes = []

    @contextmanager
    def graph(tape, **options):
        tapes.append(tape)
        with tape.recording():
            yield

    @contextmanager
    def stream(_):
        yield

    stand_ins = {"Stream": NoStream, "current_stream": NoStream, "CUDAGraph": Tape, "graph": graph}
    for name, value in {**stand_ins, "stream": stream}.items():
        monkeypatch.setattr(capture.torch.cuda, name, value)
    return tapes
