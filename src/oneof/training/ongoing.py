"""One training in progress: everything that changes, one step, one epoch, and how to continue it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from oneof.candidates import Candidates
from oneof.candidates.evidence import log_likelihoods
from oneof.methods import parallel
from oneof.methods.base import Batch, CandidateRows, Method, Restart, StepInfo, Task
from oneof.methods.losses import set_loss
from oneof.methods.targets import EXPONENT
from oneof.nets.base import Net, as_net, evaluation_mode, training_mode
from oneof.nets.fast import compile_features, with_fast_features
from oneof.training.capture import CapturedStep
from oneof.training.clean import CleanRows, CleanSource, on_device
from oneof.training.distributed import make_shards, meet, synchronised
from oneof.training.randomness import DefaultGenerators, may_draw
from oneof.training.recipe import (
    EarlyStopping,
    MainOptimiser,
    Recipe,
    TrainingError,
    check_batch_norm,
    check_weights,
    choose_speed,
)
from oneof.training.run import digest_weights
from oneof.training.sources import EVALUATION_BATCH, LoadedRows, as_input, make_rows, predict
from oneof.views import RowItself, Views

OTHER_PROCESS = 100_003
"""Between the seeds of two processes."""


@dataclass
class Given:
    """The rows of a training, as the caller has them; see `train`."""

    x: Any
    candidates: Candidates
    clean: CleanRows | None = None
    selection: CleanRows | None = None
    test: tuple[Any, Any] | None = None
    views: Views = field(default_factory=RowItself)


class OngoingTraining:
    """One training. Whatever it holds that changes is in `state_dict`.

    `selection` and `test` are inputs and masks (labels) on the device, None where there are none.
    """

    def __init__(
        self,
        method: Method,
        net: nn.Module | Callable[[], nn.Module],
        given: Given,
        recipe: Recipe,
        device: torch.device,
    ) -> None:
        self.method, self.given, self.recipe, self.device = method, given, recipe, device
        self.defaults = DefaultGenerators(recipe.seed, device)
        with self.defaults.lent():  # for the initial weights
            self._begin(net)

    def _begin(self, net: nn.Module | Callable[[], nn.Module]) -> None:
        method, given, recipe, device = self.method, self.given, self.recipe, self.device
        n, views = len(given.candidates), given.views
        self.shards = make_shards(n, recipe.shards, method)
        weights_are_given = isinstance(net, nn.Module)  # and not drawn by the function that makes it
        made = net if isinstance(net, nn.Module) else net()
        net = (made if made is not net and isinstance(made, Net) else as_net(made)).to(device)
        self.given_weights = digest_weights(net) if weights_are_given else None
        self.net_text = str(net)
        self.dtype = next((p.dtype for p in net.parameters()), torch.get_default_dtype())
        self.rows = make_rows(given.x, device, self.dtype, recipe.workers, self.shards.own)
        if len(self.rows) != n:
            raise ValueError(f"there are {len(self.rows)} inputs but {n} candidate sets")
        example = views.plain(next(self.rows.batches(self.own_rows()[:2], 2))[1])
        check_weights(net, self.dtype, example)
        self.batch_size = recipe.rows_per_step(n, self.shards.count)
        self._put_on_device()

        self.clean = CleanSource(given.clean, self.shards, views, device, self.dtype, recipe.seed + 2)
        self.generators = {
            "order": torch.Generator().manual_seed(recipe.seed),  # on the CPU: the same on every device
            "clean": self.clean.generator,
            "step": torch.Generator(device).manual_seed(recipe.seed + 1),
        }
        steps, generator = self.shards.steps(self.batch_size), self.generators["step"]
        self.step = StepInfo(-1, 0, recipe.epochs, steps, recipe.lr, generator)
        in_loss = self.clean.rows_of_step(recipe.clean_batch) if recipe.clean_weight else 0
        processes = parallel.world_size()
        check_batch_norm(net, example, self.batch_size // processes, in_loss // processes)
        alone = processes == 1  # processes talk to one another in the middle of a step
        self.speed = choose_speed(recipe, device, net, example, method.capturable and alone)
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
            steps_per_epoch=self.step.steps_per_epoch,
            lr=recipe.lr,
            clean_counts=self.clean.counts,
            truth=self.truth,
            answers=given.candidates.answers,
            truth_may_be_outside=given.candidates.truth_may_be_outside,
            row_pass=self.each_row,
        )
        self.state = method.begin(self.task).to(device)
        if self.speed.captured and not method.captures(self.state):
            self.speed = replace(self.speed, captured=False)
        parallel.from_first_(self.state.state_dict().values())  # a net that was given may differ
        self._draw_apart()
        if self.speed.compiled:
            compile_features(self.state, self.batch_size)
        self._start_optimiser()
        self.loss_sum = torch.zeros((), device=device, dtype=self.dtype)
        self.stopping = EarlyStopping(recipe.patience)
        self.best: dict[str, Tensor] | None = None
        self.history: list[dict[str, Any]] = []
        training_mode(self.state)

    def _put_on_device(self) -> None:
        given, device = self.given, self.device
        spoken = log_likelihoods(given.candidates)
        evidence = None if spoken is None else torch.from_numpy(EXPONENT * spoken).to(self.dtype)
        self.candidates = CandidateRows(given.candidates.compact, device, evidence)
        truth = given.candidates.truth
        self.truth = None if truth is None else torch.as_tensor(truth.copy()).to(device)
        judged = given.selection if given.selection is not None else given.clean
        self.selection = on_device(judged, device, self.dtype) if judged is not None and len(judged) else None
        self.test: tuple[Tensor, Any] | None = None
        if given.test is not None:
            x, labels = as_input(given.test[0], self.dtype), np.asarray(given.test[1])
            if labels.shape != (len(x),) or labels.dtype.kind not in "iu":
                has = f"the labels of {len(x)} test rows have type {labels.dtype} and shape {labels.shape}"
                raise ValueError(f"{has}; give one number of a class per row.")
            self.test = x.to(device), labels

    def _start_optimiser(self) -> None:
        """A new main optimiser, and a new recording where steps are recorded."""
        groups = self.method.param_groups(self.state)
        self.main = MainOptimiser(self.recipe, groups, self.state, self.step, self.speed.captured)
        self.captured = CapturedStep(self._step, [self.step.generator]) if self.speed.captured else None

    # ---- one epoch ----------------------------------------------------------------------------

    def before_first_epoch(self) -> None:
        with self.defaults.lent():
            self.end_epoch()  # epoch −1: before any step
        self.step.epoch = 0

    def run_epoch(self) -> dict[str, Any]:
        """Train on every row once (a random remainder smaller than a batch is left out) and evaluate."""
        with self.drawing():
            for _ in self.steps():
                pass
            return self.close_epoch()

    def drawing(self) -> AbstractContextManager[None]:
        """Around steps: torch's default generators are this training's own, where it may draw from them."""
        rows_may_draw = isinstance(self.rows, LoadedRows) and not self.rows.workers
        if rows_may_draw or may_draw(self.method, self.state, self.given.views):
            return self.defaults.lent()
        return nullcontext()

    def steps(self) -> Iterator[None]:
        """The steps of an epoch, one at a time."""
        step, recipe = self.step, self.recipe
        order = self.shards.order(self.generators["order"], self.batch_size, self.rows.permutation)
        wanted = self.method.clean_rows(self.batch_size)
        meta_rows = self.clean.draws(wanted)
        loss_rows = self.clean.draws(recipe.clean_batch if recipe.clean_weight else 0)
        self.loss_sum.zero_()
        for index, x in self.rows.batches(order, self.batch_size // parallel.world_size()):
            self.main.set_lr(step.step / max(1, recipe.epochs * step.steps_per_epoch))
            inputs = (index, x, next(meta_rows), self.clean.lots(wanted, step.step), next(loss_rows))
            if self.captured is None:
                self._step(*inputs)
            else:
                self.captured(self.method.stage(self.state, step), *inputs)
            step.step += 1
            yield

    def _step(self, index: Tensor, x: Tensor, meta_rows: Tensor, lots: Tensor, loss_rows: Tensor) -> None:
        """One step on the rows `index` with inputs x. It never waits for the GPU."""
        method, state, step = self.method, self.state, self.step
        clean = self.clean.batch(meta_rows, lots)
        views = self.given.views.train(x, method.views, step.generator)
        evidence = self.candidates.evidence(index)
        batch = Batch(index, views, self.candidates.take(index), method.views, clean, evidence)
        losses = method.loss(state, batch, step)
        if losses.ndim > 1:
            raise TrainingError(
                f"the loss of {method.info.name} has the shape {tuple(losses.shape)}; it must be one value "
                f"for each of the {len(index)} rows, or a single one."
            )
        loss = losses.mean()
        # equal information: the same clean rows, for any method, in the real step only
        trusted = self.clean.strong_batch(loss_rows, step.generator)
        if trusted is not None:
            clean_loss = set_loss(method.logits(state, trusted.x), trusted.mask).mean()
            loss = loss + self.recipe.clean_weight * clean_loss
        self.main.optimiser.zero_grad()
        loss.backward()
        parallel.average_gradients_(self.main.parameters)
        self.main.optimiser.step()
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
            self._start_optimiser()

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
            x, mask = self.selection
            hits = mask.gather(1, self.predict(x).argmax(dim=1, keepdim=True))  # of sets: the covering rate
            row["selection"] = parallel.agreed(float(hits.float().mean()))
            if self.stopping.improved(row["selection"], epoch) and self.recipe.keeps_best:
                self.best = {name: value.clone() for name, value in self.predictors.state_dict().items()}
        if self.test is not None:
            found = self.predict(self.test[0]).argmax(dim=1).cpu().numpy()
            row["test"] = float(np.mean(found == self.test[1]))
        self.history.append(row)
        return row

    @property
    def finished(self) -> bool:
        epoch = self.step.epoch
        stopped = epoch > 0 and self.selection is not None and self.stopping.exhausted(epoch - 1)
        return stopped or epoch >= self.recipe.epochs

    # ---- evaluation ---------------------------------------------------------------------------

    @torch.no_grad()
    def each_row(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """`function` of every training row and its number, in their order, without augmentation."""
        with evaluation_mode(self.state):
            batches = self.rows.batches(self.own_rows(), EVALUATION_BATCH)
            found = [function(self.given.views.plain(x), index) for index, x in batches]
            return self.shards.whole(torch.cat(found))

    def own_rows(self) -> Tensor:
        return torch.arange(len(self.rows))[self.shards.own]

    def predict(self, x: Tensor) -> Tensor:
        """Logits of rows that are on the device, as they are stored."""
        return predict(self.method, self.state, x, self.given.views, self.device)

    @property
    def predictors(self) -> nn.ModuleList:
        return nn.ModuleList(self.method.predictors(self.state))

    # ---- what is kept of it -----------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything, for the first process to write; all processes must ask for it together."""
        generators = self.defaults.states() | {k: g.get_state() for k, g in self.generators.items()}
        by_process = {name: parallel.from_all(value) for name, value in generators.items()}
        return {
            "epoch": self.step.epoch,
            "step": self.step.step,
            "state": self.state.state_dict(),
            "optimiser": self.main.optimiser.state_dict(),
            "own_optimisers": {name: o.state_dict() for name, o in self.state.optimisers.items()},
            "stopping": self.stopping.state_dict(),
            "best": self.best,
            "history": self.history,
            "generators": generators,
            "other_processes": [dict(zip(by_process, states)) for states in zip(*by_process.values())][1:],
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.step.epoch, self.step.step = int(saved["epoch"]), int(saved["step"])
        self.state.load_state_dict(saved["state"])
        self._start_optimiser()  # groups may depend on the state just loaded
        self.main.load_state_dict(saved["optimiser"], saved["own_optimisers"])
        self.stopping.load_state_dict(saved["stopping"])
        self.best = saved["best"] and {name: value.to(self.device) for name, value in saved["best"].items()}
        self.history = saved["history"]
        self._load_generators(saved["generators"])
        others = saved.get("other_processes", [])
        if 0 < parallel.rank() <= len(others):
            self._load_generators(others[parallel.rank() - 1])
        else:
            self._draw_apart()  # one process began what several continue

    def _draw_apart(self) -> None:
        """From here on each process augments and drops out in its own way; the first as if it were alone."""
        if parallel.rank():
            self.defaults.seed(self.recipe.seed + OTHER_PROCESS * parallel.rank())
            self.step.generator.manual_seed(self.recipe.seed + 1 + OTHER_PROCESS * parallel.rank())

    def _load_generators(self, states: dict[str, Tensor]) -> None:
        self.defaults.load(states)
        for name, generator in self.generators.items():
            generator.set_state(states[name])
