PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed
SANITIZED := build/sanitized
TESTS_OF_NATIVE := $(addprefix tests/matrix/test_,conformance.py engines_agree.py gradients.py native_door.py \
	native_gradients.py native_sgd.py native_waves.py precision.py threads.py) \
	tests/fields/test_engines.py tests/fields/test_native_fields_door.py

.PHONY: demo test machines bench lint docs sanitize sanitized compilers neon oldest wheel clean

demo: $(INSTALLED)
	$(BIN)/python -m benchmarks demo

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist loadgroup --durations 10

# The numerical tests again, with the code that libraries choose on other processors.
machines: $(INSTALLED)
	$(BIN)/python tests/machines.py

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks product

lint: $(INSTALLED)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

docs: $(INSTALLED)
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The engine's tests again, on a build that checks every access and every arithmetic operation of the native code.
# The base interpreter, because the one of .venv would find the editable install first.
sanitize: sanitized
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 GYRFALCON_SANITIZED=1 \
		PYTHONPATH="$(SANITIZED):$$(echo .venv/lib/python*/site-packages)" \
		"$$($(BIN)/python -c 'import sys; print(sys._base_executable)')" \
		-m pytest $(TESTS_OF_NATIVE) -k native -n 2 --dist loadgroup -p no:cacheprovider -p no:benchmark

# That build.
sanitized: $(INSTALLED)
	$(BIN)/python -m pip install -q --upgrade --no-deps --no-build-isolation --target $(SANITIZED) . \
		-C cmake.define.GYRFALCON_SANITIZE=ON -C build-dir=build/sanitize

# The core's own test, which needs no Python, with warnings taken for errors: by GCC and Clang, with each instruction set.
compilers:
	for compiler in g++ clang++; do \
		cmake -S native -B build/$$compiler -DGYRFALCON_CONFORMANCE=ON -DGYRFALCON_WERROR=ON \
			-DCMAKE_CXX_COMPILER=$$compiler && cmake --build build/$$compiler -j 2 || exit 1; \
		for simd in avx512 avx2 baseline; do GYRFALCON_SIMD=$$simd build/$$compiler/conformance || exit 1; done; \
	done

# The same test on an emulated 64-bit ARM processor. Debian: g++-aarch64-linux-gnu qemu-user
neon:
	cmake -S native -B build/neon -DGYRFALCON_CONFORMANCE=ON -DGYRFALCON_WERROR=ON -DCMAKE_SYSTEM_NAME=Linux \
		-DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
		-DCMAKE_EXE_LINKER_FLAGS=-static -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64
	cmake --build build/neon -j 2
	ctest --test-dir build/neon --output-on-failure

# The tests with the oldest versions of other libraries that pyproject.toml allows.
oldest:
	$(PYTHON) tests/oldest.py -n 2 --dist loadgroup

# A source archive and a wheel in dist/, each tried in an empty environment without a compiler.
wheel: $(INSTALLED)
	$(BIN)/python tests/wheel.py

# Everything users need, from a clean start. PyTorch comes first, pinned: a bare `torch` would pull gigabytes.
$(INSTALLED): pyproject.toml constraints.txt $(wildcard native/*)
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q $(shell grep '^torch==' constraints.txt)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist report
