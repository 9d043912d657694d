#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: workload.py DOCUMENTS wait | load | update SECONDS SEED | ledger | validate

Drives a mongod at 127.0.0.1:27017 by its wire protocol. "wait" makes it a replica set of one, waits
until it takes writes, and prints its buildInfo. "update" goes on until SECONDS have passed, the server is
gone, or a signal asks it to end, and prints how many entries of the ledger were acknowledged as journaled; "ledger" prints how many there are,
from the first on without a gap. "validate" prints what the server says of each collection."""

import json
import random
import signal
import sys
import time

from pymongo import InsertOne, MongoClient, ReplaceOne, UpdateOne, WriteConcern
from pymongo.errors import AutoReconnect, ConnectionFailure, OperationFailure

BATCH = 200
COMMAND_NOT_FOUND = 59

DOCUMENTS, command, *words = int(sys.argv[1]), *sys.argv[2:]
# "update" is there when the server goes.
client = MongoClient("mongodb://127.0.0.1/", directConnection=True, serverSelectionTimeoutMS=5000 if command == "update" else 300000)
shop = client.get_database("shop", write_concern=WriteConcern(w=1, j=True))
rng = random.Random()


def order(n):
    return {"_id": n, "customer": rng.randrange(1000), "when": rng.random(), "lines": rng.randbytes(600)}


def user(n):
    return {"_id": n, "name": f"user{n}", "visits": 0, "last": rng.random()}


def takes_writes():
    try:
        return client.admin.command("hello").get("isWritablePrimary")
    except OperationFailure as e:
        if e.code != COMMAND_NOT_FOUND:
            raise
        return client.admin.command("isMaster").get("ismaster")  # before 5.0


def wait():
    try:
        client.admin.command("replSetInitiate", {"_id": "dsm", "members": [{"_id": 0, "host": "127.0.0.1:27017"}]})
    except OperationFailure:
        pass  # It has been initiated, or cannot be.
    while not takes_writes():
        time.sleep(0.2)
    info = client.admin.command("buildInfo")
    print(json.dumps({name: info.get(name) for name in ["version", "gitVersion", "allocator", "storageEngines"]}))


def load():
    shop.orders.create_index("when")
    shop.orders.create_index("customer")
    shop.users.create_index("last")
    for collection, make in [(shop.orders, order), (shop.users, user)]:
        for first in range(0, DOCUMENTS, BATCH):
            collection.bulk_write([InsertOne(make(n)) for n in range(first, first + BATCH)], ordered=False)
            # A slow machine takes longer than the bed waits for a line.
            if first % (10 * BATCH) == 0:
                print(f"# {collection.name}: {first} of {DOCUMENTS} documents", flush=True)


def update(seconds, seed):
    rng.seed(seed)
    acknowledged = shop.ledger.count_documents({})
    end = time.monotonic() + seconds
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    try:
        while not asked and time.monotonic() < end:
            some = [rng.randrange(DOCUMENTS) for _ in range(BATCH)]
            shop.orders.bulk_write([ReplaceOne({"_id": n}, order(n), upsert=True) for n in set(some[: BATCH // 2])], ordered=False)
            shop.users.bulk_write([UpdateOne({"_id": n}, {"$inc": {"visits": 1}, "$set": {"last": rng.random()}}) for n in some], ordered=False)
            shop.orders.delete_many({"_id": {"$in": some[:5]}})
            shop.ledger.insert_many([{"_id": acknowledged + n, "text": "x" * 100} for n in range(10)])
            acknowledged += 10
    except (AutoReconnect, ConnectionFailure):
        pass
    print(acknowledged)


def ledger():
    found = [entry["_id"] for entry in shop.ledger.find({}, {"_id": 1}).sort("_id", 1)]
    if found != list(range(len(found))):
        sys.exit("the ledger has a gap")
    print(len(found))


def validate():
    said = {}
    for name in client.list_database_names():
        for collection in client[name].list_collections(filter={"type": "collection"}):
            result = client[name].command("validate", collection["name"], full=True)
            said[f"{name}.{collection['name']}"] = {"valid": result["valid"], "errors": result.get("errors", [])}
    print(json.dumps(said))


{"wait": wait, "load": load, "update": lambda s, seed: update(float(s), int(seed)), "ledger": ledger, "validate": validate}[command](*words)
