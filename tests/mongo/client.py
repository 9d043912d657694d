#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# usage: client.py URI user | load N | update N SEED
#
# Drives a MongoDB server: makes the user dsmd, inserts N documents, or updates
# N of the 2000 that load made.
import random
import sys

from pymongo import InsertOne, MongoClient, UpdateOne

uri, command, *numbers = sys.argv[1:]
client = MongoClient(uri, directConnection=True, serverSelectionTimeoutMS=60000)
orders = client.shop.orders


def in_batches(requests):
    for at in range(0, len(requests), 500):
        orders.bulk_write(requests[at : at + 500], ordered=False)


if command == "user":
    client.admin.command("createUser", "dsmd", pwd="geheim", roles=["clusterMonitor", "readWriteAnyDatabase"])
elif command == "load":
    orders.create_index("when")
    rng = random.Random(1)
    in_batches([InsertOne({"_id": n, "when": rng.random(), "what": rng.randbytes(1500)}) for n in range(int(numbers[0]))])
elif command == "update":
    rng = random.Random(int(numbers[1]))
    change = lambda: {"$set": {"when": rng.random(), "what": rng.randbytes(1500)}}
    in_batches([UpdateOne({"_id": rng.randrange(2000)}, change()) for _ in range(int(numbers[0]))])
    print(orders.count_documents({}))
