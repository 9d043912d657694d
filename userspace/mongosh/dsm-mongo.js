// SPDX-License-Identifier: GPL-2.0-or-later
// Asks a mongod which collection or index each of its files is, for dsmd: papers.rst,
// "The server".
//
//     DSM_MONGO_URI_FILE=FILE mongosh --nodb --quiet --norc dsm-mongo.js
//
// The address, with user and password, is in FILE or in systemd's credential "uri", and
// never an argument: everybody can see arguments. What the server says goes into
// $RUNTIME_DIRECTORY, if that is set, as proto/src/feed.rs has it.
//
// mongosh waits for each answer by itself: there is no await.
const fs = require('fs');

// The numbers of errors in the server's replies.
const UNAUTHORIZED = 13;
const UNKNOWN_STAGE = 40324;
// It is starting, recovering or changing its role, and will answer by itself.
const RECOVERING = [13435, 13436, 10107, 11602];

const OPLOG = 'local.oplog.rs';
const TABLE = 'statistics:table:';

// The bounds of proto/src/feed.rs.
const PROTOCOL = 1;
const MAX_FILES = 1000000;
const MAX_PATH = 1024;
const MAX_TEXT = 512;

// For the driver, unless the address says otherwise.
const OPTIONS = { appName: 'dsm-mongo', connectTimeoutMS: 5000, serverSelectionTimeoutMS: 5000, socketTimeoutMS: 120000 };

const NO_ADDRESS = 'the uri is not one of MongoDB; are user and password percent-encoded?';

const printable = text => String(text).replace(/\p{Cc}/gu, '');
const clipped = text => Buffer.from(printable(text)).subarray(0, MAX_TEXT).toString().replace(/\ufffd+$/, '');
// The driver quotes an address that it does not understand, with the password.
const reason = e => e.codeName ? `${e.message} (${e.codeName})` : /mongodb:/.test(e.message) ? NO_ADDRESS : e.message;

// Of the file's text: the address for the driver, and how it may be shown.
function addressOf(text) {
	const uri = text.replace(/\n$/, '');
	if (/\p{Cc}/u.test(uri))
		throw Error("there must be one line with the server's address, and nothing else");
	if (!uri.startsWith('mongodb://'))
		throw Error('the uri must begin with mongodb://');
	const parts = /^(mongodb:\/\/(?:[^@/?]*@)?)([^@/?]+)(?:\/([^?]*))?(?:\?(.*))?$/.exec(uri);
	if (!parts || /%(?![0-9a-f]{2})/i.test(uri))
		throw Error(NO_ADDRESS);
	const [, user, host, database, options] = parts;
	if (host.includes(','))
		throw Error('the uri must name one server, the one of this data directory');
	const query = new URLSearchParams(options);
	const names = [...query.keys()];
	const given = name => names.filter(n => n.toLowerCase() === name.toLowerCase());
	for (const [name, value] of Object.entries(OPTIONS))
		if (!given(name).length)
			query.set(name, value);
	// This server and no other of its replica set: its files are what matters.
	given('directConnection').forEach(name => query.delete(name));
	query.set('directConnection', 'true');
	const shown = decodeURIComponent(host);
	return {
		uri: `${user}${host}/${database ?? ''}?${query}`,
		shown: shown.endsWith('.sock') || /:\d+$/.test(shown) ? shown : `${shown}:27017`,
	};
}

function isPath(path) {
	return Buffer.byteLength(path) <= MAX_PATH && !/\p{Cc}/u.test(path) &&
		path.split('/').every(name => !['', '.', '..'].includes(name));
}

// An ident is the path of a file in the dbpath without its .wt, with whatever directories
// the server's layout has.  What cannot be a file is left out: dsmd would take nothing.
function add(files, ident, kind) {
	if (typeof ident === 'string' && isPath(`${ident}.wt`))
		files.set(`${ident}.wt`, kind);
}

const kindOfCollection = ns => ns === OPLOG ? 'oplog' : 'collection';
const kindOfIndex = name => name === '_id_' ? 'primary' : 'index';

// A document of $listCatalog; a view has no ident.
function addListed(files, { ns, ident, idxIdent }) {
	add(files, ident, kindOfCollection(ns));
	for (const [name, index] of Object.entries(idxIdent ?? {}))
		add(files, index, kindOfIndex(name));
}

// A reply to collStats.
function addStats(files, { ns, wiredTiger, indexDetails }) {
	const identOf = table => typeof table?.uri === 'string' && table.uri.startsWith(TABLE) && table.uri.slice(TABLE.length);
	add(files, identOf(wiredTiger), kindOfCollection(ns));
	for (const [name, table] of Object.entries(indexDetails ?? {}))
		add(files, identOf(table), kindOfIndex(name));
}

// By $listCatalog, which servers have from 6.0 on.
function listed(conn) {
	const files = new Map();
	const fields = { _id: 0, ns: 1, ident: 1, idxIdent: 1 };
	const cursor = conn.getDB('admin').aggregate([{ $listCatalog: {} }, { $project: fields }]);
	while (cursor.hasNext())
		addListed(files, cursor.next());
	return { files, leftOut: [] };
}

// By collStats of every collection.  What one of them says, or refuses, takes nothing from the
// others; system.* is refused to most roles, and needs no name.
function counted(conn) {
	const files = new Map();
	const leftOut = [];
	for (const name of conn.getDBNames()) {
		let refused;
		try {
			const db = conn.getDB(name);
			for (const c of db.getCollectionInfos({}, { nameOnly: true })) {
				if (c.type === 'view')
					continue;
				try {
					addStats(files, db.runCommand({ collStats: c.name }));
				} catch (e) {
					if (typeof e.code !== 'number' || RECOVERING.includes(e.code))
						throw e;
					// Any other: dropped in between.
					if (e.code === UNAUTHORIZED && !c.name.startsWith('system.'))
						refused ??= e;
				}
			}
		} catch (e) {
			if (e.code !== UNAUTHORIZED)
				throw e;
			refused = e;
		}
		if (refused)
			leftOut.push(`${name}: ${reason(refused)}`);
	}
	return { files, leftOut };
}

function catalogOf(conn) {
	try {
		// Not returned at once: mongosh would wait for it outside of the try.
		const all = listed(conn);
		return all;
	} catch (e) {
		// One that is refused all at once may be told of some databases.
		if (![UNKNOWN_STAGE, UNAUTHORIZED].includes(e.code))
			throw e;
		return counted(conn);
	}
}

// What the server says, or why it does not, in the form of proto/src/feed.rs.
function ask(connect) {
	const said = {};
	const failure = (kind, why) => { said.failure = { kind, why: clipped(why) }; };
	try {
		const conn = connect();
		said.version = clipped(conn.getDB('admin').runCommand({ buildInfo: 1 }).version);
		const { files, leftOut } = catalogOf(conn);
		if (leftOut.length)
			failure(files.size ? 'partial' : 'no-catalog', leftOut.join('; '));
		else if (!files.size)
			failure('no-catalog', 'it does not name their files');
		if (files.size)
			said.files = Object.fromEntries([...files].slice(0, MAX_FILES));
	} catch (e) {
		if (RECOVERING.includes(e.code)) {
			failure('recovering', reason(e));
		} else if (said.version && typeof e.code === 'number') {
			failure('no-catalog', reason(e));
		} else {
			delete said.version;
			const refused = typeof e.code === 'number' || /authentication/i.test(e.message);
			failure(refused ? 'refused' : 'lost', reason(e));
		}
	}
	return said;
}

// For people.
function sentence({ version, files, failure }) {
	switch (failure?.kind) {
	case undefined:
		return `mongod ${version} reports which of ${Object.keys(files).length} files is whose`;
	case 'partial':
		return `mongod ${version} does not report the collections of every database: ${failure.why}`;
	case 'no-catalog':
		return `mongod ${version} does not report which file is whose: ${failure.why}`;
	default:
		return failure.why;
	}
}

// Whole, or not at all.
function replace(path, text) {
	const fd = fs.openSync(`${path}.new`, 'w', 0o600);
	fs.writeSync(fd, text);
	fs.fsyncSync(fd);
	fs.closeSync(fd);
	fs.renameSync(`${path}.new`, path);
}

function readAddress({ DSM_MONGO_URI_FILE: file, CREDENTIALS_DIRECTORY: credentials }) {
	if (!file && !credentials)
		throw Error("there is neither DSM_MONGO_URI_FILE nor a credential of systemd: where is the server's address?");
	const path = file || `${credentials}/uri`;
	try {
		// systemd's own is for the service alone; an access list of it looks like a group's.
		const mode = fs.statSync(path).mode & 0o777;
		if (file && mode & 0o077)
			throw Error(`others than its owner may read or change it (mode ${mode.toString(8)}): \`chmod 600\` it`);
		return addressOf(fs.readFileSync(path, 'utf8'));
	} catch (e) {
		throw Error(`${path}: ${e.message}`);
	}
}

function main(environment) {
	let code = 0;
	try {
		const { uri, shown } = readAddress(environment);
		const said = ask(() => new Mongo(uri));
		if (environment.RUNTIME_DIRECTORY)
			replace(`${environment.RUNTIME_DIRECTORY}/catalog.json`, JSON.stringify({ protocol: PROTOCOL, address: clipped(shown), ...said }));
		code = said.failure && said.failure.kind !== 'recovering' ? 1 : 0;
		fs.writeSync(1 + code, `dsm-mongo: ${printable(shown)}: ${sentence(said)}\n`);
	} catch (e) {
		code = 1;
		fs.writeSync(2, `dsm-mongo: ${printable(e.message)}\n`);
	}
	return code;
}

if (typeof Mongo === 'function')
	quit(main(process.env));
else
	module.exports = { addressOf, addListed, addStats, ask, clipped, isPath, readAddress, replace, sentence };
