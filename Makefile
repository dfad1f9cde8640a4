# SPDX-License-Identifier: MIT
# A thin front over CMake's presets; "make help" lists what there is.
# Each target first asks tools/needs.sh for the tools it cannot do without.

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: all demo test test-more test-again test-long test-build install docs fuzz bench \
        bench-instructions clean \
        torch test-torch bench-torch bench-cpu uninstall package test-packages help
.NOTPARALLEL:

all: release

release:
	@tools/needs.sh build
	@tools/configure.sh release build
	@cmake --build build -j $(JOBS)
.PHONY: release

demo: release
	build/acre demo -o build

test:
	@tools/needs.sh test
	@JOBS=$(JOBS) tools/test.sh short

torch: release
	@tools/needs.sh torch
	@JOBS=$(JOBS) tools/torch.sh build

test-torch: release
	@tools/needs.sh torch
	@JOBS=$(JOBS) tools/torch.sh test

bench-torch: release
	@tools/needs.sh torch
	@JOBS=$(JOBS) tools/torch.sh bench

bench-cpu: release
	@tools/needs.sh bench-cpu
	@JOBS=$(JOBS) tools/torch.sh build
	@build/torch/python bench/cpu/run.py $(ROWS)

# Races, and the build that users get: the other half of what continuous integration runs.
test-more:
	@tools/needs.sh test
	@JOBS=$(JOBS) tools/test.sh more

# As "make test", but what passes when it is run again is only named.
test-again:
	@tools/needs.sh test
	@JOBS=$(JOBS) tools/test.sh again

# All of it, or one part: make test-long PART=dev|full|asan|tsan|clang|release|fuzz
test-long:
	@tools/needs.sh long
	@JOBS=$(JOBS) tools/long.sh $(PART)

test-build: release
	@cmake --build build -j $(JOBS) --target acre_tests

install:
	@tools/needs.sh build
	@tools/configure.sh release build -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@cmake --build build -j $(JOBS)
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

# Removes what "make install" put there, and folders that are empty then.
uninstall:
	@tools/uninstall.sh build '$(DESTDIR)'

package:
	@tools/needs.sh package
	@JOBS=$(JOBS) tools/package.sh build/package

test-packages: package
	@tests/packages/install.sh build/package

docs:
	@tools/needs.sh docs
	@docs/build.sh build/docs

fuzz:
	@tools/needs.sh fuzz
	@JOBS=$(JOBS) tools/fuzz.sh

bench: release
	@tools/needs.sh bench
	@bench/run.sh build

bench-instructions: release
	@tools/needs.sh instructions
	@bench/instructions.sh build

.PHONY: coverage
coverage:
	@tools/needs.sh test
	@JOBS=$(JOBS) tools/coverage.sh

clean:
	rm -rf build build-*

help:
	@echo 'make                     the release, into build/: acre, libacre.so, libacre.a,'
	@echo '                         libopenreg.so, libacre_torch.so, bench/*, examples/*'
	@echo 'make demo                installs what is missing, builds, shows what Acre does'
	@echo 'make test                installs what is missing, builds, runs every test (minutes),'
	@echo '                         with checks, and again with AddressSanitizer and UBSan'
	@echo 'make test-more           with ThreadSanitizer, and with the release as users get it'
	@echo 'make test-again          as make test, but a test that passes at its second try is forgiven'
	@echo 'make test-long           the long forms, hours, in parts that can go on where they stopped:'
	@echo '                         PART=dev|full|asan|tsan|clang|release|fuzz, an hour each at most'
	@echo 'make torch               PyTorch 2.13 with the device "acre": build/torch/python'
	@echo 'make test-torch          its tests; installs PyTorch into build/torch when missing'
	@echo 'make bench-torch         figures of PyTorch on Acre'
	@echo 'make bench-cpu           CPU tensors and NumPy arrays with each host allocator in turn'
	@echo 'make test-build          the test programs, into build/tests/, not run'
	@echo 'make install             PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)'
	@echo 'make uninstall           removes what make install put there'
	@echo 'make package             Debian packages and a wheel, into build/package/'
	@echo 'make test-packages       installs the packages into a fresh Debian 12 and uses them'
	@echo 'make docs                the reference, build/docs/html/index.html'
	@echo 'make coverage            lines and branches that the tests reach, by folder'
	@echo 'make fuzz                the fuzzers with clang, FUZZ_SECONDS=30 each'
	@echo 'make bench               figures of this machine'
	@echo 'make bench-instructions  instructions per operation, counted by callgrind'
	@echo 'make clean               removes build/ and build-*/'
	@echo
	@echo 'JOBS=N sets the number of parallel jobs (now $(JOBS)). ACRE_INSTALL=no never installs.'
