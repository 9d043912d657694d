# SPDX-License-Identifier: GPL-2.0-only
#
# make               the module for the running kernel (or KDIR=), and userspace
# make demo          the main job on emulated hardware, from nothing
# make check         every test that is short
# make check-all     every test; CI runs this
# make style         what checkpatch, sparse, Coccinelle, clippy and others say
# make unit          the policies on the host
# make kunit         the KUnit suites, and which lines they reach
# make stress        ten minutes of everything at once, in UML
# make faults        every allocation fails in turn, in UML
# make fuzz          a million mutated messages and constructor lines, in UML
# make vm-test       the tests in the VM, on every kernel
# make docs-test     every command that the documentation shows, in the VM
# make dashboard-test  dsmd's page in a browser, and Grafana's dashboard by a Prometheus
# make bench-waf       write amplification of every policy on recorded workloads
# make bench-hotpath   what the target costs, in instructions and seconds
# make fuzz-agent    a million names and texts of each kind for the agent
# make bench-agent   what the agent costs with 10,000 files
# make man           man pages and completions, which "make install" takes along
# make install       what "make" built, into the running system (or DESTDIR=)
#                    install-module and install-userspace are its halves
# make dkms-install  the module's source, for DKMS
#
# demo, check and vm-test need root on Debian 12 or 13, and nothing else: see
# tests/README.md.

KVER ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVER)/build
PREFIX ?= /usr
VERSION := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)

all: module userspace

module:
	$(MAKE) -C $(KDIR) M=$(CURDIR) W=1 modules

userspace:
	cargo build --release --locked --manifest-path userspace/Cargo.toml \
		--target-dir build/userspace

man:
	cargo run --release --locked --manifest-path userspace/Cargo.toml \
		--target-dir build/userspace --example manual -- build/man

install: install-module install-userspace

install-module:
	$(MAKE) -C $(KDIR) M=$(CURDIR) INSTALL_MOD_PATH=$(DESTDIR) modules_install

install-userspace:
	install -D -t $(DESTDIR)$(PREFIX)/sbin build/userspace/release/dsmctl build/userspace/release/dsmd
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system userspace/systemd/dsmd.service
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/dm-dsm userspace/systemd/dsmd.toml userspace/grafana/dm-dsm.json
	$(if $(wildcard build/man),install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 build/man/*.8)
	$(if $(wildcard build/man),install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/bash-completion/completions build/man/*.bash)

dkms-install:
	install -d $(DESTDIR)/usr/src/dm-dsm-$(VERSION)
	cp -r Kbuild Makefile dkms.conf LICENSE dm-dsm $(DESTDIR)/usr/src/dm-dsm-$(VERSION)
	$(if $(DESTDIR),,dkms install dm-dsm/$(VERSION))

demo:
	tests/demo/run

check:
	tests/check

check-all:
	tests/check all

style:
	tests/check style

unit:
	tests/check unit

bench-waf:
	tests/bench/waf/run

bench-hotpath:
	tests/bench/hotpath

kunit:
	tests/bed/uml/kunit

stress:
	tests/uml/stress 600

faults:
	tests/uml/faults 100 8

fuzz:
	tests/uml/fuzz 1000000

fuzz-agent:
	FUZZ_CASES=1000000 tests/cargo userspace test --release --test fuzz

bench-agent:
	tests/cargo userspace bench --bench scale

vm-test:
	tests/check vm

docs-test:
	tests/docs/run

dashboard-test:
	tests/dashboard/run

clean:
	rm -rf build
	find dm-dsm Kbuild -name '*.o' -o -name '*.ko' -o -name '*.mod*' -o -name '.*.cmd' | xargs -r rm -f
	rm -f modules.order Module.symvers .modules.order.cmd .Module.symvers.cmd

.PHONY: all module userspace install install-module install-userspace dkms-install demo check check-all docs-test dashboard-test style unit kunit stress faults fuzz vm-test bench-hotpath bench-waf fuzz-agent bench-agent man clean
