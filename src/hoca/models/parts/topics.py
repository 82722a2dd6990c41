"""Topics of captions, which latent Dirichlet allocation (Blei et al., 2003) finds, and what a text has of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hoca.errors import UserError

ROUNDS = 30  # over all documents
UPDATES, CHANGE = 100, 1e-3  # of a document's topics: at most, and when to stop


def fit_topics(documents: Sequence[Sequence[int]], topics: int, words: int) -> Tensor:
    """documents: the ids of each one's words → exp E[log β], [words, topics]: how much each topic has of each word.

    A word that no document has is in no topic; without any words there are none.
    """
    try:
        from scipy.sparse import csr_array
        from sklearn.decomposition import LatentDirichletAllocation
    except ImportError:
        raise UserError("topics are found with scikit-learn, which is missing: pip install 'hoca[topics]'") from None
    found = torch.zeros(words, topics)
    known = sorted({word for document in documents for word in document})
    if not known:
        return found
    column = {word: place for place, word in enumerate(known)}
    counts = [Counter(column[word] for word in document) for document in documents]
    starts = np.cumsum([0, *map(len, counts)])
    columns = np.array([place for each in counts for place in each], np.int32)
    values = np.array([count for each in counts for count in each.values()], np.float64)
    table = csr_array((values, columns, starts.astype(np.int32)), shape=(len(documents), len(known)))
    model = LatentDirichletAllocation(topics, learning_method="batch", max_iter=ROUNDS, random_state=0).fit(table)
    found[known] = torch.from_numpy(model.exp_dirichlet_component_.T).float()
    return found


def topics_of(document: Sequence[int], table: Tensor) -> Tensor:
    """What a document, the ids of its words, has of each topic of `fit_topics`: θ, [topics], which sums to 1."""
    said = Counter(document)
    beta, counts = (
        table[list(said)].double().cpu(),
        torch.tensor(list(said.values()), dtype=torch.float64),
    )  # [N, K], [N]
    known = beta.any(1)
    beta, counts = beta[known], counts[known]
    topics = table.shape[1]
    gamma = torch.ones(topics, dtype=torch.float64)
    for _ in range(UPDATES):
        before, weights = gamma, torch.exp(torch.digamma(gamma) - torch.digamma(gamma.sum()))
        share = counts / (beta @ weights).clamp(min=1e-300)
        gamma = 1.0 / topics + weights * (share @ beta)
        if float((gamma - before).abs().mean()) < CHANGE:
            break
    return (gamma / gamma.sum()).float()


def name_topics(table: Tensor, tokens: Sequence[str], count: int = 3) -> list[str]:
    """Each topic's name: its most frequent words; a second topic of the same words has a number."""
    names: list[str] = []
    for topic in table.T:
        best = topic.argsort(descending=True, stable=True)[:count].tolist()
        name = ", ".join(tokens[word] for word in best if topic[word] > 0)
        same = sum(other.partition(" #")[0] == name for other in names)
        names.append(f"{name} #{same + 1}" if same else name)
    return names
