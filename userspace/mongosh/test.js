// SPDX-License-Identifier: GPL-2.0-or-later
// What of dsm-mongo.js needs no server; tests/mongo/script.py has servers.
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const test = require('node:test');
const { addListed, addStats, addressOf, clipped, isPath, readAddress, replace } = require('./dsm-mongo.js');

test('the address names one server, and a password is not shown', () => {
	for (const [text, shown] of [
		['mongodb://dsmd:geheim@db1:27018/?authSource=admin\n', 'db1:27018'],
		['mongodb://localhost', 'localhost:27017'],
		['mongodb://[::1]', '[::1]:27017'],
		['mongodb://%2Frun%2Fmongod.sock', '/run/mongod.sock'],
	])
		assert.strictEqual(addressOf(text).shown, shown);
	const { uri } = addressOf('mongodb://dsmd:geheim@db1/?directconnection=false&tls=true&connectTimeoutMS=7&tlsCAFile=/tmp/a%20b');
	const { host, pathname, searchParams } = new URL(uri);
	assert.deepStrictEqual([host, pathname], ['db1', '/']);
	assert.deepStrictEqual(Object.fromEntries(searchParams), {
		tls: 'true', connectTimeoutMS: '7', tlsCAFile: '/tmp/a b', appName: 'dsm-mongo',
		serverSelectionTimeoutMS: '5000', socketTimeoutMS: '120000', directConnection: 'true',
	});
	assert.ok(uri.startsWith('mongodb://dsmd:geheim@db1/?'));
});

test('what is wrong with an address is said without it', () => {
	for (const [text, reason] of [
		['localhost:27017', /must begin with mongodb:/],
		['mongodb+srv://cluster.example', /must begin with mongodb:/],
		['mongodb://a,b/', /must name one server/],
		['mongodb://u:geh@eim@db1', /percent-encoded/],
		['mongodb://u:geh%eim@db1', /percent-encoded/],
		['mongodb://u:geheim@db1\n\n', /one line/],
		['mongodb://u:geheim@db1\nx', /one line/],
		['', /must begin with mongodb:/],
	])
		assert.throws(() => addressOf(text), e => reason.test(e.message) && !e.message.includes('geh'), text);
});

test('only a file that is private is read', () => {
	const dir = fs.mkdtempSync(`${os.tmpdir()}/uri-`);
	const read = mode => {
		fs.writeFileSync(`${dir}/uri`, 'mongodb://u:geheim@db1\n');
		fs.chmodSync(`${dir}/uri`, mode);
		return readAddress({ DSM_MONGO_URI_FILE: `${dir}/uri` }).shown;
	};
	assert.strictEqual(read(0o600), 'db1:27017');
	for (const mode of [0o640, 0o604, 0o620, 0o601])
		assert.throws(() => read(mode), new RegExp(`mode ${mode.toString(8)}.*chmod 600`));
	// systemd's own may look like a group's.
	fs.chmodSync(`${dir}/uri`, 0o440);
	assert.strictEqual(readAddress({ CREDENTIALS_DIRECTORY: dir }).shown, 'db1:27017');
	assert.throws(() => readAddress({ DSM_MONGO_URI_FILE: `${dir}/none` }), /ENOENT/);
	assert.throws(() => readAddress({}), /neither DSM_MONGO_URI_FILE nor a credential/);
});

test('paths below the data directory', () => {
	for (const path of ['collection-7-77.wt', 'shop/collection/1f0e-uuid.wt', 'B%C3%BCcher/a.wt', 'ä.wt'])
		assert.ok(isPath(path), path);
	for (const path of ['', '/etc/passwd', '../a.wt', 'a/../b.wt', 'a//b.wt', 'a\u001b[31m.wt', 'a\u0085.wt', 'x'.repeat(1025), 'ä'.repeat(513)])
		assert.ok(!isPath(path), path);
});

test('what $listCatalog says', () => {
	const files = new Map();
	for (const listed of [
		{ ns: 'local.oplog.rs', ident: 'collection-16-77', idxIdent: {} },
		{ ns: 'shop.orders', ident: 'collection-7-77', idxIdent: { _id_: 'index-8-77', when_1: 'index-9-77' } },
		{ ns: 'shop.log', ident: 'shop/collection/1f0e-uuid', idxIdent: { _id_: 'shop/index/2f0e-uuid' } },
		// A user's database may have a collection of that name.
		{ ns: 'shop.oplog.rs', ident: 'collection-10-77' },
		{ ns: 'shop.recent', type: 'view' },
		{ ns: 'shop.strange', ident: '../collection-1', idxIdent: { a: 7, b: null } },
	])
		addListed(files, listed);
	assert.deepStrictEqual(Object.fromEntries(files), {
		'collection-16-77.wt': 'oplog', 'collection-7-77.wt': 'collection', 'index-8-77.wt': 'primary',
		'index-9-77.wt': 'index', 'shop/collection/1f0e-uuid.wt': 'collection',
		'shop/index/2f0e-uuid.wt': 'primary', 'collection-10-77.wt': 'collection',
	});
});

test('what collStats says', () => {
	const files = new Map();
	const uri = ident => ({ uri: `statistics:table:${ident}` });
	for (const stats of [
		{ ns: 'shop.orders', wiredTiger: uri('collection-7-77'), indexDetails: { _id_: uri('index-8-77'), when_1: uri('index-9-77') } },
		{ ns: 'local.oplog.rs', wiredTiger: uri('local/collection-1-77') },
		// Another engine, and one that does not report.
		{ ns: 'shop.memory', inMemory: {}, indexDetails: { _id_: {} } },
		{ ns: 'shop.lsm', wiredTiger: { uri: 'statistics:lsm:x' } },
	])
		addStats(files, stats);
	assert.deepStrictEqual(Object.fromEntries(files), {
		'collection-7-77.wt': 'collection', 'index-8-77.wt': 'primary', 'index-9-77.wt': 'index',
		'local/collection-1-77.wt': 'oplog',
	});
});

test('texts are cut to what dsmd takes', () => {
	assert.strictEqual(clipped('a\u001b[31m\nb'), 'a[31mb');
	assert.strictEqual(clipped('xä'.repeat(400)), 'xä'.repeat(170) + 'x');
});

test('a file is replaced whole', () => {
	const dir = fs.mkdtempSync(`${os.tmpdir()}/out-`);
	replace(`${dir}/a`, 'one');
	const before = fs.openSync(`${dir}/a`, 'r');
	replace(`${dir}/a`, 'two');
	assert.deepStrictEqual(fs.readdirSync(dir), ['a']);
	assert.deepStrictEqual([fs.readFileSync(before, 'utf8'), fs.readFileSync(`${dir}/a`, 'utf8')], ['one', 'two']);
	assert.strictEqual(fs.statSync(`${dir}/a`).mode & 0o777, 0o600);
});
