from sklearn.utils.estimator_checks import parametrize_with_checks

from oneof import PartialLabelClassifier


@parametrize_with_checks(
    [
        PartialLabelClassifier(device="cpu", epochs=30),
        PartialLabelClassifier("proden", device="cpu", epochs=30),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
