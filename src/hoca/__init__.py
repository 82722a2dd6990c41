"""Video captioning with high-order cross-modal attention."""

__version__ = "0.1.0"
