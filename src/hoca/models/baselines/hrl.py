"""HRL: a manager sets goals, a worker says the words of each, a critic tells where one is reached (Wang et al., 2018).

    critic    z_t: did the word before end a segment? A GRU over the words, taught by a rule; only its decision is used
    manager   h^M = LSTM(h^M, [c^M_t; h^W_{t-1}]), a new goal g = MLP(h^M) at the first word and wherever z_t = 1
    worker    h^W_t = LSTM(h^W_{t-1}, [y_t; c^W_t; g_t]), words are scored by an MLP from h^W_t

The worker attends to a BiLSTM's states, the manager to those of an LSTM on top of it; of several modalities each has an
attention of its own, whose contexts are summed. `hrl-worker` and `hrl-manager` (`hoca.training.goals`) train the one
with the other frozen, from rewards; before that both learn from the captions.

Where public descriptions leave it open: the manager's LSTM moves on with the segments (`manager_clock: word` for every
word), and reads h^W, since h^M is its own state already. A segment ends where a rule over closed classes of words says:
before an article, a preposition, an auxiliary verb, a conjunction or a word in -ing, unless the word before is of the
first four kinds. The critic has word vectors of its own, so that it stays what it is once it is frozen. Baselines are
linear in the states; they are fitted by running least squares, beside the optimiser that trains the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.models import interface
from hoca.models.config import SCALE, SIZE, ModelConfig
from hoca.models.explanation import Matrix, Steps, Words
from hoca.models.interface import CaptionModel, Decoded, Explanation, TrainingBatch, Weighted
from hoca.models.parts.attention import AdditiveAttention
from hoca.models.parts.encoder import Encoder
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.least_squares import Baseline
from hoca.models.parts.lstm import AheadLSTMCell
from hoca.models.parts.output import WordScores
from hoca.models.parts.start import HiddenState, Start, for_rows
from hoca.models.registry import register
from hoca.ops.linear import Linear
from hoca.ops.lstm import run_lstm
from hoca.options import option
from hoca.text import Vocabulary

OPENERS = """
a an the this that these those some another each every his her its their our my your
about above across after against along among around as at before behind below beside between by down during for from in
inside into near of off on onto out outside over past through to toward towards under up upon with within without
am are be been being can could do does had has have is may might must should was were will would
and but or then while who which
"""


@dataclass(frozen=True)
class HRLConfig(ModelConfig):
    attention: int = option(256, "width of every attention", least=1, below=SIZE)
    worker_hidden: int = option(512, "size of the worker", least=1, below=SIZE)
    manager_hidden: int = option(256, "size of the manager and its encoder", least=1, below=SIZE)
    goal: int = option(64, "width of a goal", least=1, below=SIZE)
    goal_noise: float = option(0.0, "standard deviation of the noise on goals in training", least=0, below=SCALE)
    manager_clock: Literal["segment", "word"] = option("segment", "when the manager's LSTM takes a step")
    critic_hidden: int = option(128, "size of the critic and its word vectors", least=1, below=SIZE)
    critic_weight: float = option(
        1.0, "weight of the critic's loss; 0 = the critic is not trained", least=0, below=SCALE
    )
    discount: float = option(
        0.95, "discount of future rewards per word or segment, for hrl-worker and hrl-manager", least=0, below=2
    )


@dataclass(frozen=True)
class Seen:
    """What one of the two attends to, of each modality."""

    keys: dict[str, Tensor]  # [B, T_m, D]
    values: dict[str, Tensor]  # [B, T_m, ...]


@dataclass(frozen=True)
class HRLMemory(interface.Memory):
    worker: Seen
    manager: Seen
    masks: dict[str, Tensor]  # [B, T_m] bool, True = real
    present: dict[str, Tensor]  # [B] bool
    start: HiddenState  # of the worker, each [B, H]


class HRLState(NamedTuple):
    worker: HiddenState  # each [B, R, H]
    manager: HiddenState  # each [B, R, M]
    goal: Tensor  # [B, R, G]
    critic: Tensor  # [B, R, C]


class Rolled(NamedTuple):
    """What happened at each word."""

    hidden: Tensor  # of the worker, [B, R, L, H]
    manager: Tensor  # [B, R, L, M]
    goals: Tensor  # [B, R, L, G]
    opened: Tensor  # [B, R, L] bool: a goal was set before this word was said
    attention: dict[str, Tensor]  # α of the worker, [B, R, L, T_m]
    managed: dict[str, Tensor]  # α of the manager, [B, R, L, T_m], where it sets a goal or not


class Attentions(nn.ModuleDict):
    """One for each modality; their contexts are summed."""

    def __init__(self, config: HRLConfig, query: int, value: int) -> None:
        super().__init__({m: AdditiveAttention(query, value, config.attention) for m in config.modalities})

    def see(self, values: dict[str, Tensor]) -> Seen:
        return Seen({m: self[m].project(x) for m, x in values.items()}, values)  # type: ignore[operator]

    def look(self, queries: Tensor, seen: Seen, masks: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """queries [B, R, ...] → the context [B, R, ...], and the weights of each modality's steps."""
        found = {m: self[m](queries, keys, seen.values[m], masks[m]) for m, keys in seen.keys.items()}
        contexts = torch.stack([context for context, _ in found.values()])
        return contexts.sum(0), {m: weights for m, (_, weights) in found.items()}


class Worker(nn.Module):
    def __init__(self, config: HRLConfig, words: int) -> None:
        super().__init__()
        hidden, context = config.worker_hidden, 2 * config.hidden
        self.encoder = Encoder(config)
        self.attention = Attentions(config, hidden, context)
        self.words = nn.Embedding(words, config.embedding)
        self.cell = AheadLSTMCell(config.embedding, context + config.goal, hidden)
        self.narrow = Linear(hidden, hidden)
        self.output = WordScores(hidden, words)

    def scores(self, hidden: Tensor) -> Tensor:
        return self.output(torch.tanh(self.narrow(hidden)))


class Manager(nn.Module):
    def __init__(self, config: HRLConfig) -> None:
        super().__init__()
        hidden = config.manager_hidden
        self.encoders = nn.ModuleDict(
            {m: nn.LSTM(2 * config.hidden, hidden, batch_first=True) for m in config.modalities}
        )
        self.attention = Attentions(config, hidden, hidden)
        self.cell = nn.LSTMCell(hidden + config.worker_hidden, hidden)
        self.goal = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, config.goal))
        self.noise = config.goal_noise

    def encode(self, encoded: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """[B, T_m, 2H] → [B, T_m, M]. Padding comes last, so that it reaches no real step."""
        found = {}
        for m, x in encoded.items():
            lstm = self.encoders[m]
            assert isinstance(lstm, nn.LSTM)
            found[m] = run_lstm(lstm, x)[0].masked_fill(~masks[m][..., None], 0.0)
        return found

    def set_goal(self, hidden: Tensor) -> Tensor:
        goal = self.goal(hidden)
        if self.training and self.noise:
            goal = goal + self.noise * torch.randn_like(goal)
        return goal


class Critic(nn.Module):
    """p(z_t = 1): did word t end a segment? In float32, so that every precision has the same segments."""

    opens: Tensor  # [V] bool: a segment may begin with the word
    holds: Tensor  # [V] bool: none ends with it

    def __init__(self, config: HRLConfig, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.words = nn.Embedding(len(vocabulary), config.critic_hidden)
        self.cell = nn.GRUCell(config.critic_hidden, config.critic_hidden)
        self.output = nn.Linear(config.critic_hidden, 1)
        holds = [word in OPENERS.split() for word in vocabulary.tokens]
        acts = [len(word) > 4 and word.endswith("ing") for word in vocabulary.tokens]
        # The vocabulary tells both.
        self.register_buffer("holds", torch.tensor(holds), persistent=False)
        self.register_buffer("opens", torch.tensor(holds) | torch.tensor(acts), persistent=False)

    def forward(self, words: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """words [B, R, L], state [B, R, C] → logits of z [B, R, L], and the state after the last word."""
        with torch.autocast(words.device.type, enabled=False):
            hidden, states = state.flatten(0, 1), []  # [B·R, C]
            for word in self.words(words.flatten(0, 1)).unbind(1):
                hidden = self.cell(word, hidden)
                states.append(hidden)
            logits = self.output(torch.stack(states, dim=1)).squeeze(-1)
        return logits.unflatten(0, words.shape[:2]), hidden.unflatten(0, words.shape[:2])

    def begin(self, videos: int, rows: int) -> Tensor:
        return self.words.weight.new_zeros(videos, rows, self.cell.hidden_size)

    def ends(self, words: Tensor, following: Tensor, end: int) -> Tensor:
        """Whether each word is the last of its segment, by the rule; both [...], `end` the number of <eos>."""
        return (following == end) | (self.opens[following] & ~self.holds[words])


@register(
    "hrl", source="Wang et al., CVPR 2018", about="a manager sets goals, a worker says the words of each", fidelity="B"
)
class HRL(CaptionModel):
    Config = HRLConfig
    config: HRLConfig
    has_goals: ClassVar[bool] = True  # what `hrl-worker` and `hrl-manager` ask for

    def __init__(self, config: HRLConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.worker = Worker(config, len(vocabulary))
        self.manager = Manager(config)
        self.critic = Critic(config, vocabulary)
        self.start = Start(replace(config, hidden=config.worker_hidden))
        self.worker_baseline = Baseline(config.worker_hidden)
        self.manager_baseline = Baseline(config.manager_hidden)
        self.dropout = nn.Dropout(config.dropout)

    @property
    def embedding(self) -> nn.Embedding:
        return self.worker.words

    @property
    def word_bias(self) -> Tensor:
        return self.worker.output.bias

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> HRLMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        encoded = self.worker.encoder(batch)
        return HRLMemory(
            worker=self.worker.attention.see(encoded),
            manager=self.manager.attention.see(self.manager.encode(encoded, batch.masks)),
            masks=batch.masks,
            present=batch.present,
            start=self.start(category, next(iter(encoded.values()))),
            evidence=self.detect(batch),
        )

    def begin(self, memory: HRLMemory, rows: int) -> HRLState:
        h, c = for_rows(memory.start, rows)
        zeros = h.new_zeros(*h.shape[:2], self.config.manager_hidden)
        return HRLState(
            worker=(h, c),
            manager=(zeros, zeros),
            goal=h.new_zeros(*h.shape[:2], self.config.goal),
            critic=self.critic.begin(*h.shape[:2]),
        )

    def decode(self, memory: HRLMemory, words: Tensor, state: HRLState) -> Decoded:
        rolled, state = self.roll(memory, words, state)
        hidden = self.dropout(rolled.hidden)
        return Decoded(self.worker.scores(hidden), state, hidden)

    def losses(self, memory: HRLMemory, batch: TrainingBatch, decoded: Decoded) -> dict[str, Weighted]:
        """The critic's cross-entropy, of every word of the captions."""
        if not self.config.critic_weight:
            return {}
        words, following = batch.words[:, :, 1:-1], batch.words[:, :, 2:]  # no segment ends with <bos>
        logits, _ = self.critic(batch.words[:, :, :-1], self.critic.begin(*words.shape[:2]))
        ends = self.critic.ends(words, following, self.vocabulary.eos).to(logits.dtype)
        each = F.binary_cross_entropy_with_logits(logits[:, :, 1:], ends, reduction="none")
        said = following != self.vocabulary.pad  # every word but <eos> has one after it
        return {"critic": Weighted(self.config.critic_weight, (each * said).sum())}

    def look(self, memory: HRLMemory, words: Tensor) -> Explanation:
        """Where the worker looked, at which words a segment with a goal of its own begins, how alike the goals are, and
        where the manager looked when it set the goal of each word."""
        rolled, _ = self.roll(memory, words, self.begin(memory, words.shape[1]))
        begins = rolled.opened.to(rolled.hidden.dtype)
        unit = F.normalize(rolled.goals, dim=-1)
        matrices = {
            "how alike goals are": Matrix(unit @ unit.transpose(2, 3), Words(), Words(), "cosine of two words' goals")
        }
        places = torch.arange(words.shape[2], device=words.device)
        set_at = torch.where(rolled.opened, places, 0).cummax(2).values  # [B, R, L], where each word's goal was set
        for m, weights in rolled.managed.items():
            at_goal = weights.gather(2, set_at[..., None].expand_as(weights))
            about = "α when the goal of the word was set"
            matrices[f"manager: {m}"] = Matrix(at_goal, Words(), Steps(m, weights.shape[3]), about, "rows")
        shares = {m: here[:, None, None].to(begins.dtype).expand_as(begins) for m, here in memory.present.items()}
        choices = {"segment": {"begins": begins, "goes on": 1 - begins}}
        return Explanation(attention=rolled.attention, shares=shares, choices=choices, matrices=matrices)

    def roll(self, memory: HRLMemory, words: Tensor, state: HRLState) -> tuple[Rolled, HRLState]:
        """words [B, R, L] → what happens at each, and the state after the last."""
        ended, critic = self.critic(words, state.critic)
        opened = (ended > 0) | (words == self.vocabulary.bos)  # [B, R, L]
        embedded = self.dropout(self.worker.words(words))  # [B, R, L, E]
        rows, (h, c), (above, deep), goal = words.shape[:2], state.worker, state.manager, state.goal
        workers, managers, goals, looked, managed = [], [], [], [], []
        for ahead, new in zip(self.worker.cell.ahead(embedded).unbind(2), opened[..., None].unbind(2), strict=True):
            context, over = self.manager.attention.look(above, memory.manager, memory.masks)
            given = torch.cat([context.to(h.dtype), h], dim=-1).flatten(0, 1)  # [B·R, ...]
            moved = self.manager.cell(given, (above.flatten(0, 1).to(h.dtype), deep.flatten(0, 1).to(h.dtype)))
            next_above, next_deep = (part.unflatten(0, rows) for part in moved)
            goal = torch.where(new, self.manager.set_goal(next_above), goal)
            if self.config.manager_clock == "segment":
                above, deep = torch.where(new, next_above, above), torch.where(new, next_deep, deep)
            else:
                above, deep = next_above, next_deep
            context, weights = self.worker.attention.look(h, memory.worker, memory.masks)
            h, c = self.worker.cell(ahead, torch.cat([context, goal.to(context.dtype)], dim=-1), (h, c))
            workers.append(h)
            managers.append(above)
            goals.append(goal)
            looked.append(weights)
            managed.append(over)
        hidden, of_manager, set_goals = (torch.stack(part, dim=2) for part in (workers, managers, goals))
        attention, over = (
            {m: torch.stack([each[m] for each in part], dim=2) for m in memory.masks} for part in (looked, managed)
        )
        rolled = Rolled(hidden, of_manager, set_goals, opened, attention, over)
        return rolled, HRLState((h, c), (above, deep), goal, critic)
