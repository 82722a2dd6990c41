"""The page: drop a video, get the sentence and what each word looked at. Needs the extra `web` (Gradio)."""

from hoca.web.serve import ServeSettings, serve

__all__ = ["ServeSettings", "serve"]
