"""A batch on its way into ClickHouse, in a thread beside the one that gathers the next."""

from collections import Counter
from concurrent.futures import Executor, Future, wait

from schemas.record import Record
from storage.batch import Bad, Batch
from storage.insert import Away, Inserts, insert
from storage.native import Packed
from storage.tables import BY_RECORD, Table


class Storing:
    """Stores one batch, table after table. An attempt that meets an absence ends; the next goes on where it stopped.

    What was stored (`rows` by table), what no row can hold (`unfit`) and readings without a column (`unknown`) may be
    looked at when `outcome` has returned: until then the other thread writes them.
    """

    def __init__(self, client: Inserts, thread: Executor, batch: Batch) -> None:
        self.batch = batch
        self.rows: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter(batch.unknown)
        self.unfit: list[Bad] = []
        self._client, self._thread = client, thread
        self._left = [(record, table) for record in batch.taken for table in BY_RECORD[record]][::-1]
        self._known: dict[type[Record], dict[str, Packed]] = {record: {} for record in batch.taken}
        self._attempt: Future[Away | None] | None = None
        self.begin()

    def begin(self) -> None:
        """Start an attempt, where none is under way or waits to be looked at."""
        if self._attempt is None:
            self._attempt = self._thread.submit(self._store)

    def ended(self, timeout_s: float = 0.0) -> bool:
        """Whether the attempt has ended, after at most `timeout_s`."""
        return self._attempt is None or bool(wait([self._attempt], timeout_s).done)

    def done(self) -> bool:
        """Whether no further attempt is needed: every row is durable, or no attempt can help."""
        attempt = self._attempt
        return attempt is not None and attempt.done() and (attempt.exception() is not None or attempt.result() is None)

    def outcome(self) -> None:
        """Wait for the attempt; raises Away where another may help, UserError where none can."""
        if self._attempt is not None:
            attempt, self._attempt = self._attempt, None
            if away := attempt.result():
                raise away

    def _store(self) -> Away | None:
        while self._left:
            record, table = self._left[-1]
            try:
                self._one(record, table)
            except Away as away:
                return away
            self._left.pop()
        return None

    def _one(self, record: type[Record], table: Table) -> None:
        done = insert(self._client, table, self.batch.taken[record], self._known[record])
        self.rows[table.name] += done.rows
        self.unknown += done.unknown
        self.unfit += [Bad(one.message, "unfit", why) for one, why in done.unfit]
