"""One training in progress: everything that changes, one step, one epoch, and how to continue it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

import oneof
from oneof.candidates import Candidates
from oneof.methods import parallel
from oneof.methods.base import Batch, CleanBatch, Method, Restart, State, StepInfo, Task
from oneof.methods.losses import set_loss
from oneof.methods.optimisers import like_parameters, make_optimiser
from oneof.nets import Net, as_net, evaluation_mode
from oneof.nets.fast import compile_features, with_fast_features, without_fast_features
from oneof.training.capture import CapturedStep
from oneof.training.checkpoint import generator_states, restore_generators
from oneof.training.clean import CleanRows
from oneof.training.clean_order import CleanOrder
from oneof.training.distributed import make_shards, meet, synchronised
from oneof.training.recipe import SCHEDULES, Recipe, Speed, choose_speed
from oneof.training.sources import EVALUATION_BATCH, Rows, as_input, make_rows
from oneof.training.stopping import EarlyStopping
from oneof.views import Views

OTHER_PROCESS = 100_003
"""Between the seeds of two processes."""


class TrainingError(RuntimeError):
    """Training cannot go on. The message says where it stood and what to try."""


@dataclass
class Trained:
    """The result of a fit."""

    method: Method
    state: State
    history: list[dict[str, Any]]
    """One row per epoch, as in `metrics.jsonl`."""
    pseudo_labels: np.ndarray
    """(n, c): the disambiguated training set, at the last epoch."""
    best_epoch: int
    """Epoch whose weights are kept."""
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)


def _made(net: nn.Module | Callable[[], nn.Module]) -> Net:
    """The net to train: made now if a function was given, and seen as features and head."""
    net = net if isinstance(net, nn.Module) else net()
    return net if isinstance(net, Net) else as_net(net)


class Fit:
    """One training in progress. Whatever it holds that changes is in `state_dict`."""

    def __init__(
        self,
        method: Method,
        net: nn.Module | Callable[[], nn.Module],
        x: Any,
        candidates: Candidates,
        recipe: Recipe,
        clean: CleanRows | None,
        selection: CleanRows | None,
        test: tuple[Any, Any] | None,
        views: Views,
        device: torch.device,
    ) -> None:
        self.method, self.recipe, self.views, self.device = method, recipe, views, device
        self.candidate_sets, self.clean_rows = candidates, clean
        self.shards = make_shards(len(candidates), recipe.shards, method)
        net = _made(net).to(device)
        self.net_text = str(net)
        self.dtype = next((p.dtype for p in net.parameters()), torch.get_default_dtype())
        self.rows: Rows = make_rows(x, device, self.dtype, recipe.workers, self.shards.own)
        if len(self.rows) != len(candidates):
            raise ValueError(f"there are {len(self.rows)} inputs but {len(candidates)} candidate sets")
        self.batch_size = recipe.rows_per_step(len(candidates), self.shards.count)
        self.own_batch = self.batch_size // parallel.world_size()
        steps = self.shards.steps(self.batch_size)
        self.candidates = torch.as_tensor(candidates.mask.copy()).to(device)
        self.truth = None if candidates.truth is None else torch.as_tensor(candidates.truth.copy()).to(device)
        # these rows too stay as they are stored (bytes): views are made of a batch when it is needed
        self.clean = self._on_device(clean)
        self.selection = self._on_device(selection) if selection is not None else self.clean
        self.test = None if test is None else (as_input(test[0], self.dtype).to(device), test[1])

        # orders are drawn on the CPU, so that they are the same on every device; clean rows have their
        # own generator, so that all methods see the training rows in the same order
        self.order = torch.Generator().manual_seed(recipe.seed)
        self.clean_order = CleanOrder(0 if clean is None else len(clean), self.shards, recipe.seed + 2)
        generator = torch.Generator(device).manual_seed(recipe.seed + 1)
        self.step = StepInfo(-1, 0, recipe.epochs, steps, recipe.lr, generator)
        example = views.plain(next(self.rows.batches(self._own_rows()[:2], 2))[1])
        alone = parallel.world_size() == 1  # processes talk to one another in the middle of a step
        self.speed: Speed = choose_speed(recipe, device, example, method.capturable and alone)
        if recipe.sync_batch_norm:
            net = synchronised(net, device)
        if self.speed.wraps_features:
            net = with_fast_features(net, self.speed.precision, self.speed.channels_last)
        self.task = Task(
            net=net,
            candidates=self.candidates,
            example=example,
            device=device,
            dtype=self.dtype,
            epochs=recipe.epochs,
            batch_size=self.batch_size,
            steps_per_epoch=steps,
            lr=recipe.lr,
            has_clean=self.clean is not None,
            truth=self.truth,
            row_pass=self.each_row,
        )
        self.captured: CapturedStep | None = None
        self.state = method.setup(self.task).to(device)
        if self.speed.captured and not method.captures(self.state):
            self.speed = replace(self.speed, captured=False)
        parallel.from_first_(self.state.state_dict().values())  # a net that was given may differ
        self._draw_apart()
        if self.speed.compiled:
            compile_features(self.state, self.batch_size)
        self.optimiser = self._main_optimiser()
        self.loss_sum = torch.zeros((), device=device, dtype=self.dtype)
        self.stopping = EarlyStopping(recipe.patience)
        self.best: dict[str, Tensor] | None = None
        self.history: list[dict[str, Any]] = []
        self.state.train()

    # ---- one epoch ----------------------------------------------------------------------------

    def run_epoch(self) -> dict[str, Any]:
        """Train on every row once (a random remainder smaller than a batch is left out) and evaluate."""
        for _ in self.steps():
            pass
        return self.close_epoch()

    def steps(self) -> Iterator[None]:
        """The steps of an epoch, one at a time."""
        step, recipe = self.step, self.recipe
        order = self.shards.order(self.order, self.batch_size)
        wanted = self.method.clean_rows(self.batch_size)
        meta_rows = self.clean_order.draws(wanted, self.device)
        loss_rows = self.clean_order.draws(recipe.clean_batch if recipe.clean_weight else 0, self.device)
        self.loss_sum.zero_()
        for index, x in self.rows.batches(order, self.own_batch):
            self._set_lr()
            lots = self.clean_order.lots(wanted, step.step, self.device)
            inputs = (index, x, next(meta_rows), lots, next(loss_rows))
            if self.captured is None:
                self._step(*inputs)
            else:
                self.captured(self.method.stage(self.state, step), *inputs)
            step.step += 1
            yield

    def _step(self, index: Tensor, x: Tensor, meta_rows: Tensor, lots: Tensor, loss_rows: Tensor) -> None:
        """One step on the rows `index` with inputs x. It never waits for the GPU."""
        method, state, step = self.method, self.state, self.step
        clean = self._clean_batch(meta_rows)
        if clean is not None:
            clean.draw = lots
        batch = Batch(
            index,
            self.views.train(x, method.views, step.generator),
            self.candidates.index_select(0, index),
            method.views,
            clean,
        )
        loss = method.loss(state, batch, step).mean()
        # equal information: the same clean rows, for any method, in the real step only. Through the strong
        # view, as a few thousand images that never change would soon be known by heart
        trusted = self._clean_batch(loss_rows, "strong")
        if trusted is not None:
            clean_loss = set_loss(method.logits(state, trusted.x), trusted.mask).mean()
            loss = loss + self.recipe.clean_weight * clean_loss
        self.optimiser.zero_grad()
        loss.backward()
        parallel.average_gradients_(p for group in self.optimiser.param_groups for p in group["params"])
        self.optimiser.step()
        method.after_step(state, batch, step)
        self.loss_sum += loss.detach()

    def close_epoch(self) -> dict[str, Any]:
        """Evaluate and log after the last step of an epoch."""
        meet(self.state)
        parallel.average_([self.loss_sum])
        row = self._log(float(self.loss_sum) / self.step.steps_per_epoch)
        self.end_epoch()
        self.step.epoch += 1
        return row

    def end_epoch(self) -> None:
        if isinstance(self.method.end_epoch(self.state, self.task, self.step), Restart):
            self.optimiser = self._main_optimiser()

    def _log(self, loss: float) -> dict[str, Any]:
        epoch = self.step.epoch
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss of {self.method.info.name} is {loss} in epoch {epoch + 1}, "
                f"at learning rate {float(self.step.lr):g}.\n"
                "  Lower the learning rate, or scale the inputs."
            )
        row: dict[str, Any] = {"epoch": epoch, "loss": loss, "lr": float(self.step.lr)}
        row |= {name: float(value) for name, value in self.method.report(self.state, self.truth).items()}
        if self.selection is not None:
            row["selection"] = parallel.agreed(self._accuracy(self.selection.x, self.selection.mask))
            if self.stopping.improved(row["selection"], epoch) and self.recipe.keeps_best:
                self.best = {name: value.clone() for name, value in self._predictor_state().items()}
        if self.test is not None:
            row["test"] = self._test_accuracy(*self.test)
        self.history.append(row)
        return row

    @property
    def finished(self) -> bool:
        epoch = self.step.epoch
        return epoch >= self.recipe.epochs or (
            self.selection is not None and self.stopping.exhausted(epoch - 1) and epoch > 0
        )

    def _set_lr(self) -> None:
        done = self.step.step / max(1, self.recipe.epochs * self.step.steps_per_epoch)
        factor = SCHEDULES[self.recipe.schedule](done, self.recipe)
        if isinstance(self.step.lr, Tensor):  # steps are recorded: learning rates are tensors that they read
            self.step.lr.fill_(self.recipe.lr * factor)
            for group, base in zip(self.optimiser.param_groups, self.base_lrs):
                group["lr"].fill_(base * factor)
            return
        self.step.lr = self.recipe.lr * factor
        for group, base in zip(self.optimiser.param_groups, self.base_lrs):
            group["lr"] = base * factor

    def _main_optimiser(self) -> Optimizer:
        recipe = self.recipe
        optimiser = make_optimiser(
            recipe.optimiser,
            self.method.param_groups(self.state),
            recipe.lr,
            recipe.weight_decay,
            recipe.momentum,
        )
        self.base_lrs = [group["lr"] for group in optimiser.param_groups]
        self._lr_tensors(optimiser)
        return optimiser

    def _lr_tensors(self, optimiser: Optimizer) -> None:
        """Learning rates as tensors, where steps are recorded; the recording then starts afresh."""
        for each in (optimiser, *self.state.optimisers.values()):
            for group in each.param_groups:
                if "capturable" in group:  # Adam: its step counter must live on the GPU
                    group["capturable"] = self.speed.captured
        if self.speed.captured:
            self.step.lr = torch.tensor(float(self.step.lr), device=self.device)
            for group in optimiser.param_groups:
                group["lr"] = torch.tensor(float(group["lr"]), device=self.device)
            self.captured = CapturedStep(self._step, [self.step.generator])

    # ---- clean rows ---------------------------------------------------------------------------

    def _on_device(self, rows: CleanRows | None) -> CleanBatch | None:
        if rows is None or not len(rows):
            return None
        x = as_input(rows.x, self.dtype).to(self.device)
        return CleanBatch(x, torch.as_tensor(rows.mask.copy()).to(self.device))

    def _clean_batch(self, rows: Tensor, role: str = "plain") -> CleanBatch | None:
        """Some clean rows through a view."""
        clean = self.clean
        if clean is None or not len(rows):
            return None
        if len(rows) < len(clean.x):
            clean = CleanBatch(clean.x.index_select(0, rows), clean.mask.index_select(0, rows))
        if role == "plain":
            return CleanBatch(self.views.plain(clean.x), clean.mask)
        return CleanBatch(self.views.train(clean.x, (role,), self.step.generator)[0], clean.mask)

    # ---- evaluation ---------------------------------------------------------------------------

    @torch.no_grad()
    def each_row(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        with evaluation_mode(self.state):
            batches = self.rows.batches(self._own_rows(), EVALUATION_BATCH)
            return self.shards.whole(torch.cat([function(self.views.plain(x)) for _, x in batches]))

    def _own_rows(self) -> Tensor:
        return torch.arange(len(self.rows))[self.shards.own]

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Logits of rows that are on the device, as they are stored."""
        with evaluation_mode(self.state):
            parts = x.split(EVALUATION_BATCH)
            return torch.cat([self.method.logits(self.state, self.views.plain(part)) for part in parts])

    def _accuracy(self, x: Tensor, mask: Tensor) -> float:
        """How often the prediction is in the mask: accuracy for single labels, covering rate for sets."""
        return float(mask.gather(1, self.predict(x).argmax(dim=1, keepdim=True)).float().mean())

    def _test_accuracy(self, x: Tensor, labels: Any) -> float:
        return float(np.mean(self.predict(x).argmax(dim=1).cpu().numpy() == labels))

    def _predictor_state(self) -> dict[str, Tensor]:
        nets = self.method.predictors(self.state)
        return {
            f"{i}.{name}": value for i, net in enumerate(nets) for name, value in net.state_dict().items()
        }

    # ---- the whole fit ------------------------------------------------------------------------

    def result(self, seconds: float) -> Trained:
        pseudo_labels = self.method.pseudo_labels(self.state, self.task).cpu().numpy().copy()
        best_epoch = self.step.epoch - 1
        if self.best is not None:
            best_epoch = self.stopping.best_epoch
            for i, net in enumerate(self.method.predictors(self.state)):
                prefix = f"{i}."
                net.load_state_dict(
                    {k.removeprefix(prefix): v for k, v in self.best.items() if k.startswith(prefix)}
                )
        self.state.eval()
        without_fast_features(self.state)
        clean = self.clean_rows
        facts = {"clean_rows": 0 if clean is None else len(clean), "clean_source": clean and clean.source}
        return Trained(self.method, self.state, self.history, pseudo_labels, best_epoch, seconds, facts)

    def config(self) -> dict[str, Any]:
        """What makes this fit the fit it is; a run folder refuses to continue with another one."""
        recipe = asdict(self.recipe)
        # where, how safely and how fast, not what
        for name in ("device", "workers", "checkpoint_every", "speed", "max_seconds"):
            recipe.pop(name)
        recipe["shards"] = self.shards.count  # the same training, whether by one process or by many
        for name, usual in (("shards", 1), ("sync_batch_norm", False)):
            if recipe[name] == usual:  # so that runs from before there were these go on
                recipe.pop(name)
        recipe["precision"] = str(self.speed.precision or self.dtype).removeprefix("torch.")
        describe = getattr(self.views, "describe", None)
        views = {} if describe is None else {"views": describe()}
        return views | {
            "method": {"name": self.method.info.name, **self.method.params()},
            "recipe": recipe,
            "net": self.net_text,
            "inputs": self.rows.digest(),
            "candidates": {"rows": len(self.candidate_sets), "hash": self.candidate_sets.hash},
            "clean": None if self.clean_rows is None else [len(self.clean_rows), self.clean_rows.source],
            "versions": {"oneof": oneof.__version__, "torch": torch.__version__, "numpy": np.__version__},
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything, for the first process to write; all processes must ask for it together."""
        generators = generator_states(self.device, **self._generators())
        by_process = {name: parallel.from_all(value) for name, value in generators.items()}
        return {
            "epoch": self.step.epoch,
            "step": self.step.step,
            "state": self.state.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "own_optimisers": {name: o.state_dict() for name, o in self.state.optimisers.items()},
            "stopping": self.stopping.state_dict(),
            "best": self.best,
            "history": self.history,
            "generators": generators,
            "other_processes": [
                {name: states[i] for name, states in by_process.items()}
                for i in range(1, parallel.world_size())
            ],
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.step.epoch, self.step.step = saved["epoch"], saved["step"]
        self.state.load_state_dict(saved["state"])
        self.optimiser = self._main_optimiser()  # groups may depend on the state just loaded
        self.optimiser.load_state_dict(saved["optimiser"])
        for name, optimiser in self.state.optimisers.items():
            optimiser.load_state_dict(saved["own_optimisers"][name])
        self._lr_tensors(self.optimiser)  # last: a checkpoint may come from steps that were not recorded
        for optimiser in (self.optimiser, *self.state.optimisers.values()):
            like_parameters(optimiser)
        self.stopping.load_state_dict(saved["stopping"])
        self.best = saved["best"] and {name: value.to(self.device) for name, value in saved["best"].items()}
        self.history = saved["history"]
        restore_generators(saved["generators"], self.device, **self._generators())
        others = saved.get("other_processes", [])
        if 0 < parallel.rank() <= len(others):
            restore_generators(others[parallel.rank() - 1], self.device, **self._generators())
        else:
            self._draw_apart()  # one process began what several continue

    def _draw_apart(self) -> None:
        """From here on each process augments and drops out in its own way; the first as if it were alone."""
        if parallel.rank():
            torch.manual_seed(self.recipe.seed + OTHER_PROCESS * parallel.rank())
            self.step.generator.manual_seed(self.recipe.seed + 1 + OTHER_PROCESS * parallel.rank())

    def _generators(self) -> dict[str, torch.Generator]:
        return {"order": self.order, "clean": self.clean_order.generator, "step": self.step.generator}
