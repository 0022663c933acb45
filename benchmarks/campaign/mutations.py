"""Bytes changed at random, and packed files whose inside is changed and packed again."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib

import numpy as np

WORDS = r"""0 -1 1e308 1e-320 nan NaN inf -Infinity 2147483648 18446744073709551616 1.5 true null , ; | " '
\ [ ] {} [] : <script> ../../x /etc/passwd =1+1 \ud800 O |O <f8 >U9 (9999999999,)"""
BYTES = r"""20 09 0a 0d0a 0d 00 fffe efbbbf eda080 ffffffffffffffff 7fffffff 00000080"""
LONG = (b"9" * 30, b"[" * 5000, b'{"a":' * 2000, b"a" * 70000)
TOKENS = (b"", *WORDS.encode().split(), *map(bytes.fromhex, BYTES.split()), *LONG)


def mutated(rng: np.random.Generator, content: bytes) -> bytes:
    """The same bytes after one to four changes."""
    made = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(made) + 1))
        length = int(2 ** rng.uniform(0, 6))
        way = rng.integers(9)
        if way == 0 and made:
            made[place % len(made)] ^= 1 << int(rng.integers(8))
        elif way == 1 and made:
            made[place % len(made)] = int(rng.integers(256))
        elif way == 2:
            del made[place : place + length]
        elif way == 3:
            made[place:place] = made[place : place + length] * int(rng.integers(1, 20))
        elif way == 4:
            other = int(rng.integers(len(made) + 1))
            made[place : place + length] = made[other : other + length]
        elif way == 5:
            del made[place:]
        elif way == 6:
            made[place:place] = rng.bytes(length)
        elif way == 7:
            made[place : place + int(rng.integers(9))] = TOKENS[rng.integers(len(TOKENS))]
        else:  # a number, or a word, is another one
            made[:] = exchanged(rng, bytes(made))
    return bytes(made)


def exchanged(rng: np.random.Generator, content: bytes) -> bytes:
    """Some word of a text is replaced by a token, everywhere or once."""
    words = content[:4000].replace(b",", b" ").replace(b'"', b" ").replace(b":", b" ").split()
    if not words:
        return content
    word, token = words[rng.integers(len(words))], TOKENS[rng.integers(len(TOKENS))]
    return content.replace(word, token, -1 if rng.random() < 0.3 and len(token) < 50 else 1)


def mutated_file(rng: np.random.Generator, name: str, content: bytes) -> bytes:
    """As `mutated`; of packed files mostly the inside, so that checksums fit."""
    if rng.random() < 0.3:
        return mutated(rng, content)
    if name.endswith((".npz", ".zip")):
        return _zip(rng, content)
    if name.endswith(".gz"):
        return gzip.compress(mutated(rng, gzip.decompress(content)), compresslevel=1, mtime=0)
    if name.endswith(".png"):
        return _png(rng, content)
    return mutated(rng, content)


def _zip(rng: np.random.Generator, content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        names = old.namelist()
        chosen = names[rng.integers(len(names))]
        lost = rng.random() < 0.05
        for name in names:
            inside = old.read(name)
            if name != chosen:
                new.writestr(name, inside)
            elif not lost:
                new.writestr(name, mutated(rng, inside))
    return made.getvalue()


def _png(rng: np.random.Generator, content: bytes) -> bytes:
    """A chunk of a PNG is changed, and every checksum is right."""
    chunks, place = [], 8
    while place < len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + size]))
        place += 12 + size
    k = int(rng.integers(len(chunks)))
    kind, inside = chunks[k]
    if kind == b"IDAT" and rng.random() < 0.5:
        chunks[k] = kind, zlib.compress(mutated(rng, zlib.decompress(inside)))
    else:
        chunks[k] = kind, mutated(rng, inside)
    parts = [content[:8]]
    for kind, inside in chunks:
        sum_ = zlib.crc32(kind + inside)
        parts.append(len(inside).to_bytes(4, "big") + kind + inside + sum_.to_bytes(4, "big"))
    return b"".join(parts)
