"""Captioned videos: datasets, vocabulary, word vectors, batches."""

from hoca.data.batching import Batch, Batches, evaluation_batches
from hoca.data.corpus import SPLITS, Corpus, Video, read_corpus, write_corpus
from hoca.data.folder import FolderDataset
from hoca.data.vectors import category_vectors, load_vectors
from hoca.data.vocabulary import read_vocabulary, write_vocabulary
from hoca.text import Vocabulary

__all__ = [
    "SPLITS",
    "Batch",
    "Batches",
    "Corpus",
    "FolderDataset",
    "Video",
    "Vocabulary",
    "category_vectors",
    "evaluation_batches",
    "load_vectors",
    "read_corpus",
    "read_vocabulary",
    "write_corpus",
    "write_vocabulary",
]
