#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsmd beside SecantusDB: MongoDB's wire protocol, on WiredTiger with files of its
# own. Who may ask, who gets what, and that nothing waits for the server.
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
# agent: with a user that may do nothing, who shows what it publishes
agent() {
	cat >/tmp/dsmd.toml <<-CONFIG
		state-dir = "/tmp/state"
		[[database]]
		device = "t"
		dbpath = "$mnt/db"
		boundary = "manual"
		rules = "/run/job/secantusdb.toml"
	CONFIG
	setpriv --bounding-set=-all,+sys_admin,+dac_read_search,+setuid,+setgid dsmd --config /tmp/dsmd.toml 2>>/tmp/dsmd.log &
	agent=$!
}
# asker PASSWORD: dsm-mongo, as another user, with the address in a file of its own
asker() {
	install -d -m 755 /run/dsm-mongo
	install -d -m 700 -o 4242 -g 4242 /run/dsm-mongo/t
	install -m 600 -o 4242 -g 4242 /dev/null /tmp/t.uri
	echo "mongodb://dsmd:$1@127.0.0.1/?authSource=admin&tls=true&tlsCAFile=$root/tmp/cert.pem" >/tmp/t.uri
	setpriv --reuid 4242 --regid 4242 --clear-groups --bounding-set=-all --inh-caps=-all \
		dsm-mongo --device t --uri-file /tmp/t.uri 2>>/tmp/mongo.log &
	asker=$!
}
silence() { kill "$asker" && wait "$asker" 2>/dev/null; }
end() { kill $agent; wait $agent; }
logged() { grep -c "$1" /tmp/dsmd.log; }
metric() {
	local web

	exec {web}<>/dev/tcp/127.0.0.1/19187
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&"$web"
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

setpriv --reuid 4343 --regid 4343 --clear-groups --bounding-set=-all --inh-caps=-all \
	dsm-exporter 2>/tmp/exporter.log &
exporter=$!
agent
works 'dsmd serves its files while nobody asks a server' until_true '(($(json t .files) > 10))'
works 'and dsm-exporter shows it, as another user' until_true '[[ $(metric "dsm_agent_up{device=\"t\"}") = 1 ]]'
asker geheim
works 'dsmd serves its files while the server does not run' until_true '(($(json t .files) > 10))'
works 'which is logged' until_true '(($(logged "no answer from the server") == 1))'
works 'and shown' until_true '[[ $(metric "dsm_server_up{device=\"t\"}") = 0 ]]'
is 'who asks is no one else' "$(stat -c '%u %a' /run/dsm-mongo/t /run/dsm-mongo/t/socket | paste -sd' ')" '4242 700 4242 666'
is 'and may do nothing' "$(sed -n 's/^CapEff:\t*//p' "/proc/$asker/status")" 0000000000000000
is 'the address is no argument' "$(tr '\0' ' ' <"/proc/$asker/cmdline" | grep -c mongodb://)" 0
server "${secure[@]}"
works 'it runs, with access control and TLS' client "$as_dsmd" load 2000
works 'it is asked' until_true '[[ $(metric "dsm_server_up{device=\"t\"}") = 1 ]]'
is 'which dsmd logs once' "$(logged 'connected to the server')" 1
matches 'and seen in the status' "$(dsmctl status t)" 'server +127.0.0.1:27017 [0-9.]+ does not report which file is whose'
works 'and why it does not' until_true '(($(logged "does not report which collections and indexes it has.*does not name their files") == 1))'

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
works 'the server is killed, which is logged' until_true '(($(logged "no answer from the server") == 2))'
works 'and nothing waits' timeout 600 dsmctl refresh t
server "${secure[@]}"
works 'it comes back' until_true '(($(logged "connected to the server") == 2))'
is 'with its documents' "$(client "$as_dsmd" update 1 1)" 2000

# Who asks dies, and comes back. Between two answers that were late nobody would say so.
works 'it is asked again' until_true '[[ $(metric "dsm_server_up{device=\"t\"}") = 1 ]]'
kill -9 "$asker"
wait "$asker" 2>/dev/null
works 'who asks is killed, which is logged' until_true '(($(logged "dsm-mongo has ended") == 1))'
works 'and nothing waits' timeout 60 dsmctl refresh t
asker geheim
works 'it comes back' until_true '(($(logged "connected to the server") == 3))'

# What it must not say ends the connection, and nothing else.
silence
works 'somebody else is there in its place' python3 - <<-'FAKE'
	import os, socket
	os.chown("/run/dsm-mongo/t", 4242, 4242)
	os.setgid(4242)
	os.setuid(4242)
	os.remove("/run/dsm-mongo/t/socket")
	listener = socket.socket(socket.AF_UNIX)
	listener.bind("/run/dsm-mongo/t/socket")
	os.chmod("/run/dsm-mongo/t/socket", 0o666)
	listener.listen()
	dsmd, _ = listener.accept()
	dsmd.sendall(b'{"protocol":1,"address":"x"}\n{"catalog":{"files":1}}\n'
	             b'{"file":{"path":"../../../etc/passwd","class":"oplog"}}\n{"end":{}}\n')
	while dsmd.recv(4096):
	    pass
FAKE
works 'dsmd does not listen to what is wrong' until_true \
	'(($(logged "dropped the connection to dsm-mongo.*etc/passwd.* cannot be a file of the data directory") == 1))'
works 'and goes on' timeout 60 dsmctl refresh t
end
is 'dsmd ends when asked' $? 0

: >/tmp/dsmd.log
agent
asker gehei%6D2
works 'a wrong password is logged' until_true '(($(logged "no answer from the server.*uthentication") == 1))'
refused 'and said by a check' 'uthentication' \
	setpriv --reuid 4242 --regid 4242 --clear-groups dsm-mongo --device t --uri-file /tmp/t.uri --check
works 'and the files are served' eval '(($(json t .files) > 10))'
sleep 12
is 'it is logged once' "$(logged 'no answer from the server.*uthentication')" 1
silence
end
works 'that dsmd has ended is shown' until_true '[[ $(metric "dsm_agent_up{device=\"t\"}") = 0 ]]'
kill "$exporter"
wait "$exporter"
chmod 644 /tmp/t.uri
matches 'others may not read the address' "$(dsm-mongo --device t --uri-file /tmp/t.uri --check 2>&1)" 'others than its owner may read or change it'
matches 'nor is it an argument' "$(dsm-mongo --device t --uri "mongodb://u:geheim@db1" 2>&1 | tee -a /tmp/mongo.log)" 'everybody can see arguments'
sed -i 's/^rules/uri = "mongodb:\/\/u:geheim@db1"\n&/' /tmp/dsmd.toml
matches 'nor is it for dsmd' "$(dsmd --config /tmp/dsmd.toml --check 2>&1 | tee -a /tmp/dsmd.log)" 'unknown field `uri`'
is 'and no password anywhere' "$(cat /tmp/dsmd.log /tmp/mongo.log /tmp/exporter.log | grep -c gehei)" 0

stop
arrived xfs
is 'nobody was surprised' "$(grep -h -e panicked -e 'the table stays as it was' /tmp/{dsmd,mongo,exporter}.log)" ''
done_testing
