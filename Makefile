# SPDX-License-Identifier: MIT
# The commands one types. CMake does the work (CMakePresets.json).
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all deps demo check hardship scale interop check-format check-tidy bench install deb
.PHONY: check-deb check-bare clean
.NOTPARALLEL:

# The library, the command and the manual. Tests and benchmarks are built by what runs them.
all:
	cmake --preset release
	cmake --build --preset release

# Install what is missing to build and to run programs, with sudo unless by root, or name it.
deps:
	@packaging/deps.sh

# Two unmodified programs talk RDMA to each other on this machine.
demo: deps
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target anyverbs anyverbs-tool
	@scripts/demo.sh build/release

check:
	@packaging/deps.sh build check run
	cmake --preset dev
	cmake --build --preset dev
	ctest --preset dev

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
