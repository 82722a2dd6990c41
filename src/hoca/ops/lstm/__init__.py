"""LSTMs over padded steps: plainly (`reference`), with torch's own or with our kernels (`run_lstm`)."""

from hoca.ops.lstm.reference import lstm_reference
from hoca.ops.lstm.run import run_fused, run_lstm

__all__ = ["lstm_reference", "run_fused", "run_lstm"]
