# SPDX-License-Identifier: GPL-2.0-only
#
# KTAP, as KUnit leaves it, to the lines "ok - kunit: suite.case". A case with
# parameters counts once for each; its own line says nothing new.
function indent(line) { match(line, /^ */); return RLENGTH }

/^ *# Subtest: / {
	suite[indent($0)] = $0
	sub(/^ *# Subtest: /, "", suite[indent($0)])
	failed_within[indent($0)] = 0
}

/^ *(not )?ok [0-9]+ / {
	depth = indent($0)
	verdict = $1 == "ok" ? "ok" : "not ok"
	if (/# SKIP/)
		verdict = "skip"
	name = $0
	sub(/^ *(not )?ok [0-9]+ /, "", name)
	sub(/ *# .*/, "", name)
	sub(/^- /, "", name)

	deeper = depth + 4
	parent = suite[deeper] == name
	if (parent && (verdict != "not ok" || failed_within[deeper]))
		next_name = ""
	else
		print verdict " - kunit: " path(depth) name
	if (verdict == "not ok")
		failed_within[depth] = 1
	suite[deeper] = ""
}

function path(depth,	result, level) {
	for (level = 4; level <= depth; level += 4)
		result = result suite[level] (level < 8 ? "." : ": ")
	return result
}
