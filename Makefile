# `make` alone prints what there is.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
SERVERS := scripts/with-servers.sh

# The version comes from git describe above. Go's own stamp would make every build
# fail in a checkout that belongs to another user.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

# What to test and how, for example: make test PKG=./store/postgres RUN=Claim
PKG ?= ./...
RUN ?=
TESTFLAGS ?=
# The race detector needs cgo and a C compiler. RACE= turns it off.
RACE ?= -race
GOTEST = go test -timeout 20m $(if $(RUN),-run '$(RUN)') $(TESTFLAGS)

# Packages whose tests need no database server: the layout of the house and the
# packages that deal in values only.
UNIT = $(shell go list -f '{{$$all := join .TestImports " "}}{{$$x := join .XTestImports " "}}{{.ImportPath}} {{$$all}} {{$$x}}' ./... | grep -v internal/testdb | cut -d' ' -f1)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/dibs: one static program
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/dibs ./cmd/dibs

.PHONY: demo
demo: build ## Watch five invocations of one job start at the same instant
	bin/dibs demo

.PHONY: test
test: ## Run all tests on SQLite and on a private PostgreSQL and MariaDB
	$(SERVERS) $(GOTEST) $(RACE) $(PKG)

.PHONY: check
check: format-check vet lint unit ## Format, vet, lint, layout, unit tests: no server needed

.PHONY: unit
unit: ## Run the tests that need no server, the layout test among them
	$(GOTEST) $(UNIT)

.PHONY: bench
bench: ## Measure speed against a bare loop, on servers with durable settings
	DIBS_BENCH=1 $(SERVERS) go test -timeout 60m -run '^$$' -bench '$(or $(RUN),.)' -benchtime 1x -count 1 $(TESTFLAGS) $(PKG)

.PHONY: soak
soak: ## Run the random and the many-process tests for SOAK (default 10m)
	DIBS_SOAK=$(or $(SOAK),10m) $(SERVERS) go test -timeout 0 -count 1 -run '$(or $(RUN),Soak|Random|History|UnderKills|Contending)' -v $(TESTFLAGS) $(PKG)

.PHONY: fmt
fmt: ## Format the code
	gofmt -w .

.PHONY: format-check
format-check:
	@unformatted=$$(gofmt -l .); \
	if [[ -n $$unformatted ]]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

.PHONY: vet
vet: ## Run go vet
	go vet ./...

.PHONY: lint
lint: ## Run the linters of .golangci.yml
	scripts/golangci-lint.sh run --concurrency 2

.PHONY: install-tools
install-tools: ## Install what tests and lint need: the servers, libfaketime, golangci-lint
	$(SERVERS) true
	scripts/golangci-lint.sh

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin
