#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: mongod.sh DOCUMENTS SECONDS
#
# A mongod of the user's, in the guest: on XFS on a dsm device, with dsmd and discards, after an
# audit that is shorter than as shipped. It is driven by its wire protocol, killed in the middle, started
# again, and asked for the truth of every collection. Leaves mongod.json, a report that can be sent, in
# /run/out.
. "$(dirname "$0")/common.sh"

documents=$1 seconds=$2
db=$mnt/db
server() {
	mongod --dbpath $db --port 27017 --bind_ip 127.0.0.1 --nounixsocket --replSet dsm --wiredTigerCacheSizeGB 0.25 \
		--syncdelay 5 --logpath /run/out/mongod.log --logappend >/tmp/server.out 2>&1 &
	server=$!
}
client() { (in_root python3 /job/workload.py "$documents" "$@"); }
# It is $! itself, so that it can be ended: in the place of the subshell
client_beside() { in_root python3 /job/workload.py "$documents" "$@"; }
# What dsmd has not mapped of the database's files, which have more than a block
unmapped_files() {
	comm -23 <(cd $db && find . -name '*.wt' -size +8k -printf '%P\n' | sort) \
		<(json t '[.regions[].file // empty] | unique | .[]' | sort)
}
# Numbers of the server's own, null where it has none
asked() {
	(in_root python3 -c '
import json
from pymongo import MongoClient
status = MongoClient("mongodb://127.0.0.1/", directConnection=True).admin.command("serverStatus")
engine = status.get("wiredTiger", {})
of = lambda *names: next((engine[a][b] for a, b in names if b in engine.get(a, {})), None)
print(json.dumps({"checkpoints": of(("checkpoint", "total succeed number of checkpoints"), ("transaction", "transaction checkpoints")),
    "cache_bytes_written": of(("cache", "bytes written from cache"))}))')
}

file_system xfs
printf 'dbpath = "%s"\ndiscard = true\naudit-pages = 200\n' $db >/tmp/t.toml
mkdir $db
dsmd --config /tmp/t.toml -o state-dir=/tmp/state 2>/tmp/dsmd.log &
agent=$!
server
# One that ends is not waited for.
client wait >/tmp/build &
wait -n $! $server
build=$(</tmp/build)
works 'it takes writes' jq -e .version <<<"$build"
# shellcheck disable=SC2154 # failed is the library's
if ((failed)); then
	tail -n 3 /run/out/mongod.log /tmp/server.out
	kill -9 $server $agent
	done_testing
fi
# What it says is a sign of life.
if client load; then pass 'documents are loaded'; else fail 'documents are loaded'; fi
windows=$(json t .kernel.status.windows)
acknowledged=$(client update "$seconds" 1)
works "a workload runs for $seconds seconds: $acknowledged entries of its ledger are acknowledged" test "${acknowledged:-0}" -gt 0
works 'its checkpoints are seen' until_true "((\$(json t .kernel.status.windows) >= $windows + 3))"
works 'every file of it is mapped' until_true '[[ ! $(unmapped_files) ]]'
free=$(dsmctl free $db -o json)
# It is audited in the workload, and after it.
if jq -e '.discard or .audit' <<<"$free" >/dev/null; then
	client_beside update 600 3 >/tmp/acknowledged &
	updates=$!
	works 'it writes pages before it uses them again' until_true '(($(json t .agent.discard.audit.written_pages) >= 200))'
	is 'and none that it has not written' "$(json t '.agent.discard.audit | "\(.violations) \(.failed)"')" '0 false'
	[[ $(jq .discard <<<"$free") == false ]] ||
		works 'what checkpoints free is discarded' until_true '(($(json t .kernel.status.discard.discarded_sectors) > 0))'
	status=$(json t .)
	kill $updates
	wait $updates
	is 'its workload ends when asked' $? 0
	acknowledged=$(</tmp/acknowledged)
else
	is "nothing is discarded, since $(jq -r .discard_refused <<<"$free")" "$(json t .kernel.status.discard.discarded_sectors)" 0
	status=$(json t .)
fi
asked=$(asked)
# A region's total is in pages of 4 KiB.
classes=$(jq '[.regions[] | {class, sectors: (8 * .total)}] | group_by(.class) | map({(.[0].class): (map(.sectors) | add)}) | add' <<<"$status")
# A file that was dropped takes its count along.
works 'the sectors of the classes add up to what is mapped' jq -e --argjson classes "$classes" \
	'(.kernel.status | ([.streams[].sectors] | add) - .unmapped_sectors) as $mapped | ($classes | add) as $sum | $sum <= $mapped and 2 * $sum > $mapped' <<<"$status"

# In the middle of the workload
before=$acknowledged
client_beside update 3600 2 >/tmp/acknowledged &
updates=$!
works 'another workload writes' until_true '(($(client ledger) > before))'
kill -9 $server
wait $server 2>/dev/null
wait $updates
acknowledged=$(</tmp/acknowledged)
works "of which $((acknowledged - before)) entries were acknowledged before it was killed" test "${acknowledged:-0}" -gt "$before"
server
works 'it was killed, and starts again' client wait
found=$(client ledger)
works "it has what it acknowledged: $found entries of $acknowledged" test "${found:-0}" -ge "${acknowledged:-1}"
validated=$(client validate)
works 'and every collection is valid' jq -e 'length >= 3 and all(.valid)' <<<"$validated"
kill $server
wait $server
kill $agent
wait $agent
works 'dsmd was not surprised' bash -c "! grep -e panicked -e 'the table stays as it was' /tmp/dsmd.log"
arrived xfs

jq -n --argjson build "${build:-null}" --arg kernel "$(uname -r)" --argjson windows "$windows" --argjson asked "${asked:-null}" \
	--argjson status "$status" --argjson classes "$classes" --argjson validated "${validated:-null}" --arg acknowledged "$acknowledged" --arg found "$found" \
	--argjson free "$free" --argjson failed "$failed" --argjson seconds "$seconds" '{mongod: $build, kernel: $kernel, good: ($failed == 0),
	wiredtiger: $free.wiredtiger, discard_refused: $free.discard_refused, seconds: $seconds, policy: $status.kernel.status.policy,
	files: $status.kernel.status.files, checkpoints: ($status.kernel.status.windows - $windows), server: $asked,
	written_sectors: ([$status.kernel.status.streams[].sectors] | add), unmapped_sectors: $status.kernel.status.unmapped_sectors,
	discarded_sectors: $status.kernel.status.discard.discarded_sectors, refused_sectors: $status.kernel.status.discard.refused_sectors,
	audit: ($status.agent.discard | {mode, off} + .audit),
	sectors_by_class: $classes,
	acknowledged: $acknowledged, found: $found, valid: ($validated // {} | map(.valid))}' >/run/out/mongod.json
jq . /run/out/mongod.json
done_testing
