// SPDX-License-Identifier: GPL-2.0-only
/*
 * What may be sent, and what must be answered: by the times at which writes, windows,
 * messages and stops have begun and ended.  It knows nothing of bitmaps, queues or plugs.
 *
 * Where two things overlap in time, either order will do.  An answer is compared exactly
 * where nothing but writes came in between.
 */
#include "model.h"

struct window {
	u64 number, began, ended;	/* ended: NEVER while the message is under way */
	u64 lost;			/* when it was not valid any more, or NEVER */
	bool unsure, doubtful;		/* whether it is; for good */
	bool chunk[16];
};

static struct {
	enum state state;
	bool unsupported, unsure;	/* of state and unsupported */
	u64 pages;
	u64 *written;		/* for each page: when the last write began that was mapped, */
	u64 *passed;		/* for each sector: or that the device has got */
	u8 *must, *may;		/* a bit for each of WINDOWS + 1: written in it, or perhaps */
	struct window *window;
	int nr;			/* the last may be under way */
	struct op *first, *last;	/* messages that were taken */
	struct op *at_work;	/* that of the last discard */
	u64 running, begun;	/* messages, suspends and the like */
	unsigned int stopping;
	u64 named, failed;	/* sectors */
	bool uncounted;		/* the target has forgotten some of its counts */
	u32 granularity, alignment;	/* features, in bytes; 0: auto */
	struct grain { u64 from, to; u32 unit, align; } *grain;
	int nr_grains;
	bool regraining;
} o;

static u64 tick(void)
{
	return ++w.now;
}

static int ring(int window)
{
	return 1 << window % (WINDOWS + 1);
}

/* The newest that is complete, or -1. */
static int newest(void)
{
	return o.nr && o.window[o.nr - 1].ended == NEVER ? o.nr - 2 : o.nr - 1;
}

u64 oracle_window(unsigned int back)
{
	int at = newest() - (int)back;

	return at < 0 ? 0 : o.window[at].number;
}

enum state oracle_state(void)
{
	return o.state;
}

/* -1: it never was */
static int find_window(u64 number)
{
	for (int i = newest(); i >= 0; i--)
		if (o.window[i].number == number)
			return i;
	return -1;
}

/* What the device wants. */

static void set_grain(void)
{
	u32 unit = max(o.granularity ?: w.bdev.granularity, w.bdev.block);
	u32 align = o.alignment ? max(o.alignment, w.bdev.block) : unit;

	unit = max(unit, align);
	if (o.nr_grains)
		o.grain[o.nr_grains - 1].to = tick();
	o.grain = realloc(o.grain, (o.nr_grains + 1) * sizeof(*o.grain));
	o.grain[o.nr_grains++] = (struct grain) {
		.from = w.now, .to = NEVER, .unit = unit / 512,
		.align = (unit % align ? unit : align) / 512,
	};
}

static bool fits(const struct grain *g, u64 sector)
{
	u64 first = w.bdev.queue.limits.discard_alignment / 512;

	return (w.bdev.first + w.start + sector) % g->align == first % g->align;
}

static void check_grain(const struct flying *discard, const struct op *op)
{
	u64 length = discard->end - discard->start, most = min(w.bdev.max_discard, 64 << 11);

	if (o.regraining)
		return;
	for (int i = o.nr_grains - 1; i >= 0 && o.grain[i].to >= op->began; i--)
		if (fits(&o.grain[i], discard->start) && !(length % o.grain[i].unit) &&
		    length <= max(most, o.grain[i].unit))
			return;
	shim_bug("%llu:%llu is not what the device wants", discard->start, length);
}

/* Life */

void oracle_begin(enum state state)
{
	memset(&o, 0, sizeof(o));
	o.state = state;
	o.pages = DIV_ROUND_UP(w.ti.len, PAGE);
	o.written = calloc(o.pages, sizeof(*o.written));
	o.passed = calloc(w.ti.len, sizeof(*o.passed));
	o.must = calloc(o.pages, 1);
	o.may = calloc(o.pages, 1);
	set_grain();
}

static void free_op(struct op *op)
{
	free(op->text);
	free(op->named);
	free(op->bits);
	free(op->times);
	free(op);
}

void oracle_end(void)
{
	struct op *op;

	while ((op = o.first)) {
		o.first = op->next;
		free_op(op);
	}
	free(o.written);
	free(o.passed);
	free(o.must);
	free(o.may);
	free(o.window);
	free(o.grain);
}

/* Stops */

enum loss { KEEPS, MAY_LOSE, LOSES };	/* windows */

u64 oracle_stop_begins(void)
{
	o.running++;
	o.begun++;
	o.stopping++;
	for (int i = 0; i < o.nr; i++)	/* it may be seen before it is done */
		o.window[i].unsure = true;
	return tick();
}

/* What was taken before it began is not sent from here on. */
static void stopped(u64 began, enum loss loss)
{
	tick();
	counts.during += w.submitting > 0;
	for (struct op *op = o.first; op; op = op->next) {
		if (!op->stopped && op->ended && op->done < began) {
			op->stopped = true;
			counts.stopped++;
		}
	}
	for (int i = 0; i < o.nr; i++) {
		struct window *win = &o.window[i];

		if (loss == LOSES && win->ended < began)
			win->lost = min(win->lost, w.now);
		if (loss == KEEPS && !o.stopping && !win->doubtful)
			win->unsure = false;
		if (loss != KEEPS)
			win->doubtful = true;
	}
}

static void stop_done(u64 began, enum loss loss)
{
	o.running--;
	o.stopping--;
	stopped(began, loss);
}

void oracle_stop_done(u64 began)
{
	stop_done(began, LOSES);
}

/* A discard that failed, in a section that began at @began. */
void oracle_unsupported(u64 began)
{
	if (o.state != WATCH)
		o.uncounted = true;
	if (o.state == ON)
		o.unsupported = true;
	o.unsure |= o.running > 1;
	stop_done(began, o.state == WATCH && !o.unsure ? KEEPS : MAY_LOSE);
}

/* Writes */

void oracle_map(struct write *write)
{
	write->began = tick();
}

void oracle_mapped(struct write *write)
{
	write->mapped = tick();
	for (int i = o.nr - 1; i >= 0 && i >= o.nr - WINDOWS - 1; i--) {
		const struct window *win = &o.window[i], *next = i + 1 < o.nr ? win + 1 : NULL;
		bool may = write->mapped >= win->began && (!next || write->began <= next->ended);
		bool must = write->began > win->ended && (!next || write->mapped < next->began);

		for (u64 page = write->start / PAGE; page < DIV_ROUND_UP(write->whole_end, PAGE);
		     page++) {
			o.may[page] |= may * ring(i);
			if (page * PAGE < write->end && write->start < write->end)
				o.must[page] |= must * ring(i);
		}
	}
	if (write->start == write->end)	/* it writes nothing */
		return;
	for (u64 page = write->start / PAGE; page < DIV_ROUND_UP(write->end, PAGE); page++)
		o.written[page] = max(o.written[page], write->began);
}

/* The range that has @page, or NULL; they are sorted. */
static const struct named *find_named(const struct op *op, u64 page)
{
	unsigned int low = 0, high = op->nr;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (op->named[middle].end <= page)
			low = middle + 1;
		else
			high = middle;
	}
	return low < op->nr && op->named[low].first <= page ? &op->named[low] : NULL;
}

/* When the window began by which a message named the page. */
static u64 named_since(const struct op *op, u64 page)
{
	const struct named *named = find_named(op, page);
	int i = named ? find_window(named->since) : -1;

	return i < 0 ? NEVER : o.window[i].ended;
}

/* B: a write that comes later reaches the device after the discard is done. */
void oracle_pass(struct write *write)
{
	tick();
	for (struct flying *x = w.flying; x; x = x->next) {
		u64 start = max(x->start, write->start), end = min(x->end, write->end);

		for (u64 page = start / PAGE; start < end && page < DIV_ROUND_UP(end, PAGE); page++)
			if (write->began > named_since(x->by, page))
				shim_bug("a write of %llu:%llu passes the discard of %llu:%llu",
					 write->start, write->end - write->start, x->start,
					 x->end - x->start);
	}
	for (u64 sector = write->start; sector < write->end; sector++)
		o.passed[sector] = max(o.passed[sector], write->began);
}

/* Discards */

static const char not_named[] = "was not named";

/* NULL, or why it must not be sent for this message. */
static const char *why_not(const struct flying *discard, const struct op *op)
{
	u64 since = NEVER;

	for (u64 sector = discard->start; sector < discard->end; sector++) {
		if (sector == discard->start || !(sector % PAGE))
			since = named_since(op, sector / PAGE);
		if (since == NEVER)
			return not_named;
		if (o.passed[sector] > since)
			return "was written since";
	}
	return op->stopped ? "was stopped" : NULL;
}

/* A: a page that a write has touched since the window began is not discarded. */
void oracle_send(struct flying *discard)
{
	const char *why = not_named;

	discard->sent = tick();
	for (struct op *op = o.first; op; op = op->next) {
		const char *not;

		if (o.at_work && op->ended && op->done < o.at_work->began)
			continue;	/* they come in the order of their messages */
		not = why_not(discard, op);
		if (!not) {
			check_grain(discard, op);
			o.at_work = op;
			discard->by = op;
			return;
		}
		if (not != not_named)
			why = not;
	}
	shim_bug("%llu:%llu is discarded, and %s", discard->start, discard->end - discard->start,
		 why);
}

void oracle_failed(const struct flying *discard)
{
	o.failed += discard->end - discard->start;
}

/* Messages */

static bool is(const struct op *op, const char *verb)
{
	size_t length = strlen(verb);

	return !strncmp(op->text, verb, length) && (!op->text[length] || op->text[length] == ' ');
}

static int by_place(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static bool sets_grain(const struct op *op)
{
	return is(op, "set discard_granularity") || is(op, "set discard_alignment");
}

static void parse_ranges(struct op *op)
{
	unsigned int words = 1;
	char *at = op->text;
	u64 since = 0;

	for (; *at; at++)
		words += *at == ' ';
	op->named = calloc(words, sizeof(*op->named));
	for (at = strchr(op->text, ' '); at; at = strchr(at, ' ')) {
		u64 n = strtoull(at + 1, &at, 10), length;

		if (*at != ':') {
			since = n;
			continue;
		}
		length = strtoull(at + 1, &at, 10);
		op->named_sectors += length;
		op->empty |= DIV_ROUND_UP(n, PAGE) >= (n + length) / PAGE;
		if (DIV_ROUND_UP(n, PAGE) < (n + length) / PAGE)
			op->named[op->nr++] = (struct named) {
				.first = DIV_ROUND_UP(n, PAGE), .end = (n + length) / PAGE,
				.since = since,
			};
	}
	qsort(op->named, op->nr, sizeof(*op->named), by_place);
}

static bool ranges_overlap(const struct op *op)
{
	for (unsigned int i = 1; i < op->nr; i++)
		if (op->named[i].first < op->named[i - 1].end)
			return true;
	return false;
}

static void *copy(const void *from, size_t size)
{
	return memcpy(malloc(size), from, size);
}

void oracle_op(struct op *op)
{
	op->stops = is(op, "set discard") || is(op, "forget");
	if (op->stops) {
		op->began = oracle_stop_begins();
	} else {
		o.running++;
		o.begun++;
		op->began = tick();
	}
	op->quiet = o.running == 1;
	op->place = o.begun;
	o.regraining |= sets_grain(op);

	if (is(op, "window")) {
		o.window = realloc(o.window, (o.nr + 1) * sizeof(*o.window));
		o.window[o.nr++] = (struct window) {
			.began = op->began, .ended = NEVER, .lost = NEVER,
			.unsure = o.stopping, .doubtful = o.stopping,
		};
		for (u64 page = 0; page < o.pages; page++) {
			o.must[page] &= ~ring(o.nr - 1);
			o.may[page] &= ~ring(o.nr - 1);
		}
	} else if (is(op, "discard")) {
		parse_ranges(op);
		*(o.first ? &o.last->next : &o.first) = op;
		o.last = op;
	} else if (is(op, "written")) {
		parse_ranges(op);
		op->bits = copy(o.must, o.pages);
		op->times = copy(o.written, o.pages * sizeof(*op->times));
	}
}

static bool window_is_gone(const struct op *op, u64 number)
{
	int i = find_window(number), last = newest();

	while (last >= 0 && o.window[last].ended >= op->began)
		last--;
	return i < 0 || i <= last - WINDOWS || o.window[i].lost < op->began;
}

static bool window_is_there(u64 number)
{
	int i = find_window(number);

	return i >= 0 && i > newest() - WINDOWS && o.window[i].lost == NEVER &&
	       !o.window[i].unsure;
}

static bool is_being_mapped(u64 page)
{
	for (struct write *write = w.writes; write; write = write->next)
		if (!write->mapped && page >= write->start / PAGE &&
		    page < DIV_ROUND_UP(write->whole_end, PAGE))
			return true;
	return false;
}

/* What "written" said of a page: '-', '?', or 'w'. */
static void check_page(const struct op *op, u64 page, u64 number, char said)
{
	int since = find_window(number);
	bool must = false, may = is_being_mapped(page), missing = false;

	if (said == '-' && op->times[page] > o.window[since].ended)
		shim_bug("'%s': page %llu was written, and is not said to be", op->text, page);
	if (!op->quiet)
		return;
	for (int i = since; i <= newest(); i++) {
		if (o.window[i].chunk[page * PAGE / CHUNK]) {
			must |= op->bits[page] & ring(i);
			may |= o.may[page] & ring(i);
		} else {
			missing = true;
		}
	}
	if (said == 'w' ? !may : must || (said == '?') != missing)
		shim_bug("'%s' answered '%s': page %llu: must %d, may %d, missing %d", op->text,
			 op->reply, page, must, may, missing);
}

static void check_written(const struct op *op)
{
	const char *at = op->reply + strlen("written");
	u64 listed = 0, total = 0, before = 0;
	char *said = memset(malloc(o.pages), 'w', o.pages);

	if (strncmp(op->reply, "written ", 8))
		shim_bug("'%s' answered '%s'", op->text, op->reply);
	while (at[1] == '-' || at[1] == '?') {
		char kind = at[1], *end;
		u64 start = strtoull(at + 2, &end, 10), length = strtoull(end + 1, &end, 10);

		if (start % PAGE || length % PAGE || !length || start < before ||
		    (start + length) / PAGE > o.pages)
			shim_bug("'%s' answered '%s'", op->text, op->reply);
		before = start + length;
		listed += length / PAGE;
		memset(said + start / PAGE, kind, length / PAGE);
		*(kind == '-' ? &counts.untouched : &counts.unknown) += length / PAGE;
		at = end;
	}
	for (unsigned int i = 0; i < op->nr; i++) {
		for (u64 page = op->named[i].first; page < op->named[i].end; page++) {
			check_page(op, page, op->named[i].since, said[page]);
			said[page] = 'w';
			total++;
		}
	}
	if (strtoull(at, NULL, 10) != total - listed || memchr(said, '-', o.pages) ||
	    memchr(said, '?', o.pages))
		shim_bug("'%s' answered '%s' of %llu pages", op->text, op->reply, total);
	counts.written += total - listed;
	free(said);
}

/* Of "discard" and "written", and whether they were taken. */
static void check_ranges(const struct op *op)
{
	bool there = true;

	for (unsigned int i = 0; i < op->nr; i++) {
		if (!op->r && window_is_gone(op, op->named[i].since))
			shim_bug("'%s' was taken, and a window is not valid", op->text);
		there &= window_is_there(op->named[i].since);
	}
	if (!op->r && ranges_overlap(op))
		shim_bug("'%s' was taken, and its ranges overlap", op->text);
	counts.stale += op->r == -ESTALE;
	counts.busy += op->r == -EBUSY;
	if (!op->quiet || o.unsure)
		return;
	if (!op->r && (!o.state || o.unsupported || (is(op, "discard") && o.state != ON)))
		shim_bug("'%s' was taken", op->text);
	if (op->r && op->r != -EBUSY && op->r != -EINTR && there && op->nr && !op->empty && !op->starved &&
	    !ranges_overlap(op) && o.state && !o.unsupported && (o.state == ON || is(op, "written")))
		shim_bug("'%s': %d, and its windows are valid", op->text, op->r);
}

static void discard_done(struct op *op)
{
	struct op **at = &o.first;

	check_ranges(op);
	if (!op->r) {
		o.named += op->named_sectors;
		return;
	}
	if (op == o.at_work)
		shim_bug("'%s' was refused, and sent", op->text);
	while (*at != op)
		at = &(*at)->next;
	*at = op->next;
	for (o.last = o.first; o.last && o.last->next; )
		o.last = o.last->next;
	free_op(op);
}

static void set_is_done(const struct op *op)
{
	static const char * const words[] = { "off", "watch", "on" };
	enum state before = o.state;
	bool keeps = before && !o.unsupported && !o.unsure;

	if (op->r == -ENOMEM || op->r == -EINVAL) {
		stop_done(op->began, MAY_LOSE);
		return;
	}
	for (int i = 0; i < 3; i++)
		if (!strcmp(op->text + strlen("set discard "), words[i]))
			o.state = i;
	/* One that was under way may have come before or after. */
	o.unsure = !op->quiet;
	o.unsupported = o.state == ON && !w.bdev.max_discard;
	o.uncounted |= !keeps || !o.state;
	stop_done(op->began, !o.state ? LOSES : keeps && o.state != before ? KEEPS : MAY_LOSE);
}

static void window_done(const struct op *op)
{
	struct window *win = &o.window[o.nr - 1];

	if (op->quiet && !o.unsure && !op->starved &&
	    !op->r != (o.state && !o.unsupported && !w.suspended))
		shim_bug("'window': %d", op->r);
	if (op->r) {
		o.nr--;
		if (op->r == -ENOMEM)
			stopped(op->began, LOSES);
		return;
	}
	if (sscanf(op->reply, "window %llu", &win->number) != 1 ||
	    (o.nr > 1 && win->number <= win[-1].number))
		shim_bug("window: '%s'", op->reply);
	memcpy(win->chunk, w.chunk, sizeof(win->chunk));
	win->ended = tick();
}

/* A stop has taken effect, and waits for what is in flight; nothing else may wait so. */
void oracle_op_waits(struct op *op)
{
	if (op->waits)
		return;
	if (!op->stops)
		shim_bug("'%s' waits", op->text);
	op->waits = true;
	if (is(op, "forget"))
		stop_done(op->began, KEEPS);
	else
		set_is_done(op);
}

static void check_barrier(const struct op *op)
{
	for (struct flying *x = w.flying; x; x = x->next)
		if (x->sent < op->began)
			shim_bug("'%s' has ended, and %llu:%llu is in flight", op->text, x->start,
				 x->end - x->start);
}

/* Frees @op, or keeps it. */
void oracle_op_done(struct op *op)
{
	op->done = tick();
	op->ended = true;
	op->quiet &= op->place == o.begun;
	counts.quiet += op->quiet;
	counts.starved += op->r == -ENOMEM;
	if (op->r == -ENOMEM && !op->starved)
		shim_bug("'%s': no memory", op->text);

	if (op->stops) {
		if (!op->waits && is(op, "forget"))
			stop_done(op->began, KEEPS);
		else if (!op->waits)
			set_is_done(op);
		if (!op->r && strcmp(op->text, "set discard on"))
			check_barrier(op);
		free_op(op);
		return;
	}

	o.running--;
	if (is(op, "discard")) {
		discard_done(op);
		return;
	}
	if (is(op, "window"))
		window_done(op);
	if (is(op, "written")) {
		check_ranges(op);
		if (!op->r)
			check_written(op);
	}
	if (sets_grain(op) && !op->r) {
		*(is(op, "set discard_alignment") ? &o.alignment : &o.granularity) =
			atoi(strrchr(op->text, ' ') + 1);
		set_grain();
	}
	o.regraining &= !sets_grain(op);
	free_op(op);
}

/* The status line */

static u64 word(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : NEVER;
}

/* When nothing is under way. */
void oracle_status(const char *status)
{
	static const char * const words[] = { " discard off", " discard watch", " discard on" };
	u64 sectors = word(status, " discarded_sectors "), grain = word(status, " discard_granularity "),
	    offset = word(status, " discard_offset "), valid = word(status, " discard_valid ");

	if (o.unsure)
		return;
	if (!strstr(status, o.unsupported ? " discard unsupported" : words[o.state]))
		shim_bug("state %d, unsupported %d: '%s'", o.state, o.unsupported, status);
	if (!o.state || o.unsupported)
		return;
	if (word(status, " discard_queued ") ||
	    grain != o.grain[o.nr_grains - 1].unit * 512)
		shim_bug("'%s'", status);
	if (offset % 512 || !fits(&o.grain[o.nr_grains - 1], offset / 512) ||
	    offset / 512 >= o.grain[o.nr_grains - 1].align)
		shim_bug("the first granule is not there: '%s'", status);
	if (valid ? window_is_gone(&(struct op) { .began = w.now }, valid) :
		    o.nr && window_is_there(o.window[newest()].number))
		shim_bug("which windows are valid: '%s'", status);
	if (!o.uncounted && o.named != o.failed + sectors + word(status, " discard_short_sectors ") +
			    word(status, " discard_refused_sectors "))
		shim_bug("%llu sectors were named, %llu have failed: '%s'", o.named, o.failed,
			 status);
	counts.refused += word(status, " discard_refused_sectors ") != 0;
}
