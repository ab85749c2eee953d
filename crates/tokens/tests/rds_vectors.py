"""Makes rds_vectors.json: tokens of botocore, the library of the AWS CLI, for fixed inputs and times (pip install botocore)."""

import datetime
import json
from unittest import mock

import botocore.auth
import botocore.session

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
HOST = "mydb.abc123.us-east-1.rds.amazonaws.com"


def vector(name, at, key="AKIDEXAMPLE", secret=SECRET, token=None, host=HOST, port=5432, user="app", region="us-east-1"):
    session = botocore.session.Session()
    session.set_credentials(key, secret, token)
    client = session.create_client("rds", region_name=region)
    time = datetime.datetime.fromisoformat(at)
    now = lambda remove_tzinfo=True: time.replace(tzinfo=None) if remove_tzinfo else time
    with mock.patch.object(botocore.auth, "get_current_datetime", now):
        expected = client.generate_db_auth_token(host, port, user, Region=region)
    return dict(name=name, at=int(time.timestamp()), key=key, secret=secret, token=token, host=host, port=port, user=user, region=region, expected=expected)


vectors = [
    vector("plain", "2026-01-02T03:04:05+00:00", host=HOST.replace("us-east-1", "eu-central-1"), region="eu-central-1"),
    vector("a session's token", "2027-12-31T23:59:59+00:00", key="ASIAEXAMPLE", token="FwoGZXIvYXdzEXAMPLE//////////wEaDPpVJz+8=/+a b"),
    vector("characters of host and user", "2024-02-29T00:00:00+00:00", host="MyDB" + HOST[4:], port=6543, user="a.b-c_d~e@f/g h+ü%"),
    vector("the port of https", "2024-02-29T12:00:00+00:00", port=443),
    vector("China", "2024-02-29T12:00:00+00:00", host="mydb.abc123.cn-north-1.rds.amazonaws.com.cn", region="cn-north-1", token="t"),
    vector("long values", "2024-02-29T12:00:00+00:00", key="A" * 128, secret="s" * 200, token="t" * 2000, user="u" * 63),
]
print(json.dumps(vectors, indent=1, ensure_ascii=False))
