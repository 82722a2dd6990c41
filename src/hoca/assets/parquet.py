"""Read one column of text from a small Parquet file: Snappy, plain or dictionary pages, no missing values."""

from __future__ import annotations

import struct
from typing import Any

MAGIC = b"PAR1"
DICTIONARY, DATA, DATA_2 = 2, 0, 3
PLAIN = 0


def strings(content: bytes) -> list[str]:
    """The values of the only column, in order."""
    if not content.startswith(MAGIC) or not content.endswith(MAGIC):
        raise ValueError("not a Parquet file")
    size = struct.unpack("<I", content[-8:-4])[0]
    footer = Thrift(content, len(content) - 8 - size).struct()
    found: list[bytes] = []
    for group in footer[4]:
        facts = group[1][0][3]  # the metadata of the first column
        place = min(number for number in (facts.get(9), facts.get(11)) if number is not None)
        found += _column(content, place, facts[5])
    return [value.decode() for value in found]


def _column(content: bytes, place: int, count: int) -> list[bytes]:
    dictionary: list[bytes] = []
    found: list[bytes] = []
    while len(found) < count:
        reader = Thrift(content, place)
        header = reader.struct()
        place = reader.place + header[3]
        page = snappy(content[reader.place : place])
        if header[1] == DICTIONARY:
            dictionary = _plain(page, header[7][1])
        elif header[1] == DATA:
            facts = header[5]
            values = page[4 + struct.unpack_from("<I", page)[0] :] if facts[3] == 3 and _optional(page) else page
            found += (
                _plain(values, facts[1]) if facts[2] == PLAIN else [dictionary[i] for i in _indices(values, facts[1])]
            )
        else:
            raise ValueError(f"Parquet page of kind {header[1]}")
    return found


def _optional(page: bytes) -> bool:
    """Whether definition levels come first: a length, then runs."""
    return struct.unpack_from("<I", page)[0] < 64


def _plain(page: bytes, count: int) -> list[bytes]:
    values, place = [], 0
    for _ in range(count):
        size = struct.unpack_from("<I", page, place)[0]
        values.append(page[place + 4 : place + 4 + size])
        place += 4 + size
    return values


def _indices(page: bytes, count: int) -> list[int]:
    """Numbers in runs: repeated ones, or eight at a time packed in so many bits."""
    bits, place = page[0], 1
    numbers: list[int] = []
    while len(numbers) < count:
        header, place = _varint(page, place)
        if header & 1:
            size = (header >> 1) * bits
            packed = int.from_bytes(page[place : place + size], "little")
            numbers += [packed >> bits * i & (1 << bits) - 1 for i in range((header >> 1) * 8)]
            place += size
        else:
            size = -(-bits // 8)
            numbers += [int.from_bytes(page[place : place + size], "little")] * (header >> 1)
            place += size
    return numbers[:count]


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


class Thrift:
    """Thrift's compact form: a struct becomes a dict from field numbers to values."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self.place = data, place

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while byte := self._byte():
            step = byte >> 4
            number = number + step if step else self._zigzag()
            fields[number] = self._value(byte & 0x0F)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            self.place += 8
            return struct.unpack_from("<d", self.data, self.place - 8)[0]
        if kind == 8:
            size = self._varint()
            self.place += size
            return self.data[self.place - size : self.place]
        if kind in (9, 10):
            head = self._byte()
            size = head >> 4 if head >> 4 != 15 else self._varint()
            return [self._value(head & 0x0F) for _ in range(size)]
        if kind == 12:
            return self.struct()
        raise ValueError(f"Thrift type {kind}")

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _varint(self) -> int:
        value, self.place = _varint(self.data, self.place)
        return value

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def snappy(data: bytes) -> bytes:
    """Undo Snappy's compression of one block."""
    size, place = _varint(data, 0)
    out = bytearray()
    while place < len(data):
        tag = data[place]
        place += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[place : place + extra], "little")
                place += extra
            length += 1
            out += data[place : place + length]
            place += length
            continue
        if tag & 3 == 1:
            length, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[place]
            place += 1
        else:
            wide = 2 if tag & 3 == 2 else 4
            length, offset = (tag >> 2) + 1, int.from_bytes(data[place : place + wide], "little")
            place += wide
        start = len(out) - offset
        for at in range(start, start + length) if offset < length else ():
            out.append(out[at])  # the copy reads what it has just written
        if offset >= length:
            out += out[start : start + length]
    if len(out) != size:
        raise ValueError(f"Snappy block of {len(out)} bytes, expected {size}")
    return bytes(out)
