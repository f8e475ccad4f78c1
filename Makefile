# Every target is one of ./aalis's: the checks themselves stand in tools/checks.py.
.PHONY: help check test lint types imports fmt chaos coverage lock

help: ## show this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

check: ## everything that CI runs
	./aalis test

test: ## the tests alone; ARGS="-k name" for some of them
	./aalis test --only tests $(ARGS)

lint: ## formatting and lint
	./aalis test --only format,lint

types: ## the type checker
	./aalis test --only types

imports: ## who may import whom
	./aalis test --only imports

fmt: ## rewrite files as the formatter and the safe fixes of the linter want them
	./aalis test --only fix

chaos: ## kill processes while the platform works, and see that nothing is lost; takes an hour
	./aalis chaos --matrix
	./aalis chaos --matrix --freeze
	for seed in 1 2 3 4 5; do ./aalis chaos --turns 1000 --faults 100 --seed $$seed || exit 1; done
	./aalis chaos --rolling

coverage: ## the tests again, with the branches they took
	./aalis test --only tests --coverage $(ARGS)

# Needs uv on PATH. A release waits a week before it gets in: a bad one is usually withdrawn by then.
UV_COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --exclude-newer '7 days' --custom-compile-command 'make lock'

lock: ## compile requirements*.lock from requirements*.in; ARGS=--upgrade for newer releases
	$(UV_COMPILE) $(ARGS) requirements.in -o requirements.lock
	$(UV_COMPILE) $(ARGS) requirements-dev.in -o requirements-dev.lock
