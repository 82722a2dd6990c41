"""Captioned videos: datasets, vocabulary, word vectors, batches."""

from hoca.data.batching import Batch, Batches, evaluation_batches
from hoca.data.corpus import SPLITS, Corpus, Video, read_corpus, write_corpus
from hoca.data.folder import FolderDataset
from hoca.data.vocabulary import Vocabulary

__all__ = [
    "SPLITS",
    "Batch",
    "Batches",
    "Corpus",
    "FolderDataset",
    "Video",
    "Vocabulary",
    "evaluation_batches",
    "read_corpus",
    "write_corpus",
]
