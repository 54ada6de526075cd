"""
Find the authorities that sign certificates of AWS's PostgreSQL servers: a short file for each, from a layer.

libpq reads its file of authorities for every connection. Of a system's 140 that takes 34 ms of a processor, of one
region's 8 of RDS and RDS Proxy 1.4 ms: too much of what a connection costs to be the client's own doing. RDS's
authorities are in no system's file anyway.

Sources: Amazon Aurora User Guide, "Using SSL/TLS to encrypt a connection to a DB cluster"; Aurora DSQL User Guide,
"Configuring SSL/TLS certificates for Aurora DSQL connections".
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

LAYER = "stepbench_authorities"
"""The package that `layers/authorities` builds: `<region>.pem` of RDS, `amazon.pem` for everything else of AWS's."""
_RDS = re.compile(
    r"\.(?P<region>[a-z0-9-]+)\.rds\.amazonaws\.com$|\.rds\.(?P<in_china>cn-[a-z0-9-]+)\.amazonaws\.com\.cn$"
)
_DSQL = re.compile(r"\.dsql(-[a-z0-9]+)?\.[a-z0-9-]+\.on\.aws$")


def rds_region(host: str) -> str:
    """Return the region of a server of Amazon RDS; "" where the host is none."""
    named = _RDS.search(host)
    return (named["region"] or named["in_china"]) if named else ""


def find_authorities(host: str) -> str:
    """Return the PEM file of those who sign a server's certificate; "" for the system's, or where there is none."""
    name = rds_region(host) or ("amazon" if _DSQL.search(host) else "")
    layer = find_spec(LAYER) if name else None
    file = Path(layer.origin).with_name(f"{name}.pem") if layer and layer.origin else None
    return str(file) if file and file.is_file() else ""
