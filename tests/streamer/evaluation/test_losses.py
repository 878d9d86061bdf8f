"""Lost text, held against sets of runs."""

from streamer.evaluation.losses import Loss, losses
from streamer.evaluation.scores import entering_all, truth_of_labels
from streamer.evaluation.sets import EvaluationSet
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.decode import Document
from streamer.settings.settings import load
from streamer.text.normalisation import Normaliser
from tests.support.news import ARTICLES

WHOLE = "".join(character for character in next(iter(ARTICLES.values())) if character.isalnum())


def test_losses_are_exact_shares_of_the_dropped_texts_the_largest_first() -> None:
    own = load(None, [], {})
    rows = {"kept": WHOLE, "same": WHOLE, "edited": WHOLE[:-40] + WHOLE[-40:][::-1], "other": WHOLE[::-1]}
    found = EvaluationSet("s", [Document(name, text) for name, text in rows.items()], None, truth_of_labels([]))
    answers = found.fingerprint(scheme_for(own)).decided(entering_all(parameters_for(own, {})))
    assert (answers.originals >= 0).tolist() == [False, True, True, False]
    normaliser = Normaliser(own.fingerprint)
    edited, same = losses(found, answers, normaliser)
    runs = [{text[at : at + 5] for at in range(len(text) - 4)} for text in map(normaliser.normal_form, rows.values())]
    assert edited == Loss("edited", "kept", len(runs[2] - runs[0]) / len(runs[2]))
    assert same == Loss("same", "kept", 0.0)
    assert 0 < edited.new < 0.2
