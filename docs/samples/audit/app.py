"""An audit of a table: one line for each row that was written, with no personal data in it."""

import hashlib
import json


def handler(event, context):
    """Print who may have changed what: the row's key as a hash, so that the log can be kept."""
    text = json.dumps(event, sort_keys=True)
    print(json.dumps({"audit": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text)}))
    return {"audited": 1}
