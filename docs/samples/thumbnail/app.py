"""Images in a bucket, made small: what an upload triggers."""

import io
import os
from urllib.parse import unquote_plus

import boto3
from PIL import Image

SIDE_PX = int(os.environ.get("SIDE_PX", "128"))
s3 = boto3.client("s3")


def handler(event, context):
    """Make a small copy of every image that the event names, and keep its size as the answer."""
    return [
        thumbnail(record["s3"]["bucket"]["name"], unquote_plus(record["s3"]["object"]["key"]))
        for record in event["Records"]
    ]


def thumbnail(bucket, key):
    """Return the size of the small copy; it is written only where OUTPUT_BUCKET names a bucket of its own."""
    image = Image.open(io.BytesIO(s3.get_object(Bucket=bucket, Key=key)["Body"].read()))
    image.thumbnail((SIDE_PX, SIDE_PX))
    small = io.BytesIO()
    image.convert("RGB").save(small, "JPEG")
    if output := os.environ.get("OUTPUT_BUCKET"):
        s3.put_object(Bucket=output, Key=key, Body=small.getvalue())
    return len(small.getvalue())
