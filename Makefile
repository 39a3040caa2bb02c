# Every target first makes sure that the machine has what it needs (scripts/setup).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help up build package test test-slow test-python bench soak docs lint fuzz clean setup-%

# rustup's own directory, for a login shell that does not have it yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

TARGET := $(or $(CARGO_TARGET_DIR),target)
GUEST := $(abspath $(TARGET))/guest
X86_64 := x86_64-unknown-linux-musl
S390X := s390x-unknown-linux-musl
# The daemon runs in a hundred guests at once and is copied into root file systems that we do not
# know, so it is static, and mapped where it was linked: what it leaves resident is mostly its own
# file, and a position-independent one adds the pages that relocation writes to. The toolchain's own
# source of std is built for size, for rustup's is built for speed and carries backtraces. That is
# not yet a stable feature of cargo; the pinned toolchain is what makes it safe to use. Nothing
# unwinds, so no tables for it; and a page less between what is read and what is run. The profile's
# word for stripping does not reach a package that has a level of its own.
GUEST_FLAGS := -C target-feature=+crt-static -C relocation-model=static \
	-C force-unwind-tables=no -C link-arg=-Wl,-z,noseparate-code,--build-id=none \
	-C strip=symbols
# musl comes with rustup for x86-64, and from Debian's package for s390x.
SYSROOT := $(abspath $(TARGET))/sysroot/s390x
S390X_FLAGS := -C link-self-contained=no -L native=$(SYSROOT) -C link-arg=-nostartfiles \
	-C link-arg=$(SYSROOT)/crt1.o -C link-arg=$(SYSROOT)/crti.o \
	-C link-arg=-lc -C link-arg=$(SYSROOT)/crtn.o
# The daemon, and what writes for z/VM's monitor.
PROGRAMS := pinheadd pinheadd-monwriter
BUILD_GUEST := cargo build --locked --profile guest -p pinheadd --target-dir $(TARGET)/build-std \
	-Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size

FUZZ_SECONDS ?= 60
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: setup-test build ## build, then start guests: make up ARGS="..."
	$(TARGET)/release/pinhead up $(ARGS)

build: setup-build ## pinhead, and the static guest daemons for x86-64 and s390x
	cargo build --locked --release -p pinhead -p images --bin pinhead --example sysroot
	RUSTC_BOOTSTRAP=1 RUSTFLAGS='$(GUEST_FLAGS)' $(BUILD_GUEST) --target $(X86_64)
	@install -Ct $(GUEST)/x86_64 -D $(PROGRAMS:%=$(TARGET)/build-std/$(X86_64)/guest/%)
	@$(TARGET)/release/examples/sysroot $(SYSROOT)
	RUSTC_BOOTSTRAP=1 RUSTFLAGS='$(GUEST_FLAGS) $(S390X_FLAGS)' \
	CARGO_TARGET_S390X_UNKNOWN_LINUX_MUSL_LINKER=s390x-linux-gnu-gcc \
	$(BUILD_GUEST) --target $(S390X)
	@install -Ct $(GUEST)/s390x -D $(PROGRAMS:%=$(TARGET)/build-std/$(S390X)/guest/%)

package: setup-package build ## .deb and .rpm of pinhead and pinheadd, in target/packages
	@rm -rf $(TARGET)/packages
	PINHEAD_GUEST_DIR=$(GUEST) PINHEAD_PROGRAM=$(abspath $(TARGET))/release/pinhead \
		scripts/package $(TARGET)/packages
	@if command -v lintian >/dev/null; then \
		lintian --allow-root --fail-on error,warning $(TARGET)/packages/*.deb; \
	else echo 'package: no lintian here, skipped'; fi
	@ls -l $(TARGET)/packages

test: setup-test build ## every test that a change must pass; many boot guests
	@time PINHEAD_GUEST_DIR=$(GUEST) PINHEAD_PROGRAM=$(abspath $(TARGET))/release/pinhead \
		scripts/test

test-slow: setup-test setup-package build ## images, experiments, packages, twenty guests, s390x
	@time PINHEAD_GUEST_DIR=$(GUEST) PINHEAD_PROGRAM=$(abspath $(TARGET))/release/pinhead \
		scripts/test slow

test-python: setup-python ## the Python package: built, installed and tried, with Ray
	@time scripts/python

bench: build ## the measurements behind our figures
	PINHEAD_GUEST_DIR=$(GUEST) PINHEAD_PROGRAM=$(abspath $(TARGET))/release/pinhead \
		cargo run --locked --release -p bench -- $(ARGS)

soak: build ## boot 1,300 guests, some at a time, and count those that hang
	PINHEAD_GUEST_DIR=$(GUEST) cargo run --locked --release -p bench -- --soak

docs: setup-build ## renew the documents and lists that are made from the code
	PINHEAD_WRITE_DOCS=1 cargo test --locked --quiet -p pinhead -p metrics -p reports -p lab -p sim \
		--lib --test it

lint: setup-lint ## formatting, clippy, shellcheck, layers and tidiness
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo fmt --manifest-path python/Cargo.toml --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo test --locked --quiet -p tidy
	@if command -v shellcheck >/dev/null; then shellcheck scripts/* .ci/run packaging/deb/*.p*; \
	else echo 'lint: no shellcheck here, skipped'; fi

fuzz: setup-fuzz ## every fuzz target in turn: make fuzz FUZZ_SECONDS=60
	scripts/fuzz $(FUZZ_SECONDS)

clean: ## remove what was built
	cargo clean

setup-%:
	@scripts/setup $*
