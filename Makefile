# Every target first calls scripts/setup, which checks and installs what the target needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help up build build-up s390x daemon-s390x dist package test test-slow test-kvm host-shell \
	test-python bench soak docs lint fuzz clean

# rustup's own directory, for a login shell that does not have it in its PATH yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

TARGET := $(or $(CARGO_TARGET_DIR),target)
EVERYDAY := $(abspath $(TARGET))
# Profile of the programs in packages. With `release` the packages contain the programs of `make
# build`, so the packages can be checked without another compilation.
SHIPPED_PROFILE ?= dist
SHIPPED := $(EVERYDAY)/$(SHIPPED_PROFILE)
X86_64 := x86_64-unknown-linux-musl
S390X := s390x-unknown-linux-musl
# The daemon is copied into root file systems with unknown libraries, so it is static.
STATIC := -C target-feature=+crt-static -C relocation-model=static -C strip=symbols
# The shipped daemon runs in a hundred guests at once. Most of its resident memory is its own file.
# The daemon is therefore mapped at its link address, because relocation would write to further
# pages. The toolchain's source of std is compiled for size: rustup's std is built for speed and
# contains backtraces. Cargo's feature `build-std` is not stable yet, but is safe with the pinned
# toolchain. Nothing unwinds, so there are no tables for unwinding. `noseparate-code` saves a page
# between data and code. The profile's `strip` does not apply to a package with its own `opt-level`,
# so the flag is in STATIC.
SMALL := $(STATIC) -C force-unwind-tables=no -C link-arg=-Wl,-z,noseparate-code,--build-id=none
# musl comes with rustup for x86-64, and from Debian's package for s390x.
SYSROOT := $(EVERYDAY)/sysroot/s390x
S390X_FLAGS := -C link-self-contained=no -L native=$(SYSROOT) -C link-arg=-nostartfiles \
	-C link-arg=$(SYSROOT)/crt1.o -C link-arg=$(SYSROOT)/crti.o \
	-C link-arg=-lc -C link-arg=$(SYSROOT)/crtn.o
# The daemon, and the writer for z/VM's monitor.
PROGRAMS := pinheadd pinheadd-monwriter
BUILD_SMALL := cargo build --locked --profile guest -p pinheadd --target-dir $(TARGET)/build-std \
	-Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size
# Directories in which tests, benches and `make package` find the programs.
PLACES = PINHEAD_GUEST_DIR=$(1)/guest PINHEAD_PROGRAM=$(2)/pinhead

FUZZ_SECONDS ?= 60
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: setup-up build-up ## build, then start guests: make up ARGS="..."
	$(TARGET)/release/pinhead up $(ARGS)

build: setup-build build-up ## pinhead, its pages and laboratory, and the x86-64 guest daemon
	cargo build --locked --release -p pinhead -p pinhead-web -p lab \
		--bin pinhead --bin pinhead-web --bin pinhead-lab

# The programs that `pinhead up` needs, and nothing else.
build-up:
	cargo build --locked --release -p pinhead
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS='$(STATIC)' \
		cargo build --locked --release -p pinheadd --target $(X86_64)
	@install -Ct $(EVERYDAY)/guest/x86_64 -D $(PROGRAMS:%=$(TARGET)/$(X86_64)/release/%)

s390x: setup-s390x daemon-s390x ## what pinhead up --arch s390x needs: that daemon, and the emulator

daemon-s390x:
	cargo build --locked --release -p vm --example sysroot
	@$(TARGET)/release/examples/sysroot $(SYSROOT)
	RUSTC_BOOTSTRAP=1 RUSTFLAGS='$(SMALL) $(S390X_FLAGS)' \
	CARGO_TARGET_S390X_UNKNOWN_LINUX_MUSL_LINKER=s390x-linux-gnu-gcc \
	$(BUILD_SMALL) --target $(S390X)
	@install -Ct $(EVERYDAY)/guest/s390x -D $(PROGRAMS:%=$(TARGET)/build-std/$(S390X)/guest/%)

# The shipped programs, with link-time optimisation, and with daemons built for size.
dist: setup-package daemon-s390x
	cargo build --locked --profile $(SHIPPED_PROFILE) -p pinhead -p pinhead-web
	RUSTC_BOOTSTRAP=1 RUSTFLAGS='$(SMALL)' $(BUILD_SMALL) --target $(X86_64)
	@install -Ct $(SHIPPED)/guest/x86_64 -D $(PROGRAMS:%=$(TARGET)/build-std/$(X86_64)/guest/%)
	@install -Ct $(SHIPPED)/guest/s390x -D $(PROGRAMS:%=$(EVERYDAY)/guest/s390x/%)

package: dist ## .deb and .rpm of pinhead and pinheadd, in target/packages
	@rm -rf $(TARGET)/packages
	$(call PLACES,$(SHIPPED),$(SHIPPED)) scripts/package $(TARGET)/packages
	@if command -v lintian >/dev/null; then \
		lintian --allow-root --fail-on error,warning $(TARGET)/packages/*.deb; \
	else echo 'package: no lintian here, skipped'; fi
	@ls -l $(TARGET)/packages

# Tests with QEMU, libvirt and the guests' kernel of another Debian: make test DEBIAN=trixie.
ifdef DEBIAN
test test-slow:
	@scripts/in-debian $(DEBIAN) make $@
else
test: setup-test build s390x ## every test that a change must pass; many boot guests
	@$(call PLACES,$(EVERYDAY),$(EVERYDAY)/release) scripts/test

test-slow: setup-test package ## images, experiments, twenty guests, packages in a Debian
	cargo build --locked --profile $(SHIPPED_PROFILE) -p lab --bin pinhead-lab
	@$(call PLACES,$(SHIPPED),$(SHIPPED)) scripts/test slow
endif

test-kvm: setup-test package ## guests under KVM, in a Debian 13 with libvirt that is a guest
	@host=$$(scripts/kvm-host); $(call PLACES,$(SHIPPED),$(SHIPPED)) PINHEAD_KVM_HOST=$$host \
		PINHEAD_PACKAGES=$(abspath $(TARGET))/packages scripts/test kvm

host-shell: setup-test ## a prompt in that host, without pinhead; Ctrl-a x ends it
	@host=$$(scripts/kvm-host); exec $$host/run -serial mon:stdio \
		-drive file=$$host/host.img,if=virtio,format=raw,snapshot=on

test-python: setup-python ## the Python package: built, installed and tried, with Ray
	@time scripts/python

bench: dist ## the measurements behind our figures, of what is shipped
	$(call PLACES,$(SHIPPED),$(SHIPPED)) \
		cargo run --locked --profile dist -p lab --bin bench -- $(ARGS)

soak: build s390x ## boot 1,300 guests, some at a time, and count those that hang
	$(call PLACES,$(EVERYDAY),$(EVERYDAY)/release) \
		cargo run --locked --release -p lab --bin bench -- --soak

docs: setup-build ## renew the documents and lists that are made from the code
	PINHEAD_WRITE_DOCS=1 cargo test --locked --release --quiet -p pinhead -p metrics -p reports \
		-p sim -p tidy --lib --test it

lint: setup-lint ## formatting, clippy, shellcheck, layers and tidiness
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo fmt --manifest-path python/Cargo.toml --check
	cargo clippy --locked --release --workspace --all-targets -- -D warnings
	cargo test --locked --release --quiet -p tidy
	@if command -v shellcheck >/dev/null; then shellcheck scripts/* .ci/run packaging/deb/*.p*; \
	else echo 'lint: no shellcheck here, skipped'; fi

fuzz: setup-fuzz ## every fuzz target in turn: make fuzz FUZZ_SECONDS=60
	scripts/fuzz $(FUZZ_SECONDS)

clean: ## remove what was built
	cargo clean

setup-%:
	@scripts/setup $*
