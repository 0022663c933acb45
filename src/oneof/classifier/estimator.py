"""`PartialLabelClassifier`: the scikit-learn face of the library."""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import _check_sample_weight

from oneof.candidates import Candidates
from oneof.candidates.compact import is_large
from oneof.classifier.inputs import as_candidates, class_array
from oneof.classifier.prediction import Predictions
from oneof.classifier.rows import (
    KnownRows,
    Weighted,
    learns_from_clean,
    read_clean,
    row_roles,
    row_weights,
    set_sizes,
)
from oneof.classifier.settings import clean_weight, encoder_for
from oneof.methods import make_method
from oneof.training import Run, Silent, default_progress, train
from oneof.training.progress import Progress
from oneof.training.sources import some_rows, stay_in_file
from oneof.training.tracking import Several

LEFT = ("settings_", "selection_", "selection_note_", "out_of_fold_", "label_errors_")
"""What a choice leaves behind beside the model."""
OWN = ("feature_names_in_", "n_features_in_", "input_shape_", "encoder_")
"""What the estimator knows of its inputs; contenders see arrays."""


class PartialLabelClassifier(Predictions):
    """A classifier learned from rows that carry one of several possible labels.

    Parameters
    ----------
    method : str or Method, default="rplg+"
        How to learn from candidate sets; `oneof.list_methods()` names them all. "rplg+" leads our records
        (`results/table1`, `results/rplg_plus`). "auto" compares a few methods, networks, lengths and plain
        baselines out of fold and takes the best (`selection_`).
    method_params : dict, optional
        Hyper-parameters of the method, by name.
    net : str, nn.Module, (features, head), class or function, default="mlp"
        The network: "mlp" or "linear" for tables and embeddings, "resnet18", "wrn-28-2", "lenet" and others
        (`oneof.nets.IMAGE_NETS`) for images. A module of your own is copied, not changed; it returns
        logits, and every fit starts from the weights it has; a class or function is called with the
        number of features (or the shape of an image) and of classes, and gives such a module. With
        `method="auto"`, "mlp" stands for both nets for tables; any other is the only one tried.
    hidden : sequence of int, default=(300, 300)
        Hidden layers of the MLP.
    batch_norm : bool, default=True
        Whether the MLP normalises its layers.
    scaling : {"standard", "global", "minmax", "none"}, default="standard"
        Scaling of the features, learned from the training rows. "global" divides by one number and
        suits embeddings and principal components. Ignored for inputs that are no table.
    augment : {"auto", "none"}, default="auto"
        "auto" shows images (bytes, see `fit`) to the network mirrored, shifted and, in a second view,
        strongly changed (the `bilinear` policy and Cutout). Ignored for other inputs.
    epochs : int, optional
        How often every row is seen. By default 40 times, but in 800 to 3,000 steps: 50 epochs for 800 rows,
        8 for 100,000 (`oneof.classifier.settings.default_epochs`).
    batch_size : int, optional
        Rows per step. By default 64, fewer of less than 1,000 rows and up to 256 of more than 5,000.
    optimiser, lr, weight_decay, schedule, patience
        See `oneof.training.Recipe`.
    class_weight : "balanced" or dict, optional
        Weights of the classes; a row counts by the mean over its candidates.
    clean_weight : float, optional
        Weight of cross-entropy on the clean rows in the loss, whatever the method. By default 1 on tables
        and 0.5 on images; 0 leaves it to the method what it does with them.
    selection_share : float, default=0
        Part of the clean rows kept aside: the accuracy in `history_` and, with `patience`, the choice
        of the epoch come from rows nobody learned from. With 0 the clean rows do both, which favours
        methods that learn from them. `method="auto"` judges by all of them out of fold, and takes 0 only.
    device : str, default="auto"
        The GPU where there is one.
    random_state : int, RandomState or None, default=0
        Seed of everything random in a fit. None draws a new one.
    run : path, optional
        Folder for metrics and checkpoints; an interrupted `fit` continues from it.
    max_seconds : float, optional
        Start no epoch that would end later than this; at least one is trained.
    budget : float, optional
        Seconds that `method="auto"` may take for comparison and last fit together; trainings are
        shortened, and comparisons left out, to keep it.
    cluster : str, optional
        Address of a Ray cluster on which `method="auto"` compares (extra `cluster`).
    callbacks : sequence, optional
        Told of every epoch: functions of its row of `history_`, or trackers (`oneof.training.tracking`).
        Before, `method="auto"` tells them of every comparison; those rows have a "contender".
    verbose : bool, default=False
        Show progress.
    warm_start : bool, default=False
        Start another `fit` from the weights, the scaling and the encoder of the one before, for `epochs`
        more, rather than afresh. Classes and features must be the same.

    Attributes
    ----------
    classes_ : array (c,)
        Class names.
    transduction_ : array (n, c)
        The disambiguated training rows: for each a distribution over its candidates. Above 2²⁴ entries it
        is made when it is first asked for, and no part of a saved model or a copy unless it was.
    selection_ : list of dict
        After `method="auto"`: for each contender, the best first, `name`, `kind` (method or baseline),
        `score`, `standard_error`, `rounds` it took part in, `seconds`, `chosen`, and whether it is
        `as_good` as the chosen one; `selection_note_` says in a sentence what that means.
    settings_ : dict
        After `method="auto"`: the parameters that were chosen; `chosen_model()` has them as its own.
    out_of_fold_ : array (n, c)
        After `method="auto"`: probabilities of the training rows by models that had not seen the row. Not
        there above 2²⁴ entries: then some of the rows are compared on.
    label_errors_ : LabelErrors
        Beside it: how many labels of the training rows (those of `transduction_`) are probably wrong, and
        which.
    temperature_ : float
        What the logits were divided by, so that `predict_proba` is as sure as it is right: found by
        `calibrate`, by at least 20 clean rows that nothing was learned from, or out of fold by
        `method="auto"`.
    history_ : list of dict
        One entry per epoch.
    clean_source_ : str
        Where the clean rows came from: `given` or `none`.
    n_clean_ : int
        How many there were, those kept aside by `selection_share` included.
    clean_weight_ : float
        Their weight in the loss; 0 where there were none.
    n_selection_ : int
        How many rows were kept aside to judge by: clean ones, or for `patience` without clean rows a tenth
        of the training rows with their candidate sets.
    best_epoch_ : int
        Epoch (from 0) whose weights were kept: the last one without `patience`.
    trained_on_ : dict
        How many rows were learned from and how large their candidate sets were.
    calibration_scores_ : dict of arrays
        What `predict_set` goes by. There after `calibrate`, or when clean rows were given that nothing
        was learned from (see `selection_share`).
    checked_ : dict or None
        Accuracy on new rows and how many they were, where `calibrate` was to record it.
    encoder_ : TableEncoder or None
        How a table becomes features; there after `with_encoder`, and saved with the model.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn; names where X was a data frame.
    net_ : tuple of nn.Module
        The trained network(s); the prediction is the mean of their logits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oneof import PartialLabelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> mask = [[k == label or k == (label + 1) % 3 and i % 2 for k in range(3)] for i, label in enumerate(y)]
    >>> model = PartialLabelClassifier(method="proden", epochs=20, device="cpu").fit(X, mask)
    >>> model.score(X, y) > 0.9
    True
    """

    def fit(
        self, X: Any, y: Any, clean: Any = None, groups: Any = None, sample_weight: Any = None
    ) -> PartialLabelClassifier:
        """Learn from candidate labels.

        Parameters
        ----------
        X : array, tensor, sparse matrix or data frame (n, d)
            Inputs. A data frame may hold texts, categories and gaps: `encoder_` then keeps how they
            become features, and predictions take such data frames. Images are bytes (uint8), shape
            (n, channels, height, width), here and in predictions; a network of your own gets them with every
            channel normalised, and any other array as it is. A memory-mapped array (`np.load(file,
            mmap_mode="r")`) stays in its file: batches are read while others are learned from.
        y : boolean mask (n, c), Candidates, list of label sets, or labels (n,)
            What each row may be. A mask is an array, tensor, sparse matrix or data frame of booleans
            or of 0 and 1; the columns of a data frame name the classes. Lists of equal length that
            hold only 0 and 1 are read as a mask. Texts with `|` between labels are sets, and beside
            sets a label alone is one.
        clean : (X_clean, y_clean) or vector (n,), optional
            Rows with trusted labels: further ones, or a vector with the known label of a training
            row and a missing value elsewhere (those rows leave candidate training). In a `Pipeline` give
            the vector: the steps before do not change X_clean.
        groups : vector (n,), optional
            Rows that belong together, such as pictures of one animal: `method="auto"` never learns from
            one to judge another. Other methods have no use for them.
        sample_weight : vector (n,), optional
            How much every row counts in the loss.
        """
        candidates = as_candidates(y)
        continues = self.continues(candidates)
        if not continues:
            self.__dict__.pop("net_", None)  # a fit that is stopped leaves no model of two fits
            self.encoder_ = encoder_for(X)
        given, X = X, self._inputs(X, reset=not continues)
        if len(X) != len(candidates):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: X has {len(X)} rows, "
                f"y has {len(candidates)}."
            )
        if self.encoder_ is not None:
            self.feature_names_in_ = np.asarray(self.encoder_.feature_names, dtype=object)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        known = None
        if clean is not None:
            read = partial(self._inputs, reset=False)
            known = read_clean(clean, X, class_array(candidates.classes), read)
        if isinstance(self.method, str) and self.method == "auto":
            from oneof.classifier.choice import ChoiceData, choose  # no other fit needs what these import

            if self.selection_share and known is not None:
                raise ValueError(
                    f'selection_share is {self.selection_share!r}, but method="auto" judges by every clean '
                    "row, out of fold.\n  Set it to 0, and give rows of their own to `calibrate`."
                )
            self.forget()
            rows = ChoiceData(X, candidates, known, sample_weight)
            return self.take_over(choose(self, rows, given, groups), OWN)
        if self.budget is not None:
            warnings.warn(f"budget has no effect with method={self.method!r}; set max_seconds.", stacklevel=2)
        return self.learn(stay_in_file(given, X), candidates, known, sample_weight, continues)

    def learn(
        self,
        X: Any,
        candidates: Candidates,
        clean: KnownRows | None = None,
        sample_weight: np.ndarray | None = None,
        continues: bool = False,
    ) -> PartialLabelClassifier:
        """`fit` on what has been read and checked; `continues` from the present weights, or begins anew."""
        recipe = self.recipe(len(X))
        method = make_method(self.method, self.method_params)
        self.classes_ = class_array(candidates.classes)
        self.forget()
        roles = row_roles(X, candidates, clean, self.selection_share, recipe)
        n_clean = 0 if roles.clean is None else len(roles.clean)
        self.clean_weight_ = clean_weight(self.clean_weight, n_clean, images=X.ndim > 2)
        recipe = replace(recipe, clean_weight=self.clean_weight_)
        learns = learns_from_clean(method, recipe, len(X))
        if clean is not None and not learns and recipe.patience is None:
            warnings.warn(
                f"{method.info.name} does not learn from the clean rows: they are only evaluated.\n"
                "  Set clean_weight to train on them, or patience to choose the epoch by them.",
                stacklevel=3,
            )
        if len(roles.rows) < 2:
            raise ValueError(
                f"n_samples = {len(roles.rows)}: at least 2 training rows are needed, and only 1 sample or "
                "none is left after the clean rows."
            )
        if not continues:
            self.scaling_ = self._fitted_scaling(some_rows(X, roles.rows))
        self.input_shape_ = tuple(map(int, X.shape[1:]))
        x, roles = self.prepare(X), roles.prepared(self.prepare)
        weights = row_weights(sample_weight, self.class_weight, candidates)
        trained = train(
            method if weights is None else Weighted(method, weights[roles.rows]),  # type: ignore[arg-type]
            self._present_net(x) if continues else self._net_or_maker(x),
            some_rows(x, roles.rows),
            candidates.take(roles.rows),
            recipe=recipe,
            clean=roles.clean,
            selection=roles.selection,
            views=self._views(),
            run=Run(self.run) if self.run is not None else None,
            progress=self.progress(method.info.name, recipe.epochs),
        )
        self.method_ = method
        self.net_ = method.predictors(trained.state)
        self.history_ = trained.history
        self.best_epoch_ = trained.best_epoch
        self.clean_source_ = "none" if clean is None else "given"
        self.n_selection_ = 0 if roles.selection is None else len(roles.selection)
        self.n_clean_ = 0 if clean is None else len(clean)
        self.trained_on_ = set_sizes(candidates.sizes[roles.rows])
        self.checked_ = None
        # confidence goes by labelled rows that had no part in the training, not even in its end
        apart = roles.clean if roles.selection is None and not learns else roles.selection
        if apart is not None and recipe.patience is None:
            self.calibrate_prepared(apart.x, apart.mask.argmax(axis=1))
        transduction = partial(
            roles.labels,
            lambda places: trained.labels_of(torch.from_numpy(places)).numpy(),
            lambda rows: self.prepared_proba(x[rows]),
        )
        self.transduction_ = transduction if is_large(candidates.shape) else transduction()
        return self

    def forget(self) -> None:
        """Drop what only some fits leave behind: those of an earlier one."""
        for name in (*LEFT, "calibration_scores_", "temperature_"):
            self.__dict__.pop(name, None)

    def chosen_model(self) -> Any:
        """The fitted model as if what `method="auto"` chose had been asked for; else the model itself."""
        if not hasattr(self, "settings_"):
            return self
        plain = type(self)(**{**self.get_params(deep=False), **self.settings_})
        plain.take_over(self, ("settings_", "out_of_fold_", "label_errors_"))
        plain.net_ = deepcopy(self.net_)  # calibrating one of them leaves the other as it is
        return plain

    def take_over(self, other: PartialLabelClassifier, but: tuple[str, ...]) -> PartialLabelClassifier:
        """Have all that another model has learned, but for some attributes. Returns this model."""
        for name, value in vars(other).items():
            # `transduction_` may still have to be made
            if (name.endswith("_") or name == "_transduction") and name not in but:
                setattr(self, name, value)
        return self

    def progress(self, name: str, epochs: int) -> Progress:
        """What hears of a training: the bar where there is one, and the callbacks."""
        shown = default_progress() if self.verbose else Silent()
        if not self.callbacks:
            return shown
        config = {"method": name, "net": str(self.net), "epochs": epochs, "lr": self.lr}
        return Several(shown, *self.callbacks, config=config)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder: weights as safetensors, everything else as JSON."""
        from oneof.classifier.persist import save

        save(self.chosen_model(), path)
