"""Fresh inputs per student, check and case: the same everywhere and at every regrade, unknown without the secret."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

import numpy as np

PUBLIC_SECRET = b"flashdojo: the secret that everybody knows"


@dataclass(frozen=True)
class Secret:
    """The key behind the inputs. ``key_id`` goes into the result document, the key itself never does."""

    key: bytes = PUBLIC_SECRET

    @property
    def key_id(self) -> str:
        return "public" if self.key == PUBLIC_SECRET else hashlib.sha256(b"key id|" + self.key).hexdigest()[:16]


def generator(secret: Secret, student: str, check: str, case: str | int) -> np.random.Generator:
    """A numpy Philox stream keyed with HMAC-SHA256(secret, student | check | case)."""
    digest = hmac.new(secret.key, f"{student}|{check}|{case}".encode(), hashlib.sha256).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
