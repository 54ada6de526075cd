"""
A small store and its room: what a new store's room looks like (`docs/writing-a-driver.md` walks through it).

The server keeps keys and values in memory and speaks lines. A room of the product stands in `drivers/`, its target
model in `contracts/target.py`; these stand here, since nothing of the product imports tests.
`tests/layout/test_new_store.py` puts them where a store of the product has them.
"""

from __future__ import annotations

from stepbench.deferred import deferred
from stepbench.drivers.protocol import StoreRoom

ROOM = StoreRoom(
    lease=lambda _spec, _settings: "",
    trigger=deferred("tests.support.example_store.driver:ExampleDriver"),
    operations=deferred("tests.support.example_store.driver:ExampleDriver"),
)
