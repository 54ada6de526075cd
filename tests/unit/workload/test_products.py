from __future__ import annotations

import json
import re

import pytest
from boto3.dynamodb.types import TypeDeserializer
from hypothesis import given
from hypothesis import strategies as st

from stepbench.contracts.workload import PRODUCT_BYTES, Workload
from stepbench.workload.choices import ClientStream
from stepbench.workload.operations import ClientOperations, Contents
from stepbench.workload.products import FIELD_BYTES, NUMBERS, UPDATED, Products, attributes_json, hash_fields, json_blob

PRODUCTS = Products(7)
numbers = st.integers(0, 2**62 - 1)
versions = st.integers(0, 2**48 - 1)
"""A phase's number stands at bit 41 (`ClientOperations`)."""


@given(numbers, versions)
def test_every_value_has_its_documented_size_and_needs_no_escape(number: int, version: int) -> None:
    """Stores are compared on bytes; and the encoders paste values between quotes as they are."""
    product = PRODUCTS.product(number, version)
    assert {name: len(text.encode()) for name, text in product.items()} == FIELD_BYTES
    assert all(re.fullmatch(r"[A-Za-z0-9 &.]+", text) for text in product.values())


def test_a_product_has_seed_5_s_twelve_fields_of_312_bytes() -> None:
    """The size is what a plan is refused by, too."""
    assert len(FIELD_BYTES) == 12
    assert sum(FIELD_BYTES.values()) == PRODUCT_BYTES == 312


def test_products_follow_from_number_version_and_seed() -> None:
    """Every attempt and every process writes the same; every record another."""
    assert Products(7).product(5) == PRODUCTS.product(5)
    assert Products(8).product(5) != PRODUCTS.product(5)
    assert PRODUCTS.product(6) != PRODUCTS.product(5) != PRODUCTS.product(5, 1)
    assert len({json_blob(PRODUCTS.product(number)) for number in range(2_000)}) == 2_000


def test_an_overwrite_changes_the_description_and_what_updates_change() -> None:
    """All fields are written; what identifies the product, and who sells it, is as it was."""
    before, after = PRODUCTS.product(11, 0), PRODUCTS.product(11, 3)
    assert {name for name in before if before[name] != after[name]} == {"description", *UPDATED}
    assert before["update_time"] == before["creation_time"]
    assert int(after["update_time"]) > int(after["creation_time"])


@pytest.mark.parametrize(("kind", "names"), [("overwrite", tuple(FIELD_BYTES)), ("update", UPDATED)])
def test_what_a_measured_phase_writes_is_as_large_as_what_was_preloaded(kind: str, names: tuple[str, ...]) -> None:
    """A phase's number is in the version; and no operation writes what another has written."""
    workload = Workload.model_validate({"mix": {kind: 1}, "record": {"shape": "product"}, "records": 10})
    for phase in (1, 99):
        operations = ClientOperations(workload, Contents(workload, "tag"), ClientStream(phase, 3, 5, 2))
        written = [operations.at(sequence).fields or {} for sequence in range(2_000)]
        sizes = {tuple((name, len(text)) for name, text in fields.items()) for fields in written}
        assert sizes == {tuple((name, FIELD_BYTES[name]) for name in names)}
        assert len({fields["update_time"] for fields in written}) == 2_000


@given(numbers, versions)
def test_an_update_writes_a_few_fields_of_the_version(number: int, version: int) -> None:
    """So that what a store holds can be told from what was offered."""
    changes = PRODUCTS.changes(number, version)
    assert tuple(changes) == UPDATED
    assert changes == {name: PRODUCTS.product(number, version)[name] for name in UPDATED}


def test_fields_are_realistic_and_agree_with_each_other() -> None:
    """A seller has one name and one city; cities lie in their countries; prices are prices."""
    made = [PRODUCTS.product(number) for number in range(5_000)]
    assert {each["country"] for each in made if each["city"] == "Berlin"} == {"DE"}
    by_seller: dict[str, tuple[str, str]] = {}
    for each in made:
        assert by_seller.setdefault(each["seller_id"], (each["seller"], each["city"])) == (each["seller"], each["city"])
    assert {len(set(part)) > 1 for part in zip(*(each.values() for each in made), strict=True)} == {True}
    assert all(100 <= float(each["price"]) < 1_000 and 100 <= int(each["count"]) < 1_000 for each in made)


def test_dynamodb_s_attributes_are_read_by_its_own_client() -> None:
    """boto3's deserializer is the independent reader; numbers come back as numbers."""
    product = PRODUCTS.product(ClientStream(1, 2, 3).first_insert, 9)
    attributes = json.loads(attributes_json(product))
    read = {name: TypeDeserializer().deserialize(value) for name, value in attributes.items()}
    assert {name: str(value) for name, value in read.items()} == product
    assert {name for name, value in attributes.items() if "N" in value} == NUMBERS


def test_a_hash_s_fields_alternate_with_their_values() -> None:
    """The fields are as HSET takes them."""
    product = PRODUCTS.product(4)
    flat = hash_fields(product)
    assert dict(zip(flat[::2], flat[1::2], strict=True)) == {n.encode(): t.encode() for n, t in product.items()}


def test_a_blob_is_json_with_numbers() -> None:
    """PostgreSQL's jsonb and a person both read it."""
    product = PRODUCTS.product(4)
    read = json.loads(json_blob(product))
    assert (list(read), read["price"]) == (list(product), pytest.approx(float(product["price"])))
    assert (read["id"], read["city"]) == (int(product["id"]), product["city"])


def test_partial_updates_use_the_same_encoders() -> None:
    """An UpdateItem's values, HSET of three fields, a JSON patch."""
    changes = PRODUCTS.changes(4, 2)
    assert list(json.loads(attributes_json(changes))) == list(json.loads(json_blob(changes))) == list(UPDATED)
    assert hash_fields(changes)[::2] == [name.encode() for name in UPDATED]
