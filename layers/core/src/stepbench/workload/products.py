"""
Product records: 12 fields of realistic, seeded text. Pure.

A product follows from its record number, its version and the seed. Every value has a fixed size, so that all products
are alike to a store, and consists of letters, digits, spaces and `&.`, which need no escape in JSON or SQL. Values are
text everywhere (Redis and DynamoDB send numbers as text, too); `NUMBERS` says which mean numbers.

    field          bytes
    id                19   10^18 and the record's number
    creation_time     13   milliseconds since the epoch
    update_time       13   the same; in what an overwrite or update writes later, by up to three years
    name              20   "Silver Walnut Mirror"
    description      200   words
    category           7
    count              3   100...999
    price              6   100.00...999.99
    seller            17   "Almeida & Bergman"
    seller_id          6   the same for the same seller
    country            2   ISO 3166-1, of the seller
    city               6   in that country
    together         312

Source:
    The fields are those of Bianchi (2020), Swifter Than DynamoDB: Lambda Store - Serverless Redis.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from stepbench.workload.choices import mix_bits

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELD_BYTES = {
    "id": 19,
    "creation_time": 13,
    "update_time": 13,
    "name": 20,
    "description": 200,
    "category": 7,
    "count": 3,
    "price": 6,
    "seller": 17,
    "seller_id": 6,
    "country": 2,
    "city": 6,
}
NUMBERS = frozenset({"id", "creation_time", "update_time", "count", "price", "seller_id"})
UPDATED = ("update_time", "count", "price")
"""The few fields that an update changes: those that a sale or a new price would."""
_FIRST_ID = 10**18
_EPOCH_MS, _DAY_MS, _DAYS = 1_600_000_000_000, 86_400_000, 1_000
_LATEST_MS = 10**11
"""An update comes at most so long after the creation: with it, milliseconds since the epoch still have 13 digits."""
_DESCRIPTIONS = 4_096
_SELLERS = 900_000
_COLOURS = ("Auburn", "Cobalt", "Golden", "Indigo", "Maroon", "Orange", "Purple", "Silver", "Violet", "Yellow")
_MATERIALS = ("Bamboo", "Canvas", "Copper", "Cotton", "Enamel", "Marble", "Pewter", "Rattan", "Velvet", "Walnut")
_THINGS = ("Basket", "Candle", "Carpet", "Drawer", "Hamper", "Kettle", "Mirror", "Pillow", "Statue", "Teapot")
_CATEGORIES = ("Apparel", "Bathing", "Bedding", "Fitness", "Jewelry", "Kitchen", "Outdoor", "Seating", "Storage")
_NAMES = ("Almeida", "Bergman", "Cardoso", "Eriksen", "Fischer", "Hoffman", "Iglesia", "Jackson", "Kovacic", "Laurent")
_PLACES = tuple(
    place.split()
    for place in (  # noqa: SIM905 -- sixty quoted strings are no easier to read
        "AT Vienna,AU Sydney,BE Bruges,CA Ottawa,CH Geneva,CZ Prague,DE Berlin,DE Munich,DK Aarhus,ES Madrid,FR Nantes,"
        "GB London,GR Athens,HR Zagreb,IE Dublin,IN Mumbai,IT Naples,JP Nagoya,KE Kisumu,NO Bergen,PH Manila,PL Warsaw,"
        "PT Lisbon,RW Kigali,TR Ankara,TW Taipei,US Boston,US Denver,UY Rivera,ZA Durban"
    ).split(",")
)
_WORDS = (  # noqa: SIM905
    "a and beautiful by carefully classic colour comes crafted designed durable easy elegant every finish for from "
    "gift hand home ideal is light made modern natural of on our perfect quality room simple small soft solid style "
    "the this timeless to traditional unique warm wash with workshop"
).split()


class Products:
    """All products of one seed; a new one for each call, in some microseconds."""

    def __init__(self, seed: int) -> None:
        self._seed = mix_bits(seed + 1)
        self._descriptions = _descriptions(seed)

    def product(self, number: int, version: int = 0) -> dict[str, str]:
        """
        Return all fields, in the order of `FIELD_BYTES`.

        Args:
            number: the record's, in [0, 2^62).
            version: 0 as inserted; an overwrite writes another, which differs in all but id and creation time.
        """
        bits = mix_bits(self._seed ^ mix_bits(number) ^ mix_bits(version + 1))
        seller = (bits >> 40) % _SELLERS
        country, city = _PLACES[seller % len(_PLACES)]
        created_ms = self._created_ms(number)
        return {
            "id": str(_FIRST_ID + number),
            "creation_time": str(created_ms),
            "update_time": str(created_ms + _later_ms(version, bits)),
            "name": f"{_COLOURS[bits % 10]} {_MATERIALS[bits // 10 % 10]} {_THINGS[bits // 100 % 10]}",
            "description": self._descriptions[(bits >> 20) % _DESCRIPTIONS],
            "category": _CATEGORIES[(bits >> 10) % len(_CATEGORIES)],
            **_stock(bits),
            "seller": f"{_NAMES[seller // 10 % 10]} & {_NAMES[seller // 100 % 10]}",
            "seller_id": str(100_000 + seller),
            "country": country,
            "city": city,
        }

    def changes(self, number: int, version: int) -> dict[str, str]:
        """Return the fields of `UPDATED` as `product(number, version)` has them: what an update writes."""
        bits = mix_bits(self._seed ^ mix_bits(number) ^ mix_bits(version + 1))
        return {"update_time": str(self._created_ms(number) + _later_ms(version, bits)), **_stock(bits)}

    def _created_ms(self, number: int) -> int:
        return _EPOCH_MS + mix_bits(self._seed ^ mix_bits(number)) % _DAYS * _DAY_MS


def attributes_json(fields: Mapping[str, str]) -> str:
    """Format DynamoDB's attribute map as JSON text: `{"id":{"N":"1"},"city":{"S":"Berlin"}}`."""
    return "{" + ",".join([f'"{name}":{{"{_TYPES[name]}":"{text}"}}' for name, text in fields.items()]) + "}"


def hash_fields(fields: Mapping[str, str]) -> list[bytes]:
    """Format a Redis hash's fields as HSET takes them: name, value, name, value..."""
    return [part.encode() for pair in fields.items() for part in pair]


def json_blob(fields: Mapping[str, str]) -> bytes:
    """Format one JSON object, numbers as numbers: for stores that have but a value."""
    texts = [f'"{name}":{text}' if name in NUMBERS else f'"{name}":"{text}"' for name, text in fields.items()]
    return ("{" + ",".join(texts) + "}").encode()


_TYPES = {name: "N" if name in NUMBERS else "S" for name in FIELD_BYTES}


def _later_ms(version: int, bits: int) -> int:
    """Derive ms from the product's bits: a version also says which phase it is of, and is a number far too large."""
    return 1 + bits % _LATEST_MS if version else 0


def _stock(bits: int) -> dict[str, str]:
    cents = 10_000 + (bits >> 30) % 90_000
    return {"count": str(100 + (bits >> 50) % 900), "price": f"{cents // 100}.{cents % 100:02d}"}


@lru_cache(maxsize=2)
def _descriptions(seed: int) -> tuple[str, ...]:
    """Return those of a seed, which take a tenth of a second, once: each slice's writer asks for them."""
    rng = np.random.default_rng([seed])
    return tuple(_description(rng) for _ in range(_DESCRIPTIONS))


def _description(rng: np.random.Generator) -> str:
    size = FIELD_BYTES["description"]
    # No word is shorter than one letter and a space.
    words = " ".join(_WORDS[index] for index in rng.integers(0, len(_WORDS), size // 2).tolist())
    return words[: size - 1].rstrip().capitalize().ljust(size, ".")
