"""The vectors of texts by one sentence encoder, each computed once: kept in memory, and on disk for later runs.

The cache holds no text: its key is the SHA-256 of one. It may be deleted at any time. Not in the paper.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import NAME, ConfigurationError, Message
from contextual_bert.inference import texts as of_texts
from contextual_bert.manifest import digest_of

if TYPE_CHECKING:
    import torch

Showing = Callable[[], AbstractContextManager[Callable[[int, int], None] | None]]

READING_TEXTS = "reading the texts of items"
SECONDS_UNTOLD = 2.0
CACHE_VARIABLE = "CONTEXTUAL_BERT_CACHE"
_AT_ONCE = 2048  # texts that are read before their vectors are kept
_KEYS_AT_ONCE = 500  # in a question to the cache
_WAIT_SECONDS = 30.0  # for another process that writes
# The files of a checkpoint that decide what its vectors are; of two forms of weights the first one is read.
_TEXT_FILES = (
    *("config.json", "1_Pooling/config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model"),
)
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def cache_folder() -> Path:
    """Return the folder of what is computed once on this machine.

    The variable ``CONTEXTUAL_BERT_CACHE`` names it; else it is ``contextual-bert`` in ``XDG_CACHE_HOME`` or in
    ``~/.cache``.
    """
    if (named := os.environ.get(CACHE_VARIABLE)) is not None and named.strip():
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "contextual-bert"


def encoder_digest(folder: str | Path) -> str:
    """Return the SHA-256 of the files of a sentence encoder: config, pooling, tokenizer and weights.

    Args:
        folder: of a checkpoint.

    Raises:
        RunDirectoryError: a file cannot be read.
    """
    folder = Path(folder)
    weights = next((found for pattern in _WEIGHTS if (found := sorted(folder.glob(pattern)))), [])
    files = [*(path for name in _TEXT_FILES if (path := folder / name).is_file()), *weights]
    listed = "".join(f"{path.relative_to(folder).as_posix()} {digest_of(path)}\n" for path in files)
    return hashlib.sha256(listed.encode()).hexdigest()


class VectorCache:
    """The vectors of one encoder in a file, by the SHA-256 of their texts. What cannot be read or written is left out.

    Args:
        digest: of the encoder.

    Attributes:
        problem: why the file could not be used; empty where it could.
    """

    def __init__(self, digest: str) -> None:
        self.path = cache_folder() / "text-vectors" / f"{digest}.sqlite"
        self.problem = ""

    def get(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of those of the texts that have one."""
        if not self.path.is_file():
            return {}
        text_of = {_key(text): text for text in texts}
        keys, found = [*text_of], dict[str, NDArray[np.float32]]()
        try:
            with self._connected() as connection:
                for start in range(0, len(keys), _KEYS_AT_ONCE):
                    asked = keys[start : start + _KEYS_AT_ONCE]
                    marks = ",".join("?" * len(asked))
                    rows = connection.execute(f"SELECT text, vector FROM vectors WHERE text IN ({marks})", asked)
                    found |= {text_of[key]: np.frombuffer(vector, "<f4") for key, vector in rows}
        except sqlite3.OperationalError as error:  # locked, or not allowed
            self._note(error)
        except (sqlite3.DatabaseError, OSError) as error:
            self._note(error)
            with suppress(OSError):  # a damaged file is made anew
                self.path.unlink()
            return {}
        return found

    def put(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep the vectors of texts."""
        rows = [(_key(text), vector.astype("<f4").tobytes()) for text, vector in vectors.items()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._connected() as connection, connection:
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        except (sqlite3.Error, OSError) as error:
            self._note(error)

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=_WAIT_SECONDS)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB NOT NULL)")
            yield connection

    def _note(self, error: Exception) -> None:
        self.problem = f"the cache {self.path} cannot be used ({error}), so texts are read again each time"


class TextVectors:
    """The vectors of texts by one sentence encoder, which is loaded for texts that were never read before.

    Args:
        folder: of the encoder, as ``--checkpoint`` takes it.
        digest: of the encoder that is meant, where it was recorded. None: that of the folder.
        device: where the encoder computes.
        showing: opens what is told (texts done, texts in all), where that takes more than ``SECONDS_UNTOLD``.

    Raises:
        ConfigurationError: no folder, where no digest was recorded.

    Relation to its siblings:
        ``SentenceEncoder`` computes them.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        digest: str | None = None,
        device: "torch.device | None" = None,
        showing: Showing | None = None,
    ) -> None:
        self.folder, self.device, self.showing = str(folder), device, showing
        if digest is None:
            self._check_folder("is no folder")
        self.digest = digest or encoder_digest(self.folder)
        self.cache = VectorCache(self.digest)
        self._known: dict[str, NDArray[np.float32]] = {}

    def of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts: (rows, size); (0, 0) of none.

        Raises:
            ConfigurationError: the encoder is needed, and is not there any more, or is another one.
        """
        new = [*dict.fromkeys(text for text in texts if text not in self._known)]
        self._known |= self.cache.get(new) if new else {}
        if lacking := [text for text in new if text not in self._known]:
            self._read(lacking)
        return np.stack([self._known[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def lines(self) -> list[str]:
        """Return what a user should know: that the cache cannot be used."""
        return [self.cache.problem] if self.cache.problem else []

    def check_recorded(self) -> None:
        """Raise ConfigurationError unless the folder holds the encoder whose digest was recorded."""
        self._check_folder("is no folder, and a sentence encoder has to read texts that are new")
        found = encoder_digest(self.folder)
        if found != self.digest:
            raise ConfigurationError(
                f"holds another sentence encoder than the one that read the items' texts in training (its digest is "
                f"{found[:12]}, and theirs {self.digest[:12]})",
                setting="item_text_encoder",
                value=self.folder,
                fix=_WHERE,
            )

    def _check_folder(self, problem: str) -> None:
        if not Path(self.folder).is_dir():
            raise ConfigurationError(problem, setting="item_text_encoder", value=self.folder, fix=_WHERE)

    def _read(self, texts: Sequence[str]) -> None:
        self.check_recorded()
        encoder = of_texts.SentenceEncoder(self.folder, device=self.device)
        ordered = sorted(texts, key=len)
        with ExitStack() as stack:
            progress = self._progress(stack, len(ordered))
            for start in range(0, len(ordered), _AT_ONCE):
                chosen = ordered[start : start + _AT_ONCE]
                vectors = encoder.read(chosen, progress=partial(progress, start))
                found = dict(zip(chosen, vectors, strict=True))
                self._known |= found
                self.cache.put(found)

    def _progress(self, stack: ExitStack, total: int) -> Callable[[int, int, int], None]:
        """Return what is told (texts done before, texts done since, their number), and shows it after a while."""
        began, opened = time.monotonic(), list[Callable[[int, int], None] | None]()

        def tell(before: int, done: int, _: int) -> None:
            if not opened and self.showing is not None and time.monotonic() - began > SECONDS_UNTOLD:
                opened.append(stack.enter_context(self.showing()))
            if opened and opened[0] is not None:
                opened[0](before + done, total)

        return tell


_WHERE = Message(
    "Give the folder of that encoder with {item_text_encoder}; for a finished run to `contextual-bert catalogue add`, "
    "or change_catalogue, which write a run that needs it no more.",
    item_text_encoder=NAME,
)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
