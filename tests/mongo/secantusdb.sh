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
	cat >/tmp/t.toml <<-CONFIG
		state-dir = "/tmp/state"
		dbpath = "$mnt/db"
		boundary = "manual"
		rules = "/run/job/secantusdb.toml"
	CONFIG
	setpriv --bounding-set=-all,+sys_admin,+dac_read_search,+setuid,+setgid dsmd --config /tmp/t.toml 2>>/tmp/dsmd.log &
	agent=$!
}
# asks: dsm-mongo once, as another user, as its timer does
asks() {
	chroot --userspec=4242:4242 $root env -i PATH=/usr/local/bin:/usr/bin HOME=/tmp LC_ALL=C.UTF-8 \
		DSM_MONGO_URI_FILE=/tmp/t.uri RUNTIME_DIRECTORY=/tmp/asked \
		mongosh --nodb --quiet --norc /job/dsm-mongo.js 2>&1 | tee -a /tmp/mongo.log
	return "${PIPESTATUS[0]}"
}
# password WORD: with the address in a file of its own
password() {
	install -m 600 -o 4242 -g 4242 /dev/null $root/tmp/t.uri
	echo "mongodb://dsmd:$1@127.0.0.1/?authSource=admin&tls=true&tlsCAFile=/tmp/cert.pem" >$root/tmp/t.uri
}
end() { kill $agent; wait $agent; }
logged() { grep -c "$1" /tmp/dsmd.log; }
metric() {
	local web

	exec {web}<>/dev/tcp/127.0.0.1/19187
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&"$web"
	grep -F "$1 " <&"$web" | cut -d' ' -f2
	exec {web}>&-
}
class_of() { dsmctl boundary show t -o json >/dev/null; json t "[.regions[] | select(.class == \"$1\")] | length"; }

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
works 'dsmd serves its files while nobody asks a server' until_true '(($(json t .kernel.status.files) > 10))'
works 'and dsm-exporter shows it, as another user' until_true '[[ $(metric "dsm_agent_up{device=\"t\"}") = 1 ]]'
# As systemd has it for a user of its own
install -d /run/dsm-mongo
install -d -m 700 -o 4242 -g 4242 $root/tmp/asked
ln -s $root/tmp/asked /run/dsm-mongo/t
password geheim
refused 'a server that does not run is asked' 'dsm-mongo: 127.0.0.1:27017: connect ECONNREFUSED' asks
works 'which is logged' until_true '(($(logged "no answer from the server") == 1))'
works 'and shown' until_true '[[ $(metric "dsm_server_up{device=\"t\"}") = 0 ]]'
works 'dsmd serves its files meanwhile' until_true '(($(json t .kernel.status.files) > 10))'
is 'what was said is for no one else' "$(stat -c '%u %a %n' $root/tmp/asked/*)" "4242 600 $root/tmp/asked/catalog.json"
server "${secure[@]}"
works 'it runs, with access control and TLS' client "$as_dsmd" load 2000
asks >/dev/null &
asker=$! seen=0 looks=0
while kill -0 $asker 2>/dev/null; do
	! cat /proc/[0-9]*/cmdline 2>/dev/null | grep -qa 'mongodb[:]' || seen=1
	! cat /proc/[0-9]*/cmdline 2>/dev/null | grep -qa 'mongos[h]' || ((++looks))
done
works 'it was looked at while it asked' test $looks -gt 0
is 'the address is no argument' $seen 0
works 'it is asked' until_true '[[ $(metric "dsm_server_up{device=\"t\"}") = 1 ]]'
is 'which dsmd logs once' "$(logged 'connected to the server')" 1
matches 'and seen in the status' "$(dsmctl status t)" 'server +127.0.0.1:27017 [0-9.]+ answers, and does not report which file is whose'
works 'and why it does not' until_true '(($(logged "does not report which collections and indexes it has.*does not name their files") == 1))'

works 'its files have the classes of the rules' until_true \
	'[[ $(class_of collection) -ge 1 && $(class_of index) -ge 3 && $(class_of oplog) = 1 && $(class_of journal) -ge 1 ]]'
works 'the load phase ends' dsmctl boundary mark t
windows=$(json t .kernel.status.windows)
is 'documents are updated' "$(client "$as_dsmd" update 3000 7)" 2000
works 'its checkpoints are seen' until_true "((\$(json t .kernel.status.windows) > $windows))"
client "$as_dsmd" update 3000 8 >/dev/null
works 'the documents were written, above their boundary or below' until_true \
	'(($(json t "[.regions[] | select(.class == \"collection\") | .total] | add") > 0))'

kill -9 "$server"
wait "$server" 2>/dev/null
refused 'the server is killed' 'connect ECONNREFUSED' asks
works 'which is logged' until_true '(($(logged "no answer from the server") == 2))'
works 'and nothing waits' timeout 600 dsmctl debug refresh t
server "${secure[@]}"
refused 'it comes back' 'does not report which file is whose: it does not name their files' asks
works 'which is logged' until_true '(($(logged "connected to the server") == 2))'
is 'with its documents' "$(client "$as_dsmd" update 1 1)" 2000

# Nobody asks any more, and then somebody does.
touch -d '20 minutes ago' $root/tmp/asked/catalog.json
works 'an old answer is none, which is logged' until_true '(($(logged "dsm-mongo has ended") == 1))'
works 'and nothing waits' timeout 60 dsmctl debug refresh t
asks >/dev/null
works 'it is asked again' until_true '(($(logged "connected to the server") == 3))'

# What it must not say is not used.
echo '{"protocol":1,"address":"x","version":"8","files":{"../../../etc/passwd":"oplog"}}' >$root/tmp/asked/new
chown 4242 $root/tmp/asked/new
mv $root/tmp/asked/{new,catalog.json}
works 'dsmd does not take what is wrong' until_true \
	'(($(logged "what dsm-mongo wrote is not used.*etc/passwd.* cannot be a file of the data directory") == 1))'
works 'and goes on' timeout 60 dsmctl debug refresh t
end
is 'dsmd ends when asked' $? 0

: >/tmp/dsmd.log
agent
password gehei%6D2
refused 'a wrong password is said' 'uthentication' asks
works 'and logged' until_true '(($(logged "no answer from the server.*uthentication") == 1))'
works 'and the files are served' eval '(($(json t .kernel.status.files) > 10))'
asks >/dev/null
sleep 5
is 'it is logged once' "$(logged 'no answer from the server.*uthentication')" 1
end
works 'that dsmd has ended is shown' until_true '[[ $(metric "dsm_agent_up{device=\"t\"}") = 0 ]]'
kill "$exporter"
wait "$exporter"
chmod 644 $root/tmp/t.uri
refused 'others may not read the address' 'others than its owner may read or change it' asks
sed -i 's/^rules/uri = "mongodb:\/\/u:geheim@db1"\n&/' /tmp/t.toml
matches 'nor is it for dsmd' "$(dsmd --config /tmp/t.toml 2>&1 | tee -a /tmp/dsmd.log)" 'unknown field `uri`'
is 'and no password anywhere' "$( (cat /tmp/dsmd.log /tmp/mongo.log /tmp/exporter.log $root/tmp/asked/*; find $root/tmp/.mongodb -type f -exec cat {} +) | grep -c gehei)" 0

stop
arrived xfs
is 'nobody was surprised' "$(grep -h -e panicked -e 'the table stays as it was' /tmp/{dsmd,exporter}.log)" ''
done_testing
