"""From a video file to a sentence, or to one sentence for each part of a long film."""

from hoca.captioning.caption import UNSURE, Caption, SentenceScore, ViewCaption
from hoca.captioning.captioner import VideoCaptioner, load
from hoca.captioning.segments import Segment

__all__ = ["UNSURE", "Caption", "Segment", "SentenceScore", "VideoCaptioner", "ViewCaption", "load"]
