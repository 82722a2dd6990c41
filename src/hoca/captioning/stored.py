"""Features of a store as a captioner takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoca.errors import UserError

if TYPE_CHECKING:
    from hoca.captioning.captioner import VideoCaptioner
    from hoca.features import Extracted, FeatureStore


def stored_features(captioner: VideoCaptioner, store: FeatureStore, id: str) -> Extracted:
    """The features of one video that the model was trained on; others that the store has are left out."""
    from hoca.features import Extracted

    header, features = store.header(id), store[id]
    wanted = captioner.model.config.modalities
    for name, width in wanted.items():
        if name in features and features[name].shape[1] != width:
            raise UserError(
                f"{store.path(id)}: {name} features are {features[name].shape[1]} wide, the model takes {width}: give "
                "the store that it was trained on, or features made alike"
            )
    given = {name: features[name] for name in wanted if name in features}
    if not given:
        raise UserError(f"{store.path(id)} has none of the features that the model takes ({', '.join(wanted)})")
    absent = {name: header.absent.get(name, "not in the store") for name in wanted if name not in given}
    return Extracted(given, absent, header.duration or 0.0)
