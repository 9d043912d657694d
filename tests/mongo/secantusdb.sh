#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsmd beside SecantusDB: MongoDB's wire protocol, on WiredTiger with files of its
# own. Who may ask, who is told what, and that nothing waits for the server.
. "$(dirname "$0")/common.sh"

checkpoint_seconds=4
server() {
	in_root SECANTUS_CHECKPOINT_SECONDS=$checkpoint_seconds secantusd-py --host 127.0.0.1 --port 27017 \
		--storage-path /data/db --cache-size 32M --log-level WARNING "$@" >>/tmp/server.log 2>&1 &
	server=$!
}
stop() { kill "$server" && wait "$server"; }
client() { (in_root python3 /job/client.py "$@"); }
tls='tls=true&tlsCAFile=/tmp/cert.pem'
as_dsmd="mongodb://dsmd:geheim@127.0.0.1/?authSource=admin&$tls"
# agent PASSWORD
agent() {
	install -m 600 /dev/null /tmp/dsmd.toml
	cat >/tmp/dsmd.toml <<-CONFIG
		metrics = 9187
		state-dir = "/tmp/state"
		[[database]]
		device = "t"
		dbpath = "$mnt/db"
		boundary = "manual"
		rules = "/run/job/secantusdb.toml"
		uri = "mongodb://dsmd:$1@127.0.0.1/?authSource=admin&tls=true&tlsCAFile=$root/tmp/cert.pem"
	CONFIG
	dsmd --config /tmp/dsmd.toml 2>>/tmp/dsmd.log &
	agent=$!
}
end() { kill $agent; wait $agent; }
logged() { grep -c "$1" /tmp/dsmd.log; }
metric() {
	local web

	exec {web}<>/dev/tcp/127.0.0.1/9187
	printf 'GET /metrics HTTP/1.1\r\n\r\n' >&"$web"
	grep -F "$1 " <&"$web" | cut -d' ' -f2
	exec {web}>&-
}
operations() { metric "dsm_server_operations_total{device=\"t\",type=\"$1\"}"; }
class_of() { dsmctl boundary show t -o json >/dev/null; json t "[.region_list[] | select(.class == \"$1\")] | length"; }

file_system xfs
(in_root openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=server \
	-addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
	-keyout /tmp/key.pem -out /tmp/cert.pem 2>/dev/null)
secure=(--auth --tls-cert-file /tmp/cert.pem --tls-key-file /tmp/key.pem)

server
works 'a server is started, and has a user' client mongodb://127.0.0.1 user
stop

agent geheim
works 'dsmd serves its files while it does not run' until_true '(($(json t .files) > 10))'
works 'which is told' until_true '(($(logged "no answer from the server") == 1))'
is 'and shown' "$(metric 'dsm_server_up{device="t"}')" 0
server "${secure[@]}"
works 'it runs, with access control and TLS' client "$as_dsmd" load 2000
works 'dsmd asks it' until_true '[[ $(metric "dsm_server_up{device=\"t\"}") = 1 ]]'
is 'which is told once' "$(logged 'connected to the server')" 1
matches 'and seen in the status' "$(dsmctl status t)" 'server +127.0.0.1:27017 [0-9.]+ does not tell which file is whose'
works 'and why it does not' until_true '(($(logged "does not tell which collections and indexes it has.*does not name their files") == 1))'

works 'its files have the classes of the rules' until_true \
	'[[ $(class_of collection) -ge 1 && $(class_of index) -ge 3 && $(class_of oplog) = 1 && $(class_of journal) -ge 1 ]]'
works 'the load phase ends' dsmctl boundary mark t
windows=$(json t .windows) before=$(operations update)
is 'documents are updated' "$(client "$as_dsmd" update 3000 7)" 2000
works 'dsmd hears of as many operations as the server was asked for' until_true \
	"((\$(operations update) == $before + 6))"
works 'its checkpoints are seen' until_true "((\$(json t .windows) > $windows))"
client "$as_dsmd" update 3000 8 >/dev/null
works 'the documents were written, above their boundary or below' until_true \
	'(($(json t "[.region_list[] | select(.class == \"collection\") | .total] | add") > 0))'

kill -9 "$server"
wait "$server" 2>/dev/null
works 'the server is killed, which is told' until_true '(($(logged "no answer from the server") == 2))'
works 'and nothing waits' timeout 600 dsmctl refresh t
server "${secure[@]}"
works 'it comes back' until_true '(($(logged "connected to the server") == 2))'
is 'with its documents' "$(client "$as_dsmd" update 1 1)" 2000
end
is 'dsmd ends when asked' $? 0

: >/tmp/dsmd.log
agent gehei%6D2
works 'a wrong password is told' until_true '(($(logged "no answer from the server.*uthentication") == 1))'
works 'and the files are served' eval '(($(json t .files) > 10))'
sleep 12
is 'it is told once' "$(logged 'no answer from the server.*uthentication')" 1
end
is 'and no password anywhere' "$(grep -c -e geheim -e gehei /tmp/dsmd.log)" 0
chmod 644 /tmp/dsmd.toml
matches 'others may not read it' "$(dsmd --config /tmp/dsmd.toml --check 2>&1)" 'it has a password, and others may read it'

stop
arrived xfs
is 'nobody was surprised' "$(grep -e panicked -e 'the table stays as it was' /tmp/dsmd.log)" ''
done_testing
