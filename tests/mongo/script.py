#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
# usage: script.py
#
# userspace/mongosh/dsm-mongo.js by mongosh, with servers that speak MongoDB's wire protocol
# and answer each command as a server of some version or state does.
import json
import os
import socket
import struct
import subprocess
import threading

import bson

HELLO = {"isWritablePrimary": True, "minWireVersion": 0, "maxWireVersion": 21, "maxBsonObjectSize": 1 << 24,
         "maxMessageSizeBytes": 48000000, "maxWriteBatchSize": 100000, "ok": 1}
ORDERS = {"ns": "shop.orders", "ident": "collection-7-7", "idxIdent": {"_id_": "index-8-7", "when_1": "index-9-7"}}
OPLOG = {"ns": "local.oplog.rs", "ident": "collection-1-7", "idxIdent": {}}
NAMES = {"collection-7-7.wt": "collection", "index-8-7.wt": "primary", "index-9-7.wt": "index"}


def error(code, text):
    return {"ok": 0, "code": code, "codeName": "Refused", "errmsg": text}


def cursor(batch, more=0, which="firstBatch"):
    return {"ok": 1, "cursor": {"id": bson.Int64(more), "ns": "admin.$cmd.aggregate", which: batch}}


def stats(command):
    name = command["collStats"]
    uri = lambda ident: {"uri": f"statistics:table:{ident}"}
    return {"ok": 1, "ns": f"{command['$db']}.{name}", "wiredTiger": uri(f"collection-{name}"),
            "indexDetails": {"_id_": uri(f"index-{name}")}}


def collections(*names, kind="collection"):
    # What a driver's types may not take is not looked at.
    return cursor([{"name": n, "type": kind, "options": {"clusteredIndex": {}}} for n in names])


def serve(stream, answer):
    with stream, stream.makefile("rb") as read:
        while head := read.read(16):
            length, request, _, code = struct.unpack("<4i", head)
            body = read.read(length - 16)
            # OP_MSG, or OP_QUERY, with which a driver begins
            query = code == 2004
            command = bson.decode_all(body[body.index(0, 4) + 9:] if query else body[5:5 + struct.unpack("<i", body[5:9])[0]])[0]
            name = next(iter(command))
            if name in ("hello", "isMaster", "ismaster"):
                reply = HELLO
            elif name in ("endSessions", "ping", "getParameter", "atlasVersion"):
                reply = {"ok": 1}
            elif name == "buildInfo":
                reply = {"ok": 1, "version": answer.version}
            else:
                reply = getattr(answer, name)(answer, command)
            if reply is None:
                return
            before = struct.pack("<iqii", 0, 0, 0, 1) if query else bytes(5)
            data = before + bson.encode(reply)
            stream.sendall(struct.pack("<4i", 16 + len(data), 7, request, 1 if query else 2013) + data)


def ask(answer, uri=None):
    """What is written of a server, dsm-mongo's exit status, and what it says."""
    path = f"/tmp/{answer.__name__}.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0], answer), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    os.makedirs("/tmp/run", exist_ok=True)
    with open(os.open("/tmp/uri", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as f:
        f.write(uri or f"mongodb://{path.replace('/', '%2F')}\n")
    done = subprocess.run(["mongosh", "--nodb", "--quiet", "--norc", "userspace/mongosh/dsm-mongo.js"], text=True,
                          capture_output=True, env={**os.environ, "RUNTIME_DIRECTORY": "/tmp/run", "DSM_MONGO_URI_FILE": "/tmp/uri"})
    said = json.load(open("/tmp/run/catalog.json")) if os.path.exists("/tmp/run/catalog.json") else {}
    assert not said or (said.pop("protocol"), said.pop("address")) == (1, path if not uri else said.get("address", "")), said
    return said, done.returncode, done.stdout + done.stderr


class Today:
    """6.0 and later, with more than one batch"""
    version = "7.0.14"
    aggregate = lambda self, c: cursor([ORDERS], 9)
    getMore = lambda self, c: cursor([OPLOG, {"ns": "shop.recent", "type": "view"}], 0, "nextBatch")
    wanted = {"files": {**NAMES, "collection-1-7.wt": "oplog"}}
    sentence = "mongod 7.0.14 reports which of 4 files is whose"


class Strange:
    """names that are no names"""
    version = "8.0.4\x1b[31m"
    aggregate = lambda self, c: cursor([ORDERS] + [{"ns": "shop.a", "ident": i, "idxIdent": {"_id_": i, "b": 7}} for i in
                                                  ("../../etc/passwd", "/etc/passwd", "a\x1b[31m", "x" * 2000, "", 7, None)])
    wanted = {"version": "8.0.4[31m", "files": {**NAMES, ".wt": "primary"}}


class Refused:
    """8.0, by a role without any right"""
    version = "8.0.4"
    aggregate = listDatabases = lambda self, c: error(13, "not authorized on admin")
    wanted = {"failure": {"kind": "no-catalog", "why": "not authorized on admin (Refused)"}}
    sentence = "mongod 8.0.4 does not report which file is whose: not authorized on admin (Refused)"


class Before:
    """before 6.0, by the documented role: system.* is refused, and one was dropped"""
    version = "5.0.0-rc1"
    aggregate = lambda self, c: error(40324, "Unrecognized pipeline stage name: '$listCatalog'")
    listDatabases = lambda self, c: {"ok": 1, "databases": [{"name": n} for n in ("admin", "shop")]}

    def listCollections(self, c):
        if c["$db"] == "admin":
            return collections("system.version", "system.users")
        reply = collections("system.views", "system.buckets.t", "gone", "orders", "log")
        reply["cursor"]["firstBatch"] += collections("recent", kind="view")["cursor"]["firstBatch"]
        return reply

    def collStats(self, c):
        name = c["collStats"]
        assert name != "recent"
        if name.startswith("system."):
            return error(13, f"not authorized on {c['$db']} to execute command")
        return error(26, "ns not found") if name == "gone" else stats(c)

    wanted = {"files": {"collection-orders.wt": "collection", "index-orders.wt": "primary",
                        "collection-log.wt": "collection", "index-log.wt": "primary"}}


class Partly(Before):
    """before 6.0, where a database and a collection are refused"""
    listDatabases = lambda self, c: {"ok": 1, "databases": [{"name": n} for n in ("config", "shop")]}
    listCollections = lambda self, c: error(13, "not authorized on config") if c["$db"] == "config" else collections("secret", "log")
    collStats = lambda self, c: error(13, "not authorized on shop") if c["collStats"] == "secret" else stats(c)
    wanted = {"files": {"collection-log.wt": "collection", "index-log.wt": "primary"},
              "failure": {"kind": "partial", "why": "config: not authorized on config (Refused); shop: not authorized on shop (Refused)"}}


class Recovering:
    """a member that recovers"""
    version = "7.0.14"
    aggregate = lambda self, c: error(13436, "node is recovering")
    wanted = {"failure": {"kind": "recovering", "why": "node is recovering (Refused)"}}


class RecoveringBefore(Before):
    """a member that begins to recover meanwhile"""
    version = "4.2.24"
    collStats = Recovering.aggregate
    wanted = Recovering.wanted


class Dying:
    """one that hangs up"""
    version = "7.0.14"
    aggregate = lambda self, c: None
    wanted = {"version": None, "failure": {"kind": "lost"}}


failed = 0
for answer in (Today, Strange, Refused, Before, Partly, Recovering, RecoveringBefore, Dying):
    said, code, text = ask(answer)
    wanted = {"version": answer.version, **answer.wanted}
    if wanted["version"] is None:
        del wanted["version"]
        said.get("failure", {}).pop("why", None)
    right = said == wanted and getattr(answer, "sentence", "") in text
    right = right and code == int("failure" in wanted and wanted["failure"]["kind"] != "recovering")
    failed |= not right
    print(f"{'ok' if right else 'not ok'} - mongosh: {answer.__doc__}" + ("" if right else f": {said}, {code}, {text!r}"), flush=True)

os.remove("/tmp/run/catalog.json")
said, code, text = ask(Dying, "mongodb://u:geh%eim@db1\n") if os.remove("/tmp/Dying.sock") is None else None
right = not said and code == 1 and "percent-encoded" in text and "geh" not in text
failed |= not right
print(f"{'ok' if right else 'not ok'} - mongosh: an address that is none is said without its password" + ("" if right else f": {text!r}"))
raise SystemExit(failed)
