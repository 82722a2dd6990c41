"""Requests and results between this process and a worker, over a socket; arrays travel as shared memory.

A worker handles files that may be hostile, so nothing that comes from it is unpickled: its answer is JSON beside
the descriptor of an anonymous file. Such a file has no name that could be left behind when a process is killed.
"""

from __future__ import annotations

import array
import fcntl
import json
import mmap
import os
import socket
import struct
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from hoca.media.request import DecodedVideo

HEADER = struct.Struct("!Q")
LONGEST_ANSWER = 1 << 20
ALIGNMENT = 64


def send(connection: socket.socket, message: bytes, descriptor: int | None = None) -> None:
    head = HEADER.pack(len(message))
    if descriptor is None:
        connection.sendall(head)
    else:
        connection.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])
    connection.sendall(message)


def receive(connection: socket.socket, longest: int | None = None) -> tuple[bytes, int | None]:
    """The next message and the descriptor beside it; EOFError when the other side is gone."""
    head, descriptors, _, _ = socket.recv_fds(connection, HEADER.size, 1)
    descriptor = descriptors[0] if descriptors else None
    try:
        (length,) = HEADER.unpack(head + _exactly(connection, HEADER.size - len(head)))
        if longest is not None and length > longest:
            raise EOFError
        return _exactly(connection, length), descriptor
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise


def _exactly(connection: socket.socket, length: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < length:
        piece = connection.recv(min(length - len(pieces), 1 << 20))
        if not piece:
            raise EOFError
        pieces += piece
    return bytes(pieces)


def send_failure(connection: socket.socket, reason: str) -> None:
    send(connection, json.dumps({"failure": reason}).encode())


def send_decoded(connection: socket.socket, decoded: DecodedVideo) -> None:
    arrays, places = dict(_arrays(decoded)), []
    with _anonymous_file() as file:
        file.write(bytes(ALIGNMENT))  # a file without a byte cannot be shared
        for (kind, name), values in arrays.items():
            file.seek(-file.tell() % ALIGNMENT, os.SEEK_CUR)
            places.append([kind, name, values.dtype.str, values.shape, file.tell()])
            file.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
        file.flush()
        rest = {name: getattr(decoded, name) for name in ("frames", "duration", "rate", "absent", "damage")}
        send(connection, json.dumps({"arrays": places, "rest": rest}).encode(), file.fileno())


def _arrays(decoded: DecodedVideo) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    for name, pictures in decoded.pictures.items():
        yield ("pictures", name), pictures
        yield ("times", name), decoded.times[name]
    if decoded.waveform is not None:
        yield ("waveform", ""), decoded.waveform


def receive_answer(connection: socket.socket) -> DecodedVideo | str:
    """What the worker decoded, or why it could not. The arrays live in the shared memory, and free it when they go."""
    message, descriptor = receive(connection, LONGEST_ANSWER)
    try:
        answer: dict[str, Any] = json.loads(message)
        if descriptor is None:
            return str(answer["failure"])
        _keep_its_size(descriptor)
        memory = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    finally:
        if descriptor is not None:
            os.close(descriptor)
    found: dict[str, dict[str, np.ndarray]] = {"pictures": {}, "times": {}, "waveform": {}}
    for kind, name, dtype, shape, offset in answer["arrays"]:
        if np.dtype(dtype).hasobject:
            raise ValueError("an array of addresses")
        found[kind][name] = np.ndarray(tuple(shape), np.dtype(dtype), memory, offset)  # checks that it lies within
    return DecodedVideo(found["pictures"], found["times"], waveform=found["waveform"].get(""), **answer["rest"])


def _anonymous_file() -> Any:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("hoca", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "w+b")
    return tempfile.TemporaryFile()


def _keep_its_size(descriptor: int) -> None:
    """A worker gone wrong must not shrink the memory under our arrays: touching them would end this process."""
    if hasattr(fcntl, "F_ADD_SEALS"):
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
