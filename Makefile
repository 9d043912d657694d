# SPDX-License-Identifier: GPL-2.0-only
#
# make               the module for the running kernel (or KDIR=), and userspace
# make demo          the main job on emulated hardware, from nothing; with
#                    MONGOD=/usr/bin/mongod a server of yours on it, as mongo-test
# make quick         the tests to run before every commit
# make check         every test that is short
# make check-all     what CI runs: no long forms, kernel tree, servers, RPMs, dashboard or engines
# make nightly       every test, the long forms and the mutants among them
# tests/check PART   one part of these by its name in tests/parts
# make style         what checkpatch, sparse, Coccinelle, clippy and others say
# make unit          the policies on the host
# make kunit         the KUnit suites, and which lines they reach
# make discard-test  tries to make a discard lose a page: databases killed, backed up,
#                    compacted and cut off from power on a disk that poisons, in UML
# make mutants       breaks the module in ways that are listed, and sees a test fail
# make vm-test       the tests in the VM, on every kernel
# make docs-test     every command that the documentation shows, in the VM
# make mongo-test    dsmd with a server to ask, and where workloads arrive, in a VM; with
#                    MONGOD=/usr/bin/mongod that server (4.2 or later), audited, killed and asked for the truth
# make bench-waf       write amplification of every policy on recorded workloads
# make bench-drive DRIVE=/dev/nvme1n1
#                    what is saved on that drive, by its own counters; IT IS OVERWRITTEN
# make bench-live      operations a second and tail latency on a flash drive in virtual time
# make bench-hotpath   what the target costs, in instructions and seconds
# make man           man pages and completions, which "make install" takes along
# make install       what "make" built, into the running system (or DESTDIR=)
#                    install-module and install-userspace are its halves
# make dkms-install  the module's source, for DKMS
# make deb           Debian packages, source and binary, in build/deb; for this machine's
#                    architecture, or for amd64 and arm64 with ALL=1
# make rpm           RPMs, source and binary, in build/rpm; the same
# make package-test  installs, upgrades, boots, removes and purges them
# make upstream-test the form for a kernel tree: checkpatch, build, kunit.py; the
#                    patches to the block layer, dm and md, booted in UML
#
# demo, check and vm-test need root on Debian 12 or 13, and nothing else: see
# tests/README.md, which has all tests and benchmarks.

KVER ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVER)/build
CARGO ?= cargo
PREFIX ?= /usr
LIBDIR = $(DESTDIR)$(PREFIX)/lib
SHAREDIR = $(DESTDIR)$(PREFIX)/share
UDEVDIR ?= $(PREFIX)/lib/udev
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
# Documentation, which programs name
DOCDIR ?= $(PREFIX)/share/doc/dm-dsm
EXAMPLEDIR ?= $(DOCDIR)
PROGRAMS = dsmctl dsmd dsm-exporter
# The architecture that the programs are for, by Rust's name; nothing is this machine's
TARGET ?=
TARGETDIR ?= build/userspace
BUILT = $(TARGETDIR)/$(if $(TARGET),$(TARGET)/)release
VERSION := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)

all: module userspace

module:
	@test -e $(KDIR)/include/generated/autoconf.h -a -e $(KDIR)/scripts/basic/fixdep && \
		$(MAKE) -s -C $(KDIR) kernelversion >/dev/null 2>&1 || { \
		echo "dm-dsm: $(KDIR), the headers of kernel $(KVER), is missing or incomplete:" \
			"install linux-headers-$(KVER), or kernel-devel-$(KVER), again" >&2; exit 1; }
	@$(KDIR)/scripts/basic/fixdep >/dev/null 2>&1; test $$? != 126 || { \
		echo "dm-dsm: $(KDIR), the headers of kernel $(KVER), is for another machine:" \
			"$(KDIR)/scripts/basic/fixdep does not run here" >&2; exit 1; }
	$(MAKE) -C $(KDIR) M=$(CURDIR) W=1 modules

userspace:
	DSM_DOCDIR=$(DOCDIR) $(CARGO) build --release --locked --workspace $(addprefix --bin ,$(PROGRAMS) dsm-generator) \
		--manifest-path userspace/Cargo.toml \
		--target-dir $(TARGETDIR) $(if $(TARGET),--target $(TARGET)) $(CARGOFLAGS)

man:
	DSM_DOCDIR=$(DOCDIR) $(CARGO) build --release --locked --workspace --bin manual \
		--manifest-path userspace/Cargo.toml --target-dir $(TARGETDIR) $(CARGOFLAGS)
	$(TARGETDIR)/release/manual build/man

install: install-module install-userspace

install-module:
	$(MAKE) -C $(KDIR) M=$(CURDIR) INSTALL_MOD_PATH=$(DESTDIR) modules_install

# udev reads no rules below /usr/local: UDEVDIR says where else.
install-userspace:
	install -D -t $(DESTDIR)$(PREFIX)/sbin $(addprefix $(BUILT)/,$(PROGRAMS))
	install -D -t $(LIBDIR)/systemd/system-generators $(BUILT)/dsm-generator
	install -d $(LIBDIR)/systemd/system
	for unit in dsmd@.service dsm-exporter.service dsm-mongo@.service dsm-mongo@.timer dsm-trial@.service dsm-trial@.timer dsm@.service; do \
		sed 's|/usr/sbin/|$(PREFIX)/sbin/|; s|/usr/share/|$(PREFIX)/share/|' userspace/systemd/$$unit > $(LIBDIR)/systemd/system/$$unit || exit; \
	done
	install -d -m 700 $(DESTDIR)/etc/dsm-mongo
	install -D -m 644 -t $(DESTDIR)$(UDEVDIR)/rules.d userspace/systemd/11-dm-dsm.rules
	install -d $(DESTDIR)/etc/dsm
	cd Documentation && find . -type f -exec install -D -m 644 {} $(DESTDIR)$(DOCDIR)/{} \;
	install -D -m 644 -t $(SHAREDIR)/dm-dsm userspace/systemd/device.toml userspace/mongosh/dsm-mongo.js userspace/grafana/dm-dsm.json userspace/prometheus/dm-dsm.rules.yml
	install -D -m 644 -t $(SHAREDIR)/dm-dsm/rules userspace/rules/*.toml
	test -d build/man || exit 0; \
	install -D -m 644 -t $(SHAREDIR)/man/man5 build/man/*.5 && \
	install -D -m 644 -t $(SHAREDIR)/man/man8 build/man/*.8 && \
	for program in $(PROGRAMS); do \
		install -D -m 644 build/man/$$program.bash $(SHAREDIR)/bash-completion/completions/$$program && \
		install -D -m 644 -t $(DESTDIR)$(ZSHDIR) build/man/_$$program && \
		install -D -m 644 -t $(SHAREDIR)/fish/vendor_completions.d build/man/$$program.fish || exit; \
	done

# The sources only, whatever was built beside them.
dkms-install: DKMSDIR = $(DESTDIR)/usr/src/dm-dsm-$(VERSION)
dkms-install:
	install -D -m 644 -t $(DKMSDIR) Kbuild Makefile dkms.conf LICENSE
	cd dm-dsm && find . ! -name '*.mod.c' \( -name '*.[ch]' -o -name '*.mk' -o -name Kbuild \) \
		-exec install -D -m 644 {} $(abspath $(DKMSDIR))/dm-dsm/{} \;
	$(if $(DESTDIR),,dkms install dm-dsm/$(VERSION))

deb:
	tests/packages/deb $(if $(ALL),--all)

rpm:
	tests/packages/rpm $(if $(ALL),--all)

package-test:
	tests/check packages-whole bookworm rpms start

upstream-test:
	tests/check upstream

demo:
	@$(if $(MONGOD),tests/mongo/run $(MONGOD),tests/demo/run)

quick:
	tests/check quick

check:
	tests/check

check-all:
	tests/check ci

nightly:
	DSM_AGAIN=1 tests/check nightly

style:
	tests/check style builds coccinelle clippy rustfmt

unit:
	tests/check unit

bench-waf:
	tests/bench/waf/run

bench-live:
	tests/bench/live/run

bench-drive:
	tests/bench/drive/run $(DRIVE)

bench-hotpath:
	tests/bench/hotpath

kunit:
	tests/bed/uml/kunit

discard-test:
	tests/discard/run --long

mutants:
	tests/mutants/run

vm-test:
	tests/check vm

docs-test:
	tests/docs/run

mongo-test:
	tests/mongo/run $(MONGOD)

clean:
	rm -rf build
	find dm-dsm Kbuild -name '*.o' -o -name '*.ko' -o -name '*.mod*' -o -name '.*.cmd' | xargs -r rm -f
	rm -f modules.order Module.symvers .modules.order.cmd .Module.symvers.cmd

.PHONY: all module userspace install install-module install-userspace dkms-install demo quick check check-all nightly docs-test mongo-test style unit kunit discard-test mutants vm-test bench-hotpath bench-waf bench-drive bench-live man deb rpm package-test upstream-test clean
