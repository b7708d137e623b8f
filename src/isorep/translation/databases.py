"""Databases: collections of Qdrant and tables of PostgreSQL with pgvector, read and written by their clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..files import without_secrets
from ..representation import Array
from .quantised import Change


def address_of(address: str) -> tuple[str, str]:
    """The place and the name of a table or collection: ``KIND:PLACE::NAME``."""
    place, mark, name = address.partition(":")[2].rpartition("::")
    if not mark or not place or not name:
        raise InputError(f"{without_secrets(address)} should name a place and a table or collection: KIND:PLACE::NAME")
    return place, name


class QdrantCollection:
    """A Qdrant collection: ``qdrant:FOLDER::COLLECTION`` in local mode, or ``qdrant:http://HOST:PORT::COLLECTION``."""

    def __init__(self, address: str) -> None:
        self._place, self.name = address_of(address)
        self._client = _qdrant(self._place)
        if not self._client.collection_exists(self.name):
            raise InputError(f"{address} does not exist")
        vectors = self._client.get_collection(self.name).config.params.vectors
        self._vector: str | None = None
        if isinstance(vectors, dict):
            if len(vectors) != 1:
                raise InputError(f"{address} has several vectors per point ({', '.join(vectors)}): one is translated")
            self._vector, vectors = next(iter(vectors.items()))
        if vectors is None:
            raise InputError(f"{address} has no vectors")
        self._distance = vectors.distance
        self.rows = int(self._client.count(self.name, exact=True).count)
        if not self.rows:
            raise InputError(f"{address} holds no points")

    def _points(self) -> Iterator[tuple[list[Any], Array]]:
        offset = None
        while True:
            points, offset = self._client.scroll(
                self.name, limit=1000, offset=offset, with_vectors=True, with_payload=True
            )
            if points:
                held = [point.vector if self._vector is None else point.vector[self._vector] for point in points]
                yield points, np.array(held, np.float32)
            if offset is None:
                return

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        """The ids, where they are known, and the old vectors, block by block."""
        for points, vectors in self._points():
            yield np.array([str(point.id) for point in points]), vectors

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        """Write the store with new vectors; returns what was written in words."""
        from qdrant_client import models

        place, name = address_of(output)
        client = self._client if place == self._place else _qdrant(place)
        if client.collection_exists(name):
            raise InputError(f"{output} exists: name another collection")
        params = models.VectorParams(size=width, distance=self._distance)
        with ExitStack() as undo:
            undo.callback(client.delete_collection, name)
            client.create_collection(name, vectors_config=params if self._vector is None else {self._vector: params})
            for points, vectors in self._points():
                new = change(vectors).tolist()
                client.upsert(
                    name,
                    [
                        models.PointStruct(
                            id=point.id,
                            vector=vector if self._vector is None else {self._vector: vector},
                            payload=point.payload,
                        )
                        for point, vector in zip(points, new, strict=True)
                    ],
                )
                progress(len(points))
            undo.pop_all()
        if client is not self._client:
            client.close()
        self._client.close()
        return f"{self.rows} points x {width} columns with ids and payloads, by {self._distance.value.lower()}"


def _qdrant(place: str) -> Any:
    client = import_extra("qdrant_client", "stores", "a Qdrant collection", "qdrant-client").QdrantClient
    if place.startswith(("http://", "https://")):
        return client(url=place)
    return client(path=place)


class PostgresTable:
    """A table of PostgreSQL with one column of pgvector: ``pgvector:postgresql://USER@HOST/DATABASE::TABLE``.

    Rows travel as the text of COPY. All fields but the vector pass as they are, whatever their types.
    """

    def __init__(self, address: str) -> None:
        self._place, self._table = address_of(address)
        self.name = without_secrets(address)
        with _postgres(self._place) as connection:
            place = _identifier(self._table)
            try:
                found = connection.execute(
                    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass "
                    "AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
                    [place.as_string(connection)],
                ).fetchall()
            except import_extra("psycopg", *_PSYCOPG).Error as error:
                raise InputError(f"{self.name} cannot be opened: {str(error).splitlines()[0]}") from error
            kinds = dict(found)
            wide = [name for name, kind in kinds.items() if kind.partition("(")[0].rpartition(".")[2] in _PG_KINDS]
            if len(wide) != 1:
                raise InputError(
                    f"{self.name} has {len(wide)} columns of vectors ({', '.join(wide) or 'none'}): one is translated"
                )
            self._column, self._names = wide[0], list(kinds)
            self._kind = kinds[self._column].partition("(")[0]
            counted = connection.execute(_sql("SELECT count(*) FROM {}", place)).fetchone()
            self.rows = int(counted[0])
        if not self.rows:
            raise InputError(f"{self.name} holds no rows")

    def _lines(self, connection: Any) -> Iterator[tuple[list[list[bytes]], Array]]:
        """Batches of rows, as fields of COPY, and their vectors."""
        place, held, start = self._names.index(self._column), [], 0
        with (
            connection.cursor() as cursor,
            cursor.copy(
                _sql(
                    f"COPY (SELECT {', '.join(['{}'] * len(self._names))} FROM {{}}) TO STDOUT",
                    *map(_identifier_of, self._names),
                    _identifier(self._table),
                )
            ) as copy,
        ):
            for fields in copied_rows(copy):
                held.append(fields)
                if len(held) == _PG_ROWS:
                    yield held, pg_vectors([each[place] for each in held], self.name, start)
                    start, held = start + len(held), []
        if held:
            yield held, pg_vectors([each[place] for each in held], self.name, start)

    def blocks(self) -> Iterator[tuple[Array | None, Array]]:
        """The ids, where they are known, and the old vectors, block by block."""
        with _postgres(self._place) as connection:
            for _, vectors in self._lines(connection):
                yield None, vectors

    def write(self, output: str, width: int, change: Change, progress: Callable[[int], None]) -> str:
        """Write the store with new vectors; returns what was written in words."""
        place, table = address_of(output)
        psycopg = import_extra("psycopg", *_PSYCOPG)
        new, old, column = _identifier(table), _identifier(self._table), _identifier_of(self._column)
        said, index = without_secrets(output), self._names.index(self._column)
        with _postgres(self._place) as reading, _postgres(place) as writing:
            try:
                writing.execute(
                    _sql(
                        "CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS "
                        "INCLUDING GENERATED INCLUDING COMMENTS)",
                        new,
                        old,
                    )
                )
                writing.execute(
                    _sql(f"ALTER TABLE {{}} ALTER COLUMN {{}} TYPE {self._kind}({int(width)})", new, column)
                )
                names = [_identifier_of(name) for name in self._names]
                into = _sql(f"COPY {{}} ({', '.join(['{}'] * len(names))}) FROM STDIN", new, *names)
                with writing.cursor() as cursor, cursor.copy(into) as copy:
                    for rows, vectors in self._lines(reading):
                        for fields, vector in zip(rows, change(vectors), strict=True):
                            fields[index] = pg_text(vector)
                            copy.write(b"\t".join(fields) + b"\n")
                        progress(len(rows))
            except psycopg.Error as error:
                raise InputError(f"{said} cannot be written: {str(error).splitlines()[0]}") from error
            writing.commit()
        others = len(self._names) - 1
        return f"{self.rows} rows x {width} columns, {self._kind}, with {others} other columns; indexes are not copied"


_PSYCOPG = ("stores", "a table of PostgreSQL", "psycopg[binary]")
_PG_KINDS = ("vector", "halfvec")
_PG_ROWS = 1000


def copied_rows(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The rows of COPY's text format as fields; line ends and tabs inside fields are escaped there, and stay so."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + bytes(chunk)).split(b"\n")
        for line in lines:
            yield line.split(b"\t")
    if rest:
        yield rest.split(b"\t")


def pg_vectors(cells: list[bytes], name: str, start: int) -> Array:
    """Vectors from pgvector's text, such as ``[1,2.5]``."""
    missing = [row for row, cell in enumerate(cells) if cell == rb"\N"]
    if missing:
        raise InputError(
            f"{name} has no vector in row {start + missing[0]} (as the table is read): leave such rows out"
        )
    rows = [np.array(cell.strip(b"[]").split(b","), np.float32) for cell in cells]
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"{name} holds vectors of different widths")
    return np.stack(rows)


def pg_text(vector: Array) -> bytes:
    """A vector as pgvector's text, with all digits of float32."""
    return ("[" + ",".join(f"{value:.9g}" for value in vector.tolist()) + "]").encode()


def _postgres(place: str) -> Any:
    if not place.startswith(("postgresql://", "postgres://")):
        raise InputError("pgvector: needs a URL and a table: pgvector:postgresql://USER@HOST/DATABASE::TABLE")
    psycopg = import_extra("psycopg", *_PSYCOPG)
    try:
        return psycopg.connect(place)
    except psycopg.Error as error:
        raise InputError(f"{without_secrets(place)} cannot be reached: {str(error).splitlines()[0]}") from error


def _sql(text: str, *parts: Any) -> Any:
    return import_extra("psycopg.sql", *_PSYCOPG).SQL(text).format(*parts)


def _identifier(table: str) -> Any:
    """A table, or ``schema.table``, quoted."""
    return import_extra("psycopg.sql", *_PSYCOPG).Identifier(*table.split(".", 1))


def _identifier_of(name: str) -> Any:
    return import_extra("psycopg.sql", *_PSYCOPG).Identifier(name)
