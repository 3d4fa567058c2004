# SPDX-License-Identifier: MIT
# The commands one types. CMake does the work (CMakePresets.json).
PREFIX ?= /usr/local
DESTDIR ?=
# Where to build: another folder where this one may not be written to.
BUILD ?= build

.PHONY: all deps demo check check-all check-nightly hardship scale interop check-format check-tidy
.PHONY: bench install deb check-deb check-bare clean
.NOTPARALLEL:

# The library, the command and the manual. Tests and benchmarks are built by what runs them.
all:
	cmake --preset release -B "$(BUILD)/release"
	cmake --build "$(BUILD)/release"

# Install what is missing to build and to run programs, with sudo unless by root, or name it.
deps:
	@packaging/deps.sh

# Two unmodified programs talk RDMA to each other on this machine.
demo: deps
	@cmake --preset release -B "$(BUILD)/release" >/dev/null
	@cmake --build "$(BUILD)/release" --target anyverbs anyverbs-tool
	@scripts/demo.sh "$(BUILD)/release"

# The quick tests.
check:
	@packaging/deps.sh build check run
	@cmake --preset dev -B "$(BUILD)/dev" >/dev/null
	@cmake --build "$(BUILD)/dev"
	@scripts/check.py "$(BUILD)/dev" quick

# All tests that say something about each change, with all traffic on the wire, too.
check-all: check
	cmake --preset dev -B "$(BUILD)/dev" -DAV_TEST_WIRE=ON
	cmake --build "$(BUILD)/dev" --target all benchmarks
	scripts/check.py "$(BUILD)/dev" full

# What takes hours: thousands of deaths, long fuzzing, mutation, other systems.
check-nightly:
	@packaging/deps.sh build check run interop check-deb
	cmake --preset dev -B "$(BUILD)/dev" -DAV_TEST_WIRE=ON
	cmake --build "$(BUILD)/dev" --target all benchmarks
	scripts/check.py "$(BUILD)/dev" nightly -C interop
	$(MAKE) hardship scale check-deb check-bare
	cmake --preset clang -B "$(BUILD)/clang"
	cmake --build "$(BUILD)/clang"
	scripts/check-tidy.sh "$(BUILD)/clang"
	scripts/fuzz-long.sh "$(BUILD)/clang" 600
	scripts/mutate.py --sample 40 --tier quick --jobs 2

# Thousands of processes die, stop, are cancelled and fork beside others, which must not notice: on
# one host, on the wire, and on another host.
hardship:
	cmake --preset dev
	cmake --build --preset dev --target hardship

# Up to 64 hosts at a switch, one process on each, and all talk to all.
scale:
	cmake --preset release -DBUILD_TESTING=ON
	cmake --build --preset release --target scale

# Programs beside the kernel's own device, in an emulated machine.
interop:
	@packaging/deps.sh build check run interop
	cmake --preset dev
	cmake --build --preset dev --target anyverbs anyverbs-tool interop_bytes interop_connect
	ctest --preset dev -C interop -L interop --verbose

# Is the code laid out as it must be?
check-format:
	scripts/check-format.sh

# What clang-tidy has to say of the code that ships.
check-tidy:
	cmake --preset clang
	scripts/check-tidy.sh build/clang

# Measure, against what else there is on the machine, in ten minutes or so; what is missing and
# cannot be installed is left out. Fails if a program does. Ratios are printed, not judged:
# CONTRIBUTING.md says how to guard them.
bench:
	@packaging/deps.sh build run bench || true
	cmake --preset release -DBUILD_TESTING=ON
	cmake --build --preset release --target benchmarks anyverbs anyverbs-tool anyverbs-heap
	bench/run.sh build/release
	bench/wire.py build/release --seconds 60 || [ $$? = 77 ]
	bench/wire_rxe.py build/release --seconds 60 || [ $$? = 77 ]
	bench/compare.py build/release --seconds 150 --pictures build/release/bench/pictures

# By sudo in a user's own tree: what stays in there is the user's, so that "make" works afterwards.
as_owner := $(shell [ -n "$$SUDO_UID" ] && [ "$$SUDO_UID" = "$$(stat -c %u .)" ] && \
	stat -c 'setpriv --reuid=%u --regid=%g --clear-groups' .)

# Install library, tool and manual. The prefix is configured: the tool finds the library by it.
install:
	$(as_owner) cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	$(as_owner) cmake --build --preset release
	DESTDIR="$(DESTDIR)" cmake --install build/release

# Make Debian packages, in build/deb.
deb:
	@packaging/deps.sh deb
	packaging/deb.sh build/deb

# Make the packages, install them into a bare Debian, and use them there.
check-deb: deb
	@packaging/deps.sh check-deb
	cmake --preset dev
	ctest --preset dev -C deb -L deb

# Do in a bare Debian what README.md, the workflows and the Containerfile say, to the letter.
check-bare:
	@packaging/deps.sh build check run check-deb
	cmake --preset dev
	ctest --preset dev -C bare -L bare --verbose

clean:
	rm -rf build
