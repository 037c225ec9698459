# What is done to this module by hand and by .ci/run, in the same way.

GO    ?= go
BUF    = $(GO) tool -modfile=tools/buf/go.mod buf
CHECK  = $(GO) tool -modfile=tools/go.mod staticcheck

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build ./execworker, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o execworker ./cmd/execworker

.PHONY: demo
demo: ## Take the tour: relay and worker in one process
	$(GO) run ./cmd/execworker demo

.PHONY: test
test: ## Run all tests
	$(GO) test ./...

.PHONY: race
race: ## Run all tests under the race detector (needs a C compiler)
	$(GO) test -race ./...

.PHONY: fuzz
fuzz: ## Fuzz what the log makes of hostile text, for a minute
	$(GO) test ./telemetry -run '^$$' -fuzz FuzzNoTerminalObeysLog -fuzztime 1m

.PHONY: jaeger
jaeger: ## Build a real Jaeger, for the test that asks one (JAEGER_BIN=./jaeger)
	cd tools/jaeger && $(GO) build -o ../../jaeger github.com/jaegertracing/jaeger/cmd/jaeger

.PHONY: bench
bench: ## Measure the worker against the floor, quickly
	$(GO) run ./test/bench --quick

.PHONY: format
format: ## Format the Go files
	gofmt -w .

.PHONY: tidy
tidy: ## Bring go.mod and go.sum up to date
	$(GO) mod tidy
	cd tools && $(GO) mod tidy
	cd tools/buf && $(GO) mod tidy

.PHONY: generate
generate: ## Generate Go from the .proto file, with pinned plugins
	$(BUF) generate

.PHONY: lint
lint: check-format vet staticcheck lint-proto ## Look for what tools can find

.PHONY: check
check: check-format check-tidy check-generate lint build test race ## Do all that CI does

# Each of these changes nothing and fails with what would have to change.

.PHONY: check-format
check-format: ## Fail if a Go file is not formatted
	@files="$$(gofmt -l .)"; test -z "$$files" || { echo "not formatted: $$files"; exit 1; }

.PHONY: check-tidy
check-tidy: ## Fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd tools/buf && $(GO) mod tidy -diff

.PHONY: check-generate
check-generate: ## Fail if the generated code is not that of the .proto file
	@dir="$$(mktemp -d)" && trap 'rm -rf "$$dir"' EXIT && $(BUF) generate -o "$$dir" && \
	for file in $$(cd "$$dir" && find . -name '*.pb.go') $$(find ./proto -name '*.pb.go'); do \
		diff -u "$$file" "$$dir/$$file" || exit 1; \
	done

.PHONY: vet
vet: ## Run go vet
	$(GO) vet ./...

.PHONY: staticcheck
staticcheck: ## Run staticcheck
	$(CHECK) ./...

.PHONY: lint-proto
lint-proto: ## Run buf lint
	$(BUF) lint
