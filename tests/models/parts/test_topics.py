"""Topics of documents: those that scikit-learn finds, and found again from a table alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import torch

from hoca.models.parts.topics import fit_topics, name_topics, topics_of

KITCHEN, MUSIC = [4, 5, 6], [8, 9, 10]  # 7 is a word that no document has
DOCUMENTS = [KITCHEN * 3, MUSIC * 3, [4, 5, 5], [9, 10, 10, 8], [4, 6], [8, 9], KITCHEN, MUSIC]


def test_words_that_occur_together_are_a_topic() -> None:
    table = fit_topics(DOCUMENTS, 2, 11)
    assert not table[7].any()
    kitchen = topics_of([4, 5, 6, 4], table)
    music = topics_of([10, 9], table)
    assert kitchen.argmax() != music.argmax()
    assert min(kitchen.max(), music.max()) > 0.7
    torch.testing.assert_close(kitchen.sum(), torch.tensor(1.0))


def test_what_a_document_has_of_them_is_what_the_fitted_model_says() -> None:
    from sklearn.decomposition import LatentDirichletAllocation

    random = np.random.default_rng(0)
    counts = random.poisson(0.5, (30, 40))
    documents = [[word for word, count in enumerate(row) for _ in range(count)] for row in counts]
    table = fit_topics(documents, 4, 40)
    model = LatentDirichletAllocation(4, learning_method="batch", max_iter=30, random_state=0).fit(counts)
    expected = torch.from_numpy(model.transform(counts)).float()
    found = torch.stack([topics_of(document, table) for document in documents])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


def test_a_document_of_no_known_word_has_something_of_every_topic() -> None:
    assert topics_of([7, 7], fit_topics(DOCUMENTS, 2, 11)).tolist() == [0.5, 0.5]
    assert topics_of([], torch.zeros(11, 4)).tolist() == [0.25] * 4
    assert not fit_topics([[], []], 3, 11).any()


def test_a_topic_is_called_by_its_words() -> None:
    tokens = [f"w{number}" for number in range(5)]
    table = torch.tensor([[0.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.2, 0.0, 0.2], [0.1, 0.6, 0.1], [0.05, 0.0, 0.05]])
    assert name_topics(table, tokens) == ["w1, w2, w3", "w3", "w1, w2, w3 #2"]


def test_without_scikit_learn_the_fix_is_told() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from hoca.models.parts.topics import fit_topics\n"
        "from hoca.errors import UserError\n"
        "try: fit_topics([[1]], 2, 3)\n"
        "except UserError as error: assert \"pip install 'hoca[topics]'\" in str(error)\n"
        "else: raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
