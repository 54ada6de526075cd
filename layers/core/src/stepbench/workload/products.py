"""
Product records: 12 fields of realistic, seeded text. Pure.

A product follows from its record number, its version and the seed. Every value has a fixed size, so that all products
are alike to a store, and consists of letters, digits, spaces and `&.`, which need no escape in JSON or SQL. Values are
text everywhere (Redis and DynamoDB send numbers as text, too); `NUMBERS` says which mean numbers.

An update changes the fields of `UPDATED`, an overwrite the description as well; all others stay as inserted. A value
that takes another's place, or a description's place in the list of all, leaves the same remainder by `PRIME`: so each
field shows by itself whether it may be the record's, whoever wrote it last (`Products.holds`).

    field          bytes
    id                19   10^18 and the record's number
    creation_time     13   milliseconds since the epoch
    update_time       13   the same; in what an overwrite or update writes later, by up to three years
    name              20   "Silver Walnut Mirror"
    description      200   words; in what an overwrite writes, others
    category           7
    count              3   100...999; in what an overwrite or update writes, another
    price              6   100.00...999.99; likewise
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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

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
FIRST_ID = 10**18
PRIME = 97
"""The modulus of an IBAN's check digits: no power of 10 is a multiple of it, so no digit can change unnoticed."""
_EPOCH_MS, _DAY_MS, _DAYS = 1_600_000_000_000, 86_400_000, 1_000
_LATEST = 10**9
"""An update comes at most so many times `PRIME` ms after the creation: these still have 13 digits since the epoch."""
_DESCRIPTIONS = 4_096
_MASK = (1 << 64) - 1
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
        self._places = _description_places(seed)

    def product(self, number: int, version: int = 0) -> dict[str, str]:
        """
        Return all fields, in the order of `FIELD_BYTES`.

        Args:
            number: the record's, in [0, 2^62).
            version: 0 as inserted; an overwrite writes another, which differs in description, update time and stock.
        """
        bits = self._bits(number)
        other = mix_bits(bits ^ version)
        described = (bits >> 20) % _DESCRIPTIONS
        if version:
            described = _congruent(described, _DESCRIPTIONS, other >> 20)
        seller = (bits >> 40) % _SELLERS
        country, city = _PLACES[seller % len(_PLACES)]
        created_ms = self._created_ms(number)
        return {
            "id": str(FIRST_ID + number),
            "creation_time": str(created_ms),
            "update_time": str(created_ms + _later_ms(version, other)),
            "name": f"{_COLOURS[bits % 10]} {_MATERIALS[bits // 10 % 10]} {_THINGS[bits // 100 % 10]}",
            "description": self._descriptions[described],
            "category": _CATEGORIES[(bits >> 10) % len(_CATEGORIES)],
            **_stock(bits, version, other),
            "seller": f"{_NAMES[seller // 10 % 10]} & {_NAMES[seller // 100 % 10]}",
            "seller_id": str(100_000 + seller),
            "country": country,
            "city": city,
        }

    def changes(self, number: int, version: int) -> dict[str, str]:
        """Return the fields of `UPDATED` as `product(number, version)` has them: what an update writes."""
        bits = self._bits(number)
        other = mix_bits(bits ^ version)
        update_time = str(self._created_ms(number) + _later_ms(version, other))
        return {"update_time": update_time, **_stock(bits, version, other)}

    def holds(self, number: int, fields: Mapping[str, str], *, changing: bool) -> bool:
        """
        Return whether these can be all fields of a record, each written by whom it may.

        Args:
            number: the record's.
            fields: as a store returned them.
            changing: whether anything but insertions is written; otherwise they have to be those that were inserted.
        """
        inserted = self.product(number)
        if fields == inserted:
            return True
        if not changing or fields.keys() != inserted.keys():
            return False
        return all(fields[name] == text or self._follows(name, text, fields[name]) for name, text in inserted.items())

    def _follows(self, name: str, inserted: str, text: str) -> bool:
        """Return whether a field may have this text once it was written anew."""
        if name == "description":
            return text in self._places and (self._places[text] - self._places[inserted]) % PRIME == 0
        if name not in UPDATED or len(text) != len(inserted) or text.find(".") != inserted.find("."):
            return False
        digits = text.replace(".", "")
        return digits.isascii() and digits.isdigit() and (int(digits) - int(inserted.replace(".", ""))) % PRIME == 0

    def _bits(self, number: int) -> int:
        return mix_bits(self._seed ^ mix_bits(number) ^ mix_bits(1))

    def _created_ms(self, number: int) -> int:
        return _EPOCH_MS + mix_bits(self._seed ^ mix_bits(number)) % _DAYS * _DAY_MS


def mix_bits(number: int) -> int:
    """
    Return 64 bits that look random, a different number for each.

    Source:
        Steele, Lea & Flood (2014), Fast splittable pseudorandom number generators, OOPSLA '14 (mix64variant13, by
        Stafford).
    """
    number = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ number >> 27) * 0x94D049BB133111EB) & _MASK
    return number ^ number >> 31


def mix_all_bits(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return `mix_bits` of each number; the products wrap around."""
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return numbers ^ numbers >> np.uint64(31)


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


def _later_ms(version: int, other: int) -> int:
    """Derive ms from the version's bits: a version also says which phase it is of, and is a number far too large."""
    return PRIME * (1 + other % _LATEST) if version else 0


def _stock(bits: int, version: int, other: int) -> dict[str, str]:
    """Return count and price: as inserted by the product's bits, of another version by that one's."""
    count, cents = (bits >> 50) % 900, (bits >> 30) % 90_000
    if version:
        count, cents = _congruent(count, 900, other >> 50), _congruent(cents, 90_000, other >> 30)
    return {"count": str(100 + count), "price": f"{100 + cents // 100}.{cents % 100:02d}"}


def _congruent(at: int, size: int, bits: int) -> int:
    """Choose a number below `size` that leaves the same remainder as `at`."""
    remainder = at % PRIME
    return remainder + PRIME * (bits % -((remainder - size) // PRIME))


@lru_cache(maxsize=2)
def _descriptions(seed: int) -> tuple[str, ...]:
    """Return those of a seed, which take a tenth of a second, once: each slice's writer asks for them."""
    rng = np.random.default_rng([seed])
    return tuple(_description(rng) for _ in range(_DESCRIPTIONS))


@lru_cache(maxsize=2)
def _description_places(seed: int) -> dict[str, int]:
    return {text: place for place, text in enumerate(_descriptions(seed))}


def _description(rng: np.random.Generator) -> str:
    size = FIELD_BYTES["description"]
    # No word is shorter than one letter and a space.
    words = " ".join(_WORDS[index] for index in rng.integers(0, len(_WORDS), size // 2).tolist())
    return words[: size - 1].rstrip().capitalize().ljust(size, ".")
